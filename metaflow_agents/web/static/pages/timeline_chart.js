// The chart of the time line: the axis, and below it the list of activations, of which only the rows in view are in the page.

import { Component, duration, h, html, useEffect, useLatest, useLayoutEffect, useRef, useSize, useState } from "../parts.js";
import { within } from "../router.js";
import { named, words } from "./activation.js";
import { barAt, extent, paths } from "./timeline_bars.js";
import { moment, panned, ticks, zoomed } from "./timeline_scale.js";

const SIGNS = { running: "●", done: "✓", failed: "✕", reused: "↺", waiting: "◔", stopped: "■" };
const NARROW = 640;                     // pixels: below, a row's name stands above its bars

/** How high a row is, in a frame of this width. */
const rowHeight = (width) => (width < NARROW ? 44 : 26);

/**
 * `rows` (timeline_rows.js), the window `win` of `length` seconds, `now`, the selection. `onWindow(win)`, `onPlace(place, {open})`.
 * `reveal`: a place to scroll to, as {place}; another object scrolls again.
 */
export function Chart({ rows, win, length, now, selected, place, live, follow, reveal, onWindow, onPlace }) {
	const frame = useRef(null);
	const list = useRef(null);
	const { width: whole, height: high } = useSize(list);
	const [top, setTop] = useState(0);
	const [tip, setTip] = useState(null);
	const atEnd = useRef(true);
	const narrow = whole < NARROW;
	const height = rowHeight(whole);
	const label = whole < 900 ? 210 : 260;
	const width = Math.max(narrow ? whole - 16 : whole - label - 74, 60);  // of the bars; views.css has the same columns
	const { total } = rows;
	const perPixel = (win.to - win.from) / width;
	const toX = (t) => (t - win.from) / perPixel;
	const toT = (x) => win.from + x * perPixel;

	useLayoutEffect(() => {
		if (follow && atEnd.current) list.current.scrollTop = list.current.scrollHeight;
	}, [follow, total]);
	useLayoutEffect(() => {
		if (!reveal) return;
		const box = list.current;
		const at = reveal.place * height;
		if (at < box.scrollTop || at + height > box.scrollTop + box.clientHeight) box.scrollTop = at - (box.clientHeight - height) / 2;
	}, [reveal, height]);
	const scrolled = () => {
		const { scrollTop, scrollHeight, clientHeight } = list.current;
		atEnd.current = scrollTop + clientHeight >= scrollHeight - height;
		setTop(scrollTop);
		setTip(null);
	};
	const wheel = useLatest((event) => {
		const box = frame.current.querySelector(".tl-axis svg").getBoundingClientRect();
		const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
		const onAxis = event.target.closest(".tl-axis");
		const lines = event.deltaMode === 1 ? 16 : 1;
		if (event.ctrlKey || event.metaKey || onAxis) onWindow(zoomed(win, Math.exp(event.deltaY * lines * 0.0022), part, length));
		else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
			onWindow(panned(win, ((event.deltaX || event.deltaY) * lines) / width, length));
		} else return;
		event.preventDefault();
	});
	useEffect(() => {                     // by hand: what is not passive may keep the page from zooming
		const target = frame.current;
		target.addEventListener("wheel", wheel, { passive: false });
		return () => target.removeEventListener("wheel", wheel);
	}, []);
	const drag = useDrag({ win, width, length, onWindow, toT });

	const first = Math.max(0, Math.floor(top / height) - 4);
	const last = Math.min(total, Math.ceil((top + (high || 400)) / height) + 4);
	const point = (event, row) => {
		const x = event.clientX - event.currentTarget.getBoundingClientRect().left;
		const bar = barAt(row, toT(x), perPixel * 4, now);
		setTip(bar ? { bar, row, x: event.clientX, y: event.clientY } : null);
	};
	const shown = [];
	for (let number = first; number < last; number += 1) {
		const row = rows.at(number);
		shown.push(h(Row, {
			key: number, number, total, row, height, narrow, width, win, toX, point, leave: () => setTip(null), drag,
			now: row && (row.ended === null || row.ended === undefined) ? now : 0,
			chosen: !!row && within(row.key, selected), active: number === place, critical: !!row && (row.critical || !!rows.head?.critical.has(row.key)),
			onPlace,
		}));
	}
	return html`<div class=${`tl-chart ${narrow ? "narrow" : ""}`} ref=${frame} style=${{ "--tl-label": `${label}px`, "--tl-rows": live ? "4000px" : `${total * height + 34}px` }} onKeyDown=${(event) => keys(event, { win, length, place, total, page: Math.max(1, Math.floor(high / height) - 1), onWindow, onPlace })}>
		<${Axis} win=${win} width=${width} now=${now} length=${length} rests=${rows.head?.rests || []} toX=${toX} drag=${drag} />
		<div class="tl-list" ref=${list} role="listbox" aria-label="Activations in the order in which they began" tabIndex="0"
				aria-activedescendant=${place >= first && place < last ? `tl-${place}` : undefined} onScroll=${scrolled}>
			<div role="presentation" class="tl-room" style=${{ height: `${total * height}px` }}>${shown}</div>
		</div>
		<${Marks} marks=${rows.filtered ? null : rows.head?.marks} total=${total} />
		${tip ? html`<${Tip} ...${tip} now=${now} />` : null}
	</div>`;
}

