// What roles remember beyond a run: looked through, searched, forgotten.

import { announce, Button, Choice, Confirm, count, Empty, html, Loading, plural, Problem, Search, Time, useEffect, useLoad, useRef, useRows, useState, useTitle } from "../parts.js";
import { altered, go, href } from "../router.js";
import { textOf } from "./conversation_find.js";
import { Passage } from "./conversation_text.js";

const PAGE = 50;

export default function Memory({ api, route }) {
	useTitle("Memory");
	const { role = "", q = "" } = route.query;
	const { value: first, error, reload } = useLoad(() => api.memory({ role, q, offset: 0, limit: PAGE }), [api, role, q]);
	const [more, setMore] = useState({ of: null, rows: [] });      // pages behind the first, of what is shown now
	const [chosen, setChosen] = useState(new Set());
	const [asking, setAsking] = useState(null);
	const list = useRef(null);
	useRows(list);
	useEffect(() => setChosen(new Set()), [role, q]);
	const to = (changes) => go(altered(route, changes), { replace: true });
	const rows = first ? [...first.rows, ...(more.of === first ? more.rows : [])] : [];
	const next = async () => {
		const told = await api.memory({ role, q, offset: rows.length, limit: PAGE });
		setMore({ of: first, rows: [...(more.of === first ? more.rows : []), ...told.rows], more: told.more });
	};
	const forget = async (body, number) => {
		await api.forget(body);
		setChosen(new Set());
		announce(`${plural(number, "memory is", "memories are")} forgotten.`);
		await reload();
	};
	const roles = first?.roles || [];
	const total = first?.total ?? 0;
	const toggle = (key) => setChosen((before) => { const after = new Set(before); if (!after.delete(key)) after.add(key); return after; });
	return html`<div class="page memory">
		<div class="page-head"><h1>Memory</h1>${first && (roles.length || rows.length) ? html`
			<${Choice} label="Role" quiet class="tl-step-filter" value=${role} onChoose=${(name) => to({ role: name })} options=${[["", "every role"], ...roles.map((one) => [one.role, `${one.role} (${one.count})`])]} />
			<${Search} label="Search memories" placeholder="Search memories…" value=${q} onSearch=${(text) => to({ q: text })} />` : null}</div>
		${error && !first ? html`<${Problem} error=${error} retry=${reload} />` : !first ? html`<${Loading} lines=${6} />` : null}
		${first && !rows.length ? html`<${Nothing} filtered=${!!(role || q)} clear=${() => to({ role: "", q: "" })} />` : null}
		${rows.length ? html`<div class="spread"><p class="quiet">${q ? `${plural(rows.length, "memory", "memories")} found, the most relevant first` : `${count(total ?? rows.length)} in all, the newest first`}</p>
				<div class="row">${chosen.size ? html`<${Button} kind="danger small" run=${() => setAsking({ keys: [...chosen] })}>Forget ${chosen.size} chosen…<//>` : null}
					${role && !q ? html`<${Button} kind="small" run=${() => setAsking({ role })}>Forget all of ${role}…<//>` : null}</div></div>
			<ul class="memories" ref=${list}>${rows.map((row) => html`<${Row} key=${row.key} row=${row} chosen=${chosen.has(row.key)} toggle=${toggle} onForget=${() => setAsking({ keys: [row.key], row })} />`)}</ul>
			${(more.of === first ? more : first).more ? html`<div class="more-button"><${Button} run=${next}>More<//></div>` : null}` : null}
		${asking ? html`<${Forget} asking=${asking} total=${total} forget=${forget} onClose=${() => setAsking(null)} />` : null}
	</div>`;
}

function Row({ row, chosen, toggle, onForget }) {
	return html`<li class=${`memory-row panel ${chosen ? "chosen" : ""}`} data-row>
		<div class="memory-head"><label class="check"><input type="checkbox" checked=${chosen} onChange=${() => toggle(row.key)} /><span class="hidden">Choose memory ${row.key}</span></label>
			<span class=${`memory-kind is-${row.kind}`}>${row.kind}</span><b>${row.role}</b>
			<span class="quiet">${row.kind === "note" || row.kind === "pin" ? "by a person" : html`from <a href=${href("run", { run: row.run, view: "conversation", key: row.activation })}>${row.run} ${row.activation}</a>`}</span>
			<span class="quiet"><${Time} at=${row.at} /></span>${row.importance === null || row.importance === undefined ? null : html`<span class="quiet num">importance ${row.importance}</span>`}
			${row.over === "run" ? html`<span class="pill">of that run alone</span>` : null}${row.untrusted ? html`<span class="pill waiting">from outside: ${row.untrusted}</span>` : null}
			<span class="memory-end"><code class="quieter">${row.key}</code><${Button} kind="small" label=${`Forget memory ${row.key}`} run=${onForget}>Forget…<//></span></div>
		<div class="memory-text"><${Passage} id=${row.key} text=${row.text} kind="prose" /></div>
		${row.cites?.length ? html`<p class="quiet">rests on ${row.cites.map((key, number) => html`${number ? ", " : ""}<code key=${key}>${key}</code>`)}</p>` : null}</li>`;
}

function Forget({ asking, total, forget, onClose }) {
	const { row, ...body } = asking;
	const number = body.keys?.length ?? total ?? 0;
	return html`<${Confirm} title=${body.role ? `Forget all of ${body.role}` : `Forget ${plural(number, "memory", "memories")}`} act="Forget" danger run=${() => forget(body, number)} onClose=${onClose}>
		${row ? html`<blockquote class="pre memory-quote">${textOf(row.text).slice(0, 300)}</blockquote>` : null}
		<p>${body.role ? html`All that <b>${body.role}</b> remembers is deleted for good.` : number === 1 ? "It is deleted for good." : "They are deleted for good."} Journals of runs keep what was said in them.</p>
		<p class="quiet">On the command line: <code>sop memory forget ${body.role ? `--role ${body.role}` : body.keys.length > 3 ? "KEY…" : body.keys.join(" ")}</code></p><//>`;
}

function Nothing({ filtered, clear }) {
	if (filtered) return html`<${Empty} title="No memory matches"><${Button} run=${clear}>Show all<//><//>`;
	return html`<${Empty} title="Nothing is remembered"><p>A role with <code>memory: {over: runs}</code> remembers its activations from run to run; they appear here.</p><//>`;
}
