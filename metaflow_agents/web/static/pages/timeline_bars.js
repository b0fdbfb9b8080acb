// The bars of one activation as paths of SVG: one path for each kind and state, however many bars there are. What is narrower than
// a pixel is merged with its neighbour, so a row costs as many numbers as it has pixels, not as it has calls.

/** For each kind of bar where in a row of 26 pixels it stands: [top, height]. */
const PLACES = {
	call: [5, 16], question: [5, 16], tool: [8, 10], command: [8, 10], function: [8, 10], check: [9, 8], wait: [12, 2],
};
const LEAST = 1.5;                      // pixels: nothing that happened is invisible

/** {class, d} of each path. `toX` maps seconds to pixels; `now` ends what is still under way; `width` cuts off what is beside. */
export function paths(row, toX, now, width) {
	const groups = new Map();
	for (const bar of row.bars) {
		const x0 = toX(bar.began);
		const x1 = Math.max(toX(bar.ended ?? now), x0 + LEAST);
		if (x1 < 0 || x0 > width) continue;
		const name = `${PLACES[bar.kind] ? bar.kind : "function"} ${standing(bar)}`;
		const spans = groups.get(name) || groups.set(name, []).get(name);
		const last = spans[spans.length - 1];
		if (last && x0 <= last[1] + 0.5 && x0 >= last[0]) last[1] = Math.max(last[1], x1);
		else spans.push([Math.max(x0, -2), Math.min(x1, width + 2)]);
	}
	return [...groups].map(([name, spans]) => {
		const [top, height] = PLACES[name.split(" ")[0]];
		return { name, d: spans.map(([x0, x1]) => `M${x0.toFixed(1)} ${top}h${Math.max(x1 - x0, LEAST).toFixed(1)}v${height}h-${Math.max(x1 - x0, LEAST).toFixed(1)}z`).join("") };
	});
}

function standing(bar) {
	if (bar.state === "failed") return "failed";
	return bar.ended === null || bar.ended === undefined ? "open" : "done";
}

/** Where the whole activation stands, [x, width] in pixels, cut off at the edges; null where it is out of sight. */
export function extent(row, toX, now, width) {
	const x0 = toX(row.began);
	const x1 = Math.max(toX(row.ended ?? now), x0 + LEAST);
	if (x1 < 0 || x0 > width) return null;
	const from = Math.max(x0, -4);
	return [from, Math.min(x1, width + 4) - from];
}

/** The bar at a point in time: the shortest one that holds it, give or take `slack` seconds. */
export function barAt(row, t, slack, now) {
	const near = row.bars.filter((bar) => bar.began - slack <= t && (bar.ended ?? now) + slack >= t);
	return near.sort((a, b) => ((a.ended ?? now) - a.began) - ((b.ended ?? now) - b.began))[0] || null;
}
