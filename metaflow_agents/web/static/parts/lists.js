// Tables, long lists, and what stands where nothing is: loading, empty, wrong.

import { html, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.js";
import { useSize } from "../hooks.js";

/**
 * A table: columns [{name, label, cell: (row) => …, num, class, sort: (row) => value, wide}], rows, `id` of a row. A row is not
 * clickable as such: a cell holds the link. `cards`: on a narrow page each row is a grid, laid out by CSS. Heads with `sort` are buttons; `sort` {name, down} and `onSort` are the caller's.
 */
export function Table({ columns, rows, id, caption, selected, sort, onSort, cards }) {
	const head = (column) => {
		const mine = sort?.name === column.name;
		const way = mine ? (sort.down ? "descending" : "ascending") : undefined;
		return html`<th key=${column.name} scope="col" role="columnheader" class=${classes(column)} aria-sort=${way}>
			${column.sort && onSort ? html`
			<button type="button" class="sorter" onClick=${() => onSort({ name: column.name, down: mine ? !sort.down : !!column.num })}>
				${column.label}<span aria-hidden="true">${mine ? (sort.down ? " ↓" : " ↑") : ""}</span></button>` : column.label}</th>`;
	};
	return html`<div class="table-frame" tabIndex="0" role="region" aria-label=${caption}>
		<table class=${`table ${cards ? "cards" : ""}`} role="table">
		<caption class="hidden">${caption}</caption>
		<thead role="rowgroup"><tr role="row">${columns.map(head)}</tr></thead>
		<tbody role="rowgroup">${rows.map((row) => html`
			<tr key=${id(row)} role="row" data-row class=${selected && selected(row) ? "selected" : ""}>
				${columns.map((column) => html`<td key=${column.name} role="cell" class=${classes(column)} data-label=${column.label}>
					${column.cell(row)}</td>`)}
			</tr>`)}</tbody>
	</table></div>`;
}

const classes = (column) => `${column.num ? "num right" : ""} ${column.class || ""}`;

/**
 * Only the rows in view are in the page: `count` rows of `height` pixels each, `row(number)` gives one. `follow` keeps the end in
 * view while it grows, unless somebody scrolled away.
 */
export function VirtualList({ count, height, row, follow, label, class: extra = "" }) {
	const ref = useRef(null);
	const { height: frame } = useSize(ref);
	const [top, setTop] = useState(0);
	const atEnd = useRef(true);
	const first = Math.max(0, Math.floor(top / height) - 6);
	const last = Math.min(count, Math.ceil((top + (frame || 400)) / height) + 6);
	useLayoutEffect(() => {
		if (follow && atEnd.current) ref.current.scrollTop = ref.current.scrollHeight;
	}, [follow, count]);
	const scroll = () => {
		const { scrollTop, scrollHeight, clientHeight } = ref.current;
		atEnd.current = scrollTop + clientHeight >= scrollHeight - height;
		setTop(scrollTop);
	};
	const shown = [];
	for (let number = first; number < last; number += 1) {
		shown.push(html`<div key=${number} role="listitem" aria-setsize=${count} aria-posinset=${number + 1} style=${{ height: `${height}px` }}>${row(number)}</div>`);
	}
	return html`<div class=${`virtual ${extra}`} ref=${ref} onScroll=${scroll} role="list" aria-label=${label} tabIndex="0">
		<div role="presentation" style=${{ height: `${first * height}px` }}></div>${shown}
		<div role="presentation" style=${{ height: `${Math.max(0, count - last) * height}px` }}></div></div>`;
}

/** Grey lines in the place of what comes, after a moment: what is there at once doesn't flicker. */
export const Loading = ({ lines = 5, label = "Loading" }) => html`<div class="loading" role="status" aria-label=${label}>
	${Array.from({ length: lines }, (_, number) => html`<span key=${number} class="bone"></span>`)}</div>`;

export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2>${children}</div>`;

/** What went wrong, in the words of the server, and what helps. */
export const Problem = ({ error, retry, title = "That did not work" }) => html`<div class="problem" role="alert">
	<h2>${title}</h2><p class="pre">${error?.message || String(error)}</p>
	${retry ? html`<button type="button" class="button" onClick=${retry}>Try again</button>` : null}</div>`;

/** `from` is what `useLoad` gives; `children` a function of the value. What was there stays while it is asked for again. */
export function Loaded({ from: { value, error, reload }, lines = 5, children }) {
	if (value) return children(value);
	return error ? html`<${Problem} error=${error} retry=${reload} />` : html`<${Loading} lines=${lines} />`;
}
