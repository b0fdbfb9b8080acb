// What a step would send to its model, with its parts and what they cost in tokens: nothing is called.

import { Button, Copy, count, Empty, Field, html, plural, Problem, Table, Text, useState } from "../parts.js";

/** `step`: the one that is chosen; `send(step, inputs, given)` asks the server about the text as it stands. */
export function Preview({ outline, step, send, onSelect }) {
	const asking = Object.entries(outline.steps).filter(([, one]) => ["role", "sop"].includes(one.doer)).map(([name]) => name);
	const chosen = asking.includes(step) ? step : asking[0] || "";
	const [from, setFrom] = useState("");
	const [written, setWritten] = useState(null);               // {inputs, given} as texts
	const [inner, setInner] = useState("");
	const [found, setFound] = useState(null);
	const [error, setError] = useState(null);
	const [at, setAt] = useState(0);
	const [busy, setBusy] = useState(false);
	if (!asking.length) return html`<${Empty} title="No step asks a model"><p>A step with a <code>role</code> sends a prompt.</p><//>`;
	const take = (test) => {
		setFrom(test);
		const values = outline.tests[test];
		setWritten(values ? { inputs: JSON.stringify(values.inputs, null, 2), given: JSON.stringify(values.given, null, 2) } : null);
	};
	const look = async () => {
		setError(null);
		setBusy(true);
		try {
			const values = written ? { inputs: read(written.inputs, "inputs"), given: read(written.given, "artifacts") } : { inputs: {}, given: {} };
			setFound(await send(chosen + inner.trim(), values.inputs, values.given));
			setAt(0);
		} catch (problem) {
			setFound(null);
			setError(problem);
		}
		setBusy(false);
	};
	const one = found?.sent[at];
	return html`<div class="preview stack">
		<form class="stack" onSubmit=${(event) => { event.preventDefault(); look(); }}>
			<div class="pair"><${Field} label="Step">${({ id }) => html`<select id=${id} value=${chosen} onChange=${(event) => onSelect(event.target.value)}>${asking.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select>`}<//>
				<${Field} label="Values" told=${from ? undefined : "For what the step reads."}>${({ id }) => html`<select id=${id} value=${from} onChange=${(event) => take(event.target.value)}><option value="">the smallest that fit</option>${Object.keys(outline.tests).map((name) => html`<option key=${name} value=${name}>of the test ${name}</option>`)}</select>`}<//></div>
			<details class="fold"><summary>Values, and which firing</summary><div class="stack">
				<${Field} label="Firing or item" told="@2, [item] or /inner step; by default the first of all.">${({ id, describedBy }) => html`<input type="text" class="mono short" id=${id} aria-describedby=${describedBy} value=${inner} onInput=${(event) => setInner(event.target.value)} spellcheck="false" />`}<//>
				${["inputs", "given"].map((key) => html`<${Field} key=${key} label=${key === "given" ? "Artifacts that stand in for work (JSON)" : "Inputs (JSON)"}>${({ id }) => html`<textarea id=${id} class="mono" rows="4" spellcheck="false" value=${written?.[key] ?? "{}"} onInput=${(event) => setWritten({ inputs: "{}", given: "{}", ...written, [key]: event.target.value })}></textarea>`}<//>`)}
			</div></details>
			<div class="row"><${Button} type="submit" kind="primary" disabled=${busy}>${busy ? "Looking…" : "Preview"}<//><span class="told">No model is called, nothing is run.</span></div>
		</form>
		${error ? html`<${Problem} error=${error} title="There is no preview" />` : null}
		${one ? html`<div class="stack" role="region" aria-label="Preview">
			${found.sent.length > 1 ? html`<${Field} label=${`Activation, ${plural(found.sent.length + found.more, "in all", "in all")}`}>${({ id }) => html`<select id=${id} value=${at} onChange=${(event) => setAt(Number(event.target.value))}>${found.sent.map(({ key }, number) => html`<option key=${key} value=${number}>${key}</option>`)}</select>`}<//>` : null}
			${found.stood_in.length ? html`<p class="told">Stand-ins for inputs: ${found.stood_in.join(", ")}.</p>` : null}
			<h3>About ${count(one.tokens)} tokens to ${one.role}</h3>
			<${Parts} parts=${one.parts} total=${one.tokens} />
			${one.tools.length ? html`<p class="told">Tools: ${one.tools.join(", ")}</p>` : null}
			${one.messages.map((message, number) => html`<section class="sent" key=${number}><div class="spread"><h3>${message.role}</h3><${Copy} text=${message.text} /></div><${Text} text=${message.cut ? { text: message.text, cut: message.cut } : message.text} /></section>`)}
		</div>` : null}</div>`;
}

const HOW = { none: "not shown", task: "as far as the task prints it" };

function Parts({ parts, total }) {
	return html`<${Table} caption="Parts of the prompt" id=${(part) => parts.indexOf(part)} rows=${parts} columns=${[
		{ name: "name", label: "part", cell: (part) => (part.artifact ? html`<code>${part.artifact}</code> <span class="quiet">${HOW[part.how] || part.how}</span>` : part.name) },
		{ name: "tokens", label: "tokens", num: true, cell: (part) => (part.how in HOW ? "–" : count(part.tokens)) },
		{ name: "share", label: "", class: "share-cell", cell: (part) => html`<span class="part-share" aria-hidden="true"><span style=${{ width: `${total ? (part.tokens / total) * 100 : 0}%` }}></span></span>` }]} />`;
}

function read(text, what) {
	let value;
	try {
		value = JSON.parse(text.trim() || "{}");
	} catch (error) {
		throw new Error(`The ${what} are no JSON: ${error.message}`);
	}
	if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`The ${what} are an object: {"name": value}`);
	return value;
}
