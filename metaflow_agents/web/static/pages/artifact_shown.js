// One version of an artifact, or one of its files, as what it is: Markdown, a page, an image, a table, code, data, text.

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { Button, Bytes, Code, Copy, Empty, Json, Loading, Markdown, Problem, Text, count } from "../parts.js";
import { useLoad } from "../hooks.js";

const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$/;
const ROWS = 200;

/** `what` is {name, version, path?}. `tools` stands beside the switch between what is rendered and its source. */
export function Shown({ api, run, what, tools }) {
  const { value: shown, error, reload } = useLoad(() => api.artifact(run, what), [api, run, what.name, what.version, what.path]);
  const [source, setSource] = useState(false);
  if (error) return html`<${Problem} error=${error} retry=${reload} />`;
  if (!shown) return html`<${Loading} />`;
  const both = hasSource(shown);
  return html`<div class="shown">
    <div class="spread shown-tools"><div class="row">${both ? html`<div class="row" role="group" aria-label="How it is shown">
        <${Button} kind="small" pressed=${!source} run=${() => setSource(false)}>Rendered<//><${Button} kind="small" pressed=${source} run=${() => setSource(true)}>Source<//></div>` : html`<span class="quiet">${shown.language || shown.kind}</span>`}
      <span class="quiet"><${Bytes} value=${shown.bytes} /></span></div>
      <div class="row">${tools}${textIn(shown) ? html`<${Copy} text=${() => wholeText(api, run, shown)} />` : null}</div></div>
    <div class="panel shown-body">${source && both ? html`<${Source} shown=${shown} run=${run} api=${api} />` : html`<${Rendered} shown=${shown} what=${what} run=${run} api=${api} />`}</div>
    ${shown.cut ? html`<p class="quiet">Only the beginning is shown: ${count(shown.cut)} ${shown.kind === "table" ? "rows" : "characters"} in all.</p>` : null}
  </div>`;
}

const textIn = ({ text }) => (typeof text === "string" ? text : text?.text);
const isDrawing = (shown) => /svg/i.test(shown.language || "") || (shown.kind === "image" && !!textIn(shown));
const hasSource = (shown) => (["markdown", "html"].includes(shown.kind) && (textIn(shown) || shown.lines)) || (shown.kind === "table" && textIn(shown)) || isDrawing(shown);

async function wholeText(api, run, shown) {
  return shown.text?.cut && shown.text.digest ? (await api.text(run, shown.text.digest, shown.text.path)).text : textIn(shown);
}

const Source = ({ shown, run, api }) => (shown.lines ? html`<${Code} lines=${shown.lines} label="Source" />` : html`<div class="padded-text"><${Text} text=${shown.text} run=${run} api=${api} /></div>`);

function Rendered({ shown, what, run, api }) {
  if (shown.kind === "markdown") return html`<div class="padded-text"><${Markdown} tree=${shown.tree} /></div>`;
  if (shown.kind === "html") return html`<${Page} api=${api} run=${run} what=${what} title=${what.path || what.name} />`;
  if (isDrawing(shown)) return html`<${Drawing} text=${textIn(shown)} name=${what.path || what.name} />`;
  if (shown.kind === "image") return PICTURE.test(shown.data || "") ? html`<div class="picture"><img src=${shown.data} alt=${`The image ${what.path || what.name}`} /></div>` : html`<${Empty} title="This image can't be shown" />`;
  if (shown.kind === "table") return html`<${Rows} rows=${shown.rows} />`;
  if (shown.lines) return html`<${Code} lines=${shown.lines} />`;
  if (shown.kind === "json" && shown.data !== undefined) return html`<div class="padded-text"><${Json} value=${shown.data} /></div>`;
  if (shown.text !== undefined && shown.text !== null) return html`<div class="padded-text"><${Text} text=${shown.text} run=${run} api=${api} /></div>`;
  return html`<${Empty} title="Bytes, not text"><p>${count(shown.bytes)} bytes. They stand in the run's folder, or under <code>sop show ${run} ${what.name}</code>.</p><//>`;
}

/** A page that somebody else wrote: in a frame without scripts, without our origin, without a network. */
function Page({ api, run, what, title }) {
  return html`<iframe class="page-frame" sandbox="" referrerpolicy="no-referrer" title=${`The page ${title}, without scripts`} src=${api.page(run, what)}></iframe>`;
}

/** SVG as an image: an image runs no script and loads nothing. */
function Drawing({ text, name }) {
  const [address, setAddress] = useState("");
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [text]);
  return html`<div class="picture">${address ? html`<img src=${address} alt=${`The drawing ${name}`} />` : null}</div>`;
}

/** Rows of a table; the first one is its head. */
function Rows({ rows }) {
  const [shown, setShown] = useState(ROWS);
  const [head = [], ...rest] = rows || [];
  const cell = (value) => (value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
  const numeric = head.map((_, place) => rest.length > 0 && rest.slice(0, 50).every((row) => row[place] === "" || row[place] === null || (row[place] !== true && row[place] !== false && Number.isFinite(Number(row[place])))));
  return html`<div class="table-scroll" tabIndex="0" role="region" aria-label="Table"><table class="table data">
    <caption class="hidden">${count(rest.length)} rows</caption>
    <thead><tr>${head.map((name, place) => html`<th key=${place} scope="col" class=${numeric[place] ? "right" : ""}>${cell(name)}</th>`)}</tr></thead>
    <tbody>${rest.slice(0, shown).map((row, number) => html`<tr key=${number}>${head.map((_, place) => html`<td key=${place} class=${numeric[place] ? "num right" : ""}>${cell(row[place])}</td>`)}</tr>`)}</tbody></table>
    ${rest.length > shown ? html`<div class="more-button"><${Button} run=${() => setShown(shown + 1000)}>More rows (${shown} of ${count(rest.length)})<//></div>` : null}</div>`;
}
