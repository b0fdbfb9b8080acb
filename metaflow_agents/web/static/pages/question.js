// One question of a run: what is asked, why, by whom, what was read from outside, and the ways to answer. For the inbox and the run.

import { html, useState } from "../vendor/preact-htm.js";
import { announce } from "../hooks.js";
import { Button, Field, Time } from "../parts.js";
import { href } from "../router.js";

export const idOf = ({ run, number }) => `${run} ${number}`;

/** A run that has stopped to wait goes on as soon as nothing of it is open. One that is running takes the answer in by itself. */
export async function afterAnswer(api, question, open, resume) {
  if (!resume || open.some((one) => one.run === question.run && idOf(one) !== idOf(question))) return;
  try {
    const { can } = await api.run(question.run);
    if (can.resume) await api.resume(question.run);
  } catch (error) {
    if (error.status !== 409) throw error;                   // it is running already
  }
}

const ASKS = { text: "asks", choice: "asks to choose", approve: "asks for approval", action: "wants to act", effect: "asks whether it has happened" };

export function Question({ api, question, open, onDone, marked, onMark, here }) {
  const [error, setError] = useState(null);
  const [resume, setResume] = useState(true);
  const send = async (answer, more = {}) => {
    setError(null);
    try {
      await api.answer({ run: question.run, number: question.number, answer, ...more });
      announce("Answered.");
      await afterAnswer(api, question, open, resume);
    } catch (problem) {
      setError(problem);
      return;
    }
    await onDone(question);
  };
  const Form = { action: Decide, approve: Decide, choice: Choose, effect: Effect }[question.kind] || Say;
  const who = question.role || question.step || "A step";
  return html`<article class=${`panel question ${question.given ? "given" : ""}`} data-row aria-label=${`Question ${question.number} of ${question.run}`}>
    <header class="question-head">
      ${marked !== undefined ? html`
        <input type="checkbox" aria-label=${`Mark question ${question.number} of ${question.run}`} checked=${marked} onChange=${onMark} />` : null}
      <div><strong>${who}</strong> ${ASKS[question.kind] || "asks"}
        ${here ? "" : html` in <a href=${href("run", { run: question.run, key: question.key, view: "conversation" })}>${question.run}
        </a>`}
        <span class="quieter"> · question ${question.number}
          ${question.step && question.step !== who ? ` · ${question.step}` : ""} · <${Time} at=${question.at} /></span></div>
    </header>
    <div class="question-body stack">
      ${question.action ? html`<pre class="action" tabIndex="0" aria-label="The action"><code>${question.action}</code></pre>` : null}
      ${question.text && question.text !== question.action ? html`<p class="pre">${question.text}</p>` : null}
      <${Arguments} given=${question.arguments} />
      ${question.cut ? html`<p class="told">This is not all of it: <code>sop inbox ${question.run} ${question.number}
        </code> shows the whole.</p>` : null}
      ${question.assumption ? html`<p class="told">Where nobody answers it assumes: ${question.assumption}</p>` : null}
      ${question.why ? html`<p class="told">Asked anew: ${question.why}</p>` : null}
      ${question.rule ? html`<p class="told">By the rule <code>${question.rule}</code></p>` : null}
      ${question.untrusted ? html`<p class="outside"><strong>Read from outside:</strong> ${question.untrusted}</p>` : null}
      ${question.given ? html`<p class="quiet">Answered. The run takes it in as soon as it goes on.</p>` : html`
        <${Form} question=${question} send=${send} />
        ${error ? html`<p class="complaint" role="alert">${error.message}</p>` : null}
        <div class="spread"><label class="check quiet">
          <input type="checkbox" checked=${resume} onChange=${(event) => setResume(event.target.checked)} />
          <span>Resume the run if it has stopped to wait</span></label>
          <${Ways} ways=${question.ways} /></div>`}
    </div></article>`;
}

function Arguments({ given }) {
  const names = Object.keys(given || {});
  if (!names.length) return null;
  return html`<dl class="arguments">${names.map((name) => html`<div key=${name}><dt>${name}</dt><dd class="pre mono">
    ${typeof given[name] === "string" ? given[name] : JSON.stringify(given[name], null, 1)}</dd></div>`)}</dl>`;
}

const Ways = ({ ways }) => (ways?.length ? html`<details class="cli"><summary>On the command line</summary>${ways.map((way) => html`
  <code key=${way} class="pre">${way}</code>`)}</details>` : null);

