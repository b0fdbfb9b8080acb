// A graph as SVG: boxes and paths as the server laid them out, with a state for each.

import { Button, html, useLatest, useLayoutEffect, useRef, useShortcuts, useSize, useState } from "../parts.js";

const STEP = 1.25;                      // of the zoom
const [LEAST, MOST] = [0.2, 2.5];
const NAMES_ONLY = 0.72;                // below this a box shows its name alone, in letters that can be read
const LINE = 17;
const LETTERS = 11;                     // pixels of a name, at least: a graph that would need smaller ones is scrolled
const room = ({ name, w, h }) => Math.min((w - 8) / (0.62 * name.length), h * 0.55);      // the largest letters that a box has room for

/**
 * `graph`: {width, height, nodes, edges}; `states`: Map of a node's id → {hue, sign, share: [done, failed] | null, stack, label};
 * `selected`: an id; `onSelect(node)`. Arrows move between nodes, Enter chooses; + − f zoom.
 */
export function Graph({ graph, states, selected, onSelect, label, children }) {
	const frame = useRef(null);
	const size = useSize(frame);
	const [zoom, setZoom] = useState(null);                     // null: as large as fits
	const fit = size.width ? Math.min(1.1, (size.width - 4) / graph.width, (size.height - 4) / graph.height) : 1;
	const steps = graph.nodes.filter(({ id }) => id.startsWith("step:"));
	const readable = Math.min(1, Math.max(0.3, ...steps.map((node) => LETTERS / room(node))));
	const scale = zoom ?? Math.max(fit, readable);
	const focused = useRef("");
	const by = useLatest((factor) => setZoom(Math.min(MOST, Math.max(LEAST, scale * factor))));
	useShortcuts([
		{ keys: "+", told: "larger", run: () => by(STEP) },
		{ keys: "-", told: "smaller", run: () => by(1 / STEP) },
		{ keys: "f", told: "fit the graph", run: () => setZoom(zoom === null || Math.abs(zoom - fit) > 0.001 ? fit : null) },
	]);
	useWheel(frame, by);
	const drag = useDrag(frame);
	useLayoutEffect(() => {                                     // what was chosen elsewhere comes into view
		const node = graph.nodes.find(({ id }) => id === selected);
		if (!node || !size.width) return;
		const box = frame.current;
		const [x, y] = [(node.x + node.w / 2) * scale, (node.y + node.h / 2) * scale];
		if (x < box.scrollLeft || x > box.scrollLeft + box.clientWidth) box.scrollLeft = x - box.clientWidth / 2;
		if (y < box.scrollTop || y > box.scrollTop + box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
	}, [selected, scale, size.width > 0]);
	const entry = graph.nodes.some(({ id }) => id === selected) ? selected : steps[0]?.id;
	useLayoutEffect(() => {                                     // a graph that is scrolled begins at its first step
		if (size.width && steps[0]) frame.current.scrollLeft = (steps[0].x + steps[0].w / 2) * scale - size.width / 2;
	}, [size.width > 0]);
	const live = ({ from, to }) => !states || [from, to].every((id) => !["idle", "never"].includes(states.get(id)?.hue));       // both have fired
	const beside = aside(graph.edges, live);
	const move = (event) => {
		const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
		const node = graph.nodes.find(({ id }) => id === focused.current);
		if (!node) return;
		if (event.key === "Enter" || event.key === " ") {
			event.preventDefault();
			onSelect(node);
		}
		if (!way) return;
		event.preventDefault();
		const next = nearest(graph.nodes, node, way);
		if (next) frame.current.querySelector(`[data-node="${CSS.escape(next.id)}"]`)?.focus();
	};
	return html`<div class="graph-frame"><div class="graph-scroll" ref=${frame} tabIndex="0" role="region" aria-label=${label} ...${drag}>
			<svg class=${`graph ${selected ? "choosing" : ""}`} width=${graph.width * scale} height=${graph.height * scale} viewBox=${`0 0 ${graph.width} ${graph.height}`} role="group" aria-label="Steps" onKeyDown=${move}>
				<defs>${["", "near", "back"].map((kind) => html`
					<marker key=${kind} id=${`arrow-${kind}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
					<path class=${`arrow ${kind}`} d="M0 0.5L8 4L0 7.5z" /></marker>`)}</defs>
				<g>${graph.edges.map((edge, at) => {
					const near = selected && (edge.from === selected || edge.to === selected);
					return html`<path key=${at} class=${`edge ${edge.kind} ${edge.back ? "back" : ""} ${beside(edge) ? "aside" : ""} ${near ? "near" : ""} ${live(edge) ? "" : "pale"}`} d=${edge.d} marker-end=${`url(#arrow-${near ? "near" : edge.back ? "back" : ""})`} />`;
				})}</g>
				${graph.nodes.map((node) => html`
					<${Node} key=${node.id} node=${node} state=${states?.get(node.id)} selected=${node.id === selected} entry=${node.id === entry} scale=${scale}
					onFocus=${() => { focused.current = node.id; }} onSelect=${onSelect} />`)}
			</svg>${children}</div>
		<div class="graph-tools"><${Button} kind="small" label="Smaller" run=${() => by(1 / STEP)}>−<//>
			<${Button} kind="small" label="Fit" run=${() => setZoom(fit)}>Fit<//>
			<${Button} kind="small" label="Larger" run=${() => by(STEP)}>+<//></div>
		<${Legend} edges=${graph.edges} more=${graph.edges.some(beside)} /></div>`;
}

/** Whether an edge says what others say: of what has fired, others that have; else as the server has it. */
export function aside(edges, live) {
	const after = new Map();
	for (const edge of edges) if (!edge.back && live(edge)) after.set(edge.from, [...(after.get(edge.from) || []), edge.to]);
	const leads = (from, to, seen) => (after.get(from) || []).some((next) => next === to || (!seen.has(next) && seen.add(next) && leads(next, to, seen)));
	const implied = ({ from, to }) => after.get(from).some((next) => next !== to && leads(next, to, new Set()));
	return (edge) => (edge.back || !live(edge) ? edge.aside : implied(edge));
}

function Node({ node, state, selected, entry, scale, onFocus, onSelect }) {
	const { x, y, w, h, id } = node;
	const step = id.startsWith("step:");
	const colour = state?.hue || "none";
	const sign = state?.sign;
	const far = scale < NAMES_ONLY;
	const lines = far ? [node.name] : node.lines;
	const size = far ? Math.min((LETTERS + 0.5) / scale, room(node)) : 12;
	const grown = far ? Math.min(2, 0.8 / scale) : 1;           // the sign stays readable, too
	const badge = sign ? (sign.length * 6.6 + 12) * grown : 0;
	const round = step ? 6 : h / 2;
	const common = step ? { role: "button", tabIndex: entry ? 0 : -1, "aria-pressed": String(selected), "data-node": id, onFocus, onClick: () => onSelect(node) } : { role: "img" };
	return html`<g class=${`node ${step ? "step" : "end"} ${colour} kind-${node.kind} ${selected ? "selected" : ""}`} aria-label=${state?.label || node.name} ...${common}>
		${state?.stack ? html`<rect class="stacked" x=${x + 6} y=${y + 6} width=${w} height=${h} rx=${round} />
			<rect class="stacked" x=${x + 3} y=${y + 3} width=${w} height=${h} rx=${round} />` : null}
		<rect class="box" x=${x} y=${y} width=${w} height=${h} rx=${round} />
		${step ? html`<path class="side" d=${`M${x + round} ${y}h-1a${round - 1} ${round - 1} 0 0 0-${round - 1} ${round - 1}v${h - 2 * round + 2}a${round - 1} ${round - 1} 0 0 0 ${round - 1} ${round - 1}h1z`} />` : null}
		${state?.share ? html`<rect class="done-share" x=${x + 8} y=${y + h - 5} width=${(w - 16) * state.share[0]} height="2.5" rx="1" />
			<rect class="failed-share" x=${x + 8 + (w - 16) * state.share[0]} y=${y + h - 5} width=${(w - 16) * state.share[1]} height="2.5" rx="1" />` : null}
		${lines.map((line, at) => html`
			<text key=${at} class=${at || !step ? "line" : "name"} x=${x + w / 2} y=${far ? y + h / 2 + size * 0.34 : y + (step ? 19 : 20) + at * LINE} style=${{ fontSize: `${size}px` }} text-anchor="middle">${line}</text>`)}
		${sign ? html`<rect class="badge-box" x=${x + w - badge + 6} y=${y - 9 * grown} width=${badge} height=${18 * grown} rx=${9 * grown} />
			<text class="badge-text" x=${x + w - badge / 2 + 6} y=${y + 4 * grown} style=${{ fontSize: `${11 * grown}px` }} text-anchor="middle">${sign}</text>` : null}
	</g>`;
}

const KINDS = { needs: "needs: starts when it is there", wants: "wants: starts anew when it changes", sees: "sees: reads it" };

/** What the kinds of lines mean; only those that are there. */
function Legend({ edges, more }) {
	const there = Object.keys(KINDS).filter((kind) => edges.some((edge) => edge.kind === kind));
	return html`<ul class="legend" aria-label="Lines">${there.map((kind) => html`<li key=${kind} title=${KINDS[kind]}>
		<svg width="26" height="8" aria-hidden="true"><path class=${`edge ${kind}`} d="M0 4h26" /></svg>${kind}</li>`)}${more ? html`<li>all lines of a step: choose it</li>` : null}</ul>`;
}

/** The nearest node in a direction: what lies aside counts double. */
function nearest(nodes, from, [dx, dy]) {
	const centre = ({ x, y, w, h }) => [x + w / 2, y + h / 2];
	const [fx, fy] = centre(from);
	let [best, least] = [null, Infinity];
	for (const node of nodes) {
		const [x, y] = centre(node);
		const along = (x - fx) * dx + (y - fy) * dy;
		if (node === from || !node.id.startsWith("step:") || along < 8) continue;
		const distance = along + 2 * Math.abs((x - fx) * dy + (y - fy) * dx);
		if (distance < least) [best, least] = [node, distance];
	}
	return best;
}

/** The wheel zooms with Ctrl, and scrolls without. */
function useWheel(frame, by) {
	useLayoutEffect(() => {
		const box = frame.current;
		const wheel = (event) => {
			if (!event.ctrlKey) return;
			event.preventDefault();
			by(event.deltaY < 0 ? 1.1 : 1 / 1.1);
		};
		box.addEventListener("wheel", wheel, { passive: false });
		return () => box.removeEventListener("wheel", wheel);
	}, []);
}

/** A mouse drags what is behind the nodes. */
function useDrag(frame) {
	const from = useRef(null);
	return {
		onPointerDown: (event) => {
			if (event.pointerType !== "mouse" || event.button || event.target.closest(".node")) return;
			from.current = [event.clientX + frame.current.scrollLeft, event.clientY + frame.current.scrollTop];
			frame.current.setPointerCapture(event.pointerId);
		},
		onPointerMove: (event) => {
			if (!from.current) return;
			[frame.current.scrollLeft, frame.current.scrollTop] = [from.current[0] - event.clientX, from.current[1] - event.clientY];
		},
		onPointerUp: () => { from.current = null; },
		onLostPointerCapture: () => { from.current = null; },
	};
}
