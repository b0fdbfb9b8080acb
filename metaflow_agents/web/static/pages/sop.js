// The page of a SOP: its text, its graph and its checks, side by side while one types.

import { announce, Button, Dialog, Diff, Empty, html, Loading, plural, Problem, Tabs, useCallback, useEffect, useLatest, useLayoutEffect, useLoad, useMemo, useRef, useShortcuts, useState, useTitle } from "../parts.js";
import { href } from "../router.js";
import { Checks, Limits } from "./sop_checks.js";
import { Editor } from "./sop_editor.js";
import { GraphPane } from "./sop_graph.js";
import { Preview } from "./sop_preview.js";

const WAIT = 350;                       // milliseconds without a key until the text is checked
const drafts = new Map();               // file → {text, digest}: what is not saved survives a look at another page
const NARROW = "(max-width: 900px)";

export default function Page({ route, api }) {
	const file = route.query.file || "";
	const { value: sop, error, reload } = useLoad(() => api.sop(file), [file]);
	useTitle(sop?.name || "SOP");
	if (!file) return html`<div class="page"><h1>No SOP</h1><${Empty} title="Which one?"><a class="button" href=${href("new")}>Choose a SOP</a><//></div>`;
	if (error) return html`<div class="page"><h1>SOP</h1><${Problem} error=${error} retry=${reload} title=${`${file} can't be read`} /></div>`;
	if (!sop) return html`<div class="page"><h1>SOP</h1><${Loading} lines=${10} /></div>`;
	return html`<${Workbench} key=${sop.file} sop=${sop} api=${api} reload=${reload} />`;
}

