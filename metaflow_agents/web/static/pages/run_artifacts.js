// What a run made: each artifact with its versions, who made them and why, any two compared; and the files with their history.

import { html, useEffect, useRef } from "../vendor/preact-htm.js";
import { useLoad, useRows } from "../hooks.js";
import { Button, Bytes, Empty, Loading, Problem, Tabs, bytes, plural } from "../parts.js";
import { altered, go, within } from "../router.js";
import { Difference } from "./artifact_diff.js";
import { Shown } from "./artifact_shown.js";
import { useChanges } from "./changes.js";
import { FileTree } from "./file_tree.js";
import { Files } from "./run_files.js";

export default function Artifacts({ api, run, route, overview, feed, selected, select }) {
  const { value, error, reload } = useLoad(() => api.artifacts(run), [api, run]);
  useChanges(feed, reload);
  const { tab = "artifacts" } = route.query;
  const to = (changes, options) => go(altered(route, changes), options);
  if (error && !value) return html`<${Problem} error=${error} retry=${reload} />`;
  if (!value) return html`<${Loading} lines=${8} />`;
  const all = value.artifacts;
  const tabs = [{ name: "artifacts", label: "Artifacts", count: all.filter(({ versions }) => versions.length).length }, { name: "files", label: "Files and history" }];
  return html`<div class="artifacts">
    <h2 class="hidden">Artifacts and files</h2>
    <${Tabs} id="made" label="Artifacts or files" tabs=${tabs} active=${tab} onSelect=${(name) => to({ tab: name === "artifacts" ? "" : name, path: "", a: "", b: "" }, { replace: true })} />
    <div id="made-panel" role="tabpanel" aria-labelledby=${`made-${tab}`}>${tab === "files" ? html`<${Files} api=${api} run=${run} route=${route} to=${to} feed=${feed} />`
      : html`<${Versions} api=${api} run=${run} route=${route} all=${all} overview=${overview} selected=${selected} select=${select} to=${to} />`}</div>
  </div>`;
}

function Versions({ api, run, route, all, selected, select, to }) {
  const list = useRef(null);
  useRows(list);
  const made = all.filter(({ versions }) => versions.length);
  const { name, version, path, a, b } = route.query;
  const artifact = all.find((one) => one.name === name) || (selected && made.find((one) => one.versions.some(({ firing }) => firing && (within(firing, selected) || within(selected, firing))))) || newest(made) || made[0];
  useEffect(() => {                     // by hand: the page itself stays where it is
    const chosen = list.current?.querySelector(".chosen");
    if (chosen) list.current.scrollTop = Math.max(0, chosen.offsetTop - list.current.offsetTop - list.current.clientHeight / 3);
  }, [artifact?.name]);
  if (!artifact) return html`<${Empty} title="Nothing is made yet"><p>Inputs and what steps make appear here, each with all its versions.</p><//>`;
  const latest = artifact.versions.at(-1);
  const shown = artifact.versions.find(({ number }) => String(number) === version) || latest;
  const groups = [["Made", all.filter((one) => !one.input)], ["Given", all.filter((one) => one.input)]];
  return html`<div class="panes">
    <nav class="panes-list" aria-label="Artifacts" ref=${list}>${groups.map(([label, held]) => held.length ? html`<h3 key=${label} class="label quiet">${label}</h3><ul>${held.map((one) => html`
      <li key=${one.name} data-row><button type="button" class=${`entry ${one === artifact ? "chosen" : ""}`} aria-current=${one === artifact ? "true" : undefined} disabled=${!one.versions.length}
        onClick=${() => to({ name: one.name, version: "", path: "", a: "", b: "" })}>
        <span class="entry-name cut-line">${one.name}</span><span class="quieter num">${one.versions.length ? `@${one.versions.at(-1).number}` : ""}</span>
        <span class="quiet entry-told cut-line">${one.versions.length ? [one.file, one.kind, one.versions.at(-1).by && !one.input ? `by ${one.versions.at(-1).by}` : ""].filter(Boolean).join(" · ") : "not made"}</span></button></li>`)}</ul>` : null)}</nav>
    <section class="panes-main" aria-label=${`Artifact ${artifact.name}`}>${shown ? html`
      <${Which} artifact=${artifact} shown=${shown} comparing=${!!(a && b)} a=${a} b=${b} to=${to} select=${select} />
      ${a && b ? html`<${Difference} api=${api} run=${run} name=${artifact.name} a=${Number(a)} b=${Number(b)} />`
        : html`<${OneVersion} api=${api} run=${run} artifact=${artifact} shown=${shown} path=${path} to=${to} />`}` : html`<${Empty} title=${`${artifact.name} is not made yet`} />`}</section>
  </div>`;
}

