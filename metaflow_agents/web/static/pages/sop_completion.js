// What may stand at the cursor, as a list below it: asked of the server while one types, or by Ctrl+Space.

import { announce, html, plural, useEffect, useLatest, useLayoutEffect, useRef, useState } from "../parts.js";
import { useId } from "../parts/controls.js";

const WAIT = 130;                       // milliseconds without a key until the server is asked
const SHOWN = 9;                        // lines in view

/** `complete(line, column)` gives {from, options: [{text, detail}]}; `insert(from, to, text)` types it. */
export function useCompletion({ area, complete, readOnly, insert }) {
	const [state, setState] = useState(null);       // {options, start, at, chosen: whether a person moved in the list}
	const timer = useRef(0);
	const turn = useRef(0);
	const id = useId("completions");
	const close = () => {
		clearTimeout(timer.current);
		turn.current += 1;
		setState(null);
	};
	useEffect(() => close, []);
	const ask = useLatest(async (chosen) => {
		const field = area.current;
		if (!field || readOnly || !complete || field.selectionStart !== field.selectionEnd) return;
		const mine = (turn.current += 1);
		const cursor = field.selectionStart;
		const begin = field.value.lastIndexOf("\n", cursor - 1) + 1;
		const line = field.value.slice(0, cursor).split("\n").length;
		let found;
		try {
			found = await complete(line, cursor - begin + 1, field.value);
		} catch {
			return;                                     // a completion that fails is none: the checks say what is wrong
		}
		if (mine !== turn.current || area.current?.selectionStart !== cursor || document.activeElement !== area.current) return;
		if (!found.options.length) {
			setState(null);
			if (chosen) announce("Nothing to complete here");
			return;
		}
		setState({ options: found.options, start: begin + found.from - 1, at: 0, chosen });
		if (chosen) announce(`${plural(found.options.length, "suggestion")}: ${found.options[0].text}`);
	});
	const accept = (option) => {
		const { selectionStart: cursor } = area.current;
		close();
		insert(state.start, cursor, option.text);
		if (/[ .:]$/.test(option.text)) later(ask, timer);
	};
	const press = (event) => {
		if ((event.ctrlKey || event.metaKey) && event.key === " ") {
			event.preventDefault();
			ask(true);
			return true;
		}
		if (!state) return false;
		const by = { ArrowDown: 1, ArrowUp: -1, PageDown: SHOWN, PageUp: -SHOWN }[event.key];
		if (by) {
			const at = Math.abs(by) > 1 ? Math.min(state.options.length - 1, Math.max(0, state.at + by)) : (state.at + by + state.options.length) % state.options.length;
			setState({ ...state, at, chosen: true });
			event.preventDefault();
			return true;
		}
		if (event.key === "Escape") {
			close();
			event.preventDefault();
			event.stopPropagation();
			return true;
		}
		if ((event.key === "Tab" && !event.shiftKey) || (event.key === "Enter" && state.chosen)) {
			accept(state.options[state.at]);
			event.preventDefault();
			return true;
		}
		if (["ArrowLeft", "ArrowRight", "Home", "End", "Enter"].includes(event.key)) close();
		return false;
	};
	const typed = (event) => {
		const { selectionStart: cursor, value } = event.target;
		const before = value.slice(value.lastIndexOf("\n", cursor - 1) + 1, cursor);
		const asks = event.inputType !== "insertFromPaste" && /(?:\w|[.[{|:,-] ?|\{\{ ?)$/.test(before) && !/^\s*#/.test(before);
		if (asks || (event.inputType?.startsWith("delete") && state)) later(ask, timer);
		else close();
	};
	return { open: !!state, id, options: state?.options || [], at: state?.at || 0, start: state?.start || 0, close, press, typed, accept, area,
		active: state ? `${id}-${state.at}` : undefined };
}

function later(ask, timer) {
	clearTimeout(timer.current);
	timer.current = setTimeout(() => ask(false), WAIT);
}

/** The list, below the word that it completes; above it where there is no room. */
export function Completions({ completion, frame }) {
	const { options, at, id, start, area, accept } = completion;
	const list = useRef(null);
	const [spot, setSpot] = useState(null);
	useLayoutEffect(() => {
		const rect = wordAt(frame.current, area.current.value, start);
		if (!rect) return;
		const box = frame.current.getBoundingClientRect();
		const height = list.current.offsetHeight;
		const below = rect.bottom + height + 6 < Math.min(box.bottom, innerHeight) || rect.top - height < box.top;
		const left = Math.max(box.left + 4, Math.min(rect.left, box.right - list.current.offsetWidth - 12));
		setSpot({ left: left - box.left + frame.current.scrollLeft, top: (below ? rect.bottom + 3 : rect.top - height - 3) - box.top + frame.current.scrollTop });
	}, [options, start]);
	useLayoutEffect(() => { list.current.children[at]?.scrollIntoView({ block: "nearest" }); }, [at]);
	return html`<ul class="completions" role="listbox" id=${id} aria-label="Suggestions" ref=${list}
			style=${spot ? { left: `${spot.left}px`, top: `${spot.top}px` } : { visibility: "hidden" }}>
		${options.map((one, number) => html`<li key=${number} id=${`${id}-${number}`} role="option" aria-selected=${String(number === at)}
			onMouseDown=${(event) => { event.preventDefault(); accept(one); }}><span class="completion-text">${one.text.trimEnd()}</span><span class="completion-detail">${one.detail}</span></li>`)}</ul>`;
}

/** Where a character of the text stands on the screen. */
export function wordAt(frame, text, at) {
	const begin = text.lastIndexOf("\n", at - 1) + 1;
	const row = frame.querySelectorAll(".editor-line code")[text.slice(0, at).split("\n").length - 1];
	if (!row) return null;
	const range = document.createRange();
	let left = at - begin;
	const walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
	for (let node = walker.nextNode(); node; node = walker.nextNode()) {
		if (left <= node.length) {
			range.setStart(node, Math.min(left, node.length));
			range.setEnd(node, Math.min(left + 1, node.length));
			return range.getBoundingClientRect();
		}
		left -= node.length;
	}
	return row.getBoundingClientRect();
}
