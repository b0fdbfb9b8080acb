// The panel at the side of a run: what it cost, what it asks, its log, its audit.

import { html, useEffect, useRef, useState } from "../vendor/preact-htm.js";
import { useLatest, useLoad } from "../hooks.js";
import { Button, Copy, Count, Empty, Loading, Money, Problem, Tabs, VirtualList, clock, count, duration, plural } from "../parts.js";
import { within } from "../router.js";
import { Question, idOf } from "./question.js";

const LOG_PAGE = 200;
const LOG_MOST = 4000;                  // rows that the panel holds; earlier ones are asked for again

export function Side({ api, run, overview, feed, selected, select, reload }) {
  const open = overview.questions.filter(({ given }) => !given);
  const [tab, setTab] = useState(open.length ? "questions" : "cost");
  const tabs = [{ name: "cost", label: "Cost" }, { name: "questions", label: "Questions", count: open.length || null, alert: true }, { name: "log", label: "Log" }, { name: "audit", label: "Audit" }];
  const Panel = { cost: Costs, questions: Questions, log: Log, audit: Audit }[tab];
  return html`<aside class="run-side" aria-label="Cost, questions, log, audit">
    <${Tabs} tabs=${tabs} active=${tab} onSelect=${setTab} label="Side panel" id="side" />
    <div class=${`side-panel ${tab}`} role="tabpanel" id="side-panel" aria-labelledby=${`side-${tab}`}>
      <${Panel} api=${api} run=${run} overview=${overview} feed=${feed} selected=${selected} select=${select} reload=${reload} /></div>
      </aside>`;
}

/** Loads anew when events came, at most every `every` milliseconds. */
function useFollowed(feed, reload, every = 1500) {
  const timer = useRef(0);
  const look = useLatest(reload);
  useEffect(() => {
    const stop = feed.subscribe(() => {
      if (timer.current) return;
      timer.current = setTimeout(() => { timer.current = 0; look(); }, every);
    });
    return () => { stop(); clearTimeout(timer.current); timer.current = 0; };
  }, [feed]);
}

const BY = [["steps", "Step"], ["roles", "Role"], ["models", "Model"], ["keys", "Item"]];

function Costs({ api, run, feed, selected, select, overview }) {
  const { value, error, reload } = useLoad(() => api.costs(run), [run]);
  const [by, setBy] = useState("steps");
  useFollowed(feed, reload);
  if (error && !value) return html`<${Problem} error=${error} retry=${reload} />`;
  if (!value) return html`<${Loading} />`;
  const rows = Object.entries(value[by] || {}).sort(([, one], [, two]) => two.cost - one.cost || two.tokens - one.tokens);
  if (!value.total?.calls && !value.total?.unanswered?.calls) return html`<p class="none quiet">No model was asked yet.</p>`;
  const most = Math.max(1e-12, ...rows.map(([, one]) => one.cost || one.tokens / 1e9));
  return html`<div class="stack">
    <dl class="sums"><div><dt>cost</dt><dd><${Money} usd=${value.total.cost} estimated=${value.total.estimated} /></dd></div><div>
      <dt>calls</dt><dd><${Count} value=${value.total.calls} /></dd></div>
      <div><dt>tokens in</dt><dd><${Count} value=${value.total.tokens_in} /></dd></div><div><dt>out</dt><dd>
        <${Count} value=${value.total.tokens_out} /></dd></div><div><dt>cached</dt><dd><${Count} value=${value.total.tokens_cached} />
        </dd></div></dl>
    <div class="segments" role="group" aria-label="Costs by">
      ${BY.filter(([name]) => Object.keys(value[name] || {}).length).map(([name, label]) => html`
      <button key=${name} type="button" aria-pressed=${String(by === name)} onClick=${() => setBy(name)}>${label}</button>`)}</div>
    <table class="mini costs"><caption class="hidden">Costs</caption><thead><tr><th scope="col">
      ${BY.find(([name]) => name === by)[1].toLowerCase()}</th><th scope="col" class="right">calls</th>
      <th scope="col" class="right">tokens</th><th scope="col" class="right">cost</th></tr></thead>
      <tbody>${rows.slice(0, 60).map(([name, one]) => html`
        <tr key=${name} class=${by === "steps" && within(selected || "", name) ? "selected" : ""}>
        <td>${by === "steps" && overview.steps[name.split("/")[0]] ? html`
          <button type="button" class="plain-button cut-line" onClick=${() => select(name.split("/")[0])}>${name}</button>` : html`
          <span class="cut-line" title=${name}>${name}</span>`}<span class="share" aria-hidden="true"><span style=${{ width: `${(100 * (one.cost || one.tokens / 1e9)) / most}%` }}></span></span></td>
        <td class="right"><${Count} value=${one.calls} /></td><td class="right"><${Count} value=${one.tokens} /></td><td class="right">
          <${Money} usd=${one.cost} estimated=${one.estimated} /></td></tr>`)}</tbody></table>
    ${rows.length > 60 ? html`<p class="told">The 60 most expensive of ${count(rows.length)}.</p>` : null}
    ${value.total.unanswered?.calls ? html`<p class="told">
      ${plural(value.total.unanswered.calls, "call")} sent and not answered: at most ${count(value.total.unanswered.tokens)} tokens.</p>` : null}
      </div>`;
}

