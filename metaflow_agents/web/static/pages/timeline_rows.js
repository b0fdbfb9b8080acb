// The rows of the time line: pages of the list of activations, asked for when they come into view, and kept up to date by what the
// run's stream says. Nothing here draws.

export const PAGE = 100;
const KEPT = 40;                        // pages: what was seen longest ago is asked for again when it is seen again
const AGAIN = 1000;                     // milliseconds between two looks at what is in view of a run that goes on

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
    this.early = [];                    // rows that the stream told before the first page was there
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
      this.total = Math.max(total, this.filtered ? 0 : this.total);
      this.head = { ...head, critical: new Set(head.critical || []) };
      this.error = null;
      this.keep(page, rows);
      this.merge(this.early.splice(0));
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

  /** What the stream told: rows that changed and how many there are by now, or only that something changed. */
  hear({ activations, touched, total }) {
    if (this.closed) return;
    if (touched !== undefined || this.filtered) this.soon();
    if (this.filtered || !activations?.length) return;
    if (this.head === null) this.early.push(...activations);
    else this.merge(activations, total);
  }

  merge(rows, total = 0) {
    for (const row of rows) {
      const place = row.n ?? this.places.get(row.key) ?? this.total;
      const page = Math.floor(place / PAGE);
      const held = this.pages.get(page);
      this.total = Math.max(this.total, place + 1);
      if (held && place - page * PAGE <= held.length) held[place - page * PAGE] = row;
      else if (!held && place === page * PAGE) this.keep(page, [row]);
      else this.stale.add(page);        // something between is missing
      this.places.set(row.key, place);
    }
    this.total = Math.max(this.total, total);
    if (!rows.length) return;
    this.soon();
    this.changed();
  }

  /** Before long what is in view is asked for again: with it come the counts and the critical path. */
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
