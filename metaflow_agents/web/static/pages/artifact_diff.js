// How two versions differ, of one run or of two.

import { html } from "../vendor/preact-htm.js";
import { useLoad } from "../hooks.js";
import { Diff, Loading, Problem, count } from "../parts.js";

/** How two versions differ: all of it, or path by path. */
export function Difference({ api, run, name, a, b, path }) {
  const { value, error, reload } = useLoad(() => api.diff(run, { name, a, b, path }), [api, run, name, a, b, path]);
  if (error) return html`<${Problem} error=${error} retry=${reload} />`;
  if (!value) return html`<${Loading} />`;
  return html`<${Hunks} found=${value} label=${`${name}@${a} and ${name}@${b}`} />`;
}

/** {hunks, same}, or with `files: [{path, hunks, sign}]` one after the other. */
export function Hunks({ found, label }) {
  if (found.files) {
    if (!found.files.length) return html`<p class="quiet">No difference.</p>`;
    return html`<div class="stack">${found.files.map((file) => html`<section key=${file.path} class="panel" aria-label=${file.path}><h4 class="mono file-path diff-path">${file.path || label} <span class="quiet">${told(file)}</span></h4>
      ${file.hunks?.length ? html`<${Diff} hunks=${file.hunks} label=${file.path} />` : html`<p class="quiet padded-text">${file.told || "Its bytes differ."}</p>`}</section>`)}</div>`;
  }
  return html`<p class="quiet">${told(found)}</p><div class="panel"><${Diff} hunks=${found.hunks} same=${found.same} label=${label} /></div>`;
}

function told({ hunks, same, sign }) {
  if (same) return "";
  const lines = (hunks || []).flatMap((hunk) => hunk.lines);
  const number = (wanted) => lines.filter(([one]) => one === wanted).length;
  return `${sign === "+" ? "new, " : sign === "-" ? "gone, " : ""}+${count(number("+"))} −${count(number("-"))}`;
}
