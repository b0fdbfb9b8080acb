// What a run made: artifacts with their versions, any two compared; files; what changed.

import { Button, Choice, count, Empty, html, Link, Loaded, plural, Tabs, useEffect, useLoad, useRef, useRows, useState } from "../parts.js";
import { altered, go, within } from "../router.js";
import { Difference } from "./artifact_diff.js";
import { Rows, Shown } from "./artifact_shown.js";
import { FileTree } from "./file_tree.js";
import { useMade } from "./followed.js";
import { Changes } from "./run_changes.js";
import { Files } from "./run_files.js";

export default function Artifacts({ api, run, route, feed, selected, select }) {
	const asked = useMade(feed, () => api.artifacts(run), [api, run]);
	const { tab = "artifacts" } = route.query;
	const to = (changes, options) => go(altered(route, changes), options);
	const open = (name) => to({ tab: name === "artifacts" ? "" : name, name: "", version: "", path: "", a: "", b: "" }, { replace: true });
	return html`<${Loaded} from=${asked} lines=${8}>${({ artifacts, total }) => html`<div class="artifacts">
		<h2 class="hidden">Artifacts and files</h2>
		<${Tabs} id="made" label="Artifacts or files" active=${tab} onSelect=${open} tabs=${[{ name: "artifacts", label: "Artifacts", count: total }, { name: "files", label: "Files" }, { name: "changes", label: "Changes" }]} />
		<div id="made-panel" role="tabpanel" aria-labelledby=${`made-${tab}`}>${tab === "files" ? html`<${Files} api=${api} run=${run} route=${route} to=${to} feed=${feed} />`
			: tab === "changes" ? html`<${Changes} api=${api} run=${run} to=${to} feed=${feed} select=${select} />`
			: html`<${Versions} api=${api} run=${run} query=${route.query} all=${artifacts} total=${total} selected=${selected} select=${select} to=${to} />`}</div></div>`}<//>`;
}

/** What a step made last, or else what was given last. */
const newest = (all) => all.reduce((best, one) => (best && (best.input ? 0 : 1) + best.versions[0].at / 1e9 > (one.input ? 0 : 1) + one.versions[0].at / 1e9 ? best : one), null);

function Versions({ api, run, query, all, total, selected, select, to }) {
	const list = useRef(null);
	useRows(list);
	const [q, setQ] = useState("");
	const { name, version, path, a, b } = query;
	const madeBy = (one) => one.versions.some(({ firing }) => firing && (within(firing, selected) || within(selected, firing)));
	const chosen = all.find((one) => one.name === name) || (!name && selected && all.find(madeBy)) || (!name && newest(all)) || null;
	const rest = useLoad(() => (name && !chosen ? api.artifacts(run, { name }) : null), [name, !chosen]);      // of a run that has very many
	const artifact = chosen || rest.value?.artifacts[0];
	useEffect(() => {                     // by hand: the page itself stays where it is
		const entry = list.current?.querySelector(".chosen");
		if (entry) list.current.scrollTop = Math.max(0, entry.offsetTop - list.current.offsetTop - list.current.clientHeight / 3);
	}, [artifact?.name]);
	if (!artifact) return html`<${Empty} title=${name ? `No artifact “${name}”` : "Nothing is made yet"}><p>Inputs and what steps make appear here, each with all its versions.</p><//>`;
	const number = Number(version) || artifact.versions_total;
	const shown = all.filter((one) => one.told.toLowerCase().includes(q.toLowerCase()));
	return html`<div class="panes">
		<nav class="panes-list" aria-label="Artifacts" ref=${list}>
			${all.length > 20 ? html`<input type="search" data-search aria-label="Find an artifact" placeholder="Find…" value=${q} onInput=${(event) => setQ(event.target.value)} />` : null}
			${["Made", "Given"].map((label, given) => html`<${Entries} key=${label} label=${label} held=${shown.filter((one) => one.input === !!given)} artifact=${artifact} to=${to} />`)}
			${total > all.length ? html`<p class="quiet">${count(total - all.length)} more</p>` : null}</nav>
		<section class="panes-main" aria-label=${`Artifact ${artifact.told}`}>
			<${Which} key=${artifact.name} api=${api} run=${run} artifact=${artifact} number=${number} comparing=${!!(a && b)} a=${a} b=${b} path=${path} to=${to} select=${select} />
			${a && b ? html`<${Difference} api=${api} run=${run} name=${artifact.name} a=${a} b=${b} path=${path} />`
				: html`<${Content} key=${`${artifact.name}@${number}`} api=${api} run=${run} what=${{ name: artifact.name, version: number }} path=${path} to=${to} />`}</section>
	</div>`;
}

