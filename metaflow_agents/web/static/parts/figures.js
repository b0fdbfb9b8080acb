// Numbers, times and states, said the same way everywhere.

import { html } from "../vendor/preact-htm.js";

const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

/** 1284 → "1,284"; from 10,000 on "12.8k", "3.41M". */
export function count(value) {
	if (!known(value)) return "–";
	if (value < 10000) return Math.round(value).toLocaleString("en-US");
	const [by, unit] = value < 999500 ? [1e3, "k"] : value < 999.5e6 ? [1e6, "M"] : [1e9, "G"];
	const scaled = value / by;
	return `${scaled.toFixed(scaled < 10 ? 2 : scaled < 100 ? 1 : 0)}${unit}`;
}

/** "1 call", "12 calls". */
// A model's name without the folder of its file.
export const modelName = (model) => model.replace(/[^\s:,=]*\/([^/]+)$/, "…/$1");
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** Seconds as "0.32 s", "8.1 s", "2 min 05 s", "3 h 12 min", "2 d 4 h". */
export function duration(seconds) {
	if (!known(seconds)) return "–";
	const positive = Math.max(0, seconds);
	if (positive < 0.095) return `${Math.round(positive * 1000)} ms`;
	if (positive < 1) return `${positive.toFixed(2)} s`;
	if (positive < 9.95) return `${positive.toFixed(1)} s`;
	const whole = Math.round(positive);
	const two = (number) => String(number).padStart(2, "0");
	if (whole < 60) return `${whole} s`;
	if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
	if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
	return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** Dollars as "$0.0042", "$1.27", "$312". */
export function money(usd) {
	if (!known(usd)) return "–";
	if (usd === 0) return "$0";
	return `$${usd < 0.01 ? usd.toPrecision(2) : usd < 100 ? usd.toFixed(2) : Math.round(usd).toLocaleString("en-US")}`;
}

export function bytes(number) {
	if (!known(number)) return "–";
	if (number < 1000) return `${number} B`;
	const [by, unit] = number < 1e6 ? [1e3, "kB"] : number < 1e9 ? [1e6, "MB"] : [1e9, "GB"];
	return `${(number / by).toFixed(number / by < 10 ? 1 : 0)} ${unit}`;
}

/** "just now", "4 min ago", "yesterday 14:03", "12 Mar 14:03". */
export function ago(at, now = Date.now() / 1000) {
	if (!known(at)) return "–";
	const past = now - at;
	if (past >= 0 && past < 45) return "just now";
	if (past >= 0 && past < 3600) return `${Math.max(1, Math.round(past / 60))} min ago`;
	const then = new Date(at * 1000);
	const days = Math.round((new Date(now * 1000).setHours(0, 0, 0, 0) - new Date(then).setHours(0, 0, 0, 0)) / 864e5);
	const time = clock(at).slice(0, 5);
	if (days === 0) return `today ${time}`;
	if (days === 1) return `yesterday ${time}`;
	const date = then.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...(days > 300 ? { year: "numeric" } : {}) });
	return `${date} ${time}`;
}

/** Unix time as "14:03:59", in the time of whoever looks. */
export const clock = (at) => (known(at) ? new Date(at * 1000).toLocaleTimeString("en-GB") : "–");

export function Time({ at, now }) {
	if (!known(at)) return html`<span class="quiet">–</span>`;
	const date = new Date(at * 1000);
	return html`<time class="num" dateTime=${date.toISOString()} title=${date.toLocaleString("en-GB")}>${ago(at, now)}</time>`;
}

export const Duration = ({ seconds }) => html`<span class="num">${duration(seconds)}</span>`;
export const Count = ({ value }) => html`<span class="num" title=${known(value) ? value.toLocaleString("en-US") : ""}>${count(value)}
	</span>`;
export const Bytes = ({ value }) => html`<span class="num" title=${known(value) ? `${value} bytes` : ""}>${bytes(value)}</span>`;

/** `estimated`: a price that is not known for sure; it gets a sign, and says so. */
export const Money = ({ usd, estimated }) => html`<span class="num" title=${estimated ? "estimated: not all prices are known" : ""}>
	${estimated && known(usd) ? "≈" : ""}${money(usd)}</span>`;

const STATES = {                        // of runs, steps, activations: the class of the colour, the sign, the word
	running: ["running", "●", "running"], done: ["done", "✓", "done"], success: ["done", "✓", "success"],
	failed: ["failed", "✕", "failed"], failure: ["failed", "✕", "no success"], stopped: ["failed", "■", "stopped"],
	waiting: ["waiting", "◔", "waiting"], budget: ["waiting", "◔", "budget met"], endpoint: ["failed", "✕", "no model answers"],
	interrupted: ["never", "■", "interrupted"], until: ["done", "✓", "as far as asked"], reused: ["done", "↺", "reused"],
	never: ["never", "○", "not reached"], killed: ["failed", "✕", "killed"], damaged: ["failed", "✕", "damaged"], unknown: ["never", "?", "unknown"],
};

/** The class of a state's colour: running, done, failed, waiting or never. */
export const hue = (state) => (STATES[state] || STATES.unknown)[0];

/** A state as a sign, a colour and a word: never by the colour alone. `reason` stands in the title. */
export function State({ state, reason, quiet }) {
	const [colour, sign, word] = STATES[state] || ["never", "?", state || "unknown"];
	return html`<span class=${`state ${colour} ${quiet ? "quiet-state" : ""}`} title=${reason || ""}>
		<span class="sign" aria-hidden="true">${sign}</span><span>${word}</span></span>`;
}

/** What is spent of a cap: a figure, and a bar where there is a cap. `plain`: to be full is no warning. */
export function Meter({ label, spent, cap, told, share, plain }) {
	const part = share ?? (cap ? spent / cap : null);
	const full = part === null ? 0 : Math.min(1, Math.max(0, part));
	const near = plain ? "" : full >= 1 ? "over" : full >= 0.8 ? "near" : "";
	return html`<div class=${`meter ${near}`}>
		<span class="meter-label">${label}</span>
		<span class="meter-value num">${told}</span>
		${part === null ? html`<span class="meter-bar none" aria-hidden="true"></span>` : html`
			<span class="meter-bar" role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax="100"
				aria-valuenow=${Math.round(full * 100)} aria-valuetext=${told}><span style=${{ width: `${full * 100}%` }}></span></span>`}
	</div>`;
}
