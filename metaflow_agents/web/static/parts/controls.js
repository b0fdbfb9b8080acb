// Buttons, tabs, dialogs, menus, fields.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.js";

let made = 0;
/** An id that no other element of the page has. */
export function useId(prefix = "id") {
	const id = useRef("");
	if (!id.current) id.current = `${prefix}-${(made += 1)}`;
	return id.current;
}

/** A button that can't be pressed twice while what it started is under way. `run` may give a promise. */
export function Button({ run, kind = "", label, title, disabled, children, type = "button", pressed, class: extra = "" }) {
	const [busy, setBusy] = useState(false);
	const there = useRef(true);
	useEffect(() => () => { there.current = false; }, []);
	const press = async (event) => {
		const going = run?.(event);
		if (!going?.then) return;
		setBusy(true);
		try {
			await going;
		} finally {
			if (there.current) setBusy(false);
		}
	};
	return html`<button type=${type} class=${`button ${kind} ${extra}`} aria-label=${label} title=${title} aria-busy=${busy ? "true" : undefined}
		aria-pressed=${pressed?.toString()} disabled=${disabled || busy} onClick=${press}>${children}
			</button>`;
}

/** A button in a text. */
export const Link = ({ run, kind = "", disabled, children }) => html`<button type="button" class=${`link-like ${kind}`} disabled=${disabled} onClick=${run}>${children}</button>`;

/** What went wrong, once something did. */
export const Complaint = ({ error }) => error && html`<p class="complaint" role="alert">${error.message}</p>`;

/** Tabs: [{name, label, count}]. Arrows move between them; the panel is whoever uses them, with `id=${name}-panel`. */
export function Tabs({ tabs, active, onSelect, label, id = "tabs" }) {
	const bar = useRef(null);
	const move = (event) => {
		const by = { ArrowRight: 1, ArrowLeft: -1, Home: -tabs.length, End: tabs.length }[event.key];
		if (!by) return;
		event.preventDefault();
		const at = tabs.findIndex(({ name }) => name === active);
		const to = Math.abs(by) > 1 ? (by < 0 ? 0 : tabs.length - 1) : (at + by + tabs.length) % tabs.length;
		onSelect(tabs[to].name);
		bar.current.querySelectorAll("[role=tab]")[to].focus();
	};
	return html`<div class="tabs" role="tablist" aria-label=${label} ref=${bar} onKeyDown=${move}>
		${tabs.map(({ name, label: text, count, alert }) => html`
			<button key=${name} type="button" role="tab" id=${`${id}-${name}`} aria-selected=${String(name === active)}
				aria-controls=${`${id}-panel`} tabIndex=${name === active ? 0 : -1} onClick=${() => onSelect(name)}>
				${text}${count !== undefined && count !== null ? html`<span class=${`tab-count num ${alert ? "alert" : ""}`}>${count}
					</span>` : null}</button>`)}
	</div>`;
}

/** A modal dialog: the browser's own, which keeps the focus inside, gives it back, and closes by Escape. */
export function Dialog({ title, onClose, children, wide }) {
	const ref = useRef(null);
	const id = useId("dialog");
	useLayoutEffect(() => {
		const before = document.activeElement;
		ref.current.showModal();
		return () => before?.isConnected && before.focus();
	}, []);
	const outside = (event) => { if (event.target === ref.current) onClose(); };
	return html`<dialog class=${`dialog ${wide ? "wide" : ""}`} ref=${ref} aria-labelledby=${id} onMouseDown=${outside}
			onCancel=${(event) => { event.preventDefault(); onClose(); }}>
		<div class="dialog-body">
			<header><h2 id=${id}>${title}</h2>
				<button type="button" class="button bare" aria-label="Close" onClick=${onClose}>✕</button></header>
			${children}
		</div>
	</dialog>`;
}

/** Asks before what can't be taken back, or costs. What `run` throws is shown. */
export function Confirm({ title, children, act, danger, run, onClose }) {
	const [error, setError] = useState(null);
	const go = async () => {
		try {
			await run();
			onClose();
		} catch (problem) {
			setError(problem);
		}
	};
	return html`<${Dialog} title=${title} onClose=${onClose}>
		<div class="stack">${children}<${Complaint} error=${error} /></div>
		<footer><${Button} run=${onClose}>Cancel<//><${Button} kind=${danger ? "danger" : "primary"} run=${go}>${act}<//></footer>
	<//>`;
}

