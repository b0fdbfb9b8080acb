// The head of a run's page: state, progress, what is spent of its limits, and what can be done with it.

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { announce, useNow } from "../hooks.js";
import { Button, Confirm, Copy, Dialog, Field, Menu, Meter, State, Time, duration, plural } from "../parts.js";
import { go, href, parseKey } from "../router.js";

export function Head({ overview, api, reload, selected }) {
  const [asked, setAsked] = useState("");
  const [error, setError] = useState(null);
  const [stopping, setStopping] = useState(false);
  useEffect(() => setStopping(false), [overview.state]);
  const now = useNow(overview.state === "running");
  const { run, sop, file, state, reason, began, seconds, progress, caps, can, forked_from: parent, questions, models, sandbox } = overview;
  const passed = seconds + (state === "running" ? Math.max(0, now - overview.heard) : 0);
  const act = (work, said) => async () => {
    setError(null);
    try {
      await work();
      announce(said);
      await reload();
    } catch (problem) {
      setError(problem);
    }
  };
  const stop = async () => {
    await api.stop(run);
    setStopping(true);
  };
  const open = questions.filter(({ given }) => !given).length;
  const firing = parseKey(selected);
  const at = firing && firing.round !== null && !firing.inner ? `${firing.step}@${firing.round}` : firing ? `${firing.step}@${overview.steps[firing.step]?.fired || 1}` : "";
  const told = [...new Set(Object.values(models || {}))].map((model) => model.replace(/[^\s:,=]*\/([^/]+)$/, "…/$1"));
  return html`<header class="run-head">
    <div class="run-title"><h1 class="cut-line" title=${run}>${run}</h1><${State} state=${state} reason=${reason} />
      <div class="run-actions">
        ${open ? html`<a class="button waiting-button" href=${href("inbox", { run })}>Answer <span class="num">${open}</span></a>` : null}
        ${can.stop && api.live ? html`
          <${Button} kind="danger" disabled=${stopping} run=${act(stop, "Asked to stop.")} title="As Ctrl-C: it ends cleanly, and can be resumed">
            ${stopping ? "Stopping…" : "Stop"}<//>` : null}
        ${can.resume && api.live ? html`<${Button} kind="primary" run=${act(() => api.resume(run), "Resumed.")}>Resume<//>` : null}
        ${api.live ? html`<${Menu} label="More" items=${[
          { label: "Resume with…", told: "another model, a higher limit, a changed SOP", disabled: !can.resume, run: () => setAsked("resume") },
          { label: at ? `Fork before ${at}…` : "Fork…", told: "a new run with all that came before", disabled: !can.fork, run: () => setAsked("fork") },
          { label: "Run it again…", told: "the same SOP, reusing what has not changed", run: () => go(href("new", { file, from: run })) },
          { label: "Where it lies…", told: "folder and commands", run: () => setAsked("where") },
        ]} />` : null}</div></div>
    <div class="run-facts">
      <span class="facts-line"><span class="fact"><a class="plain" href=${href("sop", { file })}>${sop}</a></span><span class="fact">
        <${Time} at=${began} /></span>
        ${told.length ? html`<span class="fact wide" title=${told.join(", ")}>${told.length > 1 ? plural(told.length, "model") : told[0]}
          </span>` : null}
        ${sandbox ? html`<span class="fact wide">${sandbox === "none" ? "no sandbox" : sandbox}</span>` : null}
        ${parent ? html`<span class="fact">fork of <a href=${href("run", { run: String(parent).split("@")[0] })}>${parent}</a>
          </span>` : null}</span>
      <div class="meters">
        <${Meter} label="steps" told=${`${progress.done} of ${progress.of}`} plain share=${progress.share ?? (progress.of ? progress.done / progress.of : null)} />
        ${caps.map((cap) => html`
          <${Meter} key=${cap.what} label=${cap.what === "usd" ? "cost" : cap.what} spent=${cap.what === "time" ? passed : cap.spent} cap=${cap.cap}
          told=${cap.what === "time" ? timed(passed, cap.cap) : cap.told} />`)}</div>
    </div>
    ${state !== "running" && reason ? html`
      <p class=${`reason ${["failed", "failure", "stopped", "endpoint", "killed"].includes(state) ? "bad" : ""}`}><span class="pre">
      ${reason}</span></p>` : null}
    ${error ? html`<p class="reason bad" role="alert"><span class="pre">${error.message}</span></p>` : null}
    ${asked === "resume" ? html`<${ResumeWith} api=${api} run=${run} reload=${reload} onClose=${() => setAsked("")} />` : null}
    ${asked === "fork" ? html`<${Fork} api=${api} run=${run} at=${at} onClose=${() => setAsked("")} />` : null}
    ${asked === "where" ? html`<${Where} overview=${overview} onClose=${() => setAsked("")} />` : null}
  </header>`;
}

/** "10:32 of 30:00", which counts without jumping. */
const timed = (seconds, cap) => (cap ? `${clocked(seconds)} of ${clocked(cap)}` : duration(seconds));

function clocked(seconds) {
  const [whole, two] = [Math.floor(seconds), (number) => String(number).padStart(2, "0")];
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** What `sop resume` can be given. */
function ResumeWith({ api, run, reload, onClose }) {
  const [given, setGiven] = useState({});
  const set = (key) => (event) => setGiven({ ...given, [key]: event.target.type === "checkbox" ? event.target.checked : event.target.value });
  const go_on = async () => {
    const budget = Object.fromEntries((given.budget || "").split(/[,\s]+/).filter(Boolean).map((one) => one.split("=")));
    const { budget: _, ...rest } = given;
    const kept = Object.fromEntries(Object.entries(rest).filter(([, value]) => value));
    await api.resume(run, { ...kept, ...(Object.keys(budget).length ? { budget } : {}) });
    announce("Resumed.");
    await reload();
  };
  return html`<${Confirm} title=${`Resume ${run} with`} act="Resume" run=${go_on} onClose=${onClose}>
    <${Field} label="Model" told="By default the one that it had.">${({ id, describedBy }) => html`
      <input type="text" id=${id} spellcheck="false" aria-describedby=${describedBy} onInput=${set("model")} />`}<//>
    <${Field} label="Limits" told="Such as usd=5,tokens=2M,calls=100,time=30m: of the whole run, not of the rest.">
      ${({ id, describedBy }) => html`
      <input type="text" id=${id} spellcheck="false" aria-describedby=${describedBy} onInput=${set("budget")} />`}<//>
    <${Field} label="Stop after step">${({ id }) => html`<input type="text" id=${id} spellcheck="false" onInput=${set("until")} />`}<//>
    <label class="check"><input type="checkbox" onChange=${set("accept_changes")} />
      <span>With the SOP as it is now, if it changed since</span></label>
    <label class="check"><input type="checkbox" onChange=${set("retry_changed_prompts")} />
      <span>Call the model again (and pay) where a prompt changed</span></label>
  <//>`;
}

