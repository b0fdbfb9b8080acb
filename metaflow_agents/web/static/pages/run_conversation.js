// A conversation: what a role was shown, by its parts, what it answered, what it did, and what came of it.

import { Button, Copy, Count, Empty, html, Loading, modelName, plural, Problem, Search, State, useEffect, useLatest, useLoad, useMemo, useReducer, useRef, useShortcuts, useState } from "../parts.js";
import { href, within } from "../router.js";
import { segments, words } from "./activation.js";
import { Finding, places, textOf } from "./conversation_find.js";
import { Thoughts } from "./conversation_thoughts.js";
import { anchor } from "./conversation_tools.js";
import { Acts, Turn } from "./conversation_turn.js";
import { Conversation, asMarkdown } from "./conversation_turns.js";
import { Fork } from "./run_head.js";

export default function ConversationView({ api, run, overview, feed, selected, select }) {
	const own = activationOf(selected);
	const { value: found, error, loading } = useLoad(() => (own ? own : resolved(api, run, selected, overview.state === "running")), [own, own ? "" : selected]);
	const key = own || found;
	if (error) return html`<${Problem} error=${error} />`;
	if (!key && loading) return html`<${Loading} />`;
	if (!key) return html`<${Empty} title="No activation to show"><p>${selected ? `“${selected}” has not begun.` : "Nothing has begun yet."} Its conversation appears here.</p><//>`;
	return html`<${One} key=${key} api=${api} run=${run} overview=${overview} feed=${feed} at=${selected} activation=${key} select=${select} />`;
}

/** The activation that a key names or lies in: `write@2~0/turn.1/tool.0` → `write@2~0`; empty for a step, a firing or an item. */
const activationOf = (key) => {
	const parts = segments(key || "");
	const last = parts.findLastIndex((part) => /~\d+$/.test(part));
	return last < 0 ? "" : parts.slice(0, last + 1).join("/");
};

