// The graph of a SOP that is being written, and small edits of it: each becomes an edit of the text.

import { announce, Button, Dialog, Empty, Field, html, Menu, useEffect, useRef, useState } from "../parts.js";
import { Graph } from "./graph.js";

const KINDS = [["needs", "starts when it is there"], ["wants", "starts anew when it changes"], ["sees", "reads it, if it is there"]];
const DOERS = [["role", "a role"], ["value", "an expression"], ["run", "a command"], ["call", "a Python function"], ["human", "a person"], ["sop", "another SOP"]];

/**
 * `graph` and `outline` as the server gave them; `selected`: a step's name; `edit(change)` asks the server, throws what
 * it refuses, and gives a function that changes the text; `stale`: the text is another by now, or can't be read.
 */
export function GraphPane({ graph, outline, selected, onSelect, edit, stale, undrawn, writable }) {
	const [dialog, setDialog] = useState(null);               // {do, …}: what is asked for
	const [from, setFrom] = useState("");                     // a step whose artifact the next one that is chosen shall read
	const step = outline.steps[selected];
	const choose = (node) => {
		const name = node.name;
		if (from && name !== from && outline.steps[from]) setDialog({ do: "connect", step: name, artifact: outline.steps[from].makes });
		if (from) setFrom("");
		onSelect(name);
	};
	const begin = () => {
		setFrom(selected);
		announce(`Choose the step that shall read ${step.makes}; Escape stops`);
	};
	const keys = (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || !writable) return;
		const name = event.target.closest?.("[data-node^='step:']")?.dataset.node.slice(5) || (event.target.closest?.(".step-panel") ? selected : "");
		const act = { F2: () => setDialog({ do: "rename_step", name }), c: () => { onSelect(name); setFrom(name); }, Delete: () => setDialog({ do: "remove_step", name }),
			e: () => setDialog({ do: "set_role", step: name }), a: () => setDialog({ do: "add_step", after: name }) }[event.key];
		if (event.key === "Escape" && from) setFrom("");
		if (!act || !name || event.target.closest("input, select, textarea")) return;
		event.preventDefault();
		event.stopPropagation();
		act();
	};
	const states = new Map(from ? [[`step:${from}`, { hue: "running", label: `${from}: choose who reads what it makes` }]] : []);
	return html`<div class=${`sop-graph ${stale ? "stale" : ""} ${from ? "connecting" : ""}`} onKeyDown=${keys}>
		<div class="sop-graph-frame">${graph ? html`<${Graph} graph=${graph} states=${states} selected=${selected ? `step:${selected}` : ""} onSelect=${choose} label="Steps of the SOP" />` : html`
			<${Empty} title=${undrawn ? "No graph" : "No graph yet"}><p>${undrawn || "It is drawn as soon as the text can be read."}</p><//>`}
			${stale && graph ? html`<p class="stale-note">the graph before the error</p>` : null}
			${from ? html`<p class="connect-note" role="status">Choose the step that shall read <b>${outline.steps[from]?.makes}</b> <${Button} kind="small" run=${() => setFrom("")}>Cancel<//></p>` : null}</div>
		<${StepPanel} name=${selected} step=${step} outline=${outline} writable=${writable} ask=${setDialog} begin=${begin} onSelect=${onSelect} />
		${dialog ? html`<${Edit} dialog=${dialog} outline=${outline} edit=${edit} onClose=${() => setDialog(null)} onSelect=${onSelect} />` : null}
	</div>`;
}

/** What is chosen, with everything that can be done to it; without a choice the names of the SOP. */
function StepPanel({ name, step, outline, writable, ask, begin, onSelect }) {
	if (!step) return html`<${Names} outline=${outline} writable=${writable} ask=${ask} onSelect=${onSelect} />`;
	const reads = KINDS.flatMap(([kind]) => step[kind].map((entry) => [kind, entry]));
	const items = [
		{ label: "Rename the step…", told: "F2", run: () => ask({ do: "rename_step", name }) },
		{ label: `Rename ${step.makes}…`, told: "what it makes", run: () => ask({ do: "rename_artifact", name: step.makes }) },
		{ label: "Let it read…", told: "an artifact or an input", run: () => ask({ do: "connect", step: name, artifact: "" }) },
		{ label: "Connect to…", told: "c: the next step that is chosen reads what this one makes", run: begin },
		{ label: "Set the role…", told: "e", disabled: step.doer !== "role" && step.doer !== null, run: () => ask({ do: "set_role", step: name }) },
		{ label: "Add a step after it…", told: "a", run: () => ask({ do: "add_step", after: name }) },
		{ label: "Remove the step…", told: "Delete", run: () => ask({ do: "remove_step", name }) },
	];
	return html`<section class="step-panel" aria-label=${`Step ${name}`}>
		<div class="spread"><h2 class="cut-line">${name}</h2>${writable ? html`<div class="row"><${Button} kind="small" run=${() => ask({ do: "connect", step: name, artifact: "" })}>Reads…<//><${Menu} label="Edit" kind="small" items=${items} /></div>` : null}</div>
		<dl class="step-facts">
			<div><dt>done by</dt><dd>${step.who || "nobody yet"}${step.role && outline.roles[step.role]?.model ? html`<span class="quiet"> (${outline.roles[step.role].model})</span>` : null}
				${writable && step.role && outline.roles[step.role] ? html` <${Button} kind="small bare" run=${() => ask({ do: "set_model", role: step.role })}>Model…<//>` : null}</dd></div>
			<div><dt>reads</dt><dd class="chips">${reads.length ? reads.map(([kind, entry]) => html`<span class="chip" key=${kind + entry}><span class="quiet">${kind}</span> ${entry}
				${writable ? html`<button type="button" class="chip-out" aria-label=${`Let ${name} not read ${entry}`} onClick=${() => ask({ do: "disconnect", step: name, artifact: entry.split(".")[0], kind })}>✕</button>` : null}</span>`) : html`<span class="quiet">nothing</span>`}</dd></div>
			<div><dt>makes</dt><dd>${step.makes}</dd></div>
		</dl></section>`;
}

function Names({ outline, writable, ask, onSelect }) {
	const [inputs, artifacts] = [Object.keys(outline.inputs), Object.keys(outline.artifacts)];
	const rename = (name) => (writable ? html`<button type="button" class="chip chip-button" key=${name} onClick=${() => ask({ do: "rename_artifact", name })} title="Rename">${name}</button>` : html`<span class="chip" key=${name}>${name}</span>`);
	return html`<section class="step-panel" aria-label="Names of the SOP">
		<div class="spread"><p class="quiet">Choose a step to see and edit it.</p>${writable ? html`<${Button} kind="small" run=${() => ask({ do: "add_step" })}>Add a step…<//>` : null}</div>
		<dl class="step-facts">${inputs.length ? html`<div><dt>inputs</dt><dd class="chips">${inputs.map(rename)}</dd></div>` : null}
			${artifacts.length ? html`<div><dt>artifacts</dt><dd class="chips">${artifacts.map(rename)}</dd></div>` : null}</dl></section>`;
}

const TITLES = { rename_step: "Rename a step", rename_artifact: "Rename", connect: "Let a step read", disconnect: "Read no longer", add_step: "Add a step",
	remove_step: "Remove a step", set_role: "Set the role", set_model: "Set the model" };
const ACTS = { rename_step: "Rename", rename_artifact: "Rename", connect: "Connect", disconnect: "Disconnect", add_step: "Add", remove_step: "Remove", set_role: "Set", set_model: "Set" };

/** One edit: its form, and what the server says where it can't be done. */
function Edit({ dialog, outline, edit, onClose, onSelect }) {
	const [change, setChange] = useState({ kind: "needs", doer: "role", needs: [], ...dialog });
	const [error, setError] = useState("");
	const form = useRef(null);
	useEffect(() => { form.current.querySelector(dialog.artifact ? "input:checked, .primary" : "input, select, textarea, .primary, .danger")?.focus(); }, []);
	const set = (key) => (event) => setChange({ ...change, [key]: event.target.value });
	const go = async () => {
		setError("");
		try {
			const apply = await edit(sent(change));
			onClose();
			setTimeout(() => {                            // once the dialog is gone: while it is open nothing behind it can be typed into
				apply();
				follow();
			}, 0);
		} catch (problem) {
			setError(problem.message);
		}
	};
	const follow = () => {
		if (change.do === "rename_step") onSelect(change.to);
		if (change.do === "add_step") onSelect(change.name);
		if (change.do === "remove_step") onSelect("");
	};
	return html`<${Dialog} title=${change.after ? `Add a step after ${change.after}` : TITLES[change.do]} onClose=${onClose}><form class="stack" ref=${form} onSubmit=${(event) => { event.preventDefault(); go(); }}>
		${FORMS[change.do]({ change, set, setChange, outline })}
		${error ? html`<p class="complaint" role="alert">${error}</p>` : null}
		<footer><${Button} run=${onClose}>Cancel<//><${Button} type="submit" kind=${change.do === "remove_step" ? "danger" : "primary"}>${ACTS[change.do]}<//></footer></form><//>`;
}

