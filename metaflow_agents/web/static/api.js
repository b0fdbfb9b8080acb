// The only module that talks to the server. The file of `sop show RUN --html` has another one with the same methods.

/** What the server refused, in the words of the command line. `status` 0: it could not be reached. */
export class ApiError extends Error {
	constructor(status, message) {
		super(message);
		this.status = status;
	}
}

function address(path, query = {}) {
	const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
	return `/api/${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

async function call(path, { query, body, bytes, signal } = {}) {
	const options = { credentials: "same-origin", signal };
	if (bytes !== undefined) {
		Object.assign(options, { method: "POST", body: bytes, headers: { "Content-Type": "application/octet-stream" } });
	} else if (body !== undefined) {
		Object.assign(options, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
	}
	let response;
	try {
		response = await fetch(address(path, query), options);
	} catch (error) {
		if (error.name === "AbortError") throw error;
		throw new ApiError(0, "The server does not answer. Is `sop ui` still running? Runs go on without it.");
	}
	if (response.status === 204) return {};
	const text = await response.text();
	let value;
	try {
		value = JSON.parse(text);
	} catch {
		throw new ApiError(response.status, `The server answered ${response.status} with something that is no JSON.`);
	}
	if (response.status === 401) dispatchEvent(new Event("sop-no-session"));
	if (!response.ok) throw new ApiError(response.status, value.error || `The server answered ${response.status}.`);
	return value;
}

const get = (path, query, signal) => call(path, { query, signal });
const post = (path, body) => call(path, { body });

// A browser opens six connections to a server in all its tabs together, and a stream holds one. So a tab in the background
// holds none, four tabs in view hold one each, and any further one looks in every few seconds.
const SLOTS = 4;
const LOOK_EVERY = 3000;
const LOOK_FOR = 700;

function slot() {
	if (!navigator.locks) return Promise.resolve(() => {});
	const attempt = (number) => new Promise((resolve) => {
		navigator.locks.request(`sop-stream-${number}`, { ifAvailable: true }, (lock) => {
			if (!lock) return resolve(null);
			return new Promise((release) => resolve(release));
		});
	});
	return (async () => {
		for (let number = 0; number < SLOTS; number += 1) {
			const release = await attempt(number);
			if (release) return release;
		}
		return null;
	})();
}

/**
 * Server-sent events of `path`: `on` maps names of events to functions of (data, id). `after` is the number from which on events
 * are wanted, kept up to date from the events' ids. `status` is told "live", "looking" or "lost". Returns what ends it.
 */
function stream(path, query, on, status = () => {}) {
	let after = query.after;
	let source = null;
	let release = null;
	let timer = 0;
	let over = false;
	let opening = false;

	function close() {
		clearTimeout(timer);
		source?.close();
		release?.();
		source = release = null;
	}

	async function open() {
		if (over || opening || source || document.hidden) return;
		opening = true;
		release = await slot();
		opening = false;
		if (over || document.hidden) return close();
		source = new EventSource(address(path, { ...query, after }));
		const mine = source;
		const looking = !release;
		source.onopen = () => {
			status(looking ? "looking" : "live");
			if (looking) timer = setTimeout(() => { close(); timer = setTimeout(open, LOOK_EVERY); }, LOOK_FOR);
		};
		source.onerror = () => {
			if (mine !== source) return;
			status("lost");
			if (source.readyState === EventSource.CLOSED) {                 // refused: the browser does not try again by itself
				close();
				get("workspace").catch(() => {});                              // says so where the session is over
				timer = setTimeout(open, LOOK_EVERY);
			}
		};
		for (const [name, told] of Object.entries(on)) {
			source.addEventListener(name, (event) => {
				if (event.lastEventId) after = event.lastEventId;
				told(event.data ? JSON.parse(event.data) : null, event.lastEventId);
			});
		}
	}

	const seen = () => (document.hidden ? close() : open());
	document.addEventListener("visibilitychange", seen);
	open();
	return () => {
		over = true;
		document.removeEventListener("visibilitychange", seen);
		close();
	};
}

export default {
	live: true,                           // false in a file: nothing changes, and nothing can be asked for
	session: (token) => post("session", { token }),
	workspace: () => get("workspace"),
	runs: () => get("runs"),
	run: (run) => get("run", { run }),
	at: (run, seq, signal) => get("run/at", { run, seq }, signal),
	activations: (run, query = {}) => get("run/activations", { run, ...query }),
	conversation: (run, key, query = {}) => get("run/conversation", { run, key, ...query }),
	text: (run, digest, path) => get("run/text", { run, digest, path }),
	artifacts: (run, query = {}) => get("run/artifacts", { run, ...query }),
	artifact: (run, query) => get("run/artifact", { run, ...query }),
	page: (run, { name, version, path }) => `/frame?${new URLSearchParams({ run, name, version, ...(path ? { path } : {}) })}`,        // an address for a sandboxed frame
	diff: (run, query) => get("run/diff", { run, ...query }),
	files: (run, query = {}) => get("run/files", { run, ...query }),
	log: (run, query = {}) => get("run/log", { run, ...query }),
	changes: (run) => get("run/changes", { run }),
	costs: (run) => get("run/costs", { run }),
	audit: (run) => get("run/audit", { run }),
	inbox: () => get("inbox"),
	answer: (body) => post("answer", body),
	start: (body) => post("runs", body),
	stop: (run) => post("run/stop", { run }),
	resume: (run, options = {}) => post("run/resume", { run, ...options }),
	fork: (run, options = {}) => post("run/fork", { run, ...options }),
	upload: (name, bytes, batch) => call("upload", { query: { name, batch }, bytes }),
	sop: (file) => get("sop", { file }),
	check: (file, text) => post("sop/check", { file, text }),
	edit: (body) => post("sop/edit", body),
	complete: (body) => post("sop/complete", body),
	sopDiff: (file, text) => post("sop/diff", { file, text }),
	save: (body) => post("sop/save", body),
	preview: (body) => post("sop/preview", body),
	compare: (a, b) => get("compare", { a, b }),
	compareArtifact: (a, b, name) => get("compare/artifact", { a, b, name }),
	memory: (query = {}) => get("memory", query),
	forget: (body) => post("memory/forget", body),
	runsStream: (on, status) => stream("runs/stream", {}, on, status),
	runStream: (run, after, on, status) => stream("run/stream", { run, after }, on, status),
};
