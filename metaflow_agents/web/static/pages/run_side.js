// The panel at the side of a run: what it cost, what it asks, its log, its audit.

import { Button, Choice, clock, Count, count, html, Link, Loaded, Loading, Money, plural, Problem, Tabs, Tick, useEffect, useLoad, useRef, useState, VirtualList } from "../parts.js";
import { segments } from "./activation.js";
import { useFollowed } from "./followed.js";
import { Question, idOf } from "./question.js";

const LOG_MOST = 4000;                  // rows that the panel holds; earlier ones are asked for again
const LOG_ROW = 38;                     // pixels

export function Side({ overview, ...rest }) {
	const open = overview.questions.filter(({ given }) => !given).length;
	const [tab, setTab] = useState(open ? "questions" : "cost");
	const tabs = [{ name: "cost", label: "Cost" }, { name: "questions", label: "Questions", count: open || null, alert: true }, { name: "log", label: "Log" }, { name: "audit", label: "Audit" }];
	const Panel = { cost: Costs, questions: Questions, log: Log, audit: Audit }[tab];
	return html`<aside class="run-side" aria-label="Cost, questions, log, audit"><${Tabs} tabs=${tabs} active=${tab} onSelect=${setTab} label="Side panel" id="side" />
		<div class=${`side-panel ${tab}`} role="tabpanel" id="side-panel" aria-labelledby=${`side-${tab}`} tabIndex="0"><${Panel} overview=${overview} ...${rest} /></div></aside>`;
}

/** What the server says of the run, followed: `shown(value)` draws it. */
function Followed({ load, feed, every, shown }) {
	const asked = useLoad(load, []);
	useFollowed(feed, asked.reload, every);
	return html`<${Loaded} from=${asked}>${shown}<//>`;
}

const BY = [["steps", "step"], ["roles", "role"], ["models", "model"], ["keys", "item"]];
const SUMS = [["calls", "calls"], ["tokens in", "tokens_in"], ["out", "tokens_out"], ["cached", "tokens_cached"]];

