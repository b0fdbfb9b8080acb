// The graph of a run: its steps as planned, in the colours of what happened; a slider over time replays it.

import { Button, Complaint, Count, Duration, duration, html, hue, Link, Money, plural, State, useEffect, useLatest, useMemo, useRef, useShortcuts, useState } from "../parts.js";
import { altered, go, href, parseKey } from "../router.js";
import { Graph } from "./graph.js";

const PLAY = 90;                        // pictures of a whole replay
const PACE = 140;                       // milliseconds from one to the next, at least

export default function RunGraph({ api, route, run, overview, selected, select, live }) {
	const { graph, steps, seq } = overview;
	const past = usePast(api, route, run, seq);
	const shown = past.at ? { ...steps, ...past.at.steps } : steps;
	const chosen = parseKey(selected);
	const states = useMemo(() => new Map(graph.nodes.map((node) => [node.id, stateOf(node, shown)])), [graph, shown]);
	return html`<div class="graph-view">
		<${Graph} graph=${graph} label="Steps of the run" selected=${chosen ? `step:${chosen.step}` : ""} states=${states}
			onSelect=${(node) => node.id.startsWith("step:") && select(node.name === chosen?.step && !chosen.inner && chosen.round === null ? "" : node.name)} />
		<${Detail} run=${run} overview=${overview} steps=${shown} selected=${selected} chosen=${chosen} graph=${graph} select=${select} past=${past.at} />
		<${Slider} past=${past} last=${seq} overview=${overview} live=${live} /></div>`;
}

/** What a node of the graph shows of its step: colour, sign, and words for who can't see it. */
function stateOf(node, steps) {
	const step = node.id.startsWith("step:") ? steps[node.name] : null;
	if (!step) return { hue: "none", sign: "", label: node.id.startsWith("input:") ? `input ${node.name}` : `output ${node.name}` };
	const items = step.items;
	const sign = items ? `${items.done}/${items.of}${items.failed ? ` ✕${items.failed}` : ""}` : step.fired > 1 ? `×${step.fired}` : "";
	const words = [node.name, step.state, step.fired > 1 ? `round ${step.fired}` : "", items ? `${items.done} of ${plural(items.of, "item")} done${items.failed ? `, ${items.failed} failed` : ""}` : "", step.told];
	const colour = step.state === "waiting" && !step.fired && !step.asks ? "idle" : hue(step.state);      // its turn has not come
	return { hue: colour, sign, share: items && items.of ? [items.done / items.of, items.failed / items.of] : null, stack: !!items, label: words.filter(Boolean).join(", ") };
}

/** The state at an event of the past, by `seq` of the address: {seq, at, set, playing, play}. null of `at`: now. */
function usePast(api, route, run, last) {
	const wanted = route.query.seq ? Math.max(1, Math.min(last, Number(route.query.seq) || last)) : null;
	const [at, setAt] = useState(null);
	const [error, setError] = useState(null);
	const [playing, setPlaying] = useState(false);
	const asking = useRef(null);
	const set = useLatest((seq) => go(altered(route, { seq: seq === null || seq >= last ? "" : Math.max(1, Math.round(seq)) }), { replace: true }));
	useEffect(() => {
		asking.current?.abort();
		if (wanted === null) return setAt(null);
		const mine = (asking.current = new AbortController());
		const timer = setTimeout(() => api.at(run, wanted, mine.signal).then((value) => { setAt(value); setError(null); }, (problem) => problem.name !== "AbortError" && setError(problem)), playing ? 0 : 60);
		return () => clearTimeout(timer);
	}, [wanted, run]);
	const tick = useLatest(() => {
		const from = wanted ?? last;
		if (from >= last) setPlaying(false);
		else if (at?.seq === from || error) set(from + Math.max(1, last / PLAY));
	});
	useEffect(() => {
		if (!playing) return undefined;
		const timer = setInterval(tick, PACE);
		return () => clearInterval(timer);
	}, [playing]);
	const play = () => {
		if (!playing && wanted === null) set(1);
		setPlaying(!playing);
	};
	return { seq: wanted, at: wanted === null ? null : at, error, set, playing, play, stop: () => setPlaying(false) };
}

