// Routes stand in the fragment: `#/run/NAME?view=graph&key=write@2`. Nothing of them reaches the server's log.

/** {page, run, query, href} of a fragment. An unknown path is the page "missing". */
export function parseRoute(fragment) {
	const [path, search = ""] = fragment.replace(/^#?\/?/, "").split(/\?(.*)/s);
	const [first = "", ...rest] = path.split("/");
	const query = Object.fromEntries(new URLSearchParams(search));
	const run = first === "run" && rest.length ? decoded(rest.join("/")) : "";
	const page = first === "" ? "runs" : first === "run" && !run ? "missing" : first;
	return { page, run, query, path };
}

function decoded(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

/** The fragment of a page: href("run", {run: "demo-1", view: "graph", key: "write@2"}). Empty values are left out. */
export function href(page, { run, ...query } = {}) {
	const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
	const search = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
	const path = page === "runs" ? "" : run === undefined ? page : `${page}/${encodeURIComponent(run)}`;
	return `#/${path}${search ? `?${search}` : ""}`;
}

/** The same page with other values of its query. An empty value takes a name away. */
export const altered = (route, changes) => href(route.page, { ...(route.run ? { run: route.run } : {}), ...route.query, ...changes });

/** Goes to a fragment; `replace` leaves no entry in the browser's history (a slider, a filter that is being typed). */
export function go(to, { replace = false } = {}) {
	if (to === location.hash) return;
	if (replace) {
		history.replaceState(null, "", to);
		dispatchEvent(new HashChangeEvent("hashchange"));
	} else location.hash = to;
}

const KEY = /^([\p{L}_][\p{L}\p{N}_]*)(?:@(\d+)(?:\[([^\]]*)\])?(?:~(\d+))?)?(?:\/(.+))?$/u;

/**
 * The parts of what `key` selects: a step (`write`), a firing (`write@2`), an item (`write@2[ch1]`) or an activation
 * (`write@2[ch1]~0`), and `inner`, what follows behind `/`: the same in a sub-SOP, or a call. null for anything else.
 */
export function parseKey(key) {
	const match = KEY.exec(key || "");
	if (!match) return null;
	const [, step, round, item, attempt, inner = ""] = match;
	const number = (text) => (text === undefined ? null : Number(text));
	return { step, round: number(round), item: item === undefined ? null : decoded(item), attempt: number(attempt), inner };
}

/** Whether a key is selected: it is that key, or lies inside it (`write` selects `write@2~0`). */
export function within(key, selected) {
	return !!selected && (key === selected || (key.startsWith(selected) && /[@[~/]/.test(key[selected.length])));
}
