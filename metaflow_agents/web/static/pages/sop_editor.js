// The text of a SOP in a textarea, with colours, line numbers and problems drawn behind it, and a list of completions.

import { announce, Component, html, useEffect, useImperativeHandle, useLatest, useMemo, useRef, useState } from "../parts.js";
import { Completions, useCompletion, wordAt } from "./sop_completion.js";
import { highlight } from "./sop_highlight.js";

const MOST_COLOURED = 4000;             // lines; a longer text is one colour
const INDENT = "  ";

/**
 * `handle` gets {replace(text), reveal(line, column, focus), focus()}: an edit from outside is one step for Ctrl+Z, as if typed.
 * `problems`: [{line, column, severity, message}]; `complete(line, column)` gives {from, options}; `onCursor(line, column)`.
 */
export function Editor({ text, onChange, problems, readOnly, complete, onCursor, wrap, label, describedBy, handle }) {
	const area = useRef(null);
	const frame = useRef(null);
	const [line, setLine] = useState(1);
	const leaving = useRef(false);        // Escape was pressed: the next Tab leaves the text
	const completion = useCompletion({ area, complete, readOnly, insert });
	const lines = useMemo(() => (text.split("\n").length > MOST_COLOURED ? text.split("\n").map((one) => [["", one]]) : highlight(text)), [text]);
	const marks = useMemo(() => byLine(problems), [problems]);

	function insert(from, to, words) {
		const field = area.current;
		const scroll = [frame.current.scrollLeft, frame.current.scrollTop];
		field.focus({ preventScroll: true });
		field.setSelectionRange(from, to);
		const typing = document.activeElement === field;
		const done = typing && (words ? document.execCommand("insertText", false, words) : from === to || document.execCommand("delete"));
		if (!done) {                          // a browser that does not type for pages, or a field that can't be focused: no step for Ctrl+Z
			field.setRangeText(words, from, to, "end");
			onChange(field.value);
		}
		[frame.current.scrollLeft, frame.current.scrollTop] = scroll;
		follow();
	}

	useImperativeHandle(handle, () => ({
		replace(next) {
			const before = area.current.value;
			if (before === next) return;
			let start = 0;
			while (start < before.length && before[start] === next[start]) start += 1;
			let end = 0;
			while (end < Math.min(before.length, next.length) - start && before[before.length - 1 - end] === next[next.length - 1 - end]) end += 1;
			const focused = document.activeElement;
			insert(start, before.length - end, next.slice(start, next.length - end));
			if (focused !== area.current && focused?.isConnected) focused.focus({ preventScroll: true });
		},
		reveal(to, column = 1, focus = false) {
			const at = offset(area.current.value, to, column);
			if (focus) area.current.focus({ preventScroll: true });
			area.current.setSelectionRange(at, at);
			setLine(to);
			show(frame.current, to);
		},
		focus() { area.current.focus(); },
	}), []);

	const follow = useLatest(() => keepInView(frame.current, area.current));
	const moved = useLatest(() => {
		follow();
		const [at, column] = place(area.current.value, area.current.selectionStart);
		setLine(at);
		onCursor?.(at, column);
	});
	useEffect(() => {
		const changed = () => document.activeElement === area.current && moved();
		document.addEventListener("selectionchange", changed);
		return () => document.removeEventListener("selectionchange", changed);
	}, []);

	const press = (event) => {
		if (completion.press(event)) return;
		const { selectionStart: from, selectionEnd: to, value } = area.current;
		if (event.key === "Escape") leaving.current = true;
		else if (event.key === "Tab" && !leaving.current && !readOnly && !event.ctrlKey && !event.altKey && !event.metaKey) {
			event.preventDefault();
			shift(value, from, to, event.shiftKey, insert, area.current);
		} else if (event.key === "Enter" && !readOnly && from === to && !event.ctrlKey && !event.metaKey && !event.isComposing) {
			event.preventDefault();
			insert(from, to, `\n${indentAfter(value, from)}`);
		} else if (event.key !== "Shift" && event.key !== "Tab") leaving.current = false;
	};
	const typed = (event) => {
		leaving.current = false;
		onChange(event.target.value);
		completion.typed(event);
	};
	const size = String(lines.length).length;
	return html`<div class=${`editor ${wrap ? "wrapped" : ""}`} ref=${frame} style=${{ "--digits": Math.max(2, size) }}>
		<div class="editor-body">
			<div class="editor-lines" aria-hidden="true">${lines.map((tokens, number) => html`<${Line} key=${number} number=${number + 1} tokens=${tokens} marks=${marks[number + 1] || NONE} active=${line === number + 1} />`)}</div>
			<textarea ref=${area} class="editor-text" value=${text} readOnly=${readOnly} spellcheck="false" autocomplete="off" autocapitalize="off" autocorrect="off"
				wrap=${wrap ? "soft" : "off"} aria-label=${label} aria-describedby=${describedBy} aria-autocomplete="list"
				aria-controls=${completion.open ? completion.id : undefined} aria-activedescendant=${completion.active}
				onInput=${typed} onKeyDown=${press} onBlur=${completion.close} onClick=${completion.close} onScroll=${still}></textarea>
			${completion.open ? html`<${Completions} completion=${completion} frame=${frame} />` : null}
		</div></div>`;
}

const NONE = [];

/** The textarea is as large as its text, so it has nothing to scroll by itself; a browser that tries would part it from its colours. */
const still = ({ target }) => { target.scrollTop = target.scrollLeft = 0; };

