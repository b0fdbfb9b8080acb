// A tool call as it went: what was asked for, what the policy decided and by which rule, what a person said, what came of it.

import { html } from "../vendor/preact-htm.js";
import { Duration } from "../parts.js";
import { argumentsText } from "./conversation_find.js";
import { Passage } from "./conversation_text.js";

const VERDICTS = { allow: ["done", "✓", "allowed"], ask: ["waiting", "◔", "a person was asked"], deny: ["failed", "✕", "denied"] };

export function Tool({ tool, run, api }) {
  const flags = [tool.refused && "not carried out", tool.staged && "dry run: not carried out", tool.error && "error"].filter(Boolean);
  const given = argumentsText(tool.arguments);
  return html`<section class=${`tool-call ${tool.error ? "failed" : ""}`} aria-label=${`Tool ${tool.tool}`} data-key=${tool.key} id=${anchor(tool.key)}>
    <header><span class="tool-name mono">${tool.tool}</span>
      ${tool.action && tool.action !== tool.tool ? html`<span class="quiet mono tool-action">${tool.action}</span>` : null}
      ${flags.map((flag) => html`<span key=${flag} class=${`pill ${flag === "error" ? "failed" : "waiting"}`}>${flag}</span>`)}
      <span class="tool-took quiet"><${Duration} seconds=${tool.seconds} /></span></header>
    ${given ? html`<div class="tool-given"><${Passage} id=${`${tool.key}/arguments`} text=${given} run=${run} api=${api} /></div>` : null}
    ${(tool.decisions || []).map((one, number) => html`<${Decision} key=${number} decision=${one} />`)}
    ${tool.question ? html`<${Question} question=${tool.question} />` : null}
    ${tool.result === null || tool.result === undefined ? html`<p class="quiet tool-result">No result is in the journal.</p>` : html`
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
  const said = question.given ?? question.answer;
  return html`<div class="asked-card"><p>${question.text}</p>
    <p class=${said ? "" : "quiet"}>${said ? html`<b>${typeof said === "string" ? said : said.told ?? argumentsText(said)}</b>${question.by ? html` <span class="quiet">by ${question.by}</span>` : null}` : "Not answered yet."}</p></div>`;
}

/** The id of the element that shows a call. */
export const anchor = (key) => `at-${encodeURIComponent(key)}`;
