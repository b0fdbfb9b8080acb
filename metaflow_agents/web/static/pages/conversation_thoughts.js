// The thoughts of a strategy as a tree: what was dropped is folded away.

import { html, Link, plural, useMemo, useState } from "../parts.js";

/** branch → {thought, children}, and those that have no parent. A parent that nobody knows, or a ring, makes a root. */
export function treeOf(thoughts) {
	const nodes = new Map(thoughts.map((thought) => [thought.branch, { thought, children: [] }]));
	const rootOf = (branch) => {
		const seen = new Set();
		for (let at = branch; at && nodes.has(at); at = nodes.get(at).thought.parent) {
			if (seen.has(at)) return null;
			seen.add(at);
		}
		return seen.size;
	};
	const roots = [];
	for (const node of nodes.values()) {
		const parent = nodes.get(node.thought.parent);
		(parent && parent !== node && rootOf(node.thought.branch) !== null ? parent.children : roots).push(node);
	}
	return roots;
}

export function Thoughts({ thoughts, onOpen, chosen }) {
	const roots = useMemo(() => treeOf(thoughts), [thoughts]);
	const [open, setOpen] = useState(true);
	const kept = thoughts.filter((thought) => thought.kept).length;
	const [title, one] = thoughts.some(({ value }) => value !== null && value !== undefined) ? ["Thoughts", "thought"] : ["Branches", "branch"];
	return html`<section class="thoughts panel" aria-label=${title}>
		<div class="spread"><h3>${title}</h3><span class="quiet row"><span>${plural(thoughts.length, one, one === "branch" ? "branches" : "thoughts")}${kept < thoughts.length ? `, ${kept} gone on with` : ""}</span>
			<button class="button small" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>${open ? "Fold" : "Show"}</button></span></div>
		${open ? html`<${Level} nodes=${roots} onOpen=${onOpen} chosen=${chosen} />` : null}</section>`;
}

const FEW = 3;                          // shown of those of which none was gone on with

function Level({ nodes, onOpen, chosen }) {
	const [all, setAll] = useState(false);
	const ordered = [...nodes].sort((a, b) => (b.thought.kept ? 1 : 0) - (a.thought.kept ? 1 : 0) || (b.thought.value ?? 0) - (a.thought.value ?? 0));
	const kept = ordered.filter((node) => node.thought.kept || node.children.length).length;
	const shown = all || ordered.length - (kept || FEW) < 2 ? ordered : ordered.slice(0, kept || FEW);
	return html`<ul class="thought-level">${shown.map((node) => html`<${Thought} key=${node.thought.branch} node=${node} onOpen=${onOpen} chosen=${chosen} />`)}
		${shown.length < ordered.length ? html`<li class="thought-more"><button class="button small" onClick=${() => setAll(true)}>${
			ordered.length - shown.length} dropped</button></li>` : null}</ul>`;
}

function Thought({ node, onOpen, chosen }) {
	const { thought, children } = node;
	const told = html`<span class="thought-text">${thought.told}</span>`;
	return html`<li class=${`thought ${thought.kept ? "kept" : "dropped"} ${chosen && thought.key === chosen ? "chosen" : ""}`}>
		<div class="thought-line">
			<span class="thought-sign" aria-hidden="true">${thought.kept ? "●" : "○"}</span>
			${thought.key && onOpen ? html`<${Link} run=${() => onOpen(thought.key)}>${told}<//>` : told}
			${thought.value === null || thought.value === undefined ? null : html`<span class="thought-value num" title="its value">${rounded(thought.value)}</span>`}
			<span class="hidden">${thought.kept ? "gone on with" : "dropped"}</span></div>
		${children.length ? html`<${Level} nodes=${children} onOpen=${onOpen} chosen=${chosen} />` : null}</li>`;
}

const rounded = (value) => (typeof value === "number" ? Number(value.toFixed(3)).toLocaleString("en-US") : String(value));
