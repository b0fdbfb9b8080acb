// What `sop check` says of the text as it stands, each with a jump to its line; what edits left behind; the most that a run can do.

import { count, html, money, plural, Problem } from "../parts.js";

/** `checked`: the server's answer; `left`: [{file, line, why}] of the last edit; `onJump(line, column)`; `file`: the SOP's own, as problems name it. */
export function Checks({ checked, error, left, onJump, file, busy, dropLeft, writable }) {
	const problems = checked?.problems || [];
	const errors = problems.filter(({ severity }) => severity === "error");
	const said = error ? "" : errors.length ? plural(errors.length, "error") : problems.length ? plural(problems.length, "warning") : "no problem";
	return html`<section class="checks" aria-label="Checks">
		<div class="checks-head"><h2>Checks</h2>${error ? null : html`<span class=${`state ${errors.length ? "failed" : problems.length ? "waiting" : "done"}`} role="status"><span class="sign" aria-hidden="true">${errors.length ? "✕" : problems.length ? "!" : "✓"}</span>${said}</span>`}
			<span class="quieter checks-busy">${busy ? "checking…" : most(checked)}</span></div>
		${error ? html`<${Problem} error=${error} title="It could not be checked" />` : null}
		${left.length ? html`<div class="left"><div class="spread"><h3>Left by the last edit</h3><button type="button" class="button small bare" onClick=${dropLeft}>Done</button></div>
			<ul>${left.map((one, at) => html`<li key=${at}>${one.line && one.here ? html`<button type="button" class="link-like" onClick=${() => onJump(one.line, 1)}>line ${one.line}</button>` : html`<span class="quiet">${one.here ? "this SOP" : `${one.file}${one.line ? `, line ${one.line}` : ""}`}</span>`}<span>${one.why}</span></li>`)}</ul></div>` : null}
		${problems.length ? html`<ul class="check-list">${problems.map((one, at) => html`<li key=${at} class=${one.severity}>
			${one.file === file && one.line ? html`<button type="button" class="link-like num" onClick=${() => onJump(one.line, one.column)}>line ${one.line}<span class="hidden">: ${one.severity}</span></button>` : html`<span class="quiet cut-line" title=${one.file}>${one.file === file ? "the file" : `${one.file.split("/").pop()}${one.line ? `:${one.line}` : ""}`}</span>`}
			<div><span class="pre">${one.message}</span>${one.mend ? html`<span class="mend"><span class="quiet">fix:</span> ${one.mend}</span>` : null}</div></li>`)}</ul>` : left.length || error || !writable ? null : html`<p class="hints"><span><kbd>Ctrl</kbd> <kbd>Space</kbd> completes</span> <span><kbd>Ctrl</kbd> <kbd>S</kbd> saves</span> <span><kbd>Esc</kbd> <kbd>Tab</kbd> leaves the text</span></p>`}
	</section>`;
}

function most(checked) {
	const { limits } = checked || {};
	if (!limits) return "";
	const calls = limits.calls === null ? "model calls depend on its lists" : limits.calls ? `at most ${plural(limits.calls, "model call")}` : "no model call";
	return `${calls}${limits.usd && limits.calls !== 0 ? `, at most ${money(limits.usd)}` : ""}`;
}

/** The bounds of each step. */
export function Limits({ limits }) {
	if (!limits) return html`<p class="quiet none">They are known once the SOP has no errors.</p>`;
	return html`<table class="mini"><caption class="hidden">The most that each step can do</caption><thead><tr><th scope="col">step</th><th scope="col" class="right">firings</th><th scope="col" class="right">each</th><th scope="col" class="right">calls each</th><th scope="col" class="right">calls</th></tr></thead>
		<tbody>${Object.entries(limits.steps).map(([name, bound]) => html`<tr key=${name}><td>${name}</td><td class="right num">${count(bound.firings)}</td><td class="right num">${typeof bound.activations === "number" ? count(bound.activations) : html`<span title=${bound.activations}>per item</span>`}</td>
			<td class="right num">${bound.calls === 0 ? "–" : bound.calls ?? "?"}</td><td class="right num">${bound.calls === 0 ? "–" : bound.total_calls === null ? "?" : count(bound.total_calls)}</td></tr>`)}</tbody></table>`;
}
