// The time line of a run: a row for each activation, a bar for each thing that it did. What failed and what was repeated stands out;
// the window is moved and zoomed by wheel, buttons and keys; a run that goes on is followed.

import { announce, Button, Choice, count, duration, Empty, html, Loading, plural, Problem, Search, useEffect, useLatest, useMemo, useReducer, useRef, useShortcuts, useState } from "../parts.js";
import { Chart } from "./timeline_chart.js";
import { Detail } from "./timeline_detail.js";
import { Rows } from "./timeline_rows.js";
import { around, clamped, panned, zoomed } from "./timeline_scale.js";

const KINDS = ["call", "tool", "command", "function", "check", "wait", "question"];
const STATES = [["", "All"], ["failed", "Failed"], ["repeated", "Repeated"], ["running", "Running"], ["waiting", "Waiting"], ["reused", "Reused"]];

export default function TimeLine({ api, run, overview, feed, selected, select, live }) {
	const [filter, setFilter] = useState({ state: "", step: "", q: "" });
	const rows = useRowsOf(api, run, filter, feed);
	const now = useNowOf(overview, live);
	const length = extentOf(now, live);
	const [chosenWindow, setWindow] = useState(null);          // null: all of it, also while it grows
	const [follow, setFollow] = useState(true);
	const [reveal, setReveal] = useState(null);
	const [place, setPlace] = useState(-1);
	const win = chosenWindow === null ? { from: 0, to: length }
		: follow && live ? clamped({ from: now - (chosenWindow.to - chosenWindow.from) * 0.9, to: now + (chosenWindow.to - chosenWindow.from) * 0.1 }, length)
			: clamped(chosenWindow, length);

	const onWindow = useLatest((next) => {
		setWindow(next && next.to - next.from < length * 0.999 ? next : null);
		if (next && live && Math.abs(next.to - win.to) > 1e-9) setFollow(false);
	});
	const zoomTo = (row) => onWindow(around(row.began, row.ended ?? now, length));
	const onPlace = useLatest((next, { open, zoom, reveal: show }) => {
		setPlace(next);
		const row = rows.at(next);
		if (show) setReveal({ place: next });
		if (!row) return;
		if (zoom) zoomTo(row);
		select(row.key, open ? { view: "conversation" } : {});
	});
	useSelection({ rows, api, run, selected, place, setPlace, setReveal });

	const jump = (by, state) => {
		const next = nextMark(rows, state, place, by);
		if (next === null) return announce(`Nothing ${state}.`);
		return onPlace(next, { reveal: true });
	};
	useShortcuts([
		{ keys: "j", told: "next activation", run: () => rows.total && onPlace(Math.min(rows.total - 1, place + 1), { reveal: true }) },
		{ keys: "k", told: "activation before", run: () => rows.total && onPlace(Math.max(0, place - 1), { reveal: true }) },
		{ keys: "f", told: "next failed activation", run: () => jump(1, "failed") },
		{ keys: "F", told: "failed activation before", run: () => jump(-1, "failed") },
		{ keys: "+", told: "zoom in", run: () => onWindow(zoomed(win, 0.5, 0.5, length)) },
		{ keys: "-", told: "zoom out", run: () => onWindow(zoomed(win, 2, 0.5, length)) },
		{ keys: "0", told: "the whole run", run: () => onWindow(null) },
	]);

	const chosen = place >= 0 && place < rows.total ? rows.at(place) : null;
	if (rows.head === null && rows.error) return html`<${Problem} error=${rows.error} retry=${() => rows.again()} />`;
	return html`<div class="timeline">
		<h2 class="hidden">Time line</h2>
		<${Tools} filter=${filter} setFilter=${setFilter} counts=${rows.head?.counts} steps=${Object.keys(overview.steps || {})} />
		<div class="spread tl-line">
			<${Path} head=${rows.head} now=${now} />
			<div class="row">
				${live ? html`<${Button} kind="small" pressed=${follow} run=${() => setFollow(!follow)}>Follow<//>` : null}
				<div class="tl-zoom" role="group" aria-label="Zoom and move">
					<${Button} kind="small" label="Earlier" title="Earlier (←)" disabled=${!chosenWindow} run=${() => onWindow(panned(win, -0.5, length))}>←<//>
					<${Button} kind="small" label="Later" title="Later (→)" disabled=${!chosenWindow} run=${() => onWindow(panned(win, 0.5, length))}>→<//>
					<${Button} kind="small" label="Zoom out" title="Zoom out (−)" disabled=${!chosenWindow} run=${() => onWindow(zoomed(win, 2, 0.5, length))}>−<//>
					<${Button} kind="small" label="Zoom in" title="Zoom in (+)" run=${() => onWindow(zoomed(win, 0.5, 0.5, length))}>+<//>
					<${Button} kind="small" title="The whole run (0)" disabled=${!chosenWindow} run=${() => onWindow(null)}>Whole run<//>
				</div>
			</div>
		</div>
		${rows.error ? html`<${Problem} error=${rows.error} retry=${() => rows.again()} />` : null}
		${rows.head === null ? html`<${Loading} lines=${8} />` : rows.total === 0 ? html`<${Nothing} filtered=${rows.filtered} live=${live} clear=${() => setFilter({ state: "", step: "", q: "" })} />`
			: html`<${Chart} rows=${rows} win=${win} length=${length} now=${now} selected=${selected} place=${place} live=${live} follow=${live && follow} reveal=${reveal} onWindow=${onWindow} onPlace=${onPlace} />`}
		<div class="tl-legend quiet">${KINDS.map((kind) => html`<span key=${kind}><span class=${`tl-swatch k-${kind}`} aria-hidden="true"></span>${kind}</span>`)}
			<span><span class="tl-swatch failed" aria-hidden="true"></span>failed</span><span><span class="tl-diamond" aria-hidden="true">◆</span> critical path</span>
			<span class="tl-hint">Ctrl + wheel zooms, Shift + wheel moves; drag on the axis to choose a span</span></div>
		${chosen ? html`<${Detail} key=${chosen.key} row=${chosen} now=${now} live=${live} onZoom=${() => zoomTo(chosen)} onOpen=${(key) => select(key, { view: "conversation" })} />` : null}
	</div>`;
}

/** The rows under this filter, kept up to date; the view is drawn again at most once a frame. */
function useRowsOf(api, run, filter, feed) {
	const [, redraw] = useReducer((number) => number + 1, 0);
	const frame = useRef(0);
	const rows = useMemo(() => new Rows(api, run, filter, () => {
		frame.current ||= requestAnimationFrame(() => { frame.current = 0; redraw(); });
	}), [api, run, filter]);
	useEffect(() => {
		rows.load(0);
		const stop = feed?.subscribe(({ touched }) => touched?.length === 0 || rows.soon());
		return () => { stop?.(); rows.close(); };
	}, [rows]);
	useEffect(() => () => cancelAnimationFrame(frame.current), []);
	return rows;
}

/** Seconds of the run by now: what the server told last, and what has passed since where it runs. */
function useNowOf(overview, live) {
	const [, tick] = useReducer((number) => number + 1, 0);
	const heard = useRef({ seconds: -1, at: 0 });
	if (heard.current.seconds !== overview.seconds) heard.current = { seconds: overview.seconds, at: performance.now() };
	useEffect(() => {
		if (!live) return undefined;
		const timer = setInterval(() => { if (!document.hidden) tick(); }, 250);
		return () => clearInterval(timer);
	}, [live]);
	return Math.max(overview.seconds || 0, 0.001) + (live ? (performance.now() - heard.current.at) / 1000 : 0);
}

/** The length of the axis, with room to grow while the run goes on. */
const extentOf = (now, live) => (live ? 1.3 ** Math.ceil(Math.log(Math.max(now * 1.05, 5)) / Math.log(1.3)) : Math.max(now, 0.01));

/** What was chosen elsewhere comes into view here, once its row is known. */
function useSelection({ rows, api, run, selected, place, setPlace, setReveal }) {
	const asked = useRef("");
	useEffect(() => {
		if (!selected || rows.head === null) return;
		const own = selected.match(/^.*?~\d+(?=\/[^~]*$|$)/)?.[0] || selected;
		const known = rows.places.get(own) ?? rows.here().find((row) => row.key.startsWith(own) && /[@[~/]/.test(row.key[own.length] || "/"))?.n;
		if (known !== undefined) {
			if (asked.current === selected) return;
			asked.current = selected;
			if (known !== place && !(place >= 0 && rows.at(place)?.key.startsWith(own))) {
				setPlace(known);
				setReveal({ place: known });
			}
		} else if (asked.current !== selected && !rows.filtered) {
			asked.current = selected;
			api.activations(run, { q: own, limit: 1 }).then(({ rows: [row] }) => {
				if (row?.n === undefined || row.n === null) return;
				setPlace(row.n);
				setReveal({ place: row.n });
			}, () => {});
		}
	}, [selected, rows, rows.head === null]);
}

/** The place of the next failed (or repeated) row behind `place`, or before it. */
function nextMark(rows, state, place, by) {
	const here = rows.here().map((row, number) => [row, rows.places.get(row.key) ?? number]).filter(([row]) => row.state === state).map(([, number]) => number);
	const all = [...new Set([...(rows.filtered ? [] : rows.head?.marks?.[state] || []), ...here])].sort((a, b) => a - b);
	if (!all.length) return null;
	return by > 0 ? all.find((one) => one > place) ?? all[0] : all.findLast((one) => one < place) ?? all[all.length - 1];
}

function Tools({ filter, setFilter, counts, steps }) {
	const shown = STATES.filter(([state]) => !state || filter.state === state || counts?.[state]);
	return html`<div class="tl-tools">
		<div class="tl-chips" role="group" aria-label="Show">${shown.map(([state, label]) => html`
			<button key=${state} type="button" class=${`chip ${state}`} aria-pressed=${String(filter.state === state)} onClick=${() => setFilter({ ...filter, state })}>
				${label}${counts ? html` <span class="num">${count(counts[state || "all"] ?? 0)}</span>` : null}</button>`)}</div>
		<${Choice} label="Step" quiet class="tl-step-filter" value=${filter.step} onChoose=${(step) => setFilter({ ...filter, step })} options=${[["", "every step"], ...steps.map((step) => [step, step])]} />
		<${Search} label="Find an activation" placeholder="Item, role, error…" value=${filter.q} onSearch=${(q) => setFilter({ ...filter, q })} />
	</div>`;
}

/** What the run had to wait for, and what more at once would have changed. */
function Path({ head, now }) {
	const number = head?.critical_total ?? 0;
	const saved = head?.saved > Math.max(0.05, now * 0.005) ? head.saved : 0;
	return html`<p class="tl-told quiet">${number > 1 ? html`<span class="tl-diamond" aria-hidden="true">◆</span> Critical path: ${plural(number, "activation")}.
		More at once would have saved ${saved ? html`<b class="num">${duration(saved)}</b> of <span class="num">${duration(now)}</span>` : "nothing"}.` : null}</p>`;
}

function Nothing({ filtered, live, clear }) {
	if (filtered) return html`<${Empty} title="Nothing matches the filter"><${Button} run=${clear}>Show all<//><//>`;
	return html`<${Empty} title=${live ? "Nothing has begun yet" : "No step began"}><p>A row appears here for each activation of a step.</p><//>`;
}
