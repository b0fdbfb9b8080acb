// Two runs side by side, as `sop diff` has them.

import { Button, Choice, count, Diff, duration, Empty, html, Loaded, money, plural, Problem, State, Table, useLoad, useState, useTitle } from "../parts.js";
import { altered, go, href } from "../router.js";
import { Hunks } from "./artifact_diff.js";
import { hunksOf } from "./unified.js";

export default function Compare({ api, route }) {
	const { a, b } = route.query;
	useTitle(a && b ? `${a} and ${b}` : "Compare");
	const { value: listed, error: listing } = useLoad(() => api.runs(), [api]);
	const runs = listed?.runs || [];
	const to = (changes) => go(altered(route, changes));
	return html`<div class="page compare">
		<div class="page-head"><h1>Compare two runs</h1></div>
		${listing ? html`<${Problem} error=${listing} />` : null}
		<div class="row compare-choice"><${Run} label="First run" value=${a} runs=${runs} other=${b} onChoose=${(name) => to({ a: name })} />
			<${Button} kind="small" label="Swap the two runs" disabled=${!(a && b)} run=${() => to({ a: b, b: a })}>⇄<//>
			<${Run} label="Second run" value=${b} runs=${runs} other=${a} onChoose=${(name) => to({ b: name })} /></div>
		${a && b ? html`<${Both} key=${`${a} ${b}`} api=${api} a=${a} b=${b} />` : html`<${Empty} title="Choose two runs"><p>Of the same SOP or of two; a fork and the run that it came from are told apart best.</p><//>`}
	</div>`;
}

/** Runs of the same SOP as the other one stand first. */
function Run({ label, value, runs, other, onChoose }) {
	const sop = runs.find(({ run }) => run === other)?.sop;
	const options = (wanted) => runs.filter((run) => run.run !== other && (run.sop === sop) === wanted).map((run) => [run.run, `${run.run} (${run.sop}, ${run.state})`]);
	const groups = [[`of ${sop}`, options(true)], [sop ? "others" : "all", options(false)]].filter(([, held]) => held.length);
	const known = !value || runs.some(({ run }) => run === value);
	return html`<${Choice} label=${label} class="compare-run" value=${value || ""} onChoose=${onChoose}
		options=${[["", "choose…"], ...(known ? [] : [[value, value]]), ...groups.map(([name, held]) => ({ label: name, options: held }))]} />`;
}

function Both({ api, a, b }) {
	const asked = useLoad(() => api.compare(a, b), [api, a, b]);
	return html`<${Loaded} from=${asked} lines=${8}>${(found) => {
		const differ = found.artifacts.filter(({ same }) => !same);
		const none = !found.sop.length && !differ.length && !Object.keys(found.prompts || {}).length;
		return html`<${Figures} found=${found} a=${a} b=${b} />
			${none ? html`<p class="panel padded">Both ran the same SOP, asked the same and made the same.</p>` : null}
			${found.sop.length ? html`<section class="stack"><h2>The SOP</h2><ul class="panel padded changes">${found.sop.map((one, number) => html`<li key=${number}>${one}</li>`)}</ul></section>` : null}
			${differ.length ? html`<section class="stack"><h2>${plural(differ.length, "artifact differs", "artifacts differ")}</h2>${differ.map((one) => html`
				<${Opened} key=${one.name} label=${one.name} told=${versions(one, a, b)} open=${differ.length === 1}><${MadeDiff} api=${api} a=${a} b=${b} name=${one.name} /><//>`)}</section>` : null}
			<${Prompts} prompts=${found.prompts || {}} a=${a} b=${b} />
			${found.prompts_left_out ? html`<p class="quiet">So many calls are not compared prompt by prompt; <code>sop diff ${a} ${b}</code> does it.</p>` : null}
			<${Costs} costs=${found.costs} a=${a} b=${b} />`;
	}}<//>`;
}

const versions = (one, a, b) => (!one.a ? `in ${b} alone` : !one.b ? `in ${a} alone` : `${one.input ? "given, " : ""}@${one.a} and @${one.b}`);