class Line extends Component {
	shouldComponentUpdate({ number, tokens, marks, active }) {
		const before = this.props;
		return before.number !== number || before.tokens !== tokens || before.marks !== marks || before.active !== active;
	}

	render({ number, tokens, marks, active }) {
		const severity = marks.some((one) => one.severity === "error") ? "error" : marks.length ? "warning" : "";
		return html`<div class=${`editor-line ${severity} ${active ? "active" : ""}`}><span class="editor-number">${number}</span><code>${marks.length ? marked(tokens, marks) : tokens.map(token)}${"\u200b"}</code></div>`;
	}
}

const token = ([kind, text], at) => (kind ? html`<span key=${at} class=${`c-${kind}`}>${text}</span>` : text);

/** Tokens with the words underlined at which problems stand. */
function marked(tokens, marks) {
	const whole = tokens.map(([, text]) => text).join("");
	const spans = marks.map(({ column, severity }) => {
		const from = Math.min(Math.max(column - 1, 0), Math.max(whole.length - 1, 0));
		return { from, to: from + Math.max(1, /^(?:[\w.-]+|\s+|.)/.exec(whole.slice(from))?.[0].length || 1), severity };
	});
	const found = [];
	let at = 0;
	for (const [kind, text] of tokens) {
		const edges = [...new Set([at, at + text.length, ...spans.flatMap(({ from, to }) => [from, to])])].filter((one) => one >= at && one <= at + text.length).sort((a, b) => a - b);
		for (let edge = 0; edge + 1 < edges.length; edge += 1) {
			const under = spans.find(({ from, to }) => from <= edges[edge] && edges[edge] < to);
			const classes = `${kind ? `c-${kind}` : ""} ${under ? `wavy ${under.severity}` : ""}`.trim();
			const part = text.slice(edges[edge] - at, edges[edge + 1] - at);
			found.push(classes ? html`<span key=${found.length} class=${classes}>${part}</span>` : part);
		}
		at += text.length;
	}
	return found.length ? found : html`<span class=${`wavy ${spans[0].severity}`}> </span>`;
}

function byLine(problems) {
	const found = {};
	for (const one of problems) (found[one.line] ||= []).push(one);
	return found;
}

/** Line and column, counted from 1, of a character. */
export function place(text, at) {
	const before = text.lastIndexOf("\n", at - 1);
	return [text.slice(0, at).split("\n").length, at - before];
}

export function offset(text, line, column) {
	let at = 0;
	for (let number = 1; number < line; number += 1) {
		const next = text.indexOf("\n", at);
		if (next < 0) return text.length;
		at = next + 1;
	}
	const end = text.indexOf("\n", at);
	return Math.min(at + column - 1, end < 0 ? text.length : end);
}

function show(frame, line) {
	const row = frame.querySelectorAll(".editor-line")[line - 1];
	if (!row) return;
	const [top, bottom] = [row.offsetTop, row.offsetTop + row.offsetHeight];
	if (top < frame.scrollTop + 30 || bottom > frame.scrollTop + frame.clientHeight - 30) frame.scrollTop = Math.max(0, top - frame.clientHeight / 3);
	frame.scrollLeft = 0;
}

/** The end of the selection that moves stays in view: the frame scrolls, since the textarea itself can't. */
function keepInView(frame, area) {
	const at = area.selectionDirection === "backward" ? area.selectionStart : area.selectionEnd;
	const rect = wordAt(frame, area.value, at);
	if (!rect) return;
	const box = frame.getBoundingClientRect();
	const gutter = area.getBoundingClientRect().left - box.left + frame.scrollLeft;
	const [up, down] = [box.top + 8 - rect.top, rect.bottom - (box.top + frame.clientHeight - 24)];
	if (up > 0) frame.scrollTop -= up;
	else if (down > 0) frame.scrollTop += down;
	const [before, behind] = [box.left + gutter + 4 - rect.left, rect.left - (box.left + frame.clientWidth - 40)];
	if (before > 0) frame.scrollLeft -= before + 60;
	else if (behind > 0) frame.scrollLeft += behind + 60;
}

/** The new line is as far in as the one above, and further below a key without a value, or a block. */
function indentAfter(text, at) {
	const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
	const [indent] = /^\s*/.exec(line);
	const bare = line.replace(/\s#.*$/, "").trimEnd();
	const item = /^(\s*)- /.exec(line);
	if (/:$/.test(bare) || /:\s*[|>][-+0-9]*$/.test(bare)) return `${item ? `${item[1]}  ` : indent}${INDENT}`;
	return item ? `${item[1]}  ` : indent;
}

/** Tab: the lines of the selection further in, or out; without a selection, spaces up to the next even column. */
function shift(text, from, to, out, insert, field) {
	if (from === to && !out) {
		const column = from - text.lastIndexOf("\n", from - 1) - 1;
		insert(from, to, column % 2 ? " " : INDENT);
		return;
	}
	const start = text.lastIndexOf("\n", from - 1) + 1;
	const last = to > from && text[to - 1] === "\n" ? to - 1 : to;
	const end = text.indexOf("\n", last) < 0 ? text.length : text.indexOf("\n", last);
	const before = text.slice(start, end);
	const after = before.split("\n").map((line) => (out ? line.replace(/^ {1,2}/, "") : line ? INDENT + line : line)).join("\n");
	if (after === before) return;
	insert(start, end, after);
	if (from === to) field.setSelectionRange(Math.max(start, from - (before.length - after.length)), Math.max(start, from - (before.length - after.length)));
	else field.setSelectionRange(start, start + after.length);
	announce(out ? "Further out" : "Further in");
}
