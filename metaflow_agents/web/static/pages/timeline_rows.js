// The rows of the time line: pages of the list of activations, asked for when they come into view, and again once the run's stream
// says that something changed. Nothing here draws.

export const PAGE = 100;
const KEPT = 40;                        // pages: what was seen longest ago is asked for again when it is seen again
const AGAIN = 700;                      // milliseconds between two looks at what is in view of a run that goes on

/** The rows of one run under one filter, {step, state, q}. `changed()` is called when something may have to be drawn again. */
export class Rows {
	constructor(api, run, filter, changed) {
		Object.assign(this, { api, run, filter, changed });
		this.total = 0;
		this.head = null;                   // {counts, critical, saved, rests, marks, ended}: what stands beside the rows
		this.error = null;
		this.pages = new Map();             // number of the page → its rows
		this.asked = new Map();             // number of the page → the promise of its rows
		this.places = new Map();            // key → place in the list
		this.stale = new Set();             // pages of which something changed: asked for again when they are in view
		this.closed = false;
		this.timer = 0;
	}

	get filtered() {
		return Object.values(this.filter).some(Boolean);
	}

	/** The row at a place of the list, or null: then it is on its way. */
	at(place) {
		const page = Math.floor(place / PAGE);
		const rows = this.pages.get(page);
		if (rows === undefined) {
			if (!this.error) this.load(page);  // after an error somebody has to ask for another try
			return null;
		}
		if (this.stale.has(page) && !this.error) this.load(page);
		return rows[place - page * PAGE] || null;
	}

	/** The rows that are here, in order. */
	here() {
		return [...this.pages].sort(([a], [b]) => a - b).flatMap(([, rows]) => rows);
	}

	load(page) {
		if (this.closed || this.asked.has(page)) return this.asked.get(page);
		const given = Object.fromEntries(Object.entries(this.filter).filter(([, value]) => value));
		const asked = this.api.activations(this.run, { ...given, offset: page * PAGE, limit: PAGE }).then((told) => {
			if (this.closed) return;
			const { rows, total, ...head } = told;
			this.total = total;
			this.head = { ...head, critical: new Set(head.critical || []) };
			this.error = null;
			this.keep(page, rows);
		}).catch((error) => {
			if (!this.closed) this.error = error;
		}).finally(() => {
			this.asked.delete(page);
			if (!this.closed) this.changed();
		});
		this.asked.set(page, asked);
		return asked;
	}

	keep(page, rows) {
		this.stale.delete(page);
		this.pages.delete(page);
		this.pages.set(page, rows);
		rows.forEach((row, place) => this.places.set(row.key, page * PAGE + place));
		while (this.pages.size > KEPT) {
			const [oldest, gone] = this.pages.entries().next().value;
			this.pages.delete(oldest);
			gone.forEach((row) => this.places.delete(row.key));
		}
	}

	/** Something changed: what is in view is asked for again before long. */
	soon() {
		this.timer ||= setTimeout(() => {
			this.timer = 0;
			for (const page of this.pages.keys()) this.stale.add(page);
			if (!this.pages.size) this.load(0);
			this.changed();
		}, AGAIN);
	}

	/** Asks anew for the pages that are here. */
	again() {
		this.error = null;
		const held = [...this.pages.keys()];
		for (const page of held.length ? held : [0]) this.load(page);
	}

	close() {
		this.closed = true;
		clearTimeout(this.timer);
	}
}