/** Name, value in the first, value in the second, and how they differ, for figures. */
function Figures({ found, a, b }) {
	const [one, two] = [found.cost[a], found.cost[b]];
	if (!one || !two) return null;
	const figure = (name, key, tell) => ({ name, one: tell(one[key]), two: tell(two[key]), change: change(one[key], two[key]) });
	const rows = [
		{ name: "state", one: html`<${State} state=${one.state} />`, two: html`<${State} state=${two.state} />`, change: "" },
		figure("time", "seconds", duration), figure("activations", "activations", count), figure("calls", "calls", count), figure("tokens", "tokens", count),
		...(one.cost || two.cost ? [figure("cost", "cost", money)] : []),
		...Object.entries(found.firings).map(([step, [left, right]]) => ({ name: `${step} fired`, one: count(left), two: count(right), change: change(left, right) })),
		...Object.entries(found.models).map(([role, [left, right]]) => ({ name: `model of ${role}`, one: left || "none", two: right || "none", change: "" })),
	];
	const column = (name, label, cell) => ({ name, label, cell, class: "compare-value" });
	return html`<${Table} caption="Outcome and cost" id=${(row) => row.name} rows=${rows} columns=${[
		{ name: "name", label: "", cell: (row) => html`<span class="quiet">${row.name}</span>` },
		column("one", html`<a href=${href("run", { run: a })}>${a}</a>`, (row) => html`<span class="num">${row.one}</span>`),
		column("two", html`<a href=${href("run", { run: b })}>${b}</a>`, (row) => html`<span class="num">${row.two}</span>${row.change ? html`<span class="num quiet compare-inline"> ${row.change}</span>` : null}`),
		{ name: "change", label: "difference", class: "compare-change", cell: (row) => html`<span class="num quiet">${row.change}</span>` }]} />`;
}

/** "+20 %" of the second against the first; empty where they are the same or nothing is there to compare with. */
export function change(one, two) {
	if (typeof one !== "number" || typeof two !== "number" || one === two) return "";
	if (!one) return "new";
	const part = (two - one) / one;
	if (Math.abs(part) >= 9.995) return `×${(two / one).toFixed(1)}`;
	return `${part > 0 ? "+" : "−"}${(Math.abs(part) * 100).toFixed(Math.abs(part) < 0.0995 ? 1 : 0)} %`;
}

function MadeDiff({ api, a, b, name }) {
	const asked = useLoad(() => api.compareArtifact(a, b, name), [api, a, b, name]);
	return html`<${Loaded} from=${asked} lines=${3}>${(found) => html`<${Hunks} found=${found} label=${name} />`}<//>`;
}

function Prompts({ prompts, a, b }) {
	const steps = Object.entries(prompts);
	if (!steps.length) return null;
	return html`<section class="stack"><h2>Prompts that differ</h2>${steps.map(([step, { differ, only, first }]) => html`
		<${Opened} key=${step} label=${step} told=${[differ.length && `${plural(differ.length, "call")} differ`, only[0].length && `${count(only[0].length)} in ${a} alone`, only[1].length && `${count(only[1].length)} in ${b} alone`].filter(Boolean).join(", ")}>
			${first ? html`<p class="quiet">The first that differs is <code>${differ[0]}</code>.</p><div class="panel"><${Diff} hunks=${hunksOf(first)} label=${`Prompt of ${differ[0]}`} /></div>` : null}
			${only.map((keys, side) => (keys.length ? html`<p key=${side} class="quiet">In ${side ? b : a} alone: ${keys.slice(0, 12).map((key, number) => html`${number ? ", " : ""}<a href=${href("run", { run: side ? b : a, view: "conversation", key })}><code>${key}</code></a>`)}${keys.length > 12 ? ` and ${keys.length - 12} more` : ""}</p>` : null))}<//>`)}</section>`;
}

function Costs({ costs, a, b }) {
	const rows = Object.entries(costs).flatMap(([by, held]) => Object.entries(held).map(([name, [one, two]]) => ({ by: by.replace(/s$/, ""), name, one, two })));
	const priced = rows.some(({ one, two }) => one?.cost || two?.cost);
	if (!rows.length) return null;
	const tell = (spent) => (spent?.calls ? html`${count(spent.tokens)} tokens, ${plural(spent.calls, "call")}${priced ? `, ${money(spent.cost)}` : ""}` : "nothing");
	return html`<section class="stack"><h2>Costs that differ</h2><${Table} caption="Costs by step, role and model" rows=${rows} id=${(row) => `${row.by} ${row.name}`} columns=${[
		{ name: "by", label: "by", cell: (row) => html`<span class="quiet">${row.by}</span>` }, { name: "name", label: "name", cell: (row) => row.name },
		{ name: "one", label: a, num: true, cell: (row) => tell(row.one) }, { name: "two", label: b, num: true, cell: (row) => tell(row.two) },
		{ name: "change", label: "tokens", num: true, cell: (row) => html`<span class="quiet">${change(row.one?.tokens ?? 0, row.two?.tokens ?? 0)}</span>` }]} /></section>`;
}

/** Something that is asked for when it is opened. */
function Opened({ label, told, open: initially = false, children }) {
	const [open, setOpen] = useState(initially);
	return html`<div class="panel opened"><h3><button class="part-head" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>
		<span class="part-arrow" aria-hidden="true">${open ? "▾" : "▸"}</span><span class="part-label mono">${label}</span><span class="part-told num">${told}</span></button></h3>
		${open ? html`<div class="opened-body stack">${children}</div>` : null}</div>`;
}
