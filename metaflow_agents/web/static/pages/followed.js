// Looking again when a run goes on.

import { useEffect, useLatest, useLoad, useRef } from "../parts.js";

/** Looks again when news came, or those that are `wanted`; at most every `every` milliseconds. */
export function useFollowed(feed, look, every, wanted = () => true) {
	const timer = useRef(0);
	const latest = useLatest(look);
	useEffect(() => {
		const stop = feed?.subscribe((news) => {
			if (!timer.current && wanted(news)) timer.current = setTimeout(() => { timer.current = 0; latest(); }, every);
		});
		return () => { stop?.(); clearTimeout(timer.current); timer.current = 0; };
	}, [feed]);
}

/** What steps make: loaded, and again when steps went on. */
export function useMade(feed, load, deps) {
	const asked = useLoad(load, deps);
	useFollowed(feed, asked.reload, 1000, ({ steps }) => Object.keys(steps || {}).length);
	return asked;
}