function Slider({ past, last, overview, live }) {
	const value = past.seq ?? last;
	const { seconds } = past.at || overview;
	const to = (seq) => { past.stop(); past.set(seq); };
	useShortcuts([
		{ keys: "p", told: "play or pause the run", run: past.play },
		{ keys: "[", told: "one event back", run: () => to(value - 1) },
		{ keys: "]", told: "one event on", run: () => to(value + 1) },
		{ keys: "0", told: "to now", run: () => to(null) },
	]);
	return html`<div class="slider"><${Button} kind="small" label=${past.playing ? "Pause" : "Play the run"} run=${past.play}>
		<span class="play-sign" aria-hidden="true">${past.playing ? "❚❚" : "▶"}</span><//>
		<input type="range" min="1" max=${last} value=${value} aria-label="Event of the run" aria-valuetext=${`event ${value} of ${last}, after ${duration(seconds)}`}
			onInput=${(event) => to(Number(event.target.value))} />
		<span class="num slider-at">${past.seq === null ? (live ? "now, live" : "at its end") : `${value} of ${last} · ${duration(seconds)}`}
			</span>
		<${Button} kind="small" disabled=${past.seq === null} run=${() => to(null)}>${live ? "Live" : "End"}<//>
		<${Complaint} error=${past.error} /></div>`;
}

/** What a run left, where nothing goes on: its outputs. */
function Ended({ overview, select }) {
	const made = new Map(Object.values(overview.steps).flatMap(({ maker_of: versions }) => versions || []).map((version) => version.split("@")));
	const show = (query) => select("", { view: "artifacts", query: { a: "", b: "", path: "", tab: "", ...query } });
	const outputs = (overview.outputs || []).filter((name) => made.has(name));
	return html`<p class="quiet">${overview.state === "running" ? "Nothing is under way." : `It ended after ${duration(overview.seconds)}.`} Choose a step to see what it did.</p>
		${outputs.length ? html`<p class="outputs"><span class="quiet">Outputs:</span> ${outputs.map((name) => html`
			<button key=${name} class="button small" onClick=${() => show({ name, version: made.get(name) })}>${name}</button> `)}
			<button class="button small" onClick=${() => show({ tab: "changes" })}>What changed</button></p>` : null}`;
}

const RANK = { failed: 0, running: 1, waiting: 2 };

/** The chosen step in words; without one what is running, failed or waits. Its height stays. */
function Detail({ run, overview, steps, selected, chosen, graph, select, past }) {
	const step = chosen && steps[chosen.step];
	if (!step) {
		const names = graph.nodes.filter(({ id }) => id.startsWith("step:")).map(({ name }) => name);
		const active = names.filter((name) => steps[name] && steps[name].state in RANK && (steps[name].state !== "waiting" || steps[name].told)).sort((one, two) => RANK[steps[one].state] - RANK[steps[two].state]);
		return html`<div class="graph-detail"><h2 class="hidden">${past ? "What was under way" : "What is under way"}</h2>
			${active.length ? html`<ul class="active">${active.map((name) => html`
			<li key=${name}><${State} state=${steps[name].state} quiet />
				<${Link} run=${() => select(name)}>${name}<//>
				<span class="quiet cut-line" title=${steps[name].told}>${steps[name].told}</span></li>`)}</ul>`
			: html`<${Ended} overview=${overview} select=${select} />`}</div>`;
	}
	const round = chosen.round ?? step.fired;
	const key = chosen.inner ? selected : round ? `${chosen.step}@${round}` : chosen.step;
	const { items } = step;
	const [name, version] = (step.maker_of?.at(-1) || "").split("@");
	const link = (view, query, label) => html`<a class="button small" href=${href("run", { run, view, ...query })}>${label}</a> `;
	return html`<div class="graph-detail"><div class="spread"><h2>${chosen.inner ? `${selected.replace(/~\d+/g, "")} in ` : ""}${chosen.step} <${State} state=${step.state} /></h2>
			<span class="row">${link("conversation", { key }, "Conversation")}
				${link("time", { key: chosen.step }, graph.nodes.some((node) => node.kind === "sop" && node.name === chosen.step) ? "Steps inside" : "Time line")}
				${name ? link("artifacts", { key: chosen.step, name, version }, step.maker_of.at(-1)) : null}</span></div>
		${step.told ? html`<p class="pre two-lines" title=${step.told}>${step.told}</p>` : null}
		<p class="facts-line quiet"><span class="fact">${step.fired ? plural(step.fired, "firing") : "never fired"}</span>${items ? html`
			<span class="fact">${items.done} of ${plural(items.of, "item")}${items.failed ? `, ${items.failed} failed` : ""}
			${items.running ? `, ${items.running} running` : ""}</span>` : null}
			${step.began !== null ? html`<span class="fact">from <${Duration} seconds=${step.began} />${step.ended !== null ? html` to <${Duration} seconds=${step.ended} />` : ""}</span>` : null}
			${step.calls ? html`<span class="fact"><${Count} value=${step.calls} /> calls</span><span class="fact"><${Count} value=${step.tokens} /> tokens</span><span class="fact"><${Money} usd=${step.usd} /></span>` : null}</p></div>`;
}
