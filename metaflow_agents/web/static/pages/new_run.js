// Begin a run: the SOPs that there are, or a form of one's inputs with what `sop check` says.

import { announce, Button, Choice, count, Empty, Entry, html, Loading, money, plural, Problem, Search, Tick, useEffect, useLoad, useRef, useRows, useState, useTitle } from "../parts.js";
import { go, href } from "../router.js";
import { Input, unfit, valueOf, written } from "./new_run_inputs.js";

export default function NewRun({ route, api, workspace }) {
	const { file } = route.query;
	return file ? html`<${Form} key=${file} file=${file} from=${route.query.from} api=${api} workspace=${workspace} />`
		: html`<${Sops} api=${api} workspace=${workspace} />`;
}

const demoOf = async (api, file, setError) => {
	try {
		go(href("run", { run: (await api.start({ file, inputs: {}, demo: true })).run }));
	} catch (error) {
		setError(error);
	}
};

/** The SOPs of the folder where the server works, then those that come with the package. */
function Sops({ api, workspace }) {
	useTitle("New run");
	const [words, setWords] = useState("");
	const [error, setError] = useState(null);
	const frame = useRef(null);
	useRows(frame);
	const all = words.toLowerCase().split(/\s+/).filter(Boolean);
	const fits = ({ name, describes }) => all.every((word) => `${name} ${describes}`.toLowerCase().includes(word));
	const home = `${workspace.folder}/`;
	const groups = [["In this folder", (sop) => sop.file.startsWith(home)], ["With the package", (sop) => !sop.file.startsWith(home)]]
		.map(([title, mine]) => [title, workspace.sops.filter((sop) => mine(sop) && fits(sop)).sort((one, two) => two.demo - one.demo)]).filter(([, sops]) => sops.length);
	return html`<div class="page"><div class="page-head"><h1>New run</h1><${Search} label="Filter SOPs" onSearch=${setWords} /></div>
		${error ? html`<${Problem} error=${error} title="The demo did not start" />` : null}
		<div class="stack" ref=${frame}>${groups.map(([title, sops]) => html`<h2 key=${title}>${title}</h2><ul class="sops panel">${sops.map((sop) => html`
			<li key=${sop.file} data-row><div><a class="sop-name" href=${href("new", { file: sop.file })}>${sop.name}</a>
					${" "}<span class="quieter mono" title=${sop.file}>${sop.file.startsWith(home) ? sop.file.slice(home.length) : "shipped"}</span><p class="quiet">${sop.describes}</p></div>
				<div class="row">${sop.demo ? html`<${Button} kind="small" label=${`Demo of ${sop.name}`} run=${() => demoOf(api, sop.file, setError)}>Demo<//>` : null}
					<a class="button small" href=${href("sop", { file: sop.file })} aria-label=${`Edit ${sop.name}`}>Edit</a>
					<a class="button small" href=${href("new", { file: sop.file })} aria-label=${`Run ${sop.name}`}>Run</a></div></li>`)}</ul>`)}</div>
		${groups.length ? null : html`<${Empty} title=${words ? "No SOP fits" : "There is no SOP here"} />`}</div>`;
}

const CAPS = [["calls", "Calls", "100"], ["tokens", "Tokens", "2M"], ["usd", "Dollars", "5"], ["time", "Time", "30m"]];
const BOXES = ["bubblewrap", "landlock", "container"];

function Form({ file, from, api, workspace }) {
	const { value: sop, error, reload } = useLoad(() => api.sop(file), [file]);
	const [given, setGiven] = useState({});
	const [options, setOptions] = useState({ budget: {}, from: from || "" });
	const [failed, setFailed] = useState(null);
	const [tried, setTried] = useState(false);
	const form = useRef(null);
	const name = sop?.name || file.split("/").pop().replace(/\.ya?ml$/, "");
	useTitle(`New run of ${name}`);
	useEffect(() => {
		if (sop) setGiven(Object.fromEntries(sop.inputs.map((input) => [input.name, written(input)])));
	}, [sop]);
	if (!sop) {
		return html`<div class="page"><div class="page-head"><h1>New run of ${name}</h1></div>
			${error ? html`<${Problem} error=${error} retry=${reload} title="The SOP can't be read" />` : html`<${Loading} lines=${8} />`}</div>`;
	}
	const faults = Object.fromEntries(sop.inputs.map((input) => [input.name, unfit(input, given[input.name])]).filter(([, fault]) => fault));
	const wrong = Object.keys(faults).length;
	const broken = sop.problems.some(({ severity }) => severity === "error");
	const set = (key) => (value) => setOptions((before) => ({ ...before, [key]: value }));
	const option = (key) => ({ value: options[key], onText: set(key) });
	const begin = async () => {
		setTried(true);
		setFailed(null);
		if (wrong) return void setTimeout(() => form.current.querySelector("[aria-invalid=true]")?.focus(), 0);
		try {
			const { run } = await api.start(asked(file, sop, given, options));
			announce(`Run ${run} began.`);
			go(href("run", { run }));
		} catch (problem) {
			setFailed(problem);
		}
		return undefined;
	};
	return html`<div class="page">
		<div class="page-head"><h1>New run of ${name}</h1><a class="button" href=${href("sop", { file })}>Edit the SOP</a></div>
		${sop.describes ? html`<p class="quiet lead">${sop.describes}</p>` : null}
		<div class="beside">
			<form class="stack" ref=${form} noValidate onSubmit=${(event) => { event.preventDefault(); begin(); }}>
				${sop.demo ? html`<div class="panel padded spread"><p>A recording comes with this SOP: it runs without a model and without cost.</p>
					<${Button} run=${() => demoOf(api, file, setFailed)}>Start the demo<//></div>` : null}
				<section class="panel padded stack" aria-label="Inputs"><h2>Inputs</h2>
					${sop.inputs.length ? null : html`<p class="quiet">This SOP takes none.</p>`}
					${sop.inputs.map((input) => html`<${Input} key=${input.name} input=${input} value=${given[input.name]} api=${api}
						error=${tried ? faults[input.name] : ""} onChange=${(value) => setGiven((before) => ({ ...before, [input.name]: value }))} />`)}</section>
				<section class="panel padded stack" aria-label="How it runs"><h2>How it runs</h2>
					<div class="pair"><${Entry} label="Model" told="openai:NAME, a name under models, python:FILE.py:function, or dry: nothing is called." mono list="models" autocomplete="off" ...${option("model")} />
						<datalist id="models">${(workspace.models || ["dry"]).map((one) => html`<option key=${one} value=${one} />`)}</datalist>
						<${Entry} label="Name" told="What the run is called; by default the SOP's name and a number." mono ...${option("name")} /></div>
					<fieldset class="caps"><legend class="label">Limits</legend>${CAPS.map(([cap, label, example]) => html`<label key=${cap}><span>${label}</span>
						<input type="text" placeholder=${sop.limits?.budget?.[cap] ?? example} value=${options.budget[cap] || ""}
							onInput=${(event) => set("budget")({ ...options.budget, [cap]: event.target.value })} /></label>`)}</fieldset>
					<${Tick} on=${options.dry_tools} onTick=${set("dry_tools")}>Dry tools: tools that act only say what they would do<//>
					<details class="more"><summary>More</summary><div class="stack">
						<${Entry} label="Models of roles" told="One a line: ROLE=MODEL." mono lines="2" ...${option("models")} />
						<div class="pair"><${Entry} label="From run" told="Reuses the inputs and the unchanged results of that run." mono ...${option("from")} />
							<${Choice} label="Sandbox for commands" value=${options.sandbox || ""} onChoose=${set("sandbox")} options=${[["", "the first that works here"], ...BOXES.map((one) => [one, one])]} /></div>
					</div></details></section>
				${failed ? html`<${Problem} error=${failed} title="The run did not begin" />` : null}
				<div class="row"><button type="submit" class="hidden" tabIndex="-1" aria-hidden="true">Run</button><${Button} kind="primary" disabled=${broken} run=${begin}>Run<//>
					<span class="complaint">${broken ? "The SOP has errors: nothing can be run." : tried && wrong ? `${plural(wrong, "input")} to look at` : ""}</span></div>
			</form>
			<${Checked} sop=${sop} />
		</div></div>`;
}

/** The body of the request: what was left empty is left out, so that the SOP's own values hold. */
function asked(file, sop, given, options) {
	const filled = (pairs) => Object.fromEntries(pairs.filter(([, value]) => value !== undefined && value !== ""));
	const budget = filled(Object.entries(options.budget));
	const models = (options.models || "").split("\n").map((line) => line.split(/=(.*)/s).map((part) => part.trim())).filter(([role, model]) => role && model);
	return {
		file, inputs: filled(sop.inputs.map((input) => [input.name, valueOf(input, given[input.name])])),
		...filled(["model", "name", "sandbox", "from"].map((key) => [key, (options[key] || "").trim()])),
		...(Object.keys(budget).length ? { budget } : {}), ...(models.length ? { models: Object.fromEntries(models.map(([role, model]) => [role, model])) } : {}),
		...(options.dry_tools ? { dry_tools: true } : {}),
	};
}

/** What `sop check` says, and the most that a run can do, before anything is spent. */
function Checked({ sop: { problems, limits } }) {
	const errors = problems.filter(({ severity }) => severity === "error").length;
	const [hue, told] = errors ? ["failed", plural(errors, "error")] : problems.length ? ["waiting", plural(problems.length, "warning")] : ["done", "no problem"];
	const steps = Object.entries(limits?.steps || {});
	return html`<aside class="panel padded stack checked" aria-label="What sop check says">
		<div class="spread"><h2>Check</h2><span class=${`state ${hue}`}>${told}</span></div>
		${problems.length ? html`<ul class="problems">${problems.map((one, at) => html`<li key=${at} class=${one.severity}>
			<span class="num quieter">${one.line ? `line ${one.line}` : one.severity}</span><span class="pre">${one.message}</span></li>`)}</ul>` : null}
		<h3>At most</h3>
		<dl class="facts"><div><dt>model calls</dt><dd class="num">${limits?.calls == null ? "not bounded" : count(limits.calls)}</dd></div>
			<div><dt>cost</dt><dd class="num">${limits?.usd == null ? "no limit in the SOP" : money(limits.usd)}</dd></div></dl>
		${steps.length ? html`<table class="mini"><caption class="hidden">Limits of each step</caption>
			<thead><tr><th scope="col">step</th><th scope="col" class="right">firings</th><th scope="col" class="right">calls</th></tr></thead>
			<tbody>${steps.map(([name, bound]) => html`<tr key=${name}><td>${name}</td><td class="right num">${count(bound.firings)}</td>
				<td class="right num">${bound.total_calls == null ? "?" : bound.total_calls ? count(bound.total_calls) : "–"}</td></tr>`)}</tbody></table>` : null}
		<p class="told">What calls cost depends on prompts that do not exist yet; a limit in dollars holds before each call.</p></aside>`;
}