function keys(event, { win, length, place, total, page, onWindow, onPlace }) {
	if (event.ctrlKey || event.metaKey || event.altKey) return;
	const to = { ArrowDown: place + 1, ArrowUp: place - 1, PageDown: place + page, PageUp: place - page, Home: 0, End: total - 1 }[event.key];
	const window = {
		"+": () => zoomed(win, 0.5, 0.5, length), "=": () => zoomed(win, 0.5, 0.5, length), "-": () => zoomed(win, 2, 0.5, length),
		ArrowLeft: () => panned(win, -0.2, length), ArrowRight: () => panned(win, 0.2, length), 0: () => null,
	}[event.key];
	if (to !== undefined) onPlace(Math.min(total - 1, Math.max(0, to)), { reveal: true });
	else if (event.key === "Enter" && place >= 0) onPlace(place, { open: true });
	else if (window) onWindow(window());
	else return;
	event.preventDefault();
}

/** Dragging: on the bars it moves the window, on the axis it chooses another one. */
function useDrag({ win, width, length, onWindow, toT }) {
	const [range, setRange] = useState(null);
	const start = (event, choose) => {
		if (event.button !== 0) return;
		const target = event.currentTarget;
		const box = target.getBoundingClientRect();
		const [x0, win0] = [event.clientX, win];
		let moved = false;
		const move = (now) => {
			if (!moved && Math.abs(now.clientX - x0) < 4) return;
			if (!moved) target.setPointerCapture?.(event.pointerId);
			moved = true;
			if (choose) setRange([x0 - box.left, now.clientX - box.left].sort((a, b) => a - b));
			else onWindow(panned(win0, (x0 - now.clientX) / width, length));
		};
		const end = (now) => {
			target.removeEventListener("pointermove", move);
			target.removeEventListener("pointerup", end);
			target.removeEventListener("pointercancel", end);
			if (!moved) return;
			target.addEventListener("click", (click) => click.stopPropagation(), { capture: true, once: true });
			if (choose && now.type === "pointerup") {
				const [from, to] = [x0 - box.left, now.clientX - box.left].sort((a, b) => a - b).map(toT);
				onWindow(zoomed({ from, to }, 1, 0.5, length));
			}
			setRange(null);
		};
		target.addEventListener("pointermove", move);
		target.addEventListener("pointerup", end);
		target.addEventListener("pointercancel", end);
	};
	return { start, range };
}

function Axis({ win, width, now, length, rests, toX, drag }) {
	const whole = win.to - win.from >= length * 0.999;
	return html`<div class="tl-axis" aria-hidden="true">
		<span class="tl-corner">${whole ? "" : `${moment(win.from, win.to - win.from < 10 ? 0.1 : 1)} – ${moment(win.to, win.to - win.from < 10 ? 0.1 : 1)}`}</span>
		<svg width=${width} height="30" onPointerDown=${(event) => drag.start(event, true)}>
			${ticks(win, width).map(({ t, x, text }) => html`<g key=${t} transform=${`translate(${x.toFixed(1)} 0)`}>
				<path class="tl-tick" d="M0 20v6" /><text x=${x < 8 ? 0 : x > width - 24 ? Math.min(0, width - x) : 0} y="15" text-anchor=${x < 16 ? "start" : x > width - 24 ? "end" : "middle"}>${text}</text></g>`)}
			${rests.filter(({ at }) => at >= win.from && at <= win.to).map(({ at, seconds, why }) => html`<g key=${at} class="tl-rest" transform=${`translate(${toX(at).toFixed(1)} 0)`}>
				<title>${`The run rested here for ${duration(seconds)}${why ? `: ${why}` : ""}`}</title><path d="M-3 20h6v6h-6z" /></g>`)}
			${now > win.from && now < win.to && now < length ? html`<path class="tl-now" d=${`M${toX(now).toFixed(1)} 18v12`} />` : null}
			${drag.range ? html`<rect class="tl-range" x=${drag.range[0]} y="0" width=${drag.range[1] - drag.range[0]} height="30" />` : null}
			${whole ? null : html`<path class="tl-where-all" d=${`M0 29h${width}`} /><path class="tl-where" d=${`M${((win.from / length) * width).toFixed(1)} 29h${Math.max(3, ((win.to - win.from) / length) * width).toFixed(1)}`} />`}
		</svg></div>`;
}

