// Looking again when a run goes on.

import { useEffect, useLatest, useRef } from "../parts.js";

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

/** Whether steps went on, which may have made something. */
export const made = ({ steps }) => Object.keys(steps || {}).length;
