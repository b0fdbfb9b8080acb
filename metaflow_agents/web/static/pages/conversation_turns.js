// The turns of one activation, a page at a time, as an object that is drawn from; it asks again while the activation goes on.

import { textOf } from "./conversation_find.js";

export class Conversation {
	constructor(api, run, key, changed) {
		Object.assign(this, { api, run, key, changed });
		this.told = null;                   // what the server told, but for the turns
		this.turns = [];
		this.error = null;
		this.asking = null;
		this.closed = false;
		this.timer = 0;
		this.last = 0;                      // where the last page that was asked for begins
	}

	/** The next offset, or null where all turns are here. */
	get more() {
		return this.told?.more ?? null;
	}

	/** Asks for the turns from `offset` on. */
	load(offset = 0) {
		this.asking ||= this.api.conversation(this.run, this.key, { offset }).then((told) => {
			if (this.closed) return;
			const { turns, ...rest } = told;
			this.told = offset ? { ...this.told, ended: rest.ended, more: rest.more, total: rest.total } : rest;
			this.last = offset;
			this.turns = [...this.turns.slice(0, offset), ...turns.map(readable)];
			this.error = null;
		}).catch((error) => {
			if (!this.closed) this.error = error;
		}).finally(() => {
			this.asking = null;
			if (!this.closed) this.changed();
		});
		return this.asking;
	}

	next() {
		return this.more === null ? null : this.load(this.more);
	}

	/** Asks for pages until `found(turns)`, or until all are here. */
	async until(found) {
		while (!this.closed && !this.error && this.more !== null && !found(this.turns)) await this.next();
	}

	/** Something happened in it: its last page is asked for again, at most once a second. */
	soon() {
		this.timer ||= setTimeout(() => {
			this.timer = 0;
			if (!this.closed && this.more === null) this.load(this.last);
		}, 1000);
	}

	close() {
		this.closed = true;
		clearTimeout(this.timer);
	}
}

/** A turn as it is shown: JSON is indented, arguments stand one below the other. */
function readable(turn) {
	const answer = textOf(turn.answer);
	const value = turn.answer?.cut || answer.includes("\n") ? undefined : parsed(answer);
	return { ...turn, answer: value === undefined ? turn.answer : harmless(JSON.stringify(value, null, 2)), tools: turn.tools.map((tool) => ({ ...tool, arguments: listed(tool.arguments) })) };
}

/** {"path": "a.py", "text": "x\ny"} as lines of `path: a.py`, in which a text keeps its own lines. */
function listed(given) {
	const value = given?.cut ? undefined : parsed(textOf(given));
	if (!value || Array.isArray(value)) return given;
	const told = (one) => (typeof one !== "string" ? JSON.stringify(one) : one.includes("\n") ? `\n${one}` : one);
	return harmless(Object.entries(value).map(([name, one]) => `${name}: ${told(one)}`).join("\n"));
}

// What JSON writes as \u001b would act once it is read: controls, and letters that hide or turn the direction of writing. The server
// shows them as signs; so does this.
const HIDING = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0d\u{e0100}-\u{e01ef}]/gu;
const harmless = (text) => text.replace(HIDING, (letter) => (letter < " " ? String.fromCharCode(0x2400 + letter.charCodeAt(0)) : "\ufffd"));

/** The object or list that a text is as JSON, undefined where it is none. */
function parsed(text) {
	try {
		return /^\s*[{[]/.test(text) ? JSON.parse(text) : undefined;
	} catch {
		return undefined;
	}
}

/** The conversation as Markdown, for the clipboard. */
export function asMarkdown({ told, turns }) {
	const lines = [`# ${told.key}${told.role ? ` (${told.role}${told.model ? `, ${told.model}` : ""})` : ""}`];
	for (const turn of turns) {
		for (const { role, parts } of turn.messages) lines.push(`## ${role}`, ...parts.map((part) => textOf(part.text)));
		if (textOf(turn.answer)) lines.push("## answer", textOf(turn.answer));
		for (const tool of turn.tools || []) lines.push(`### tool ${tool.tool}`, fenced(textOf(tool.arguments)), fenced(textOf(tool.result)));
		if (turn.error) lines.push(`**failed:** ${textOf(turn.error)}`);
	}
	return `${lines.join("\n\n")}\n`;
}

function fenced(text) {
	const longest = Math.max(2, ...(text.match(/`+/g) || []).map((ticks) => ticks.length));
	const fence = "`".repeat(longest + 1);
	return `${fence}\n${text}\n${fence}`;
}
