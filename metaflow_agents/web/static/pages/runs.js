// Page 1: all runs of the workspace, running ones first, live.

import { announce, Button, Copy, Count, Duration, html, Loading, Money, Problem, Search, State, Table, Time, useEffect, useLoad, useMemo, useNow, useRef, useRows, useShortcuts, useState, useTitle } from "../parts.js";
import { go, href } from "../router.js";

const ROWS = 200;                       // drawn at first; more by a button
const KINDS = {                         // of the filter: which states belong to it
	all: ["All", () => true],
	running: ["Running", ({ state }) => state === "running"],
	waiting: ["Waiting", ({ state, questions }) => state === "waiting" || state === "budget" || questions > 0],
	success: ["Success", ({ state }) => state === "success" || state === "until"],
	other: ["Without success", ({ state }) => !["running", "waiting", "budget", "success", "until"].includes(state)],
};

/** Rows by name, kept up to date by the stream; `at`: when each was told last, for its clock. */
function useRuns(api, setLink) {
	const { value, error, loading, reload } = useLoad(() => api.runs(), []);
	const [byName, setByName] = useState(null);
	useEffect(() => {
		if (value) setByName(new Map(value.runs.map((row) => [row.run, { ...row, told: Date.now() / 1000 }])));
	}, [value]);
	useEffect(() => (api.live ? api.runsStream({
		runs: ({ rows = [], gone = [] }) => setByName((before) => {
			const after = new Map(before || []);
			for (const row of rows) {
				const old = after.get(row.run);
				if (old && old.state === "running" && row.state !== "running") announce(`Run ${row.run}: ${row.state}.`);
				after.set(row.run, { ...row, told: Date.now() / 1000 });
			}
			gone.forEach((name) => after.delete(name));
			return after;
		}),
	}, setLink) : undefined), []);
	return { rows: byName && [...byName.values()], error, loading, reload };
}

const ORDER = (one, two) => (two.state === "running") - (one.state === "running") || two.began - one.began;
const SORTS = {
	run: (row) => row.run, sop: (row) => row.sop, state: (row) => row.state, began: (row) => row.began, seconds: (row) => row.seconds,
	activations: (row) => row.activations, calls: (row) => row.calls, tokens: (row) => row.tokens, usd: (row) => row.usd ?? -1,
};

function sorted(rows, sort) {
	if (!sort) return [...rows].sort(ORDER);
	const value = SORTS[sort.name];
	const way = sort.down ? -1 : 1;
	return [...rows].sort((one, two) => way * (value(one) < value(two) ? -1 : value(one) > value(two) ? 1 : 0) || ORDER(one, two));
}