/** One row, drawn anew only where something of it changed. */
class Row extends Component {
	shouldComponentUpdate(next) {
		return ["row", "number", "total", "height", "narrow", "width", "now", "chosen", "active", "critical"].some((name) => next[name] !== this.props[name])
			|| next.win.from !== this.props.win.from || next.win.to !== this.props.win.to;
	}

	render({ number, total, row, height, width, toX, point, leave, drag, now, chosen, active, critical, onPlace }) {
		const place = { style: { transform: `translateY(${number * height}px)`, height: `${height}px` }, id: `tl-${number}` };
		if (!row) return html`<div ...${place} class="tl-row" role="option" aria-selected="false" aria-label="on its way"><span class="tl-name"><span class="bone"></span></span></div>`;
		const tried = row.attempt > 0;
		const took = (row.ended ?? now) - row.began;
		const told = `${words(row)}: ${row.state}${row.error ? `, ${row.error}` : ""}${row.role ? `, ${row.role}` : ""}, ${duration(took)}${critical ? ", on the critical path" : ""}`;
		const box = extent(row, toX, now, width);
		return html`<div ...${place} class=${`tl-row ${row.state} ${tried ? "repeated" : ""} ${chosen ? "chosen" : ""} ${active ? "active" : ""}`} role="option" aria-selected=${String(active)}
				aria-setsize=${total} aria-posinset=${number + 1} aria-label=${told} data-key=${row.key} onClick=${() => onPlace(number, {})} onDblClick=${() => onPlace(number, { zoom: true })}>
			<${Name} row=${row} critical=${critical} />
			<svg class="tl-track" width=${width} height="26" aria-hidden="true" onPointerMove=${(event) => point(event, row)} onPointerLeave=${leave} onPointerDown=${(event) => drag.start(event, false)}>
				${box ? html`<rect class="tl-extent" x=${box[0].toFixed(1)} y="3" width=${Math.max(box[1], 1.5).toFixed(1)} height="20" rx="2" />` : null}
				${paths(row, toX, now, width).map(({ name, d }) => html`<path key=${name} class=${`tl-bar k-${name}`} d=${d} />`)}
				${critical && box ? html`<path class="tl-critical" d=${`M${box[0].toFixed(1)} 24.5h${Math.max(box[1], 3).toFixed(1)}`} />` : null}
			</svg>
			<span class="tl-took num">${duration(took)}</span>
		</div>`;
	}
}

/** Of a long path its end: it tells the items of a list apart. */
const short = (item) => (item.length > 14 && item.includes("/") ? `…/${item.split("/").at(-1)}` : item);

function Name({ row, critical }) {
	const { outer, step, round, item, attempt } = named(row);
	return html`<span class="tl-name" title=${[words(row), row.error || row.told].filter(Boolean).join(": ")}>
		<span class=${`tl-sign ${row.state}`}>${SIGNS[row.state] || "○"}</span>
		<span class="tl-words cut-line">${outer.length ? html`<span class="quieter">${outer.join(" › ")} › </span>` : null}<span class="tl-step">${step}</span>${
			round > 1 ? html`<span class="tl-round num"> ${round}</span>` : null}${item === null ? null : html`<span class="quiet"> ${short(item)}</span>`}</span>
		${attempt ? html`<span class="pill waiting tl-try">try ${attempt + 1}</span>` : null}
		${critical ? html`<span class="tl-diamond" title="on the critical path">◆</span>` : null}
	</span>`;
}

/** Where in the whole list something failed or was repeated, beside the scroll bar. */
function Marks({ marks, total }) {
	if (!marks || !total) return null;
	const line = (places) => places.map((place) => `M0 ${place + 0.5}h1`).join("");
	return html`<svg class="tl-marks" viewBox=${`0 0 1 ${total}`} preserveAspectRatio="none" aria-hidden="true">
		<path class="repeated" d=${line(marks.repeated || [])} /><path class="failed" d=${line(marks.failed || [])} /></svg>`;
}

function Tip({ bar, row, x, y, now }) {
	const left = Math.max(8, Math.min(x + 12, innerWidth - 340));
	const above = y > innerHeight - 140;
	return html`<div class="tl-tip" aria-hidden="true" style=${{ left: `${left}px`, top: above ? "auto" : `${y + 16}px`, bottom: above ? `${innerHeight - y + 12}px` : "auto" }}>
		<b>${bar.kind}</b> <span class="quiet num">${moment(bar.began, 0.1)} · ${duration((bar.ended ?? now) - bar.began)}${bar.ended === null ? " so far" : ""}${bar.state === "failed" ? " · failed" : ""}</span>
		<div class="tl-tip-text">${bar.told}</div><div class="quieter">${words(row)}</div></div>`;
}
