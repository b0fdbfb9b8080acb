// Texts that somebody else wrote: models, tools, files. They become elements and text nodes here, and never markup.

import { h, html, useState } from "../vendor/preact-htm.js";
import { announce } from "../hooks.js";
import { Button, Complaint } from "./controls.js";
import { count } from "./figures.js";

const TAGS = new Set(["p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "s", "hr",
	"br", "a", "table", "thead", "tbody", "tr", "th", "td", "span", "div", "img"]);
const LINK = /^(https?:|mailto:)/i;

/** A tree of Markdown: strings, and {tag, children, href?, title?, start?, align?, lines?}. Unknown tags are a span. */
export const Markdown = ({ tree, top = 2 }) => html`<div class="markdown">${(Array.isArray(tree) ? tree : [tree]).map((node) => branch(node, top))}</div>`;

function branch(node, top) {
	if (node === null || node === undefined) return null;
	if (typeof node !== "object") return String(node);
	const children = (node.children || []).map((child) => branch(child, top));
	const heading = /^h([1-6])$/.exec(node.tag);
	if (heading) return h(`h${Math.min(6, Number(heading[1]) + top - 1)}`, null, children);       // the page has its own h1
	if (node.tag === "a") {
		const target = String(node.href || "");
		return LINK.test(target) ? h("a", { href: target, target: "_blank", rel: "noopener noreferrer nofollow", title: target }, children)
			: h("span", { title: target }, children);
	}
	if (node.tag === "pre" && node.lines) return h(Code, { lines: node.lines, bare: true });
	if (node.tag === "img") return h("span", { class: "quiet" }, `[image: ${node.alt || node.src || ""}]`);
	const attributes = {};
	if (node.tag === "ol" && Number.isInteger(node.start)) attributes.start = node.start;
	if (["left", "right", "center"].includes(node.align)) attributes.class = `to-${node.align}`;
	return h(TAGS.has(node.tag) ? node.tag : "span", attributes, children.length ? children : undefined);
}

/** Code as lines of [class, text] pairs (pygments' short names), with line numbers unless `bare`. */
export const Code = ({ lines, bare, label = "Code" }) => html`<div class="code-frame" tabIndex="0" role="region" aria-label=${label}>
	<pre class=${`code ${bare ? "" : "numbered"}`}>${lines.map((line, number) => html`<code key=${number} class="line">${
		(Array.isArray(line) ? line : [["", line]]).map(([kind, text]) => (kind && /^[a-z0-9]+$/i.test(kind) ? h("span", { class: `c-${kind}` }, text) : text))}${"\n"}</code>`)}</pre></div>`;

/** Hunks of a difference: [{old, new, lines: [[sign, text]]}], old and new being the numbers of the first lines. */
export function Diff({ hunks, same, label = "Difference" }) {
	if (same || !hunks?.length) return html`<p class="quiet">No difference.</p>`;
	return html`<div class="code-frame" tabIndex="0" role="region" aria-label=${label}><table class="diff">
		<caption class="hidden">${label}</caption>
		${hunks.map((hunk, at) => {
			let [before, after] = [hunk.old, hunk.new];
			return html`<tbody key=${at}>
				${at || hunk.old > 1 ? html`<tr class="hunk"><td colspan="4">line ${hunk.new}</td></tr>` : null}
				${hunk.lines.map(([sign, text], number) => {
					const [left, right] = [sign === "+" ? "" : before++, sign === "-" ? "" : after++];
					const kind = { "+": "added", "-": "taken" }[sign] || "";
					return html`<tr key=${number} class=${kind}><td class="line-number">${left}</td><td class="line-number">${right}</td>
						<td class="sign">${sign === "+" ? "+" : sign === "-" ? "−" : ""}<span class="hidden">${kind}</span></td><td class="line">${text}</td></tr>`;
				})}</tbody>`;
		})}
	</table></div>`;
}

/**
 * A text, or the beginning of one: a string, or {text, cut, digest, path} where the server sent the first 20,000 characters of `cut`.
 * "Show all" gets the rest by `api.text(run, …)`. `kind`: "prose" wraps in the page's font, "mono" keeps columns. `paint` gives what
 * stands for the text, where somebody looks for words in it.
 */
export function Text({ text, run, api, kind = "mono", paint }) {
	const given = typeof text === "string" ? { text } : text || { text: "" };
	const [whole, setWhole] = useState(null);
	const [error, setError] = useState(null);
	const more = async () => {
		try {
			setWhole((await api.text(run, given.digest, given.path)).text);
		} catch (problem) {
			setError(problem);
		}
	};
	const shown = whole ?? given.text;
	return html`<div class=${`text ${kind}`}><div class="pre">${paint ? paint(shown) : shown}</div>
		${given.cut && whole === null ? html`<div class="cut"><span class="quiet">${count(given.text.length)} of ${count(given.cut)} characters</span>
			${given.digest && api ? html`<${Button} kind="small" run=${more}>Show all<//>` : null}</div>` : null}
		<${Complaint} error=${error} /></div>`;
}

/** Copies a text, or what a function gives. */
export function Copy({ text, label = "Copy", kind = "small" }) {
	const [told, setTold] = useState("");
	const copy = async () => {
		try {
			await navigator.clipboard.writeText(typeof text === "function" ? await text() : text);
			setTold("Copied");
			announce("Copied.");
		} catch {
			setTold("Not allowed here");
		}
		setTimeout(() => setTold(""), 1500);
	};
	return html`<${Button} kind=${kind} run=${copy}><span class="swap"><span class=${told ? "gone" : ""}>${label}</span><span class=${told ? "" : "gone"} aria-hidden=${told ? undefined : "true"}>${told || "Copied"}</span></span><//>`;
}
