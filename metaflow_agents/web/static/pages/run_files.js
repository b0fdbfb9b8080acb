// The files of a run: the tree as it stands, each file with its versions, and the commits of the run's git history.

import { Button, Choice, count, Empty, html, Loaded, Time, useLoad, useState } from "../parts.js";
import { Difference } from "./artifact_diff.js";
import { Shown } from "./artifact_shown.js";
import { FileTree } from "./file_tree.js";
import { made, useFollowed } from "./followed.js";

export function Files({ api, run, route, to, feed }) {
	const asked = useLoad(() => api.files(run), [api, run]);
	useFollowed(feed, asked.reload, 1000, made);
	return html`<${Loaded} from=${asked}>${({ tree, total, commits }) => {
		if (!tree.length) return html`<${Empty} title="No file is written"><p>Artifacts with <code>file</code> or <code>files</code> are written into the run's folder, with a git history of their versions.</p><//>`;
		const file = tree.find((one) => one.path === route.query.path) || tree[0];
		const entries = tree.map((one) => ({ ...one, note: one.changes > 1 ? `${one.changes}×` : "" }));
		return html`<div class="panes">
			<div class="panes-list"><${FileTree} entries=${entries} chosen=${file.path} onChoose=${(one) => to({ path: one.path, version: "", a: "", b: "" })} label="Files of the run" />
				${total > tree.length ? html`<p class="quiet">${count(total - tree.length)} more</p>` : null}</div>
			<section class="panes-main" aria-label=${`File ${file.told}`}>
				<${OneFile} key=${file.path} api=${api} run=${run} file=${file} query=${route.query} to=${to} />
				${commits.length ? html`<${Commits} api=${api} run=${run} all=${commits} file=${file} to=${to} />` : null}</section></div>`;
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

/** The latest commits, those of one file first of all by a switch. */
function Commits({ api, run, all, file, to }) {
	const [own, setOwn] = useState(false);
	const { value } = useLoad(() => (own ? api.files(run, { path: file.path }) : null), [own, file.path]);
	const commits = (own && value?.commits) || all;
	return html`<section class="commits" aria-label="History"><div class="spread"><h4>History</h4><${Button} kind="small" pressed=${own} run=${() => setOwn(!own)}>Of this file alone<//></div>
		<ol>${commits.map((commit) => html`<li key=${commit.seq}><code class="quiet">${commit.id?.slice(0, 8) || `#${commit.seq}`}</code><span class="commit-message">${commit.message}</span><span class="quiet"><${Time} at=${commit.at} /></span>
			<span class="commit-files">${commit.files.slice(0, 8).map(({ path, sign }) => html`<button key=${path} type="button" class="link-like mono" disabled=${sign === "-"} onClick=${() => to({ path, version: "", a: "", b: "" })}>${sign === " " ? "" : sign}${path}</button>`)}
				${commit.changed > 8 ? html`<span class="quiet">and ${commit.changed - 8} more</span>` : null}</span></li>`)}</ol></section>`;
}
