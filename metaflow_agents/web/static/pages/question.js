// One question of a run: what is asked, why, by whom, what was read from outside, and the ways to answer.

import { announce, Button, Choice, Complaint, Entry, html, Tick, Time, useState } from "../parts.js";
import { href } from "../router.js";

export const idOf = ({ run, number }) => `${run} ${number}`;

/** A run that rests goes on once nothing of it is open; one that is running takes the answer in by itself. */
export async function afterAnswer(api, question, open, resume) {
	dispatchEvent(new Event("sop-questions"));
	if (!resume || open.some((one) => one.run === question.run && idOf(one) !== idOf(question))) return;
	try {
		const { can } = await api.run(question.run);
		if (can.resume) await api.resume(question.run);
	} catch (error) {
		if (error.status !== 409) throw error;                   // it is running already
	}
}

const ASKS = { text: "asks", choice: "asks to choose", approve: "asks for approval", action: "wants to act", effect: "asks whether it has happened" };
const SCOPES = [["once", "this once"], ["run", "equal actions of this run"], ["rule", "all that the rule covers"]];

export function Question({ api, question, open, onDone, marked, onMark, here }) {
	const [error, setError] = useState(null);
	const [resume, setResume] = useState(true);
	const { run, number, kind, text, action, rule, untrusted, why, cut, assumption, step } = question;
	const send = async (answer, more = {}) => {
		setError(null);
		try {
			await api.answer({ run, number, answer, ...more });
			announce("Answered.");
			await afterAnswer(api, question, open, resume);
		} catch (problem) {
			return setError(problem);
		}
		return onDone(question);
	};
	const Form = { action: Decide, approve: Decide, choice: Choose, effect: Happened }[kind] || Say;
	const who = question.role || step || "A step";
	const told = (label, words) => (words ? html`<p class="told">${label} ${words}</p>` : null);
	return html`<article class="panel question" data-row aria-label=${`Question ${number} of ${run}`}>
		<header class="question-head">
			${marked === undefined ? null : html`<input type="checkbox" aria-label=${`Mark question ${number} of ${run}`} checked=${marked} onChange=${onMark} />`}
			<div><strong>${who}</strong> ${ASKS[kind] || "asks"}${here ? "" : html` in <a href=${href("run", { run, key: question.key, view: "conversation" })}>${run}</a>`}
				<span class="quieter"> · question ${number}${step && step !== who ? ` · ${step}` : ""} · <${Time} at=${question.at} /></span></div></header>
		<div class="question-body stack">
			${action ? html`<pre class="action" tabIndex="0" role="region" aria-label="The action"><code>${action}</code></pre>` : null}
			${text && text !== action ? html`<p class="pre">${text}</p>` : null}
			<${Arguments} given=${question.arguments} />
			${told("Asked anew:", why)}${told("Where nobody answers it assumes:", assumption)}${told("By the rule:", rule && html`<code>${rule}</code>`)}
			${cut ? told("This is not all of it:", html`<code>sop inbox ${run} ${number}</code>`) : null}
			${untrusted ? html`<p class="outside"><strong>Read from outside:</strong> ${untrusted}</p>` : null}
			${question.given ? html`<p class="quiet">Answered. The run takes it in as soon as it goes on.</p>` : html`
				<${Form} question=${question} send=${send} />
				<${Complaint} error=${error} />
				<div class="spread"><${Tick} class="quiet" on=${resume} onTick=${setResume}>Resume the run if it has stopped to wait<//>
					<${Folded} title="On the command line" lines=${question.ways} /></div>`}
		</div></article>`;
}

const Folded = ({ title, lines }) => (lines?.length ? html`<details class="cli"><summary>${title}</summary>${lines.map((line) => html`<code key=${line} class="pre">${line}</code>`)}</details>` : null);