/** What a step made last. */
const newest = (made) => made.filter((one) => !one.input).reduce((best, one) => (best && (best.versions.at(-1).at ?? 0) > (one.versions.at(-1).at ?? 0) ? best : one), null);

/** Which version is shown, who made it and why; or which two are compared. */
function Which({ artifact, shown, comparing, a, b, to, select }) {
  const { versions, name } = artifact;
  const before = versions.filter(({ number }) => number < shown.number).at(-1);
  const choose = (label, value, change) => html`<label class="version-choice"><span class="quiet">${label}</span><select value=${String(value)} onChange=${(event) => change(event.target.value)}>
    ${versions.map(({ number, firing }) => html`<option key=${number} value=${String(number)}>${name}@${number}${firing ? ` by ${firing}` : ""}</option>`)}</select></label>`;
  return html`<header class="which">
    <div class="row"><h3>${name}</h3>
      ${comparing ? html`${choose("from", a, (value) => to({ a: value }))}${choose("to", b, (value) => to({ b: value }))}
        <${Button} kind="small" run=${() => to({ a: "", b: "", version: b })}>End comparing<//>`
        : html`${versions.length > 1 ? choose("version", shown.number, (value) => to({ name, version: value, path: "" })) : html`<span class="quiet num">@${shown.number}, the only version</span>`}
        ${versions.length > 1 ? html`<${Button} kind="small" run=${() => to({ name, a: String((before || versions[0]).number), b: String(before ? shown.number : versions.at(-1).number), path: "" })}>Compare ${before ? `with @${before.number}` : "versions"}<//>` : null}`}</div>
    ${comparing ? null : html`<p class="quiet which-told">${shown.firing ? html`<span>made by <button type="button" class="link-like linked" onClick=${() => select(shown.firing, { view: "conversation" })}>${shown.firing}</button>${shown.by && !shown.firing.startsWith(`${shown.by}@`) ? ` (${shown.by})` : ""}</span>` : html`<span>given with the run</span>`}
      <span><${Bytes} value=${shown.bytes} /></span>${shown.untrusted ? html`<span class="pill waiting">from outside: ${shown.untrusted}</span>` : null}</p>
      ${shown.why ? html`<p class="why">${shown.why}</p>` : null}`}</header>`;
}

function OneVersion({ api, run, artifact, shown, path, to }) {
  const what = { name: artifact.name, version: shown.number };
  if (!["files", "collection"].includes(artifact.kind)) return html`<${Shown} key=${`${artifact.name}@${shown.number}`} api=${api} run=${run} what=${what} />`;
  return html`<${Many} key=${artifact.name} api=${api} run=${run} what=${what} path=${path} to=${to} />`;
}

/** Files, or the items of a collection: the list beside the one that is open. */
function Many({ api, run, what, path, to }) {
  const { value, error, reload } = useLoad(() => api.artifact(run, what), [api, run, what.name, what.version]);
  if (error) return html`<${Problem} error=${error} retry=${reload} />`;
  if (!value) return html`<${Loading} />`;
  if (!value.entries) return html`<${Shown} api=${api} run=${run} what=${what} />`;
  const entries = value.entries.map((entry) => ({ ...entry, path: entry.path ?? entry.key }));
  const open = entries.find((entry) => entry.path === path) || entries[0];
  if (!open) return html`<${Empty} title="It holds nothing" />`;
  return html`<div class="inside"><div class="panel inside-list"><p class="quiet label">${plural(entries.length, value.kind === "files" ? "file" : "item")}, ${bytes(value.bytes)}</p>
      <${FileTree} entries=${entries} chosen=${open.path} onChoose=${(entry) => to({ name: what.name, version: String(what.version), path: entry.path })} /></div>
    <div class="inside-main"><h4 class="mono file-path">${open.path}</h4><${Shown} key=${open.path} api=${api} run=${run} what=${{ ...what, path: open.path }} /></div></div>`;
}