function Costs({ api, run, feed, selected, select }) {
	const [by, setBy] = useState("steps");
	const path = segments(selected).map((part) => part.split(/[@[~]/)[0]).join("/");
	const pick = async (name) => {        // of a step in a sub-SOP its latest activation
		const rows = name.includes("/") ? (await api.activations(run, { step: name, limit: 200 })).rows : [];
		select(rows.findLast((row) => row.step === name)?.key || name.split("/")[0]);
	};
	const shown = ({ total, ...sums }) => {
		if (!total.calls && !total.unanswered.calls) return html`<p class="none quiet">No model was asked yet.</p>`;
		const size = (one) => one.cost || one.tokens / 1e9;
		const rows = Object.entries(sums[by] || {}).sort(([, one], [, two]) => size(two) - size(one)).slice(0, 60);
		const most = size(rows[0]?.[1] || { cost: 1 });
		return html`<div class="stack">
			<dl class="sums"><div><dt>cost</dt><dd><${Money} usd=${total.cost} estimated=${total.estimated} /></dd></div>
				${SUMS.map(([label, name]) => html`<div key=${name}><dt>${label}</dt><dd><${Count} value=${total[name]} /></dd></div>`)}</dl>
			<div class="segments" role="group" aria-label="Costs by">${BY.filter(([name]) => Object.keys(sums[name] || {}).length).map(([name, label]) => html`
				<button key=${name} type="button" aria-pressed=${String(by === name)} onClick=${() => setBy(name)}>${label}</button>`)}</div>
			<table class="mini costs"><caption class="hidden">Costs</caption>
				<thead><tr>${[by.slice(0, -1), "calls", "tokens", "cost"].map((label, at) => html`<th key=${label} scope="col" class=${at ? "right" : ""}>${label}</th>`)}</tr></thead>
				<tbody>${rows.map(([name, one]) => html`<tr key=${name} class=${by === "steps" && name === path ? "selected" : ""}>
					<td title=${name}>${by === "steps" ? html`<${Link} kind="cut-line" run=${() => pick(name)}>${name}<//>`
						: html`<span class="cut-line">${name}</span>`}<span class="share" aria-hidden="true"><span style=${{ width: `${(100 * size(one)) / most}%` }}></span></span></td>
					<td class="right"><${Count} value=${one.calls} /></td><td class="right"><${Count} value=${one.tokens} /></td>
					<td class="right"><${Money} usd=${one.cost} estimated=${one.estimated} /></td></tr>`)}</tbody></table>
			${total.unanswered.calls ? html`<p class="told">${plural(total.unanswered.calls, "call")} sent and not answered: at most ${count(total.unanswered.tokens)} tokens.</p>` : null}</div>`;
	};
	return html`<${Followed} load=${() => api.costs(run)} feed=${feed} every=${1500} shown=${shown} />`;
}

function Questions({ api, overview: { questions }, reload }) {
	const open = questions.filter(({ given }) => !given);
	return questions.length ? html`<div class="questions">${questions.map((question) => html`
		<${Question} key=${idOf(question)} api=${api} question=${question} open=${open} here onDone=${reload} />`)}</div>` : html`<p class="none quiet">It asks nothing.</p>`;
}

const KINDS = ["fired", "settled", "observed", "decided", "asked", "failed", "finished", "committed", "run_ended"];

function Log({ api, run, feed, selected, select }) {
	const [log, setLog] = useState(null);                     // {rows, from: the first event that was looked at}
	const [error, setError] = useState(null);
	const [kind, setKind] = useState("");
	const [mine, setMine] = useState(true);
	const own = selected.split(/[@~[/]/)[0];
	const step = mine ? own : "";
	const asked = `${kind} ${step}`;
	const now = useRef("");
	now.current = asked;
	const look = async (query, taken) => {
		try {
			const got = await api.log(run, { kind, step, ...query });
			if (now.current !== asked) return;
			setError(null);
			setLog((before) => taken(before, got));
		} catch (problem) {
			if (now.current === asked) setError(problem);
		}
	};
	useEffect(() => {
		setLog(null);
		look({}, (_, { rows, from, to }) => ({ rows, from, to }));
	}, [run, asked]);
	useFollowed(feed, () => log && look({ after: log.to }, (before, { rows, to }) => {
		const fresh = rows.filter(({ seq }) => seq > before.to);
		return { ...before, to: Math.max(to, before.to), rows: [...before.rows, ...fresh].slice(-LOG_MOST) };
	}), 700);
	const earlier = () => look({ before: log.from }, (before, { rows, from }) => ({ ...before, from, rows: [...rows.filter(({ seq }) => seq < before.from), ...before.rows] }));
	return html`<div class="logs"><div class="row log-bar">
			<${Choice} label="Kind of events" quiet value=${kind} onChoose=${setKind} options=${[["", "all events"], ...KINDS.map((one) => [one, one])]} />
			${own ? html`<${Tick} on=${mine} onTick=${setMine}>only ${own}<//>` : null}
			${log?.from > 1 ? html`<${Button} kind="small" run=${earlier}>Earlier<//>` : null}</div>
		${error ? html`<${Problem} error=${error} />` : !log ? html`<${Loading} />` : log.rows.length ? html`
			<${VirtualList} class="log-rows" label="Events" count=${log.rows.length} height=${LOG_ROW} follow row=${(at) => html`<${Row} row=${log.rows[at]} select=${select} />`} />`
			: html`<p class="none quiet">No such event.</p>`}</div>`;
}

const Row = ({ row, select }) => html`<div class=${`log-row ${row.kind}`}><span class="num quieter" title=${`event ${row.seq}`}>${clock(row.at)}</span>
	<span class="log-text"><span class="log-head"><span class="log-kind">${row.kind}</span>
			${row.key ? html` <${Link} kind="mono" run=${() => select(row.key)}>${row.place}<//>` : html` <span class="quiet">${row.place}</span>`}</span>
		<span class="cut-line" title=${row.text}>${row.text}</span></span></div>`;

function Audit({ api, run, feed, select }) {
	const shown = ({ records, faults, total }) => html`<div class="stack">
		${faults.length ? html`<div class="problem" role="alert"><h2>The record was altered</h2>${faults.map((fault, at) => html`<p key=${at} class="pre">${fault}</p>`)}</div>`
			: total ? html`<p><span class="state done">✓ unaltered</span> <span class="quiet">${plural(total, "record")}, each with the digest of the one before</span></p>`
				: html`<p class="none quiet">No action was decided about, and nobody was asked.</p>`}
		<ol class="audit">${records.map((record) => html`<li key=${record.seq} class=${record.verdict || record.kind}>
			<div class="spread"><span><span class="log-kind">${record.verdict || record.kind}</span> ${record.role || record.by || ""}</span><span class="num quieter">${clock(record.at)}</span></div>
			<p class="pre">${record.action || record.told}</p>
			${record.rule ? html`<p class="told">by: ${record.rule}</p>` : null}${record.untrusted ? html`<p class="told">had read: ${record.untrusted}</p>` : null}
			<${Link} kind="mono quiet" run=${() => select(record.key)}>${record.key}<//></li>`)}</ol>
		${total > records.length ? html`<p class="told">The latest ${records.length} of ${count(total)}; <code>sop log ${run} --audit</code> has all.</p>` : null}</div>`;
	return html`<${Followed} load=${() => api.audit(run)} feed=${feed} every=${3000} shown=${shown} />`;
}
