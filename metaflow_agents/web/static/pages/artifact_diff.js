// How two versions differ, of one run or of two.

import { count, Diff, html, Loaded, plural, useLoad } from "../parts.js";

/** Versions `a` and `b` of an artifact, or of one file of it. */
export function Difference({ api, run, name, a, b, path }) {
	const asked = useLoad(() => api.diff(run, { name, a, b, path }), [api, run, name, a, b, path]);
	return html`<${Loaded} from=${asked}>${(found) => html`<${Hunks} found=${found} path=${path || ""} label=${`${name}@${a} and @${b}`} />`}<//>`;
}

/** {hunks, same, told?}, or of files and items {files: [{path, hunks, sign, told?}], total}. */
export function Hunks({ found, label, path = "" }) {
	if (found.same) return html`<p class="quiet">No difference.</p>`;
	const files = found.files || [{ ...found, path }];
	return html`<div class="stack">${files.length > 1 ? html`<p class="quiet">${plural(files.length, "file")}: ${files.map((file) => `${file.path} ${changed(file)}`).join(", ")}</p>` : null}${files.map((file) => html`<section key=${file.path} class="panel" aria-label=${file.path || label}>
		<h4 class="diff-path"><span class="mono file-path">${file.path}</span> <span class="quiet">${changed(file)}</span></h4>
		${file.hunks.length ? html`<${Diff} hunks=${file.hunks} label=${file.path || label} />` : null}${file.told ? html`<p class="quiet padded-text">${file.told}</p>` : null}</section>`)}
		${found.total > files.length ? html`<p class="quiet">${count(found.total - files.length)} more differ.</p>` : null}</div>`;
}

function changed({ hunks, sign }) {
	const lines = hunks.flatMap((hunk) => hunk.lines);
	const number = (wanted) => count(lines.filter(([one]) => one === wanted).length);
	return `${sign === "+" ? "new, " : sign === "-" ? "gone, " : ""}+${number("+")} −${number("-")}`;
}
