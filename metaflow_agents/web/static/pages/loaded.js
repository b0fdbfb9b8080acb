// What a page shows of something that is asked for: what came, or that it is on its way, or what went wrong.

import { html, Loading, Problem } from "../parts.js";

/** `from` is what `useLoad` gives; `children` a function of the value. What was there stays while it is asked for again. */
export function Loaded({ from: { value, error, reload }, lines = 5, children }) {
	if (value) return children(value);
	return error ? html`<${Problem} error=${error} retry=${reload} />` : html`<${Loading} lines=${lines} />`;
}
