// One input of a SOP as a control.

import { bytes, Field, html, plural, Tick, useState } from "../parts.js";

const LONG = /text|idea|description|question|topic|request|prompt|issue|feedback|note|about|what/i;
const required = (input) => input.required ?? !input.optional;

/** What the form holds at first: a text for most, a truth value, a list of texts. */
export function written(input) {
	const { type, default: value } = input;
	if (type === "boolean") return value ?? false;
	if (type === "list") return Array.isArray(value) ? value.map(String) : [];
	if (value === undefined || value === null) return type === "choice" && required(input) ? input.choices[0] : "";
	return type === "json" ? JSON.stringify(value, null, 2) : String(value);
}

const listed = (value) => (Array.isArray(value) ? value.map((line) => line.trim()).filter(Boolean) : value);

/** Why what was typed can't be sent; empty where it can. */
export function unfit(input, value) {
	if (value === undefined || typeof value === "boolean") return "";
	if (Array.isArray(value) ? !listed(value).length : !value.trim()) return required(input) ? "This input is required." : "";
	if (Array.isArray(value)) return "";
	if (input.type === "integer" && !/^[+-]?\d+$/.test(value.trim())) return `${value} is no whole number.`;
	if (input.type === "number" && Number.isNaN(Number(value))) return `${value} is no number.`;
	try {
		if (input.type === "json") JSON.parse(value);
		return "";
	} catch (error) {
		return `This is no JSON: ${error.message}`;
	}
}

/** What is sent: undefined for what was left empty, so that the SOP's default holds. */
export function valueOf(input, value) {
	if (typeof value === "boolean") return value === input.default ? undefined : value;
	if (Array.isArray(value)) return JSON.stringify(listed(value)) === JSON.stringify(input.default ?? []) && !required(input) ? undefined : listed(value);
	if (value === undefined || value.trim() === "") return undefined;
	if (input.type === "integer" || input.type === "number") return Number(value);
	return input.type === "json" ? JSON.parse(value) : value;
}

export function Input({ input, value, onChange, error, api }) {
	const { name, type, description } = input;
	if (type === "boolean") {
		return html`<${Tick} on=${value} onTick=${onChange}><span class="label">${name}</span>${description ? html`<br /><span class="told">${description}</span>` : null}<//>`;
	}
	const Control = { choice: Choices, list: List, file: Path, folder: Path, json: Data, integer: Figure, number: Figure }[type] || Words;
	return html`<${Field} label=${name} told=${description} error=${error} required=${required(input)}>${({ id, describedBy, invalid }) => html`
		<${Control} input=${input} api=${api} value=${value ?? (type === "list" ? [] : "")} onChange=${onChange}
			at=${{ id, "aria-describedby": describedBy, "aria-invalid": invalid, value, onInput: (event) => onChange(event.target.value) }} />`}<//>`;
}

const Words = ({ at, input, value }) => (input.type === "text" || LONG.test(input.name) || value.length > 80
	? html`<textarea ...${at} rows=${value.length > 200 ? 8 : 3}></textarea>` : html`<input type="text" ...${at} />`);

const Figure = ({ at }) => html`<input type="text" inputMode="decimal" class="short num" ...${at} />`;

const Choices = ({ at, input }) => html`<select class="short" ...${at}>
	${[...(required(input) ? [] : [""]), ...input.choices].map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>`;

/** Texts, one a line: what is pasted from elsewhere has that form. */
const List = ({ at, value, onChange }) => html`<textarea ...${at} rows=${Math.min(10, Math.max(2, value.length + 1))} placeholder="One a line" value=${value.join("\n")}
	onInput=${(event) => onChange(event.target.value.split("\n"))} onBlur=${() => onChange(listed(value))}></textarea>`;

const Data = ({ at, input, value }) => html`<div class="stack tight"><textarea class="mono" spellcheck="false" ...${at} rows=${Math.min(14, Math.max(3, value.split("\n").length))}></textarea>
	${input.schema ? html`<details class="cli"><summary>Schema</summary><code class="pre">${JSON.stringify(input.schema, null, 2)}</code></details>` : null}</div>`;

/** A path on the machine of the server, or files from this one, which are sent there. */
function Path({ at, input, onChange, api }) {
	const [told, setTold] = useState("");
	const [wrong, setWrong] = useState("");
	const folder = input.type === "folder";
	const send = async (files) => {
		const all = [...files];
		const batch = folder ? Date.now().toString(36) : undefined;
		let sent = null;
		setWrong("");
		try {
			for (const [place, file] of all.entries()) {
				setTold(`sending ${place + 1} of ${all.length}: ${file.name}`);
				sent = await api.upload(folder ? file.webkitRelativePath || file.name : file.name, file, batch);
			}
			if (sent) onChange(folder ? sent.folder : sent.path);
			setTold(`${plural(all.length, "file")} sent, ${bytes(all.reduce((sum, file) => sum + file.size, 0))}`);
		} catch (error) {
			setTold("");
			setWrong(error.message);
		}
	};
	return html`<div class="stack tight"><div class="path"><input type="text" class="mono" spellcheck="false" placeholder=${`path of a ${input.type}`} ...${at} />
			<label class="button upload">Upload…<input type="file" class="hidden" aria-label=${`Upload a ${input.type} for ${input.name}`} multiple=${folder} webkitdirectory=${folder}
				onChange=${(event) => send(event.target.files)} /></label></div>
		<span class="told" role="status">${told}</span>${wrong ? html`<span class="complaint" role="alert">${wrong}</span>` : null}</div>`;
}
