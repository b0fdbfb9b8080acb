// What all runs ask, with what is needed to decide; one answer, or the same one for many.

import { announce, Button, Complaint, html, Loading, plural, Problem, Tick, useEffect, useLoad, useRef, useRows, useState, useTitle } from "../parts.js";
import { href } from "../router.js";
import { Question, afterAnswer, idOf } from "./question.js";

const EVERY = 3000;                     // milliseconds between two looks
const YES_NO = ["action", "approve"];

export default function Inbox({ api, route }) {
	useTitle("Inbox");
	const { value, error, reload } = useLoad(() => api.inbox(), []);
	const [chosen, setChosen] = useState([]);
	const frame = useRef(null);
	useRows(frame);
	useEffect(() => {
		const timer = setInterval(() => document.hidden || reload(), EVERY);
		return () => clearInterval(timer);
	}, [reload]);
	const all = value?.questions;
	const only = route.query.run;
	const shown = all?.filter(({ run }) => !only || run === only).sort((one, two) => one.given - two.given || one.at - two.at);
	const open = shown?.filter(({ given }) => !given) || [];
	const many = open.filter((question) => YES_NO.includes(question.kind));
	const marked = many.filter((question) => chosen.includes(idOf(question)));
	const toggle = (id) => setChosen((before) => (before.includes(id) ? before.filter((one) => one !== id) : [...before, id]));
	const answered = (question) => {
		setChosen((before) => before.filter((one) => one !== idOf(question)));
		return reload();
	};
	if (error && !value) return html`<div class="page"><h1>Inbox</h1><${Problem} error=${error} retry=${reload} /></div>`;
	return html`<div class="page narrow-page"><div class="page-head"><h1>Inbox</h1>
			<span class="quiet" role="status">${shown ? plural(open.length, "open question") : ""}</span>
			${only ? html`<a class="button small" href=${href("inbox")}>Of all runs</a>` : null}</div>
		${many.length > 1 ? html`
			<${Many} api=${api} many=${many} marked=${marked} open=${open} setChosen=${setChosen} onDone=${answered} />` : null}
		${!shown ? html`<${Loading} />` : shown.length ? html`<div class="questions" ref=${frame}>${shown.map((question) => html`
			<${Question} key=${idOf(question)} api=${api} question=${question} open=${open} onDone=${answered}
				marked=${many.length > 1 && YES_NO.includes(question.kind) && !question.given ? chosen.includes(idOf(question)) : undefined} onMark=${() => toggle(idOf(question))} />`)}
					</div>`
			: html`<div class="empty"><h2>No run asks anything</h2>
				<p>Questions of roles, approvals, and actions that the policy does not decide alone come here.</p></div>`}
	</div>`;
}

/** One answer for all that are marked. */
function Many({ api, many, marked, open, setChosen, onDone }) {
	const [reason, setReason] = useState("");
	const [error, setError] = useState(null);
	const answer = async (verdict) => {
		setError(null);
		let done = 0;
		let left = open;
		for (const question of marked) {
			try {
				await api.answer({ run: question.run, number: question.number, answer: { verdict }, reason });
				left = left.filter((one) => idOf(one) !== idOf(question));
				await afterAnswer(api, question, left, true);
				done += 1;
			} catch (problem) {
				setError(new Error(`Question ${question.number} of ${question.run}: ${problem.message}`));
				break;
			}
		}
		announce(`${plural(done, "question")} answered.`);
		setReason("");
		await onDone(marked[0]);
	};
	const whole = marked.length === many.length;
	return html`<section class="panel many" aria-label="Answer many at once">
		<${Tick} on=${whole} onTick=${() => setChosen(whole ? [] : many.map(idOf))}>${marked.length ? `${marked.length} of ${many.length} marked` : `Mark all ${many.length}`}<//>
		<input type="text" aria-label="Reason for all" placeholder="Reason, passed on" value=${reason} onInput=${(event) => setReason(event.target.value)} />
		<${Button} kind="primary" disabled=${!marked.length} run=${() => answer("yes")}>Allow ${marked.length || ""}<//>
		<${Button} kind="danger" disabled=${!marked.length} run=${() => answer("no")}>Deny ${marked.length || ""}<//>
		<${Complaint} error=${error} /></section>`;
}
