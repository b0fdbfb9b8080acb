// The head of a run's page: state, progress, what is spent of its limits, and what can be done with it.

import { announce, Button, Confirm, Copy, Dialog, duration, Entry, html, Menu, Meter, modelName, plural, State, Tick, Time, useEffect, useNow, useState } from "../parts.js";
import { go, href, parseKey } from "../router.js";

const BAD = ["failed", "failure", "stopped", "endpoint", "killed", "damaged"];

export function Head({ overview, api, reload, selected }) {
	const [asked, setAsked] = useState("");
	const [error, setError] = useState(null);
	const [stopping, setStopping] = useState(false);
	useEffect(() => setStopping(false), [overview.state]);
	const { run, sop, file, state, reason, began, progress, can, forked_from: parent, questions, models, sandbox } = overview;
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
	const stop = act(async () => { await api.stop(run); setStopping(true); }, "Asked to stop.");
	const open = questions.filter(({ given }) => !given).length;
	const told = [...new Set(Object.values(models || {}))].map(modelName);
	const at = firingOf(selected, overview.steps);
	const more = [
		{ label: "Resume with…", told: "another model, a higher limit, a changed SOP", disabled: !can.resume, run: () => setAsked("resume") },
		{ label: at ? `Fork before ${at}…` : "Fork…", told: "a new run with all that came before", disabled: !can.fork, run: () => setAsked("fork") },
		{ label: "Run it again…", told: "the same SOP, reusing what has not changed", run: () => go(href("new", { file, from: run })) },
		{ label: "Where it lies…", told: "folder and commands", run: () => setAsked("where") }];
	const Asked = { resume: ResumeWith, fork: Fork, where: Where }[asked];
	return html`<header class="run-head">
		<div class="run-title"><h1 class="cut-line" title=${run}>${run}</h1><${State} state=${state} reason=${reason} />
			${api.live ? html`<div class="run-actions">
				${open ? html`<a class="button waiting-button" href=${href("inbox", { run })}>Answer <span class="num">${open}</span></a>` : null}
				${can.stop ? html`<${Button} kind="danger" disabled=${stopping} run=${stop} title="As Ctrl-C: it ends cleanly, and can be resumed">${stopping ? "Stopping…" : "Stop"}<//>` : null}
				${can.resume ? html`<${Button} kind=${open ? "" : "primary"} run=${act(() => api.resume(run), "Resumed.")}>Resume<//>` : null}
				<${Menu} label="More" items=${more} /></div>` : null}</div>
		<div class="run-facts">
			<p class="facts-line"><span class="fact"><a class="plain" href=${href("sop", { file })}>${sop}</a></span><span class="fact"><${Time} at=${began} /></span>
				${told.length ? html`<span class="fact wide" title=${told.join(", ")}>${told.length > 1 ? plural(told.length, "model") : told[0]}</span>` : null}
				${sandbox ? html`<span class="fact wide">${sandbox === "none" ? "no sandbox" : sandbox}</span>` : null}
				${parent ? html`<span class="fact">fork of <a href=${href("run", { run: parent.split("@")[0] })}>${parent}</a></span>` : null}</p>
			<div class="meters"><${Meter} label="steps" told=${`${progress.done} of ${progress.of}`} plain share=${progress.share ?? progress.done / (progress.of || 1)} /><${Caps} overview=${overview} /></div>
		</div>
		${state !== "running" && reason ? html`<p class=${`reason pre ${BAD.includes(state) ? "bad" : ""}`}>${reason}</p>` : null}
		${error ? html`<p class="reason pre bad" role="alert">${error.message}</p>` : null}
		${Asked ? html`<${Asked} api=${api} run=${run} at=${at} overview=${overview} reload=${reload} onClose=${() => setAsked("")} />` : null}
	</header>`;
}

/** The firing that is selected: of a step its latest one. */
function firingOf(selected, steps) {
	const key = parseKey(selected);
	return key ? `${key.step}@${key.round ?? (steps[key.step]?.fired || 1)}` : "";
}

/** What is spent of each limit. The time goes on between two events. */
function Caps({ overview: { caps, state, seconds, heard } }) {
	const now = useNow(state === "running");
	const passed = seconds + (state === "running" ? Math.max(0, now - heard) : 0);
	return caps.map(({ what, spent, cap, told }) => (what === "time" ? html`
		<${Meter} key=${what} label="time" spent=${passed} cap=${cap} told=${cap ? `${clocked(passed)} of ${clocked(cap)}` : duration(passed)} />`
		: html`<${Meter} key=${what} label=${what === "usd" ? "cost" : what} spent=${spent} cap=${cap} told=${told} />`));
}

/** "10:32", "1:05:00", which counts without jumping. */
function clocked(seconds) {
	const two = (number) => String(Math.floor(number)).padStart(2, "0");
	return `${seconds < 3600 ? Math.floor(seconds / 60) : `${Math.floor(seconds / 3600)}:${two((seconds % 3600) / 60)}`}:${two(seconds % 60)}`;
}

/** What `sop resume` can be given. */
function ResumeWith({ api, run, reload, onClose }) {
	const [given, setGiven] = useState({});
	const set = (key) => (value) => setGiven((before) => ({ ...before, [key]: value }));
	const resume = async () => {
		const kept = Object.fromEntries(Object.entries(given).filter(([, value]) => value));
		if (kept.budget) kept.budget = Object.fromEntries(kept.budget.split(/[,\s]+/).filter(Boolean).map((one) => one.split("=")));
		await api.resume(run, kept);
		announce("Resumed.");
		await reload();
	};
	return html`<${Confirm} title=${`Resume ${run} with`} act="Resume" run=${resume} onClose=${onClose}>
		<${Entry} label="Model" told="By default the one that it had." mono value=${given.model} onText=${set("model")} />
		<${Entry} label="Limits" told="Such as usd=5,tokens=2M,calls=100,time=30m: of the whole run, not of the rest." mono value=${given.budget} onText=${set("budget")} />
		<${Entry} label="Stop after step" mono value=${given.until} onText=${set("until")} />
		<${Tick} on=${given.accept_changes} onTick=${set("accept_changes")}>With the SOP as it is now, if it changed since<//>
		<${Tick} on=${given.retry_changed_prompts} onTick=${set("retry_changed_prompts")}>Call the model again (and pay) where a prompt changed<//><//>`;
}

/** A new run from this one, as it was before a firing. */
export function Fork({ api, run, at, onClose }) {
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
		<p class="quiet">The new run has all that this one did before that firing, at no cost, and does the rest anew, which may cost money. This run stays as it is.</p>
		<${Entry} label="Before the firing" told="Such as fix_code@2. Empty: from where this run stands now." mono value=${before} onText=${setBefore} />
		<${Entry} label="Name" told="By default this run's name with the next free number." mono value=${name} onText=${setName} />
		<${Tick} on=${begin} onTick=${setBegin}>Let it go on at once<//><//>`;
}

function Where({ overview: { run, folder }, onClose }) {
	const lines = [["Folder", folder], ["Its result", `sop show ${run}`], ["Its log", `sop log ${run}`], ["Resume", `sop resume ${run}`], ["One file of it", `sop show ${run} --html ${run}.html`]];
	return html`<${Dialog} title=${run} onClose=${onClose}><dl class="where">${lines.map(([label, text]) => html`
		<div key=${label}><dt class="quiet">${label}</dt><dd class="command"><code>${text}</code><${Copy} text=${text} /></dd></div>`)}</dl><//>`;
}
