// One turn: what was sent, by its parts; what was answered; what the answer had done.

import { Count, count, Duration, html, Money, plural, useContext, useState } from "../parts.js";
import { Finding, textOf } from "./conversation_find.js";
import { Folded, Passage } from "./conversation_text.js";
import { Tool, anchor } from "./conversation_tools.js";

const SPEAKERS = { system: "System", user: "Prompt", assistant: "Answer", tool: "Tool result", beside: "Sent beside" };
const KINDS = { form: "form of the answer", material: "what it works from", standing: "how the run stands", schema: "JSON Schema of the answer", text: "" };

export function Turn({ turn, number, before, role, run, api, chosen }) {
	const asked = turn.messages.reduce((sum, { parts }) => sum + parts.reduce((all, part) => all + (part.tokens || 0), 0), 0);
	const id = `${anchor(turn.key)}${turn.try ? `-try-${turn.try}` : ""}`;
	return html`<article class=${`turn ${turn.error ? "failed" : ""} ${chosen ? "chosen" : ""}`} id=${id} data-row data-key=${turn.key} aria-labelledby=${`${id}-name`}>
		<header class="turn-head"><h3 id=${`${id}-name`} tabIndex="-1">Turn ${number + 1}</h3>${turn.branch && turn.branch !== `turn.${number}` ? html`<code class="quiet">${turn.branch}</code>` : null}
			${turn.after && before && turn.after !== before.key ? html`<span class="quiet">goes on from ${shortened(turn.after)}</span>` : null}
			${turn.try ? html`<span class="pill waiting">try ${turn.try + 1}</span>` : null}
			<span class="turn-figures quiet"><span><${Count} value=${turn.tokens_in} /> in${turn.cached ? html` (<${Count} value=${turn.cached} /> cached)` : null}</span>
				<span><${Count} value=${turn.tokens_out} /> out</span>${turn.usd ? html`<span><${Money} usd=${turn.usd} estimated=${turn.estimated} /></span>` : null}<span><${Duration} seconds=${turn.seconds} /></span></span></header>
		<${Messages} turn=${turn} whole=${asked} run=${run} api=${api} />
		${turn.error ? html`<div class="said"><span class="speaker">Failed</span><p class="complaint">${textOf(turn.error)}</p></div>` : null}
		${turn.embeds ? html`<p class="quiet">${plural(turn.embeds, "text")} embedded.</p>` : turn.state === "running" ? html`<div class="said"><span class="speaker">${role || "Answer"}</span><p class="quiet">Not answered yet.</p></div>`
			: textOf(turn.answer) ? html`<div class="said answer"><span class="speaker">${role || "Answer"}</span><div><${Passage} id=${`${turn.key}/answer`} text=${turn.answer} run=${run} api=${api} kind=${looksLikeData(turn.answer) ? "mono" : "prose"} />${turn.cut ? html`<p class="complaint">The answer is cut off: it met the greatest length.</p>` : null}</div></div>` : null}
		${turn.repaired?.length ? html`<div class="said"><span class="speaker">Repaired</span><ul class="repaired">${turn.repaired.map((one, place) => html`<li key=${place}>${one}</li>`)}</ul></div>` : null}
		${turn.tools?.length ? html`<div class="said"><span class="speaker">Tools</span><div class="tools">${turn.tools.map((tool) => html`<${Tool} key=${tool.key} tool=${tool} run=${run} api=${api} />`)}</div></div>` : null}
	</article>`;
}

/** What was sent. What stands in the turn before is folded away. */
function Messages({ turn, whole, run, api }) {
	const { at } = useContext(Finding);
	const [open, setOpen] = useState(false);
	const again = turn.after ? turn.messages.filter(({ role }) => role === "assistant" || role === "tool").length : 0;
	const shown = open || !again || at?.id.startsWith(`${turn.key}/m`);
	return html`${again ? html`<button class="button small again" aria-expanded=${String(!!shown)} onClick=${() => setOpen(!open)}>${
		shown ? "Hide what it had been told before" : `With ${plural(again, "message")} of the turn before`}</button>` : null}
		${turn.messages.map((message, place) => (shown || (message.role !== "assistant" && message.role !== "tool")
			? html`<${Message} key=${place} message=${message} id=${`${turn.key}/m${place}`} whole=${whole} run=${run} api=${api} />` : null))}`;
}

/** A call's key without its activation. */
const shortened = (key) => key.split(/~\d+\//).at(-1);

function Message({ message, id, whole, run, api }) {
	return html`<div class=${`said ${message.role}`}><span class="speaker">${SPEAKERS[message.role] || message.role}</span>
		<div class="parts">${message.parts.map((part, place) => html`<${PromptPart} key=${place} part=${part} id=${`${id}/p${place}`} whole=${whole} run=${run} api=${api}
			alone=${message.parts.length === 1} role=${message.role} />`)}</div></div>`;
}

/** A part of a prompt, with its share of what was sent. Short ones and the task stand open. */
function PromptPart({ part, id, whole, run, api, alone, role }) {
	const text = textOf(part.text);
	const kind = part.kind === role ? "" : KINDS[part.kind] ?? part.kind;
	const label = html`${kind ? html`<span class="quiet">${kind}</span> ` : null}<b>${part.name || (kind ? "" : part.kind)}</b>${
		part.version ? html`<span class="quiet num">@${part.version}</span>` : null}${part.shown ? html` <span class="quiet">shown: ${part.shown}</span>` : null}`;
	const share = whole ? (part.tokens || 0) / whole : 0;
	const told = html`<span class="part-share" aria-hidden="true"><span style=${{ width: `${Math.max(share * 100, 1)}%` }}></span></span><span>${count(part.tokens || 0)} tokens</span>`;
	if (part.kind === "image") return html`<p class="part-head">${label} <span class="quiet">${part.media}${part.width ? `, ${part.width} × ${part.height}` : ""}</span></p>`;
	const short = text.length < 500 && text.split("\n").length < 9;
	return html`<${Folded} id=${id} label=${label} told=${told} text=${part.text} run=${run} api=${api}
		open=${role !== "system" && (part.kind === "task" || short || (alone && role === "tool")) || (role === "system" && text.length < 240)} />`;
}

/** What an activation did beside its calls: a command, a function, a check, a note. */
export function Acts({ acts, run, api }) {
	return acts.map((act) => (act.decisions ? html`<${Tool} key=${act.seq} tool=${{ ...act, tool: act.tool || act.kind }} run=${run} api=${api} />` : html`<section class="tool-call" key=${act.seq} aria-label=${act.kind} data-key=${act.key}>
		<header><span class="tool-name">${act.kind}</span><span class="quiet tool-action">${act.told}</span><span class="tool-took quiet"><${Duration} seconds=${act.seconds} /></span></header>
		${textOf(act.text) ? html`<${Passage} id=${`${act.key}/act`} text=${act.text} run=${run} api=${api} />` : null}</section>`));
}

const looksLikeData = (text) => /^\s*[{[]/.test(textOf(text));
