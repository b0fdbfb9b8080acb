// Finding words in a conversation: in what was loaded, not in the page, which folds texts.

import { createContext, html, useContext, useEffect, useRef } from "../parts.js";

const MARKED = 500;                     // in one text

/** What is looked for, {query, at: {id, nth} | null}: the text (see `passages`), and which place in it. */
export const Finding = createContext({ query: "", at: null });

export const textOf = (text) => (typeof text === "string" ? text : text?.text ?? "");

/** The texts of a conversation in the order of the page: [id, text]. */
export function* passages(turns, acts) {
	for (const act of acts || []) yield [act.decisions ? `${act.key}/result` : `${act.key}/act`, textOf(act.text)];
	for (const turn of turns) {
		for (const [m, { parts }] of turn.messages.entries()) for (const [p, part] of parts.entries()) yield [`${turn.key}/m${m}/p${p}`, textOf(part.text)];
		if (turn.answer !== null && turn.answer !== undefined) yield [`${turn.key}/answer`, textOf(turn.answer)];
		for (const tool of turn.tools || []) {
			yield [`${tool.key}/arguments`, textOf(tool.arguments)];
			yield [`${tool.key}/result`, textOf(tool.result)];
		}
	}
}

/** All places of `query`, as {id, nth}; lower and upper case are the same. */
export function places(query, turns, acts) {
	const wanted = query.toLowerCase();
	const found = [];
	if (!wanted) return found;
	for (const [id, text] of passages(turns, acts)) {
		const all = text.toLowerCase();
		for (let at = all.indexOf(wanted), nth = 0; at >= 0 && nth < MARKED; at = all.indexOf(wanted, at + wanted.length), nth += 1) found.push({ id, nth });
	}
	return found;
}

/** A text with what is looked for marked; the place that is looked at scrolls into view. */
export function Marked({ id, text }) {
	const { query, at } = useContext(Finding);
	const here = useRef(null);
	const mine = at?.id === id ? at.nth : -1;
	useEffect(() => { if (mine >= 0) here.current?.scrollIntoView({ block: "center" }); }, [mine, query]);
	const wanted = query.toLowerCase();
	const all = wanted ? text.toLowerCase() : "";
	if (!wanted || !all.includes(wanted) || all.length !== text.length) return text;
	const pieces = [];
	let from = 0;
	for (let found = all.indexOf(wanted), nth = 0; found >= 0 && nth < MARKED; found = all.indexOf(wanted, from), nth += 1) {
		pieces.push(text.slice(from, found), nth === mine
			? html`<mark key=${nth} class="current" ref=${here}>${text.slice(found, found + wanted.length)}</mark>`
			: html`<mark key=${nth}>${text.slice(found, found + wanted.length)}</mark>`);
		from = found + wanted.length;
	}
	return [...pieces, text.slice(from)];
}