/** The change as the server takes it: the keys of its kind alone. */
function sent(change) {
	const keys = { rename_step: ["name", "to"], rename_artifact: ["name", "to"], connect: ["step", "artifact", "kind"], disconnect: ["step", "artifact", "kind"],
		add_step: ["name", "doer", "who", "needs", "makes", "task", "after"], remove_step: ["name"], set_role: ["step", "role"], set_model: ["role", "model"] }[change.do];
	const found = { do: change.do };
	for (const key of keys) if (change[key] !== undefined && (change[key] !== "" || ["to", "name", "who", "makes", "step", "artifact", "role"].includes(key))) found[key] = change[key];
	if (change.do === "set_model" && !change.model) found.model = null;
	return found;
}

const Words = ({ label, told, value, onInput, list, options, mono = true, required }) => html`<${Field} label=${label} told=${told} required=${required}>${({ id, describedBy }) => html`
	<input type="text" id=${id} class=${mono ? "mono" : ""} aria-describedby=${describedBy} value=${value || ""} onInput=${onInput} spellcheck="false" autocomplete="off" list=${list} />
	${options ? html`<datalist id=${list}>${options.map((one) => html`<option key=${one} value=${one} />`)}</datalist>` : null}`}<//>`;

const FORMS = {
	rename_step: ({ change, set }) => html`<${Words} label=${`New name of ${change.name}`} told="Tests that name it follow." value=${change.to} onInput=${set("to")} />`,
	rename_artifact: ({ change, set }) => html`<${Words} label=${`New name of ${change.name}`} told="Lists, expressions and prompts of this file follow; what can't is listed afterwards." value=${change.to} onInput=${set("to")} />`,
	connect: ({ change, set, outline }) => html`<p><b>${change.step}</b> reads</p>
		<${Field} label="Artifact or input">${({ id }) => html`<select id=${id} value=${change.artifact} onChange=${set("artifact")}><option value=""></option>
			${[...Object.keys(outline.inputs), ...Object.keys(outline.artifacts)].map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>`}<//>
		<fieldset class="choices"><legend class="label">How</legend>${KINDS.map(([kind, told]) => html`<label class="check" key=${kind}><input type="radio" name="kind" value=${kind} checked=${change.kind === kind} onChange=${set("kind")} /><span>${kind} <span class="quiet">${told}</span></span></label>`)}</fieldset>`,
	disconnect: ({ change }) => html`<p><b>${change.step}</b> does not read <b>${change.artifact}</b> any more. Prompts and expressions that name it stay, and are listed.</p>`,
	remove_step: ({ change, outline }) => html`<p>Takes <b>${change.name}</b> out of the text${outline.steps[change.name] ? html`, lines ${outline.steps[change.name].line} to ${outline.steps[change.name].end}` : null}. What names it is listed afterwards.</p>`,
	set_role: ({ change, set, outline }) => html`<${Words} label=${`Who does ${change.step}`} told="A role of this SOP, one with a file, or a new name: it is added under “roles”." value=${change.role} onInput=${set("role")} list="sop-roles" options=${roles(outline)} />`,
	set_model: ({ change, set, outline }) => html`<${Words} label=${`Model of the role ${change.role}`} told="A name under “models”, openai:NAME, dry; empty: none of its own." value=${change.model ?? outline.roles[change.role]?.model ?? ""} onInput=${set("model")} list="sop-models" options=${outline.models} />`,
	add_step: ({ change, set, setChange, outline }) => html`<div class="pair"><${Words} label="Name" value=${change.name} onInput=${set("name")} /><${Words} label="Makes" told="The artifact; declared as text where it is new." value=${change.makes} onInput=${set("makes")} /></div>
		<div class="pair"><${Field} label="Done by">${({ id }) => html`<select id=${id} value=${change.doer} onChange=${set("doer")}>${DOERS.map(([doer, told]) => html`<option key=${doer} value=${doer}>${told}</option>`)}</select>`}<//>
			${change.doer === "human" ? html`<${Field} label="What it is asked for">${({ id }) => html`<select id=${id} value=${change.who || "text"} onChange=${set("who")}><option>text</option><option>approve</option></select>`}<//>` : html`
			<${Words} label=${Object.fromEntries(DOERS)[change.doer].replace(/^an? /, "").replace(/^./, (one) => one.toUpperCase())} value=${change.who} onInput=${set("who")} list="sop-roles" options=${change.doer === "role" ? roles(outline) : undefined} />`}</div>
		<fieldset class="choices reads"><legend class="label">Needs</legend>${[...Object.keys(outline.inputs), ...Object.keys(outline.artifacts)].map((one) => html`<label class="check" key=${one}><input type="checkbox" checked=${change.needs.includes(one)}
			onChange=${(event) => setChange({ ...change, needs: event.target.checked ? [...change.needs, one] : change.needs.filter((other) => other !== one) })} /><span class="mono">${one}</span></label>`)}</fieldset>
		${["role", "human"].includes(change.doer) ? html`<${Field} label="Task" told="Its prompt: a template, such as “Sum up {{ draft }}”.">${({ id, describedBy }) => html`<textarea id=${id} rows="4" aria-describedby=${describedBy} value=${change.task || ""} onInput=${set("task")}></textarea>`}<//>` : null}`,
};

const roles = (outline) => [...new Set([...Object.keys(outline.roles), ...(outline.known_roles || [])])];