/** Yes or no; for an action also how far it holds, and other arguments. */
function Decide({ question, send }) {
  const [reason, setReason] = useState("");
  const [scope, setScope] = useState("once");
  const [changed, setChanged] = useState(null);
  const [wrong, setWrong] = useState("");
  const action = question.kind === "action";
  const [yes, no] = action ? ["Allow", "Deny"] : ["Approve", "Reject"];
  const say = (verdict) => {
    const answer = { verdict };
    if (verdict === "yes" && changed !== null) {
      try {
        answer.arguments = JSON.parse(changed);
      } catch (error) {
        setWrong(`This is no JSON: ${error.message}`);
        return undefined;
      }
    }
    setWrong("");
    return send(answer, { reason, ...(action && verdict === "yes" && scope !== "once" ? { for: scope } : {}) });
  };
  return html`<div class="stack">
    ${action && changed !== null ? html`<${Field} label="Arguments instead" error=${wrong}>${({ id, describedBy, invalid }) => html`
      <textarea id=${id} class="mono" rows="6" aria-describedby=${describedBy} aria-invalid=${invalid} value=${changed} onInput=${(event) => setChanged(event.target.value)}>
        </textarea>`}<//>` : null}
    <${Field} label="Reason" told="Optional; passed to whoever asked.">${({ id, describedBy }) => html`
      <input type="text" id=${id} aria-describedby=${describedBy} value=${reason} onInput=${(event) => setReason(event.target.value)} />`}
      <//>
    <div class="row">
      <${Button} kind="primary" run=${() => say("yes")}>${yes}<//><${Button} kind="danger" run=${() => say("no")}>${no}<//>
      ${action ? html`<label class="inline-label">for <select value=${scope} onChange=${(event) => setScope(event.target.value)}>
          <option value="once">this once</option><option value="run">equal actions of this run</option>
            <option value="rule">all that the rule covers</option></select></label>
        <${Button} kind="bare" run=${() => setChanged(changed === null ? JSON.stringify(question.arguments, null, 2) : null)}>
          ${changed === null ? "Change the arguments" : "Leave the arguments"}<//>` : null}
    </div></div>`;
}

function Choose({ question, send }) {
  const [choice, setChoice] = useState(question.default || "");
  return html`<form class="stack" onSubmit=${(event) => { event.preventDefault(); if (choice) send({ text: choice }); }}>
    <fieldset class="choices"><legend class="hidden">Choices</legend>${question.choices.map((one) => html`
      <label class="check" key=${one}>
        <input type="radio" name=${`choice-${idOf(question)}`} value=${one} checked=${choice === one} onChange=${() => setChoice(one)} />
        <span>${one}${one === question.default ? html` <span class="quieter">(offered)</span>` : null}</span></label>`)}</fieldset>
    <div><${Button} kind="primary" disabled=${!choice} run=${() => send({ text: choice })}>Answer<//></div></form>`;
}

function Say({ question, send }) {
  const [text, setText] = useState("");
  return html`<form class="stack" onSubmit=${(event) => { event.preventDefault(); send({ text }); }}>
    <${Field} label="Answer" told=${question.answer_schema ? `Wanted: ${question.wants || "JSON that fits the schema below"}` : ""}>
      ${({ id, describedBy }) => html`
      <textarea id=${id} rows="3" aria-describedby=${describedBy} value=${text} onInput=${(event) => setText(event.target.value)}
        onKeyDown=${(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send({ text }); }}></textarea>`}<//>
    ${question.answer_schema ? html`<details class="cli"><summary>Schema</summary><code class="pre">
      ${JSON.stringify(question.answer_schema, null, 2)}</code></details>` : null}
    <div class="row"><${Button} kind="primary" disabled=${!text.trim()} run=${() => send({ text })}>Answer<//>
      <span class="told">Ctrl+Enter sends it</span></div></form>`;
}

/** Whether an effect that a crash cut off has happened: yes (a step needs what it gave), or no. */
function Effect({ question, send }) {
  const [text, setText] = useState("");
  const needs = question.needs_result ?? !question.role;
  return html`<div class="stack">
    <${Field} label=${needs ? "What it gave, if it has happened" : "Reason"} told=${needs ? `The step goes on with this. Wanted: ${question.wants || "any text"}` : "Optional; passed to the role."}>
      ${({ id, describedBy }) => html`
      <textarea id=${id} rows="2" aria-describedby=${describedBy} value=${text} onInput=${(event) => setText(event.target.value)}>
        </textarea>`}<//>
    <div class="row"><${Button} kind="primary" run=${() => send({ verdict: "yes" }, { reason: text })}>It has happened<//>
      <${Button} run=${() => send({ verdict: "no" }, { reason: needs ? "" : text })}>It has not<//></div></div>`;
}