/** A button that opens a list of actions: [{label, run, disabled, told}]. */
export function Menu({ label, items, kind = "" }) {
	const [open, setOpen] = useState(false);
	const ref = useRef(null);
	const id = useId("menu");
	const entries = () => [...ref.current.querySelectorAll("[role=menuitem]:not([disabled])")];
	const close = (back) => { setOpen(false); if (back) ref.current.querySelector("button").focus(); };
	useEffect(() => {
		if (!open) return undefined;
		entries()[0]?.focus();
		const away = (event) => { if (!ref.current?.contains(event.target)) setOpen(false); };
		document.addEventListener("pointerdown", away);
		return () => document.removeEventListener("pointerdown", away);
	}, [open]);
	const move = (event) => {
		if (!open) return;
		const all = entries();
		const at = all.indexOf(document.activeElement);
		const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
		if (event.key === "Escape" || event.key === "Tab") close(event.key === "Escape");
		if (to === undefined) return;
		event.preventDefault();
		all[(to + all.length) % all.length]?.focus();
	};
	return html`<div class="menu" ref=${ref} onKeyDown=${move}>
		<button type="button" class=${`button ${kind}`} aria-haspopup="menu" aria-expanded=${String(open)} aria-controls=${id}
			onClick=${() => setOpen(!open)}>${label} <span aria-hidden="true">▾</span></button>
		${open ? html`<div role="menu" id=${id} aria-label=${label}>${items.map((item) => html`
			<button type="button" role="menuitem" key=${item.label} tabIndex="-1" disabled=${item.disabled}
				onClick=${() => { close(true); item.run(); }}>${item.label}${item.told ? html`<small>${item.told}</small>` : null}</button>`)}
					</div>` : null}
	</div>`;
}

/** A label, its control and what is said of it. `children` is a function of the ids: ({id, describedBy}) => control. */
export function Field({ label, told, error, required, children }) {
	const id = useId("field");
	const describedBy = [told && `${id}-told`, error && `${id}-error`].filter(Boolean).join(" ") || undefined;
	return html`<div class=${`field ${error ? "wrong" : ""}`}>
		<label for=${id}>${label}${required ? html`<span class="required"> required</span>` : null}</label>
		${children({ id, describedBy, invalid: error ? "true" : undefined })}
		${told ? html`<p class="told" id=${`${id}-told`}>${told}</p>` : null}
		${error ? html`<p class="complaint" id=${`${id}-error`} role="alert">${error}</p>` : null}
	</div>`;
}

/** A text with its label: a line, or as many `lines`. What is typed goes to `onText`; other attributes go to the control. */
export function Entry({ label, told, error, required, value = "", onText, lines, mono, ...rest }) {
	return html`<${Field} label=${label} told=${told} error=${error} required=${required}>${({ id, describedBy, invalid }) => html`
		<${lines ? "textarea" : "input"} id=${id} rows=${lines} type=${lines ? undefined : "text"} class=${mono ? "mono" : ""} spellcheck=${mono ? "false" : undefined}
			aria-describedby=${describedBy} aria-invalid=${invalid} value=${value} onInput=${(event) => onText(event.target.value)} ...${rest} />`}<//>`;
}

/** A tick with its label. */
export const Tick = ({ on, onTick, children, class: extra = "" }) => html`<label class=${`check ${extra}`}>
	<input type="checkbox" checked=${!!on} onChange=${(event) => onTick(event.target.checked)} /><span>${children}</span></label>`;

/** A list to choose from, its label before it or, with `quiet`, for screen readers alone. `options`: [[value, text]], or {label, options}. */
export function Choice({ label, value, options, onChoose, quiet, class: extra = "" }) {
	const one = (option) => (option.options ? html`<optgroup key=${option.label} label=${option.label}>${option.options.map(one)}</optgroup>`
		: html`<option key=${option[0]} value=${option[0]}>${option[1]}</option>`);
	return html`<label class=${`choice ${extra}`}><span class=${quiet ? "hidden" : "quiet"}>${label}</span>
		<select value=${value} onChange=${(event) => onChoose(event.target.value)}>${options.map(one)}</select></label>`;
}

/** A field that searches once somebody stopped typing for a moment; the key / goes there. */
export function Search({ label, placeholder = label, value = "", onSearch }) {
	const timer = useRef(0);
	const latest = useRef(onSearch);
	latest.current = onSearch;
	useEffect(() => () => clearTimeout(timer.current), []);
	return html`<label class="search"><span class="hidden">${label}</span><input type="search" data-search placeholder=${placeholder} defaultValue=${value} onInput=${(event) => {
		const text = event.target.value.trim();
		clearTimeout(timer.current);
		timer.current = setTimeout(() => latest.current(text), 200);
	}} /><kbd aria-hidden="true">/</kbd></label>`;
}
