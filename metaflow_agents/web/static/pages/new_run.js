// Page 2: begin a run. Without a file the SOPs that there are; with one a form of its inputs, and what `sop check` says beside it.

import { html, useEffect, useRef, useState } from "../vendor/preact-htm.js";
import { announce, useLoad, useRows, useTitle } from "../hooks.js";
import { Button, Empty, Field, Loading, Problem, count, money, plural } from "../parts.js";
import { go, href } from "../router.js";
import { Input, unfit, valueOf, written } from "./new_run_inputs.js";

export default function NewRun({ route, api, workspace }) {
  const { file } = route.query;
  return file ? html`<${Form} key=${file} file=${file} from=${route.query.from} api=${api} workspace=${workspace} />` : html`
    <${Choose} api=${api} workspace=${workspace} />`;
}

const demoOf = async (api, file, setError) => {
  try {
    go(href("run", { run: (await api.start({ file, inputs: {}, demo: true })).run }));
  } catch (error) {
    setError(error);
  }
};

function Choose({ api, workspace }) {
  useTitle("New run");
  const [words, setWords] = useState("");
  const [error, setError] = useState(null);
  const frame = useRef(null);
  useRows(frame);
  const all = words.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = workspace?.sops?.filter(({ name, describes }) => all.every((word) => `${name} ${describes}`.toLowerCase().includes(word)));
  return html`<div class="page"><div class="page-head"><h1>New run</h1>
      <div class="search"><input type="search" data-search aria-label="Filter SOPs" placeholder="Filter SOPs" value=${words} onInput=${(event) => setWords(event.target.value)} />
        <kbd aria-hidden="true">/</kbd></div></div>
    ${error ? html`<${Problem} error=${error} title="The demo did not start" />` : null}
    ${!shown ? html`<${Loading} />` : shown.length ? html`<ul class="sops panel" ref=${frame}>${shown.map((sop) => html`
      <li key=${sop.file} data-row><div><a class="sop-name" href=${href("new", { file: sop.file })}>${sop.name}
        </a> <span class="quieter mono">${sop.file}</span><p class="quiet">${sop.describes}</p></div>
        <div class="row">${sop.demo ? html`
          <${Button} kind="small" label=${`Demo of ${sop.name}`} run=${() => demoOf(api, sop.file, setError)}>Demo<//>` : null}
          <a class="button small" href=${href("sop", { file: sop.file })} aria-label=${`Edit ${sop.name}`}>Edit</a>
          <a class="button small" href=${href("new", { file: sop.file })} aria-label=${`Run ${sop.name}`}>Run</a></div></li>`)}</ul>`
      : html`<${Empty} title=${words ? "No SOP fits" : "There is no SOP here"}><p>
        ${words ? "" : "A SOP is a YAML file in the folder where `sop ui` was started, or in its `sops/`."}</p><//>`}
  </div>`;
}

const CAPS = [["calls", "Calls", "100"], ["tokens", "Tokens", "2M"], ["usd", "Dollars", "5"], ["time", "Time", "30m"]];

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
  if (error) return html`<div class="page"><h1>New run</h1><${Problem} error=${error} retry=${reload} title=${`${file} can't be read`} />
    </div>`;
  if (!sop) return html`<div class="page"><div class="page-head"><h1>New run of ${name}</h1></div><${Loading} lines=${8} /></div>`;
  const faults = Object.fromEntries(sop.inputs.map((input) => [input.name, unfit(input, given[input.name])]).filter(([, fault]) => fault));
  const broken = sop.problems.some(({ severity }) => severity === "error");
  const option = (key) => ({ value: options[key] || "", onInput: (event) => setOptions({ ...options, [key]: event.target.value }) });
  const begin = async () => {
    setTried(true);
    setFailed(null);
    if (Object.keys(faults).length) {
      setTimeout(() => form.current.querySelector("[aria-invalid=true]")?.focus(), 0);
      return;
    }
    const values = sop.inputs.map((input) => [input.name, valueOf(input, given[input.name])]).filter(([, value]) => value !== undefined);
    const budget = Object.fromEntries(Object.entries(options.budget).filter(([, cap]) => cap));
    try {
      const { run } = await api.start({
        file, inputs: Object.fromEntries(values), ...(Object.keys(budget).length ? { budget } : {}),
        ...Object.fromEntries(["model", "name", "sandbox", "from"].filter((key) => options[key]).map((key) => [key, options[key].trim()])),
        ...(options.dry_tools ? { dry_tools: true } : {}), ...models(options.models),
      });
      announce(`Run ${run} began.`);
      go(href("run", { run }));
    } catch (problem) {
      setFailed(problem);
    }
  };
  return html`<div class="page">
    <div class="page-head"><h1>New run of ${name}</h1><a class="button" href=${href("sop", { file })}>Edit the SOP</a></div>
    ${sop.describes ? html`<p class="quiet lead">${sop.describes}</p>` : null}
    <div class="beside">
      <form class="stack" ref=${form} noValidate onSubmit=${(event) => { event.preventDefault(); begin(); }}>
        ${sop.demo ? html`<div class="panel padded spread">
          <p>A recording comes with this SOP: it runs without a model and without cost.</p>
          <${Button} run=${() => demoOf(api, file, setFailed)}>Start the demo<//></div>` : null}
        <section class="panel padded stack" aria-label="Inputs"><h2>Inputs</h2>
          ${sop.inputs.length ? sop.inputs.map((input) => html`
            <${Input} key=${input.name} input=${input} value=${given[input.name]} api=${api}
            error=${tried ? faults[input.name] : ""} onChange=${(value) => setGiven((before) => ({ ...before, [input.name]: value }))} />`) : html`
              <p class="quiet">This SOP takes none.</p>`}</section>
        <section class="panel padded stack" aria-label="How it runs"><h2>How it runs</h2>
          <div class="pair">
            <${Field} label="Model" told="openai:NAME, a name under models, python:FILE.py:function, or dry: nothing is called.">
              ${({ id, describedBy }) => html`
              <input type="text" id=${id} list="models" autocomplete="off" spellcheck="false" aria-describedby=${describedBy} ...${option("model")} />
                <datalist id="models">${[...(workspace?.models || []), "dry"].map((one) => html`<option key=${one} value=${one} />`)}
                </datalist>`}<//>
            <${Field} label="Name" told="What the run is called; by default the SOP's name and a number.">${({ id, describedBy }) => html`
              <input type="text" id=${id} spellcheck="false" aria-describedby=${describedBy} ...${option("name")} />`}<//>
          </div>
          <fieldset class="caps"><legend class="label">Limits</legend>${CAPS.map(([cap, label, example]) => html`<label key=${cap}><span>
            ${label}</span>
            <input type="text" spellcheck="false" placeholder=${sop.limits?.budget?.[cap] ?? example} value=${options.budget[cap] || ""} onInput=${(event) => setOptions({ ...options, budget: { ...options.budget, [cap]: event.target.value } })} />
              </label>`)}</fieldset>
          <label class="check"><input type="checkbox" checked=${!!options.dry_tools} onChange=${(event) => setOptions({ ...options, dry_tools: event.target.checked })} />
            <span>Dry tools: tools that act only say what they would do</span></label>
          <details class="more"><summary>More</summary><div class="stack">
            <${Field} label="Models of roles" told="One a line: ROLE=MODEL.">${({ id, describedBy }) => html`
              <textarea id=${id} class="mono" rows="2" spellcheck="false" aria-describedby=${describedBy} ...${option("models")}>
              </textarea>`}<//>
            <div class="pair"><${Field} label="Sandbox" told="For commands; by default the first that works here.">
              ${({ id, describedBy }) => html`
              <select id=${id} aria-describedby=${describedBy} value=${options.sandbox || ""} onChange=${option("sandbox").onInput}>
              <option value="">default</option>${["bubblewrap", "landlock", "container"].map((one) => html`<option key=${one}>
                ${one}</option>`)}</select>`}<//>
            <${Field} label="From run" told="Reuses the inputs and the unchanged results of that run.">${({ id, describedBy }) => html`
              <input type="text" id=${id} spellcheck="false" aria-describedby=${describedBy} ...${option("from")} />`}<//></div>
          </div></details></section>
        ${failed ? html`<${Problem} error=${failed} title="The run did not begin" />` : null}
        <div class="row submit"><button type="submit" class="hidden" tabIndex="-1" aria-hidden="true">Run</button>
          <${Button} kind="primary" disabled=${broken} run=${begin}>Run<//>
          ${broken ? html`<span class="complaint">The SOP has errors: nothing can be run.</span>` : tried && Object.keys(faults).length ? html`
            <span class="complaint">${plural(Object.keys(faults).length, "input")} to look at</span>` : null}</div>
      </form>
      <${Checked} sop=${sop} />
    </div></div>`;
}

function models(lines) {
  const pairs = (lines || "").split("\n").map((line) => line.trim().split(/=(.*)/s).map((part) => part?.trim())).filter(([role, model]) => role && model);
  return pairs.length ? { models: Object.fromEntries(pairs.map(([role, model]) => [role, model])) } : {};
}

/** What `sop check` says, and the most that a run can do, before anything is spent. */
function Checked({ sop }) {
  const { problems, limits } = sop;
  const errors = problems.filter(({ severity }) => severity === "error").length;
  const told = errors ? html`<span class="state failed">${plural(errors, "error")}</span>` : problems.length ? html`
    <span class="state waiting">${plural(problems.length, "warning")}</span>` : html`<span class="state done">
    <span class="sign" aria-hidden="true">✓</span>no problem</span>`;
  const steps = Object.entries(limits?.steps || {});
  return html`<aside class="panel padded stack checked" aria-label="What sop check says">
    <div class="spread"><h2>Check</h2>${told}</div>
    ${problems.length ? html`<ul class="problems">${problems.map((one, at) => html`<li key=${at} class=${one.severity}>
      <span class="num quieter">${one.line ? `line ${one.line}` : one.severity}</span><span class="pre">${one.message}</span></li>`)}
      </ul>` : null}
    <h3>At most</h3>
    <dl class="facts"><div><dt>model calls</dt><dd class="num">${limits?.calls == null ? "not bounded" : count(limits.calls)}</dd></div>
      <div><dt>cost</dt><dd class="num">${limits?.usd == null ? "no limit in the SOP" : money(limits.usd)}</dd></div></dl>
    ${steps.length ? html`<table class="mini"><caption class="hidden">Limits of each step</caption><thead><tr><th scope="col">step</th>
      <th scope="col" class="right">firings</th><th scope="col" class="right">calls</th></tr></thead>
      <tbody>${steps.map(([name, bound]) => html`<tr key=${name}><td>${name}</td><td class="right num">${count(bound.firings)}</td>
        <td class="right num">${bound.total_calls == null ? "?" : count(bound.total_calls)}</td></tr>`)}</tbody></table>` : null}
    <p class="told">What calls cost depends on prompts that do not exist yet; a limit in dollars holds before each call.</p></aside>`;
}