export default function Runs({ api, workspace, setLink }) {
	useTitle("Runs");
	const { rows, error, loading, reload } = useRuns(api, setLink);
	const [words, setWords] = useState("");
	const [kind, setKind] = useState("all");
	const [fresh, setFresh] = useState(0);                    // another search field, an empty one
	const [sort, setSort] = useState(null);
	const [most, setMost] = useState(ROWS);
	const [chosen, setChosen] = useState([]);
	const frame = useRef(null);
	useRows(frame);
	const compare = () => chosen.length === 2 && go(href("compare", { a: chosen[0], b: chosen[1] }));
	useShortcuts([
		{ keys: "x", told: "choose the row for a comparison", run: () => document.activeElement.closest?.("[data-row]")?.querySelector("[type=checkbox]")?.click() },
		{ keys: "c", told: "compare the two chosen runs", run: compare },
	]);
	const now = useNow(!!rows?.some(({ state }) => state === "running"));
	const found = useMemo(() => {
		const all = words.toLowerCase().split(/\s+/).filter(Boolean);
		const fits = (row) => all.every((word) => `${row.run} ${row.sop} ${row.state} ${row.reason || ""}`.toLowerCase().includes(word));
		return rows && sorted(rows.filter((row) => KINDS[kind][1](row) && fits(row)), sort);
	}, [rows, words, kind, sort]);
	const choose = (run) => setChosen((before) => (before.includes(run) ? before.filter((one) => one !== run) : [...before, run].slice(-2)));

	if (error && !rows) return html`<div class="page"><h1>Runs</h1>
		<${Problem} error=${error} retry=${reload} title="The runs can't be listed" /></div>`;
	if (rows && !rows.length) return html`<${Beginning} api=${api} workspace=${workspace} />`;
	const took = (row) => row.seconds + (row.state === "running" ? Math.max(0, now - row.told) : 0);
	const columns = [
		{ name: "choose", label: html`<span class="hidden">Compare</span>`, class: "choose", cell: ({ run }) => html`
			<input type="checkbox" aria-label=${`Compare ${run}`} checked=${chosen.includes(run)} onChange=${() => choose(run)} />` },
		{ name: "run", label: "Run", class: "run-name", sort: true, cell: (row) => html`
			<a href=${href("run", { run: row.run })} title=${row.run}>${row.run}</a>
			${row.forked_from ? html`<span class="quieter forked" title=${`forked from ${row.forked_from}`}> ⑂ ${row.forked_from}
				</span>` : null}
			<span class="only-narrow quieter">
				${row.sop} · <${Time} at=${row.began} now=${now} /> · <${Duration} seconds=${took(row)} /> · <${Money} usd=${row.usd} estimated=${row.estimated} />
				</span>` },
		{ name: "state", label: "State", sort: true, class: "run-state", cell: (row) => html`
			<${State} state=${row.state} reason=${row.reason} />
			${row.questions ? html` <a class="pill waiting" href=${href("inbox", { run: row.run })}>
				${row.questions} ?<span class="hidden"> open questions</span></a>` : null}` },
		{ name: "sop", label: "SOP", sort: true, class: "wide", cell: ({ sop, file }) => html`<a class="plain" href=${href("sop", { file })}>
			${sop}</a>` },
		{ name: "began", label: "Began", sort: true, class: "wide", cell: ({ began }) => html`<${Time} at=${began} now=${now} />` },
		{ name: "seconds", label: "Took", sort: true, num: true, class: "wide", cell: (row) => html`<${Duration} seconds=${took(row)} />` },
		...["Activations", "Calls", "Tokens"].map((label, at) => ({ name: label.toLowerCase(), label, sort: true, num: true, class: at ? "wide" : "wide wider", cell: (row) => html`<${Count} value=${row[label.toLowerCase()]} />` })),
		{ name: "usd", label: "Cost", sort: true, num: true, class: "wide", cell: (row) => html`
			<${Money} usd=${row.usd} estimated=${row.estimated} />` },
	];
	return html`<div class="page">
		<div class="page-head"><h1>Runs</h1>
			<${Button} run=${compare} disabled=${chosen.length !== 2} title="Choose two rows">Compare${chosen.length ? html` <span class="num">
				${chosen.length}/2</span>` : null}<//>
			<a class="button primary" href=${href("new")}>New run</a></div>
		<div class="filters">
			<${Search} key=${fresh} label="Filter runs" placeholder="Filter by name, SOP, state" onSearch=${setWords} />
			<div class="segments" role="group" aria-label="States">${Object.entries(KINDS).map(([name, [label, fits]]) => html`
				<button key=${name} type="button" aria-pressed=${String(kind === name)} onClick=${() => setKind(name)}>
					${label} <span class="num quieter">${rows ? rows.filter(fits).length : ""}</span></button>`)}</div>
		</div>
		<div ref=${frame}>${found ? html`
			<${Table} cards caption="Runs" columns=${columns} rows=${found.slice(0, most)} id=${({ run }) => run} sort=${sort} onSort=${setSort}
			selected=${({ run }) => chosen.includes(run)} />` : html`<div class="panel"><${Loading} lines=${8} /></div>`}
			${found && !found.length && !loading ? html`
				<p class="none quiet" role="status">No run fits. <button type="button" class="button small" onClick=${() => { setWords(""); setKind("all"); setFresh(fresh + 1); }}>Show all</button>
				</p>` : null}</div>
		${found && found.length > most ? html`<div class="row">
			<${Button} run=${() => setMost(most + ROWS)}>Show ${Math.min(ROWS, found.length - most)} more of ${found.length - most}<//>
			</div>` : null}
	</div>`;
}

/** The page while there is no run: three ways to begin. */
function Beginning({ api, workspace }) {
	const [error, setError] = useState(null);
	const demo = workspace?.sops?.find((sop) => sop.demo);
	const start = async () => {
		try {
			go(href("run", { run: (await api.start({ file: demo.file, inputs: {}, demo: true })).run }));
		} catch (problem) {
			setError(problem);
		}
	};
	return html`<div class="page"><div class="page-head"><h1>Runs</h1></div>
		<p class="quiet">There is no run in this workspace yet. Three ways to begin:</p>
		${error ? html`<${Problem} error=${error} title="The demo did not start" />` : null}
		<div class="ways">
			<section class="panel padded stack"><h2>Watch a demo</h2>
				<p>${demo ? html`<code>${demo.name}
					</code> from a recording of its models: no key, no cost. Commands and tests run here, for real.` : "No recording ships with this installation."}
					</p>
				${demo ? html`<div><${Button} kind="primary" run=${start}>Start the demo<//></div>` : null}</section>
			<section class="panel padded stack"><h2>Run a SOP</h2>
				<p>Choose one of the ${workspace?.sops?.length || "shipped"} SOPs here, fill in its inputs, and see its limits before anything is spent.</p>
				<div><a class="button" href=${href("new")}>Choose a SOP</a></div></section>
			<section class="panel padded stack"><h2>Write one</h2>
				<p>The tutorial takes thirty minutes and needs no model. It begins with:</p>
				<div class="command"><code>sop new article --template review-loop</code><${Copy} text="sop new article --template review-loop" />
					</div></section>
		</div></div>`;
}
