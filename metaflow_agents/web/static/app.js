// The shell: header, navigation, the page of the route, keyboard help, the live region.

import { render, useErrorBoundary } from "./vendor/preact-htm.js";
import api from "./api.js";
import { onKey, setTeller, shortcuts, singleKeys, useModule } from "./hooks.js";
import { Button, Dialog, Empty, html, Loading, Problem, Tick, useEffect, useRef, useShortcuts, useState, useTitle } from "./parts.js";
import { go, href, parseRoute } from "./router.js";

const PAGES = {
	runs: () => import("./pages/runs.js"),
	new: () => import("./pages/new_run.js"),
	run: () => import("./pages/run.js"),
	inbox: () => import("./pages/inbox.js"),
	sop: () => import("./pages/sop.js"),
	compare: () => import("./pages/compare.js"),
	memory: () => import("./pages/memory.js"),
};
const NAV = [["runs", "Runs", "r"], ["new", "New run", "n"], ["inbox", "Inbox", "i"], ["memory", "Memory", "m"]];
/** A mistake in one page leaves the others, and says what it was. */
function Boundary({ children }) {
	const [error, retry] = useErrorBoundary();
	return error ? html`<div class="page"><h1>This page failed</h1>
		<${Problem} title="A mistake in the page" error=${error} retry=${retry} /></div>` : children;
}

function Missing({ route }) {
	useTitle("No such page");
	return html`<div class="page"><h1>No such page</h1><${Empty} title=${`There is no page at “${route.path}”.`}>
		<a class="button" href=${href("runs")}>All runs</a><//></div>`;
}

function Help({ onClose }) {
	const [on, setOn] = useState(singleKeys.on);
	const shown = [...new Map(shortcuts().filter(({ told }) => told).map((one) => [one.keys, one])).values()];
	return html`<${Dialog} title="Keyboard" onClose=${onClose}>
		<dl class="keys">${shown.map(({ keys, told }) => html`<div key=${keys}><dt>${keys.split(" ").map((key) => html`<kbd key=${key}>${key}
			</kbd> `)}</dt><dd>${told}</dd></div>`)}</dl>
		<${Tick} on=${on} onTick=${(value) => { singleKeys.on = value; setOn(singleKeys.on); }}>Single keys act as shortcuts<//>
		<p class="told">Tab, arrows, Enter and Escape work everywhere, also without them.</p><//>`;
}

function Shell({ workspace }) {
	const [route, setRoute] = useState(parseRoute(location.hash));
	const [help, setHelp] = useState(false);
	const [said, setSaid] = useState("");
	const [link, setLink] = useState("");
	const [over, setOver] = useState(false);
	const main = useRef(null);
	const { found: Page, error } = useModule(PAGES[route.page]);
	const questions = useQuestions(route.page);

	useEffect(() => {
		const changed = () => setRoute(parseRoute(location.hash));
		const ended = () => setOver(true);
		addEventListener("hashchange", changed);
		addEventListener("sop-no-session", ended);
		document.addEventListener("keydown", onKey);
		setTeller((text) => { setSaid(""); setTimeout(() => setSaid(text), 30); });
		return () => { removeEventListener("hashchange", changed); removeEventListener("sop-no-session", ended); document.removeEventListener("keydown", onKey); };
	}, []);
	const place = `${route.page}/${route.run}`;
	const before = useRef(place);
	useEffect(() => {                                          // another page: from its top, and a screen reader begins there
		if (before.current === place) return;
		before.current = place;
		scrollTo(0, 0);
		main.current.focus({ preventScroll: true });
		setLink("");
	}, [place]);
	useShortcuts([
		{ keys: "?", told: "this help", run: () => setHelp(true) },
		...(api.live ? NAV.map(([page, label, key]) => ({ keys: `g ${key}`, told: `go to ${label}`, run: () => go(href(page)) })) : []),
		{ keys: "/", told: "filter or search", run: () => document.querySelector("[data-search]")?.focus() },
	]);
	return html`<div class="shell">
		<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to the page</a>
		<header class="top">
			<a class="mark" href=${href("runs")}><img src="icon.svg" alt="" />sop<span class="where cut-line">
				${workspace?.folder ? short(workspace.folder) : ""}</span></a>
			${api.live ? html`<nav class="nav" aria-label="Pages">${NAV.map(([page, label]) => html`
				<a key=${page} href=${href(page)} aria-current=${route.page === page ? "page" : undefined}>${label}
					${page === "inbox" && questions ? html`
					<span class="badge"><span aria-hidden="true">${questions}</span><span class="hidden">${questions} open</span></span>` : null}
						</a>`)}</nav>` : null}
			<div class="end">
				${link ? html`<span class=${`link-state ${link}`}><span class="dot"></span><span class="word">
					${{ live: "live", looking: "every few seconds", lost: "connection lost" }[link]}</span></span>` : null}
				<${Button} kind="bare" label="Keyboard help" run=${() => setHelp(true)}>?<//>
			</div>
		</header>
		${over ? html`<p class="banner" role="alert">The session is over: the server is another one now. Open the address that <code>sop ui</code> printed last.</p>` : null}
		<main class="main" id="main" tabIndex="-1" ref=${main}>
			<${Boundary} key=${place}>${!PAGES[route.page] ? html`<${Missing} route=${route} />` : error ? html`
				<div class="page"><h1>This page is not there</h1><${Problem} title="It could not be loaded" error=${error} /></div>`
				: Page ? html`<${Page} route=${route} api=${api} workspace=${workspace} setLink=${setLink} />` : html`<${Loading} />`}<//>
		</main>
		<div class="hidden" role="status" aria-live="polite">${said}</div>
		${help ? html`<${Help} onClose=${() => setHelp(false)} />` : null}
	</div>`;
}

const short = (folder) => folder.split("/").filter(Boolean).slice(-1)[0] || folder;

/** How many questions are open, looked up now and then; pages that are told of questions live say it at once. */
function useQuestions(page) {
	const [number, setNumber] = useState(0);
	useEffect(() => {
		if (!api.live) return undefined;
		const look = () => document.hidden || api.inbox().then(({ questions }) => setNumber(questions.filter((one) => !one.given).length), () => {});
		look();
		const timer = setInterval(look, 8000);
		addEventListener("sop-questions", look);
		return () => { clearInterval(timer); removeEventListener("sop-questions", look); };
	}, [page]);
	return number;
}

/** The token of the address opens the session, once, and leaves the address: `#token=…`, `#/run/R?token=…`. */
async function begin() {
	const token = /[#?&]token=([\w-]+)/.exec(location.hash);
	const root = document.getElementById("app");
	if (token) history.replaceState(null, "", location.hash.replace(/([#?&])token=[\w-]+&?/, "$1").replace(/[?&#]$/, "") || "#/");
	try {
		if (token) await api.session(token[1]).catch((error) => api.workspace().catch(() => { throw error; }));    // used up, but this browser has a session
		render(html`<${Shell} workspace=${api.live ? await api.workspace() : null} />`, root);
	} catch (error) {
		render(html`<main class="main"><div class="page"><h1>No session</h1><${Problem} title="This page can't be opened" error=${error} />
			<p class="quiet">Open the address that <code>sop ui</code> printed last: it holds a token for this browser, which works once.</p>
				</div></main>`, root);
	}
}

begin();
