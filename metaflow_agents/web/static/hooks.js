// What pages share that draws nothing: loading, shortcuts, the live region, the clock.

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";

/**
 * What `load` gives, loaded anew when `deps` change: {value, error, loading, reload}. The value before stays until the next one is
 * there, so that nothing jumps; a late answer to an earlier request is dropped.
 */
export function useLoad(load, deps) {
	const [state, setState] = useState({ value: undefined, error: null, loading: true });
	const turn = useRef(0);
	const reload = useCallback(async () => {
		const mine = (turn.current += 1);
		setState((before) => ({ ...before, loading: true }));
		try {
			const value = await load();
			if (mine === turn.current) setState({ value, error: null, loading: false });
		} catch (error) {
			if (mine === turn.current) setState((before) => ({ ...before, error, loading: false }));
		}
	}, deps);
	useEffect(() => {
		reload();
		return () => { turn.current += 1; };
	}, [reload]);
	return { ...state, reload };
}

const imported = new Map();

/** What the module that `load` imports exports by default, loaded once: {found, error}. */
export function useModule(load) {
	const [, redraw] = useState(0);
	const [error, setError] = useState(null);
	useEffect(() => {
		setError(null);
		if (!load || imported.has(load)) return undefined;
		let here = true;
		load().then((module) => imported.set(load, module.default)).then(() => here && redraw((n) => n + 1), (problem) => here && setError(problem));
		return () => { here = false; };
	}, [load]);
	return { found: imported.get(load), error };
}

/** The latest function, under one identity: for listeners that are added once. */
export function useLatest(fn) {
	const latest = useRef(fn);
	latest.current = fn;
	return useCallback((...given) => latest.current(...given), []);
}

const active = new Set();               // lists of shortcuts of the components that are there
let pending = "";                       // `g`, waiting for its second key
let pendingSince = 0;

const OFF = "sop-no-single-keys";
const remembered = (name) => { try { return localStorage.getItem(name); } catch { return null; } };

/** Whether single keys act: speech input and some assistive tools type letters, so a person can turn them off. */
export const singleKeys = {
	get on() { return remembered(OFF) !== "1"; },
	set on(value) { try { value ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1"); } catch { /* a page without storage */ } },
};

/** Shortcuts while the component is there: [{keys: "j" | "g r" | "?" | "Escape", told, run, hidden}]. */
export function useShortcuts(shortcuts) {
	const latest = useRef(shortcuts);
	latest.current = shortcuts;
	useEffect(() => {
		const mine = () => latest.current;
		active.add(mine);
		return () => active.delete(mine);
	}, []);
}

/** All shortcuts that act now, those of the innermost component first. */
export const shortcuts = () => [...active].reverse().flatMap((list) => list());

const typing = (target) => target.closest?.("input:not([type=checkbox]):not([type=radio]):not([type=range]), textarea, select, [contenteditable]");

export function onKey(event) {
	if (event.key === "Escape" && event.target.matches?.("[data-search]") && !event.target.value) event.target.blur();
	if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
	if (!singleKeys.on && event.key.length === 1) return;
	if (document.querySelector("dialog[open]")) return;
	const pressed = pending && Date.now() - pendingSince < 1500 ? `${pending} ${event.key}` : event.key;
	const all = shortcuts();
	const found = all.find(({ keys }) => keys === pressed);
	pending = "";
	if (found) {
		event.preventDefault();
		found.run(event);
	} else if (all.some(({ keys }) => keys.startsWith(`${event.key} `))) {
		pending = event.key;
		pendingSince = Date.now();
	}
}

/** `j` and `k` through what carries `data-row` inside of the element of `ref`: the focus moves to each row's first link or button. */
export function useRows(ref) {
	const move = (by) => {
		const rows = [...(ref.current?.querySelectorAll("[data-row]") || [])];
		if (!rows.length) return;
		const at = rows.findIndex((row) => row.contains(document.activeElement));
		const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
		(next.matches("a, button, [tabindex]") ? next : next.querySelector("a, button, [tabindex]"))?.focus();
		next.scrollIntoView({ block: "nearest" });
	};
	useShortcuts([
		{ keys: "j", told: "next row", run: () => move(1) },
		{ keys: "k", told: "row before", run: () => move(-1) },
	]);
}

let teller = () => {};
export const setTeller = (fn) => { teller = fn; };

/** Says something to a screen reader, without moving the focus: what a button did, how a run ended. */
export const announce = (text) => teller(text);

/** Unix time in seconds, once a second while `running`. */
export function useNow(running = true) {
	const [now, setNow] = useState(Date.now() / 1000);
	useEffect(() => {
		if (!running) return undefined;
		const timer = setInterval(() => setNow(Date.now() / 1000), 1000);
		return () => clearInterval(timer);
	}, [running]);
	return now;
}

/** Width and height of the element of `ref`, followed. */
export function useSize(ref) {
	const [size, setSize] = useState({ width: 0, height: 0 });
	useLayoutEffect(() => {
		if (!ref.current) return undefined;
		const watch = new ResizeObserver(([entry]) => {
			const { width, height } = entry.contentRect;
			setSize((before) => (before.width === width && before.height === height ? before : { width, height }));
		});
		watch.observe(ref.current);
		return () => watch.disconnect();
	}, []);
	return size;
}

/** The title of the page, in the tab and for screen readers. */
export function useTitle(title) {
	useEffect(() => { document.title = title ? `${title} · sop` : "sop"; }, [title]);
}