/** Of what is selected the activation that asked a model last, or began last; of all of a run that has ended the first one. */
async function resolved(api, run, selected, live) {
	const first = !selected && !live && (await api.activations(run, { limit: 50 })).rows.find((row) => row.calls);
	if (first) return first.key;
	const latest = async (query) => {
		const { total } = await api.activations(run, { ...query, limit: 1 });
		if (!total) return [];
		return (await api.activations(run, { ...query, offset: Math.max(0, total - 50), limit: 50 })).rows;
	};
	const rows = (await latest(selected ? { step: /^[^@[~/]+/.exec(selected)?.[0] } : {})).filter((row) => !selected || within(row.key, selected));
	return (rows.findLast((row) => row.calls) || rows.at(-1))?.key || "";
}

function One({ api, run, overview, feed, at, activation, select }) {
	const conversation = useConversation(api, run, activation, feed);
	const { told, turns, error, more } = conversation;
	const find = useFind(conversation);
	const [forking, setForking] = useState(false);
	const shownFor = useRef("");
	useEffect(() => {                     // a call or a turn that was chosen: asked for, then scrolled to
		if (!told || at === activation || shownFor.current === at) return;
		const holds = (list) => list.some((turn) => at === turn.key || at.startsWith(`${turn.key}/`) || turn.key.startsWith(at));
		conversation.until(holds).then(() => requestAnimationFrame(() => {
			shownFor.current = at;
			const place = document.getElementById(anchor(at)) || document.getElementById(anchor(turns.find((turn) => at.startsWith(`${turn.key}/`) || turn.key.startsWith(at))?.key || ""));
			place?.scrollIntoView({ block: "start" });
		}));
	}, [at, told === null, turns.length]);
	const step = useStepper(turns, conversation);
	useShortcuts([
		{ keys: "j", told: "next turn", run: () => step(1) },
		{ keys: "k", told: "turn before", run: () => step(-1) },
		{ keys: "]", told: "next conversation", run: () => told?.next && select(told.next) },
		{ keys: "[", told: "conversation before", run: () => told?.previous && select(told.previous) },
		{ keys: "n", told: "next place found", run: () => find.step(1) },
		{ keys: "N", told: "place found before", run: () => find.step(-1) },
	]);
	if (error && !told) return html`<${Problem} error=${error} retry=${() => conversation.load(0)} />`;
	if (!told) return html`<${Loading} lines=${9} />`;
	return html`<${Finding.Provider} value=${{ query: find.query, at: find.at }}>
		<div class="conversation">
			<${Head} told=${told} turns=${turns} conversation=${conversation} open=${select} overview=${overview} live=${api.live} onFork=${() => setForking(true)} />
			<${FindBar} find=${find} />
			<div class="conversation-body">
				<${Outline} turns=${turns} total=${told.total ?? turns.length} current=${at} open=${select} />
				<div class="turns">
					${told.thoughts?.length ? html`<${Thoughts} thoughts=${told.thoughts} onOpen=${select} chosen=${at} />` : null}
					${inOrder(turns, told.acts || [], more === null).map(({ turn, number, acts }) => (acts ? html`<div key=${`acts ${acts[0].seq}`} class="turn tools"><${Acts} acts=${acts} run=${run} api=${api} /></div>` : html`<${Turn} key=${`${turn.key} ${turn.try}`} turn=${turn} number=${number} before=${turns[number - 1]} role=${told.role} run=${run} api=${api} chosen=${at !== activation && (at === turn.key || at.startsWith(`${turn.key}/`))} />`))}
					${!turns.length && !told.acts?.length ? html`<${Empty} title="Nothing was said"><p>${told.ended?.state === "reused" ? "Its result was taken over from an earlier run." : "This activation called no model, command or tool."}</p><//>` : null}
					${more !== null ? html`<${More} conversation=${conversation} total=${told.total} />` : html`<${Ended} ended=${told.ended} run=${run} />`}
					${error ? html`<${Problem} error=${error} retry=${() => conversation.next() ?? conversation.load(0)} />` : null}
				</div>
			</div>
		</div>
		${forking ? html`<${Fork} api=${api} run=${run} at=${activation.replace(/^([^@]+@\d+).*$/s, "$1")} onClose=${() => setForking(false)} />` : null}
	<//>`;
}

/** Turns and what was done beside them, by when it began; what is behind the last turn waits until all are here. */
function inOrder(turns, acts, whole) {
	const found = turns.map((turn, number) => ({ turn, number, seq: turn.seq }));
	for (const act of acts) {
		const at = found.findLastIndex(({ seq }) => seq < act.seq);
		if (found[at]?.acts) found[at].acts.push(act);
		else if (whole || at < found.length - 1) found.splice(at + 1, 0, { acts: [act], seq: act.seq });
	}
	return found;
}

function useConversation(api, run, key, feed) {
	const [, redraw] = useReducer((number) => number + 1, 0);
	const conversation = useMemo(() => new Conversation(api, run, key, redraw), [api, run, key]);
	useEffect(() => {
		conversation.load(0);
		const stop = feed?.subscribe((news) => {
			if ((news.touched ?? [key]).includes(key)) conversation.soon();
		});
		return () => { stop?.(); conversation.close(); };
	}, [conversation]);
	return conversation;
}

/** What is looked for, and the place that is looked at; all turns are asked for first. */
function useFind(conversation) {
	const [query, setQuery] = useState("");
	const [nth, setNth] = useState(0);
	const { turns, told } = conversation;
	const found = useMemo(() => (query.length > 1 ? places(query, turns, told?.acts) : []), [query, turns, told]);
	const number = found.length ? ((nth % found.length) + found.length) % found.length : -1;
	return {
		query: query.length > 1 ? query : "", found, number, at: number < 0 ? null : found[number],
		search: (text) => { setQuery(text); setNth(0); if (text.length > 1) conversation.until(() => false); },
		step: (by) => setNth(number + by),
	};
}

/** Moves the focus from turn to turn; behind the last one more are asked for. */
function useStepper(turns, conversation) {
	return useLatest(async (by) => {
		const all = [...document.querySelectorAll(".turns > .turn[data-row]")];
		const here = all.findIndex((turn) => turn.contains(document.activeElement));
		const to = here < 0 ? (by > 0 ? 0 : all.length - 1) : here + by;
		if (to >= all.length) await conversation.next();
		const turn = document.querySelectorAll(".turns > .turn[data-row]")[Math.max(0, to)];
		turn?.querySelector("h3")?.focus({ preventScroll: true });
		turn?.scrollIntoView({ block: "start" });
	});
}

function Head({ told, turns, conversation, open, overview, live, onFork }) {
	const [tokensIn, tokensOut] = ["tokens_in", "tokens_out"].map((name) => turns.reduce((sum, turn) => sum + (turn[name] || 0), 0));
	const whole = conversation.more === null;
	return html`<header class="conversation-head">
		<div class="row"><h2>${words(told)}</h2>${told.ended ? html`<${State} state=${told.ended.state} reason=${textOf(told.ended.error)} />` : html`<${State} state="running" />`}
			${told.attempts?.length > 1 ? html`<span class="row tries" role="group" aria-label="Tries">${told.attempts.map((key, number) => html`
				<${Button} key=${key} kind="small" pressed=${key === told.key} run=${() => open(key)}>try ${number + 1}<//>`)}</span>` : null}</div>
		<p class="quiet conversation-told">${told.does?.kind && told.does.kind !== "role" ? html`<span>${told.does.kind} <code>${told.does.told}</code></span>` : null}${told.role ? html`<span>${told.role}</span>` : null}${told.model ? html`<span class="mono cut-line" title=${told.model}>${modelName(told.model)}</span>` : null}
			<span>${plural(told.total ?? turns.length, "turn")}</span>${tokensIn ? html`<span><${Count} value=${tokensIn} /> tokens in, <${Count} value=${tokensOut} /> out${whole ? "" : " so far"}</span>` : null}</p>
		<div class="row conversation-acts">
			<${Button} kind="small" disabled=${!told.previous} title="Conversation before ([)" run=${() => open(told.previous)}>← Previous<//>
			<${Button} kind="small" disabled=${!told.next} title="Next conversation (])" run=${() => open(told.next)}>Next →<//>
			<${Copy} text=${async () => { await conversation.until(() => false); return asMarkdown(conversation); }} label="Copy" />
			${live && overview.can?.fork !== false ? html`<${Button} kind="small" run=${onFork}>Run again from here…<//>` : null}
		</div></header>`;
}

function FindBar({ find }) {
	const keys = (event) => {
		if (!event.target.matches("input")) return;
		if (event.key === "Enter") find.step(event.shiftKey ? -1 : 1);
		else if (event.key === "Escape" && event.target.value) { event.target.value = ""; find.search(""); } else return;
		event.preventDefault();
	};
	return html`<div class="find" role="search" onKeyDown=${keys}><${Search} label="Find in the conversation" placeholder="Find in it…" onSearch=${find.search} />
		<span class="quiet num" role="status">${find.found.length ? `${find.number + 1} of ${find.found.length}` : find.query ? "not found" : ""}</span>
		<${Button} kind="small" label="Place found before" disabled=${!find.found.length} run=${() => find.step(-1)}>↑<//>
		<${Button} kind="small" label="Next place found" disabled=${!find.found.length} run=${() => find.step(1)}>↓<//></div>`;
}

function Outline({ turns, total, current, open }) {
	if (turns.length < 3) return null;
	return html`<nav class="outline" aria-label="Turns"><ol>${turns.map((turn, number) => html`
		<li key=${turn.key}><button class=${`link-like ${current === turn.key || current.startsWith(`${turn.key}/`) ? "chosen" : ""}`} onClick=${() => open(turn.key)}>
			<span class="num quieter">${number + 1}</span> <span class="cut-line">${turn.error ? html`<span class="tl-failed">✕ </span>` : null}${gist(turn)}</span></button></li>`)}</ol>
		${turns.length < total ? html`<p class="quieter">${total - turns.length} more</p>` : null}</nav>`;
}

const gist = (turn) => (turn.tools?.length ? turn.tools.map((tool) => tool.tool).join(", ") : turn.error ? textOf(turn.error) : turn.branch && !/^turn\.\d+$/.test(turn.branch) ? turn.branch : "answer");

/** Asks for the next turns when it comes into view; a button for whoever has no scrolling. */
function More({ conversation, total }) {
	const ref = useRef(null);
	useEffect(() => {
		const watch = new IntersectionObserver(([entry]) => { if (entry.isIntersecting) conversation.next(); }, { rootMargin: "1200px" });
		watch.observe(ref.current);
		return () => watch.disconnect();
	}, [conversation.turns.length]);
	return html`<div ref=${ref} class="more-button"><${Button} run=${() => conversation.next()}>More turns (${conversation.turns.length} of ${total})<//></div>`;
}

function Ended({ ended, run }) {
	if (!ended) return null;
	return html`<footer class="conversation-end"><${State} state=${ended.state} />
		${ended.error ? html`<span class="complaint">${textOf(ended.error)}</span>` : null}
		${ended.versions?.length ? html`<span>made ${ended.versions.map((version, number) => {
			const [name, made] = [version.slice(0, version.lastIndexOf("@")), version.slice(version.lastIndexOf("@") + 1)];
			return html`${number ? ", " : ""}<a key=${version} href=${href("run", { run, view: "artifacts", name, version: made })}>${version}</a>`;
		})}</span>` : null}</footer>`;
}
