// The files of a run: the tree as it stands, each file with its versions.

import { Button, Choice, count, Empty, html, Loaded } from "../parts.js";
import { Difference } from "./artifact_diff.js";
import { Shown } from "./artifact_shown.js";
import { FileTree } from "./file_tree.js";
import { useMade } from "./followed.js";

export function Files({ api, run, route, to, feed }) {
	const asked = useMade(feed, () => api.files(run), [api, run]);
	return html`<${Loaded} from=${asked}>${({ tree, total }) => {
		if (!tree.length) return html`<${Empty} title="No file is written"><p>Artifacts with <code>file</code> or <code>files</code> are written into the run's folder, with a git history of their versions.</p><//>`;
		const file = tree.find((one) => one.path === route.query.path) || tree[0];
		const entries = tree.map((one) => ({ ...one, note: one.changes > 1 ? `${one.changes}×` : "" }));
		return html`<div class="panes">
			<div class="panes-list"><${FileTree} entries=${entries} chosen=${file.path} onChoose=${(one) => to({ path: one.path, version: "", a: "", b: "" })} />
				${total > tree.length ? html`<p class="quiet">${count(total - tree.length)} more</p>` : null}</div>
			<section class="panes-main" aria-label=${`File ${file.told}`}>
				<${OneFile} key=${file.path} api=${api} run=${run} file=${file} query=${route.query} to=${to} /></section></div>`;
	}}<//>`;
}

function OneFile({ api, run, file, query, to }) {
	const id = ({ artifact, number }) => `${artifact}@${number}`;
	const shown = file.versions.find((one) => id(one) === query.version) || file.versions[0] || file;
	const before = file.versions.find((one) => one.artifact === shown.artifact && one.number < shown.number);
	const path = file.part ?? undefined;
	return html`<header class="which"><div class="row"><h3 class="mono file-path">${file.told}</h3>
			${file.versions.length > 1 ? html`<${Choice} label="version" value=${id(shown)} onChoose=${(version) => to({ path: file.path, version, a: "", b: "" })}
				options=${file.versions.map((one) => [id(one), `${id(one)} by ${one.by}`])} />` : html`<span class="quiet">${id(shown)}${shown.by ? ` by ${shown.by}` : ""}</span>`}
			${before ? html`<${Button} kind="small" pressed=${!!query.a} run=${() => to({ path: file.path, a: query.a ? "" : id(before), b: "" })}>Compare with ${id(before)}<//>` : null}</div></header>
		${before && query.a ? html`<${Difference} api=${api} run=${run} name=${shown.artifact} a=${before.number} b=${shown.number} path=${path} />`
			: html`<${Shown} key=${id(shown)} api=${api} run=${run} what=${{ name: shown.artifact, version: shown.number, path }} />`}`;
}
