// A tool call: what was asked for, what the policy decided by which rule, what a person said, what came of it.

import { Duration, html } from "../parts.js";
import { textOf } from "./conversation_find.js";
import { Passage } from "./conversation_text.js";

const STANDING = { running: "It is under way, or was cut off.", asked: "It waits for an answer." };
const VERDICTS = { allow: ["done", "✓", "allowed"], ask: ["waiting", "◔", "a person was asked"], deny: ["failed", "✕", "denied"] };

export function Tool({ tool, run, api }) {
	const flags = [tool.refused && "not carried out", tool.staged && "dry run: not carried out", tool.error && "error",
		tool.taken && `taken over from ${tool.taken}`].filter(Boolean);
	const [given, result] = [textOf(tool.arguments), textOf(tool.result)];
	return html`<section class=${`tool-call ${tool.error ? "failed" : ""}`} aria-label=${`Tool ${tool.tool}`} data-key=${tool.key} id=${anchor(tool.key)}>
		<header><span class="tool-name mono">${tool.tool}</span>
			${tool.action && tool.action !== tool.tool ? html`<span class="quiet mono tool-action">${tool.action}</span>` : null}
			${flags.map((flag) => html`<span key=${flag} class=${`pill ${flag === "error" ? "failed" : "waiting"}`}>${flag}</span>`)}
			<span class="tool-took quiet"><${Duration} seconds=${tool.seconds} /></span></header>
		${given ? html`<div class="tool-given"><${Passage} id=${`${tool.key}/arguments`} text=${tool.arguments} run=${run} api=${api} /></div>` : null}
		${(tool.decisions || []).map((one, number) => html`<${Decision} key=${number} decision=${one} />`)}
		${tool.question ? html`<${Question} question=${tool.question} />` : null}
		${tool.untrusted ? html`<p class="quiet">Untrusted: ${tool.untrusted}</p>` : null}
		${!result ? html`<p class="quiet">${STANDING[tool.state] || "It gave nothing."}</p>` : html`
			<div class="tool-result"><span class="label quiet">${tool.error ? "Error" : "Result"}</span><${Passage} id=${`${tool.key}/result`} text=${tool.result} run=${run} api=${api} /></div>`}
		${tool.wrote?.length ? html`<p class="quiet">Wrote ${tool.wrote.map((path, number) => html`${number ? ", " : ""}<code>${path}</code>`)}</p>` : null}
	</section>`;
}

function Decision({ decision }) {
	const [colour, sign, word] = VERDICTS[decision.verdict] || ["never", "?", decision.verdict];
	return html`<p class="decision"><span class=${`state ${colour}`}><span class="sign" aria-hidden="true">${sign}</span>${word}</span>
		<span class="quiet">by <code>${decision.rule}</code>${decision.untrusted ? html`; had read from outside: ${decision.untrusted}` : null}</span></p>`;
}

/** What a person was asked, and what they said. */
function Question({ question }) {
	const { answer } = question;
	return html`<div class="asked-card"><p class="pre">${textOf(question.text)}</p>${answer ? html`<p><b>${answer.verdict}</b>${textOf(answer.text) ? html`: ${textOf(answer.text)}` : null}
			<span class="quiet"> ${answer.assumed ? "assumed" : `by ${answer.by}`}${answer.scope === "once" ? "" : `, for the ${answer.scope}`}</span></p>
		${answer.arguments ? html`<p class="pre mono">${textOf(answer.arguments)}</p>` : null}` : html`<p class="quiet">Not answered yet.</p>`}</div>`;
}

/** The id of the element that shows a call. */
export const anchor = (key) => `at-${encodeURIComponent(key)}`;
