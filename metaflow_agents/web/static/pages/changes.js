// Looking again when a run made something.

import { useEffect, useRef } from "../vendor/preact-htm.js";

/** Looks again when something was committed, at most once a second. */
export function useChanges(feed, reload) {
	const timer = useRef(0);
	useEffect(() => {
		const stop = feed?.subscribe((news) => {
			if (!Object.keys(news.steps || {}).length) return;
			timer.current ||= setTimeout(() => { timer.current = 0; reload(); }, 1000);
		});
		return () => { stop?.(); clearTimeout(timer.current); };
	}, [feed, reload]);
}
