// The files of a run: the tree as it stands, each file with its versions, and the commits of the run's git history.

import { html } from "../vendor/preact-htm.js";
import { useLoad } from "../hooks.js";
import { Button, Empty, Loading, Problem, Time, plural } from "../parts.js";
import { Difference } from "./artifact_diff.js";
import { Shown } from "./artifact_shown.js";
import { useChanges } from "./changes.js";
import { FileTree } from "./file_tree.js";

export function Files({ api, run, route, to, feed }) {
  const { value, error, reload } = useLoad(() => api.files(run), [api, run]);
  useChanges(feed, reload);
  if (error && !value) return html`<${Problem} error=${error} retry=${reload} />`;
  if (!value) return html`<${Loading} />`;
  const { tree, commits } = value;
  if (!tree.length) return html`<${Empty} title="No file is written"><p>Artifacts with <code>file</code> or <code>files</code> are written into the run's folder, with a git history of their versions.</p><//>`;
  const { path, version, a, b } = route.query;
  const file = tree.find((one) => one.path === path) || tree[0];
  const shown = file.versions.find((one) => `${one.artifact}@${one.number}` === version) || file.versions.at(-1);
  const several = file.versions.length > 1;
  return html`<div class="panes">
    <div class="panes-list"><${FileTree} entries=${tree.map((one) => ({ ...one, told: one.versions.length > 1 ? `${one.versions.length}×` : "" }))} chosen=${file.path} onChoose=${(one) => to({ path: one.path, version: "", a: "", b: "" })} label="Files of the run" /></div>
    <section class="panes-main" aria-label=${`File ${file.path}`}>
      <header class="which"><div class="row"><h3 class="mono file-path">${file.path}</h3>
        ${several ? html`<label class="version-choice"><span class="quiet">version</span><select value=${shown ? `${shown.artifact}@${shown.number}` : ""} onChange=${(event) => to({ path: file.path, version: event.target.value, a: "", b: "" })}>
          ${file.versions.map((one) => html`<option key=${`${one.artifact}@${one.number}`} value=${`${one.artifact}@${one.number}`}>${one.artifact}@${one.number} by ${one.by}</option>`)}</select></label>` : null}
        ${several && shown !== file.versions[0] ? a ? html`<${Button} kind="small" run=${() => to({ a: "", b: "" })}>End comparing<//>` : html`<${Button} kind="small" run=${() => to({ path: file.path, a: "before", b: "this" })}>Compare with the version before<//>` : null}</div>
        <p class="quiet">${shown ? `in ${shown.artifact}@${shown.number}, by ${shown.by}` : ""}${several ? `; ${plural(file.versions.length, "version")}` : ""}</p></header>
      ${!shown ? html`<${Empty} title="No version of it is in the journal" />` : a ? html`<${Before} api=${api} run=${run} file=${file} shown=${shown} />`
        : html`<${Shown} key=${`${file.path} ${shown.artifact}@${shown.number}`} api=${api} run=${run} what=${{ name: shown.artifact, version: shown.number, path: file.path }} />`}
      ${commits.length ? html`<${Commits} commits=${commits} file=${file} to=${to} />` : null}
    </section></div>`;
}

/** The version before, of the same artifact. */
function Before({ api, run, file, shown }) {
  const before = file.versions.filter((one) => one.artifact === shown.artifact && one.number < shown.number).at(-1);
  if (!before) return html`<p class="quiet">The version before is of another artifact.</p>`;
  return html`<${Difference} api=${api} run=${run} name=${shown.artifact} a=${before.number} b=${shown.number} path=${file.path} />`;
}

function Commits({ commits, file, to }) {
  return html`<section class="commits" aria-label="History"><h4>History</h4><ol>${commits.map((commit) => html`<li key=${commit.id} class=${commit.files.includes(file.path) ? "touches" : ""}>
    <code class="quiet">${commit.id.slice(0, 8)}</code><span class="commit-message">${commit.message}</span><span class="quiet">${commit.step || ""}</span><span class="quiet"><${Time} at=${commit.at} /></span>
    <span class="commit-files">${commit.files.slice(0, 6).map((path) => html`<button key=${path} type="button" class="link-like mono" onClick=${() => to({ path, version: "", a: "", b: "" })}>${path}</button>`)}${commit.files.length > 6 ? html`<span class="quiet">and ${commit.files.length - 6} more</span>` : null}</span></li>`)}</ol></section>`;
}