function Workbench({ sop, api, reload }) {
	const kept = drafts.get(sop.file);
	const [text, setText] = useState(kept?.text ?? sop.text);
	const [base, setBase] = useState({ text: sop.text, digest: kept?.digest ?? sop.digest });
	const [step, setStep] = useState("");
	const [left, setLeft] = useState([]);
	const [saving, setSaving] = useState(false);
	const [reverting, setReverting] = useState(false);
	const [view, setView] = useState("text");
	const [side, setSide] = useState("graph");
	const narrow = useMedia(NARROW);
	const [wrap, setWrap] = useState(null);
	const editor = useRef(null);
	const { checked, error, busy, stale } = useChecked(api, sop, text);
	const dirty = text !== base.text;
	const writable = sop.writable;
	const outline = checked.outline;

	useEffect(() => {
		if (dirty) drafts.set(sop.file, { text, digest: base.digest });
		else drafts.delete(sop.file);
	}, [text, base]);
	useEffect(() => {
		if (!dirty) return undefined;
		const ask = (event) => event.preventDefault();
		addEventListener("beforeunload", ask);
		return () => removeEventListener("beforeunload", ask);
	}, [dirty]);
	useEffect(() => { if (kept && kept.text !== sop.text) announce("The text as you left it, not saved"); }, []);

	const jump = useLatest((line, column = 1, focus = true) => {
		if (narrow) setView("text");
		setTimeout(() => editor.current?.reveal(line, column, focus), narrow ? 30 : 0);
	});
	const select = useLatest((name) => {
		setStep(name);
		if (name && outline.steps[name] && !stale) editor.current?.reveal(outline.steps[name].line, 1);
	});
	const moved = useLatest((line) => {
		if (stale) return;
		const found = Object.entries(outline.steps).find(([, one]) => one.line <= line && line <= one.end);
		if (found) setStep(found[0]);
	});
	const edit = useLatest(async (change) => {
		const found = await api.edit({ file: sop.file, text, change });
		return () => {
			editor.current.replace(found.text);
			setLeft(found.left.map((one) => ({ ...one, here: one.file === sop.file.split("/").pop() || sop.file.endsWith(`/${one.file}`) })));
			editor.current.reveal(found.changed.line, found.changed.column);
			announce(`Changed from line ${found.changed.line} on${found.left.length ? `, ${plural(found.left.length, "place")} left` : ""}`);
		};
	});
	const complete = useCallback((line, column, written) => api.complete({ file: sop.file, text: written, line, column }), [sop.file]);
	const preview = useLatest((name, inputs, given) => api.preview({ file: sop.file, text, step: name, inputs, given }));
	useEffect(() => {
		const press = (event) => {
			if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "s" || event.altKey) return;
			event.preventDefault();
			if (dirty && writable) setSaving(true);
		};
		addEventListener("keydown", press);
		return () => removeEventListener("keydown", press);
	}, [dirty, writable]);
	useShortcuts([
		{ keys: "t", told: "to the text", run: () => { if (narrow) setView("text"); setTimeout(() => editor.current?.focus(), 30); } },
		{ keys: "Ctrl+S", told: "save, with the difference first", run: () => {} },
		{ keys: "Ctrl+Space", told: "complete what is typed", run: () => {} },
		{ keys: "Esc Tab", told: "leave the text field", run: () => {} },
		{ keys: "F2 a c e", told: "at a step of the graph: rename, add, connect, set role", run: () => {} },
	]);

	const errors = checked.problems.filter(({ severity }) => severity === "error").length;
	const shown = (name) => !narrow || view === name;
	const problems = useMemo(() => (stale && busy ? [] : checked.problems.filter((one) => one.file === checked.file && one.line)), [checked, stale, busy]);
	const textPane = html`<section class="sop-text" aria-label="Text">
		<${Editor} handle=${editor} text=${text} onChange=${setText} problems=${problems} readOnly=${!writable} complete=${complete} onCursor=${moved}
			wrap=${wrap ?? narrow} label=${`Text of ${sop.name}`} describedBy="sop-text-told" />
		<p class="hidden" id="sop-text-told">Tab indents; Escape and then Tab leaves the field. Control and Space completes. Problems are listed under Checks.</p></section>`;
	const graphPane = html`<${GraphPane} graph=${checked.graph} outline=${outline} selected=${outline.steps[step] ? step : ""} onSelect=${select} edit=${edit} stale=${!!checked.old} undrawn=${checked.undrawn} writable=${writable} />`;
	const checksPane = html`<${Checks} checked=${checked} error=${error} left=${left} onJump=${jump} file=${checked.file} busy=${busy} dropLeft=${() => setLeft([])} writable=${writable} />`;
	const previewPane = html`<div class="sop-scroll"><${Preview} outline=${outline} step=${step} send=${preview} onSelect=${setStep} /></div>`;
	const limitsPane = html`<div class="sop-scroll"><${Limits} limits=${checked.limits} /></div>`;
	const tabs = narrow ? [["text", "Text"], ["graph", "Graph"], ["checks", "Checks"], ["preview", "Preview"], ["limits", "Limits"]] : [["graph", "Graph"], ["preview", "Preview"], ["limits", "Limits"]];
	const active = narrow ? view : side;
	const bar = html`<${Tabs} id="sop" label="Views of the SOP" active=${active} onSelect=${narrow ? setView : setSide}
		tabs=${tabs.map(([name, label]) => ({ name, label, ...(name === "checks" && checked.problems.length ? { count: checked.problems.length, alert: errors > 0 } : {}) }))} />`;
	return html`<div class=${`sop-page ${narrow ? "narrow" : ""}`}>
		<div class="sop-head"><h1 class="cut-line">${sop.name}</h1>
			<span class=${`pill ${dirty ? "waiting" : ""}`}>${!writable ? "read only" : dirty ? "not saved" : "saved"}</span>
			<span class="quieter cut-line sop-file" title=${sop.file}>${sop.told}</span>
			<div class="sop-actions">
				<${Button} kind="bare" pressed=${wrap ?? narrow} run=${() => setWrap(!(wrap ?? narrow))}>Wrap<//>
				${dirty ? html`<${Button} run=${() => setReverting(true)}>Revert…<//>` : null}
				${writable ? html`<${Button} kind=${dirty ? "primary" : ""} disabled=${!dirty} title="Ctrl+S" run=${() => setSaving(true)}>Save…<//>` : null}
				<a class="button" href=${href("new", { file: sop.file })} title=${dirty ? "Runs what is saved" : ""}>${dirty ? "Run what is saved" : "Run this"}</a>
			</div></div>
		${writable ? null : html`<p class="sop-fixed">It can't be changed here: ${sop.fixed}.</p>`}
		${narrow ? html`<div class="sop-bar">${bar}</div>` : null}
		<div class="sop-body">
			${narrow ? html`<div class="sop-view" role="tabpanel" id="sop-panel" aria-labelledby=${`sop-${view}`}><div class="sop-view-text" hidden=${view !== "text"}>${textPane}</div>
				${shown("graph") ? graphPane : null}${shown("checks") ? checksPane : null}${shown("preview") ? previewPane : null}${shown("limits") ? limitsPane : null}</div>` : html`
			<div class="sop-left">${textPane}${checksPane}</div>
			<div class="sop-right">${bar}<div class="sop-view" role="tabpanel" id="sop-panel" aria-labelledby=${`sop-${side}`}>${side === "graph" ? graphPane : side === "preview" ? previewPane : limitsPane}</div></div>`}
		</div>
		${saving ? html`<${Save} sop=${sop} api=${api} text=${text} base=${base} errors=${errors} onSaved=${(digest) => { setBase({ text, digest }); setSaving(false); announce("Saved"); }} onClose=${() => setSaving(false)} />` : null}
		${reverting ? html`<${Revert} sop=${sop} api=${api} text=${text} onClose=${() => setReverting(false)} onDone=${async () => {
			const now = await api.sop(sop.file);
			editor.current.replace(now.text);
			setBase({ text: now.text, digest: now.digest });
			setReverting(false);
			setLeft([]);
			announce("As it is saved");
		}} />` : null}
	</div>`;
}

/** The checks of the text as it stands: one question at a time, the latest text next. A graph that is gone leaves the one before. */
function useChecked(api, sop, text) {
	const [state, setState] = useState({ checked: sop, of: sop.text, error: null, busy: false });
	const wanted = useRef(text);
	const going = useRef(false);
	const there = useRef(true);
	useEffect(() => () => { there.current = false; }, []);
	const look = useLatest(async () => {
		if (going.current) return;
		going.current = true;
		while (there.current && wanted.current !== done.current) {
			const asked = wanted.current;
			setState((before) => ({ ...before, busy: true }));
			let found = null;
			let error = null;
			try {
				found = await api.check(sop.file, asked);
			} catch (problem) {
				error = problem;
			}
			done.current = asked;
			if (!there.current) break;
			setState((before) => ({ checked: found ? { ...found, graph: found.graph || (found.undrawn ? null : before.checked.graph), old: !found.graph && !found.undrawn, outline: useful(found.outline, before.checked.outline) } : before.checked,
				of: asked, error, busy: wanted.current !== asked }));
		}
		going.current = false;
	});
	const done = useRef(sop.text);
	useEffect(() => {
		wanted.current = text;
		if (text === done.current && !going.current) return undefined;
		const timer = setTimeout(look, WAIT);
		return () => clearTimeout(timer);
	}, [text]);
	return { ...state, stale: state.of !== text };
}

/** While a text can't be read it names no step: the names before stay. */
const useful = (outline, before) => (Object.keys(outline.steps).length ? outline : { ...before });

/** What saving changes, before it does. Where somebody else wrote meanwhile, the difference to that, and once more the question. */
function Save({ sop, api, text, base, errors, onSaved, onClose }) {
	const { value: found, error, reload } = useLoad(() => api.sopDiff(sop.file, text), []);
	const [refused, setRefused] = useState(null);
	const [over, setOver] = useState(null);                      // the digest of what somebody else wrote, once it was shown
	const elsewhere = found && found.digest !== base.digest;
	const go = async () => {
		setRefused(null);
		try {
			const { digest } = await api.save({ file: sop.file, text, digest: over || base.digest });
			onSaved(digest);
		} catch (problem) {
			setRefused(problem);
			if (problem.status === 409) await reload();
		}
	};
	useEffect(() => { if (elsewhere && refused) setOver(found.digest); }, [found, refused]);
	const frame = useRef(null);
	useLayoutEffect(() => { frame.current?.closest("dialog").querySelector(".primary").focus(); }, [!!found]);      // Ctrl+S, Enter
	return html`<${Dialog} title=${`Save ${sop.file.split("/").pop()}`} wide onClose=${onClose}>
		${error ? html`<${Problem} error=${error} />` : !found ? html`<${Loading} />` : html`
			${elsewhere ? html`<p class="outside">The file was changed by somebody else since this page read it; this is the difference to what it is now.</p>` : null}
			<div class="diff-frame" ref=${frame}><${Diff} hunks=${found.hunks} label="What saving changes" /></div>
			${errors ? html`<p class="complaint">It has ${plural(errors, "error")}: it can be saved, and not run.</p>` : null}`}
		${refused ? html`<p class="complaint" role="alert">${refused.message}</p>` : null}
		<footer><${Button} run=${onClose}>Cancel<//><${Button} kind="primary" disabled=${!found} run=${go}>${elsewhere ? "Save over it" : "Save"}<//></footer><//>`;
}

function Revert({ sop, api, text, onClose, onDone }) {
	const { value: found, error } = useLoad(() => api.sopDiff(sop.file, text), []);
	return html`<${Dialog} title="Back to what is saved" wide onClose=${onClose}>
		${error ? html`<${Problem} error=${error} />` : !found ? html`<${Loading} />` : html`<p>These changes are taken back. Ctrl+Z in the text brings them again.</p><div class="diff-frame"><${Diff} hunks=${found.hunks} label="What is taken back" /></div>`}
		<footer><${Button} run=${onClose}>Cancel<//><${Button} kind="danger" run=${onDone}>Take back<//></footer><//>`;
}

function useMedia(query) {
	const [holds, setHolds] = useState(matchMedia(query).matches);
	useEffect(() => {
		const media = matchMedia(query);
		const changed = () => setHolds(media.matches);
		media.addEventListener("change", changed);
		return () => media.removeEventListener("change", changed);
	}, [query]);
	return holds;
}