/** A new run from this one, as it was before a firing. */
function Fork({ api, run, at, onClose }) {
  const [before, setBefore] = useState(at);
  const [name, setName] = useState("");
  const [begin, setBegin] = useState(true);
  const fork = async () => {
    const made = await api.fork(run, { ...(before.trim() ? { at: before.trim() } : {}), ...(name.trim() ? { name: name.trim() } : {}) });
    if (begin) await api.resume(made.run);
    announce(`${made.run} was forked.`);
    go(href("run", { run: made.run }));
  };
  return html`<${Confirm} title=${`Fork ${run}`} act="Fork" run=${fork} onClose=${onClose}>
    <p class="quiet">The new run has all that this one did before that firing, at no cost, and does the rest anew. This run stays as it is.</p>
    <${Field} label="Before the firing" told="Such as fix_code@2. Empty: from where this run stands now.">${({ id, describedBy }) => html`
      <input type="text" class="mono" id=${id} spellcheck="false" aria-describedby=${describedBy} value=${before} onInput=${(event) => setBefore(event.target.value)} />`}
      <//>
    <${Field} label="Name" told="By default this run's name with the next free number.">${({ id, describedBy }) => html`
      <input type="text" id=${id} spellcheck="false" aria-describedby=${describedBy} value=${name} onInput=${(event) => setName(event.target.value)} />`}
      <//>
    <label class="check"><input type="checkbox" checked=${begin} onChange=${(event) => setBegin(event.target.checked)} />
      <span>Let it go on at once</span></label>
  <//>`;
}

function Where({ overview, onClose }) {
  const { run, folder } = overview;
  const lines = [["Folder", folder], ["Its result", `sop show ${run}`], ["Its log", `sop log ${run}`], ["Resume", `sop resume ${run}`], ["One file of it", `sop show ${run} --html ${run}.html`]];
  return html`<${Dialog} title=${run} onClose=${onClose}><dl class="where">${lines.filter(([, text]) => text).map(([label, text]) => html`
    <div key=${label}><dt class="quiet">${label}</dt><dd class="command"><code>${text}</code><${Copy} text=${text} label="Copy" /></dd>
      </div>`)}</dl><//>`;
}