function Arguments({ given }) {
	const names = Object.keys(given || {});
	return names.length ? html`<dl class="arguments">${names.map((name) => html`
		<div key=${name}><dt>${name}</dt><dd class="pre mono">${typeof given[name] === "string" ? given[name] : JSON.stringify(given[name], null, 1)}</dd></div>`)}</dl>` : null;
}

/** Yes or no; for an action also how far it holds, and other arguments. */
function Decide({ question, send }) {
	const [reason, setReason] = useState("");
	const [scope, setScope] = useState("once");
	const [changed, setChanged] = useState(null);
	const [wrong, setWrong] = useState("");
	const action = question.kind === "action";
	const [yes, no] = action ? ["Allow", "Deny"] : ["Approve", "Reject"];
	const allow = () => {
		const answer = { verdict: "yes" };
		try {
			if (changed !== null) answer.arguments = JSON.parse(changed);
		} catch (error) {
			return setWrong(`This is no JSON: ${error.message}`);
		}
		setWrong("");
		return send(answer, { reason, ...(scope === "once" ? {} : { for: scope }) });
	};
	return html`<div class="stack">
		${changed === null ? null : html`<${Entry} label="Arguments instead" error=${wrong} mono lines="6" value=${changed} onText=${setChanged} />`}
		<${Entry} label="Reason" told="Optional; passed to whoever asked." value=${reason} onText=${setReason} />
		<div class="row"><${Button} kind="primary" run=${allow}>${yes}<//><${Button} kind="danger" run=${() => send({ verdict: "no" }, { reason })}>${no}<//>
			${action ? html`<${Choice} label="for" value=${scope} onChoose=${setScope} options=${SCOPES} />
				<${Button} kind="bare" run=${() => setChanged(changed === null ? JSON.stringify(question.arguments, null, 2) : null)}>${changed === null ? "Change the arguments" : "Leave the arguments"}<//>` : null}
		</div></div>`;
}

function Choose({ question, send }) {
	const [choice, setChoice] = useState(question.default || "");
	return html`<form class="stack" onSubmit=${(event) => { event.preventDefault(); if (choice) send({ text: choice }); }}>
		<fieldset class="choices"><legend class="hidden">Choices</legend>${question.choices.map((one) => html`<label class="check" key=${one}>
			<input type="radio" name=${`choice-${idOf(question)}`} checked=${choice === one} onChange=${() => setChoice(one)} /><span>${one}${one === question.default ? " (offered)" : ""}</span></label>`)}</fieldset>
		<div><${Button} kind="primary" disabled=${!choice} run=${() => send({ text: choice })}>Answer<//></div></form>`;
}

function Say({ question, send }) {
	const [text, setText] = useState("");
	const { answer_schema: schema, wants } = question;
	return html`<div class="stack">
		<${Entry} label="Answer" told=${schema ? `Wanted: ${wants}` : ""} lines="3" value=${text} onText=${setText}
			onKeyDown=${(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send({ text }); }} />
		<${Folded} title="Schema" lines=${schema ? [JSON.stringify(schema, null, 2)] : []} />
		<div class="row"><${Button} kind="primary" disabled=${!text.trim()} run=${() => send({ text })}>Answer<//><span class="told">Ctrl+Enter sends it</span></div></div>`;
}

/** Whether an effect that a crash cut off has happened: yes (a step needs what it gave), or no. */
function Happened({ question, send }) {
	const [text, setText] = useState("");
	const needs = question.needs_result;
	return html`<div class="stack">
		<${Entry} label=${needs ? "What it gave, if it has happened" : "Reason"} told=${needs ? `The step goes on with this. Wanted: ${question.wants}` : "Optional; passed to the role."} lines="2" value=${text} onText=${setText} />
		<div class="row"><${Button} kind="primary" run=${() => send({ verdict: "yes" }, { reason: text })}>It has happened<//>
			<${Button} run=${() => send({ verdict: "no" }, { reason: needs ? "" : text })}>It has not<//></div></div>`;
}
