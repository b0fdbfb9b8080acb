// One text of a conversation: a long one is folded until it is wanted, or something in it is looked for.

import { count, html, Text, useContext, useState } from "../parts.js";
import { Finding, Marked, textOf } from "./conversation_find.js";

const LINES = 16;
const LETTERS = 2200;

/** The first lines of a text that is too long to stand whole; null where it is not. */
export function beginning(text) {
	let at = -1;
	for (let line = 0; line < LINES; line += 1) {
		at = text.indexOf("\n", at + 1);
		if (at < 0) return text.length > LETTERS * 1.3 ? text.slice(0, LETTERS) : null;
	}
	const rest = text.slice(at + 1);
	if (at > LETTERS) return text.slice(0, LETTERS);
	return rest.split("\n", 7).length > 6 || rest.length > 600 ? text.slice(0, at) : null;
}

export function Passage({ id, text, run, api, kind = "mono" }) {
	const { at } = useContext(Finding);
	const [open, setOpen] = useState(false);
	const whole = textOf(text).replace(/^\s*\n|\s+$/g, "");
	const first = beginning(whole);
	const folded = first !== null && !open && at?.id !== id;
	if (!whole) return html`<p class="quieter">(empty)</p>`;
	return html`<div class=${`passage ${folded ? "folded" : ""}`}>
		<${Text} text=${folded ? first : text?.cut ? { ...text, text: whole } : whole} run=${run} api=${api} kind=${kind} paint=${(shown) => html`<${Marked} id=${id} text=${shown} />`} />
		${first === null ? null : html`<button class="button small fold" aria-expanded=${String(!folded)} onClick=${() => setOpen(folded)}>${
			folded ? `Show all ${count(whole.split("\n").length)} lines` : "Show less"}</button>`}
	</div>`;
}

/** A text that is folded until it is wanted. `label` and `told` stand in its line. */
export function Folded({ id, label, told, text, open: initially, run, api, kind, badge }) {
	const { at } = useContext(Finding);
	const [open, setOpen] = useState(initially);
	const whole = textOf(text);
	const shown = open || at?.id === id;
	return html`<div class=${`part ${shown ? "open" : ""}`}>
		<button class="part-head" aria-expanded=${String(shown)} onClick=${() => setOpen(!shown)}>
			<span class="part-arrow" aria-hidden="true">${shown ? "▾" : "▸"}</span><span class="part-label">${label}</span>${badge}
			<span class="part-first cut-line">${shown ? "" : whole.trimStart().slice(0, 160)}</span><span class="part-told num">${told}</span></button>
		${shown ? html`<div class="part-body"><${Passage} id=${id} text=${text} run=${run} api=${api} kind=${kind} /></div>` : null}
	</div>`;
}
