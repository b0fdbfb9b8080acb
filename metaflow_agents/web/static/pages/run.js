// The page of a run: how it stands, what it spent; four linked views; a panel at the side.

import { announce, Button, Empty, html, Loading, Problem, Tabs, useEffect, useLatest, useLoad, useMemo, useModule, useRef, useShortcuts, useState, useTitle } from "../parts.js";
import { altered, go, href } from "../router.js";
import { Head } from "./run_head.js";
import { Side } from "./run_side.js";

const VIEWS = {
	graph: ["Graph", () => import("./run_graph.js")],
	time: ["Time line", () => import("./run_timeline.js")],
	conversation: ["Conversation", () => import("./run_conversation.js")],
	artifacts: ["Artifacts", () => import("./run_artifacts.js")],
};

/** The overview, kept up to date by the stream: {overview, feed, error, reload}. */
function useRun(api, run, setLink) {
	const { value, error, reload } = useLoad(() => api.run(run), [run]);
	const [overview, setOverview] = useState(null);
	const listeners = useRef(new Set());
	const feed = useMemo(() => ({ subscribe: (fn) => { listeners.current.add(fn); return () => listeners.current.delete(fn); } }), []);
	useEffect(() => {
		// A fork's journal begins with its origin's name.
		if (value) setOverview({ ...value, run, forked_from: value.forked_from || (value.run === run ? null : value.run), heard: Date.now() / 1000 });
	}, [value]);
	const heard = useLatest((data) => {
		setOverview((before) => merged(before, data));
		if (overview && data.state && data.state !== overview.state) {
			announce(data.state === "running" ? "The run goes on." : `The run has ended: ${data.state}. ${data.reason || ""}`);
			reload();
		}
		if ((data.questions?.length || 0) !== (overview?.questions?.length || 0)) dispatchEvent(new Event("sop-questions"));
		listeners.current.forEach((fn) => fn(data));
	});
	const rests = useLatest(() => reload());
	const ready = !!value;
	useEffect(() => (ready && api.live ? api.runStream(run, value.seq, { run: heard, rests }, setLink) : undefined), [ready, run]);
	return { overview, feed, error, reload };
}

const KEPT = ["seq", "state", "reason", "seconds", "progress", "caps", "questions", "can", "models", "untrusted"];

function merged(before, data) {
	if (!before) return before;
	const after = { ...before, heard: Date.now() / 1000 };
	for (const key of KEPT) if (data[key] !== undefined) after[key] = data[key];
	if (data.steps) after.steps = { ...before.steps, ...data.steps };
	return after;
}

export default function Run({ route, api, setLink }) {
	const { run } = route;
	const { overview, feed, error, reload } = useRun(api, run, setLink);
	const view = VIEWS[route.query.view] ? route.query.view : "graph";
	const selected = route.query.key || "";
	const [side, setSide] = useState(() => matchMedia("(min-width: 1000px)").matches);
	const { found: View, error: missing } = useModule(VIEWS[view][1]);
	useTitle(run);
	/** Selects a step, firing, item or activation in all views; `view` goes to one, `query` sets further names of the address. */
	const select = useLatest((key, { view: to, query = {}, replace = false } = {}) => go(altered(route, { key, ...(to ? { view: to } : {}), ...query }), { replace }));
	const show = (name) => go(altered(route, { view: name }));
	useShortcuts([
		...Object.keys(VIEWS).map((name, at) => ({ keys: String(at + 1), told: VIEWS[name][0], run: () => show(name) })),
		{ keys: "s", told: "panel at the side", run: () => setSide(!side) },
		{ keys: "Escape", told: "select nothing", run: () => selected && select("") },
	]);
	if (error && !overview) {
		return html`<div class="page"><h1>${run}</h1><${Problem} error=${error} retry=${reload} title="This run can't be shown" /><div>
			<a class="button" href=${href("runs")}>All runs</a></div></div>`;
	}
	if (!overview) return html`<div class="page"><h1>${run}</h1><${Loading} lines=${8} /></div>`;
	const tabs = Object.entries(VIEWS).map(([name, [label]]) => ({ name, label }));
	return html`<div class=${`run-page ${side ? "" : "alone"}`}>
		<${Head} overview=${overview} api=${api} reload=${reload} selected=${selected} />
		<div class="run-bar"><${Tabs} tabs=${tabs} active=${view} onSelect=${show} label="Views of the run" id="view" />
			${selected ? html`<span class="selection"><span class="quieter">selected</span> <code class="cut-line" title=${selected}>${selected}
				</code><button class="button bare small" aria-label="Select nothing" onClick=${() => select("")}>✕</button>
				</span>` : null}
			<${Button} kind="bare small" class="side-button" pressed=${side} run=${() => setSide(!side)}>
				<span class="wide-text">Side panel</span><span class="only-narrow">Panel</span><//></div>
		<section class="run-view" role="tabpanel" id="view-panel" aria-labelledby=${`view-${view}`}>
			${missing ? html`<div class="page"><${Empty} title="This view could not be loaded"><p>${missing.message}</p><//>
				</div>` : View ? html`
				<${View} key=${`${run} ${view}`} api=${api} route=${route} run=${run} overview=${overview} feed=${feed} selected=${selected} select=${select} live=${overview.state === "running"} />` : html`
					<${Loading} />`}</section>
		${side ? html`<${Side} api=${api} run=${run} overview=${overview} feed=${feed} selected=${selected} select=${select} reload=${reload} />` : null}
	</div>`;
}