function Questions({ api, overview, reload }) {
  const all = overview.questions;
  if (!all.length) return html`<p class="none quiet">It asks nothing.</p>`;
  const open = all.filter(({ given }) => !given);
  return html`<div class="stack questions">${all.map((question) => html`
    <${Question} key=${idOf(question)} api=${api} question=${question} open=${open} here onDone=${() => { dispatchEvent(new Event("sop-questions")); return reload(); }} />`)}
    </div>`;
}

function Log({ api, run, overview, feed, selected, select }) {
  const [rows, setRows] = useState(null);
  const [error, setError] = useState(null);
  const [kind, setKind] = useState("");
  const [mine, setMine] = useState(true);
  const step = mine ? selected.split(/[@~[/]/)[0] : "";
  const asked = `${kind} ${step}`;
  const now = useRef(asked);
  now.current = asked;
  const busy = useRef(false);
  const load = async (after, limit = LOG_PAGE) => {
    busy.current = true;
    try {
      const got = await api.log(run, { after, limit, kind, step });
      if (now.current === asked) setError(null);
      return now.current === asked ? got.rows : [];
    } catch (problem) {
      if (now.current === asked) setError(problem);
      return [];
    } finally {
      busy.current = false;
    }
  };
  useEffect(() => {
    setRows(null);
    load(kind || step ? 0 : Math.max(0, overview.seq - LOG_PAGE), kind || step ? LOG_MOST : LOG_PAGE).then((got) => now.current === asked && setRows(got));
  }, [run, asked]);
  useFollowed(feed, async () => {
    if (!rows || busy.current) return;
    const more = await load(rows.at(-1)?.seq || 0);
    if (more.length) setRows((before) => [...before, ...more].slice(-LOG_MOST));
  }, 700);
  const earlier = async () => {
    const first = rows[0].seq;
    const got = await load(Math.max(0, first - 1 - LOG_PAGE));
    setRows((before) => [...got.filter(({ seq }) => seq < first), ...before]);
  };
  const kinds = ["fired", "settled", "observed", "decided", "asked", "failed", "finished", "committed", "run_ended"];
  return html`<div class="log"><div class="row log-bar">
      <select aria-label="Kind of events" value=${kind} onChange=${(event) => setKind(event.target.value)}>
        <option value="">all events</option>${kinds.map((one) => html`<option key=${one}>${one}</option>`)}</select>
      ${selected ? html`<label class="check">
        <input type="checkbox" checked=${mine} onChange=${(event) => setMine(event.target.checked)} />
        <span>only ${selected.split(/[@~[/]/)[0]}</span></label>` : null}
      ${rows?.length && rows[0].seq > 1 && !kind && !step ? html`<${Button} kind="small" run=${earlier}>Earlier<//>` : null}</div>
    ${error ? html`<${Problem} error=${error} />` : !rows ? html`<${Loading} />` : rows.length ? html`
      <${VirtualList} class="log-rows" label="Events" count=${rows.length} height=${38} follow row=${(at) => html`
        <${Row} row=${rows[at]} select=${select} />`} />` : html`<p class="none quiet">No such event.</p>`}</div>`;
}

const Row = ({ row, select }) => html`<div class=${`log-row ${row.kind}`}><span class="num quieter" title=${`event ${row.seq}`}>
  ${typeof row.at === "number" && row.at < 1e8 ? duration(row.at) : clock(row.at)}</span>
  <span class="log-text"><span class="log-head"><span class="log-kind">${row.kind}</span>
    ${row.place ? html` <button type="button" class="plain-button mono" onClick=${() => select(row.place)}>${row.place}</button>` : null}
    </span>
  <span class="cut-line" title=${row.text}>${row.text}</span></span></div>`;

function Audit({ api, run, feed, select }) {
  const { value, error, reload } = useLoad(() => api.audit(run), [run]);
  useFollowed(feed, reload, 3000);
  if (error && !value) return html`<${Problem} error=${error} retry=${reload} />`;
  if (!value) return html`<${Loading} />`;
  const faults = value.faults || [];
  return html`<div class="stack">
    ${faults.length ? html`<div class="problem" role="alert"><h2>The record was altered</h2>${faults.map((fault, at) => html`
      <p key=${at} class="pre">${fault.text || String(fault)}</p>`)}</div>` : value.records.length ? html`
      <p class="verified"><span class="state done"><span class="sign" aria-hidden="true">✓</span>unaltered</span> <span class="quiet">
        ${plural(value.records.length, "record")}, each holds the digest of the one before</span></p>` : null}
    ${value.records.length ? html`<ol class="audit">${value.records.map((record) => html`
      <li key=${record.seq} class=${record.verdict || record.kind}>
      <div class="spread"><span class="log-kind">${record.verdict || record.kind}</span><span class="num quieter">
        ${typeof record.at === "number" && record.at < 1e8 ? duration(record.at) : clock(record.at)}</span></div>
      <p class="pre">${record.text || record.action || ""}</p>
      ${record.rule ? html`<p class="told">by <code>${record.rule}</code></p>` : null}${record.untrusted ? html`
        <p class="told">had read: ${record.untrusted}</p>` : null}
      ${record.place || record.key ? html`
        <button type="button" class="plain-button mono" onClick=${() => select(record.place || record.key)}>${record.place || record.key}
        </button>` : null}</li>`)}</ol>` : html`<${Empty} title="Nothing to audit">
        <p>No action was decided about, and nobody was asked.</p><//>`}
    ${value.head ? html`<div class="spread">
      <code class="quieter cut-line" title=${value.head}>head ${String(value.head).slice(0, 16)}…</code>
      <${Copy} text=${value.head} label="Copy the head" /></div>` : null}</div>`;
}
