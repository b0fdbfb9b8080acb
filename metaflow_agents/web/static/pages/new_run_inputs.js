// One input of a SOP as a control: text, choices, numbers, lists, files and folders by path or upload, JSON with its schema.

import { html, useState } from "../vendor/preact-htm.js";
import { Field, bytes, plural } from "../parts.js";

const LONG = /text|idea|description|question|topic|request|prompt|issue|feedback|note|about|what/i;

/** What the form holds at first: a text for most, a truth value, a list of texts. */
export function written(input) {
  const { type, default: value } = input;
  if (type === "boolean") return value ?? false;
  if (type === "list") return Array.isArray(value) ? value.map(String) : [];
  if (value === undefined || value === null) return type === "choice" && required(input) ? input.choices[0] : "";
  return type === "json" ? JSON.stringify(value, null, 2) : String(value);
}

const required = (input) => input.required ?? !input.optional;

/** Why what was typed can't be sent; empty where it can. The server checks it against the whole schema. */
export function unfit(input, value) {
  if (value === undefined || typeof value === "boolean") return "";
  if (Array.isArray(value)) return required(input) && !value.length ? "Add one at least." : "";
  if (!value.trim()) return required(input) ? "This input is required." : "";
  if (input.type === "integer" && !/^[+-]?\d+$/.test(value.trim())) return `${value} is no whole number.`;
  if (input.type === "number" && Number.isNaN(Number(value))) return `${value} is no number.`;
  if (input.type === "json") {
    try {
      JSON.parse(value);
    } catch (error) {
      return `This is no JSON: ${error.message}`;
    }
  }
  return "";
}

/** What is sent: undefined for what was left empty, so that the SOP's default holds. */
export function valueOf(input, value) {
  if (typeof value === "boolean") return value === input.default ? undefined : value;
  if (Array.isArray(value)) return JSON.stringify(value) === JSON.stringify(input.default ?? []) && !required(input) ? undefined : value;
  if (value === undefined || value.trim() === "") return undefined;
  if (input.type === "integer" || input.type === "number") return Number(value);
  if (input.type === "json") return JSON.parse(value);
  return value;
}

export function Input({ input, value, onChange, error, api }) {
  const Control = { boolean: Truth, choice: Choice, list: List, file: Path, folder: Path, json: Data, integer: Figure, number: Figure }[input.type] || Words;
  if (input.type === "boolean") {
    return html`<label class="check"><input type="checkbox" checked=${!!value} onChange=${(event) => onChange(event.target.checked)} />
      <span><span class="label">${input.name}</span>${input.description ? html`<br /><span class="told">${input.description}
      </span>` : null}</span></label>`;
  }
  return html`<${Field} label=${input.name} told=${input.description} error=${error} required=${required(input)}>${(ids) => html`
    <${Control} ids=${ids} input=${input} value=${value ?? (input.type === "list" ? [] : "")} onChange=${onChange} api=${api} />`}<//>`;
}

const attributes = ({ id, describedBy, invalid }) => ({ id, "aria-describedby": describedBy, "aria-invalid": invalid });
const typed = (onChange) => (event) => onChange(event.target.value);
const Truth = () => null;

const Words = ({ ids, input, value, onChange }) => (input.type === "text" || LONG.test(input.name) || value.length > 80
  ? html`<textarea ...${attributes(ids)} rows=${value.length > 200 ? 8 : 3} value=${value} onInput=${typed(onChange)}></textarea>`
  : html`<input type="text" ...${attributes(ids)} value=${value} onInput=${typed(onChange)} />`);

const Figure = ({ ids, value, onChange }) => html`
  <input type="text" inputMode="decimal" class="short num" ...${attributes(ids)} value=${value} onInput=${typed(onChange)} />`;

function Choice({ ids, input, value, onChange }) {
  return html`<select class="short" ...${attributes(ids)} value=${value} onChange=${typed(onChange)}>
    ${required(input) ? null : html`<option value=""></option>`}${input.choices.map((one) => html`<option key=${one} value=${one}>${one}
      </option>`)}</select>`;
}

/** Texts, one a line: what is pasted from elsewhere has that form. */
const List = ({ ids, value, onChange }) => html`
  <textarea ...${attributes(ids)} rows=${Math.min(10, Math.max(2, value.length + 1))} placeholder="One a line" value=${value.join("\n")}
  onInput=${(event) => onChange(event.target.value.split("\n").filter((line, at, all) => line.trim() || at < all.length - 1))}
  onBlur=${() => onChange(value.map((line) => line.trim()).filter(Boolean))}></textarea>`;

const Data = ({ ids, input, value, onChange }) => html`<div class="stack tight">
  <textarea class="mono" spellcheck="false" ...${attributes(ids)} rows=${Math.min(14, Math.max(3, value.split("\n").length))} value=${value} onInput=${typed(onChange)}>
  </textarea>
  ${input.schema ? html`<details class="cli"><summary>Schema</summary><code class="pre">${JSON.stringify(input.schema, null, 2)}</code>
    </details>` : null}</div>`;

/** A path on the machine of the server, or files from this one, which are sent there. */
function Path({ ids, input, value, onChange, api }) {
  const [told, setTold] = useState("");
  const [wrong, setWrong] = useState("");
  const folder = input.type === "folder";
  const send = async (files) => {
    setWrong("");
    try {
      const all = [...files];
      if (!all.length) return;
      const batch = folder ? `${Date.now().toString(36)}` : undefined;
      let path = "";
      for (const [at, file] of all.entries()) {
        setTold(`sending ${at + 1} of ${all.length}: ${file.name}`);
        const sent = await api.upload(folder ? file.webkitRelativePath || file.name : file.name, file, batch);
        path = folder ? sent.folder || sent.path : sent.path;
      }
      onChange(path);
      setTold(`${plural(all.length, "file")} sent, ${bytes(all.reduce((sum, file) => sum + file.size, 0))}`);
    } catch (error) {
      setTold("");
      setWrong(error.message);
    }
  };
  return html`<div class="stack tight"><div class="path">
    <input type="text" class="mono" spellcheck="false" placeholder=${folder ? "path of a folder" : "path of a file"} ...${attributes(ids)} value=${value} onInput=${typed(onChange)} />
      <label class="button upload">Upload…<input type="file" class="hidden" aria-label=${`Upload ${folder ? "a folder" : "a file"} for ${input.name}`} multiple=${folder} webkitdirectory=${folder} onChange=${(event) => send(event.target.files)} />
        </label></div>
    ${told ? html`<span class="told" role="status">${told}</span>` : null}${wrong ? html`<span class="complaint" role="alert">${wrong}
      </span>` : null}</div>`;
}