function Entries({ label, held, artifact, to }) {
	if (!held.length) return null;
	const told = (one) => [one.file, one.kind, !one.input && one.versions[0].by && `by ${one.versions[0].by}`].filter(Boolean).join(" · ");
	return html`<h3 class="label quiet">${label}</h3><ul>${held.map((one) => html`<li key=${one.name} data-row>
		<button class=${`entry ${one.name === artifact.name ? "chosen" : ""}`} aria-current=${one.name === artifact.name ? "true" : undefined} title=${one.describes}
			onClick=${() => to({ name: one.name, version: "", path: "", a: "", b: "" })}><span class="entry-name cut-line">${one.told}</span><span class="quieter num">@${one.versions_total}</span>
			<span class="quiet entry-told cut-line">${told(one)}</span></button></li>`)}</ul>`;
}

/** Which version is shown, who made it and why; or which two are compared. */
function Which({ api, run, artifact, number, comparing, a, b, path, to, select }) {
	const { name, told, versions_total: total } = artifact;
	const known = artifact.versions.find((one) => one.number === number);
	const older = useLoad(() => (known ? null : api.artifacts(run, { name, offset: total - number })), [name, number, !known]);
	const made = known || older.value?.artifacts[0]?.versions.find((one) => one.number === number);
	const numbers = Array.from({ length: total }, (_, place) => total - place);
	const by = (one) => artifact.versions.find((version) => version.number === one)?.firing;
	const options = numbers.map((one) => [String(one), `@${one}${by(one) ? ` by ${by(one)}` : ""}`]);
	const choose = (label, value, onChoose) => html`<${Choice} label=${label} value=${String(value)} options=${options} onChoose=${onChoose} />`;
	if (comparing) {
		return html`<header class="which"><div class="row"><h3>${told}</h3>${choose("from", a, (value) => to({ a: value }))}${choose("to", b, (value) => to({ b: value }))}
			${path ? html`<${Button} kind="small" run=${() => to({ path: "" })}>All its files<//>` : null}
			<${Button} kind="small" run=${() => to({ a: "", b: "", version: b })}>End comparing<//></div></header>`;
	}
	const [from, until] = number > 1 ? [number - 1, number] : [1, total];
	return html`<header class="which">
		<div class="row"><h3>${told}</h3>${total > 1 ? html`${choose("version", number, (value) => to({ name, version: value, path: "" }))}
			<${Button} kind="small" run=${() => to({ name, a: String(from), b: String(until), path: "" })}>Compare with @${number > 1 ? from : until}<//>` : html`<span class="quiet num">@1, the only version</span>`}</div>
		${made ? html`<p class="quiet which-told">${made.firing ? html`<span>made by <${Link} kind="linked" run=${() => select(made.firing, { view: "conversation" })}>${made.firing}<//>${made.by ? ` (${made.by})` : ""}</span>` : null}
			<span>${made.why}</span>${made.untrusted ? html`<span class="pill waiting">from outside: ${made.untrusted}</span>` : null}</p>` : null}
		${artifact.describes ? html`<p class="quiet">${artifact.describes}</p>` : null}</header>`;
}

/** One text, or files, or items of a collection: then the list beside the one that is open. */
function Content({ api, run, what, path, to }) {
	const asked = useLoad(() => api.artifact(run, what), [api, run, what.name, what.version]);
	return html`<${Loaded} from=${asked}>${(value) => {
		if (!value.entries || (value.kind !== "files" && value.kind !== "collection" && !path)) return html`<${Shown} api=${api} run=${run} what=${what} known=${value} />`;
		const entries = value.entries.map((entry) => ({ ...entry, path: entry.path ?? entry.key }));
		const open = entries.find((entry) => entry.path === path) || (value.table ? null : entries[0]);
		return html`${value.missing?.length ? html`<p class="complaint">Missing, because their work failed: ${value.missing.join(", ")}</p>` : null}
			<div class="inside"><div class="panel inside-list"><p class="quiet label">${plural(value.total ?? entries.length, value.kind === "collection" ? "item" : "file")}</p>
				${value.table ? html`<button class=${`file ${open ? "" : "chosen"}`} onClick=${() => to({ path: "" })}>as a table</button>` : null}
				<${FileTree} entries=${entries} sorted=${value.kind === "files"} chosen=${open?.path} onChoose=${(entry) => to({ name: what.name, version: String(what.version), path: entry.path })} /></div>
			<div class="inside-main">${open ? html`<h4 class="mono file-path">${open.told}</h4><${Shown} key=${open.path} api=${api} run=${run} what=${{ ...what, path: open.path }} />`
				: value.table ? html`<div class="panel shown-body"><${Rows} table=${value.table} /></div>` : html`<${Empty} title="It holds nothing" />`}</div></div>`;
	}}<//>`;
}
