// The rows of the time line: pages of the list of activations, asked for when they come into view, and kept up to date by what the
// run's stream says. Nothing here draws.

export const PAGE = 100;
const KEPT = 40;                        // pages: what was seen longest ago is asked for again when it is seen again
const AGAIN = 1000;                     // milliseconds between two looks at a filtered list of a run that goes on

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
      this.head = { ...this.head, ...head, critical: new Set(head.critical || []) };
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
    this.pages.delete(page);
    this.pages.set(page, rows);
    rows.forEach((row, place) => this.places.set(row.key, page * PAGE + place));
    while (this.pages.size > KEPT) {
      const [oldest, gone] = this.pages.entries().next().value;
      this.pages.delete(oldest);
      gone.forEach((row) => this.places.delete(row.key));
    }
  }

  /** Rows that changed, as the stream tells them, and how many there are by now. */
  merge(rows, total) {
    if (this.closed || !(rows.length || total)) return;
    if (this.head === null && !this.filtered) {
      this.early.push(...rows);
      return;
    }
    if (this.filtered) {
      this.soon();
      return;
    }
    for (const row of rows) {
      const place = row.n ?? this.places.get(row.key) ?? this.total;
      this.total = Math.max(this.total, place + 1);
      const page = Math.floor(place / PAGE);
      const held = this.pages.get(page);
      if (held && place - page * PAGE <= held.length) {
        held[place - page * PAGE] = row;
        this.places.set(row.key, place);
      } else if (!held && place === page * PAGE) {
        this.keep(page, [row]);
      } else if (held) {
        this.pages.delete(page);        // something between is missing: it is asked for when it is in view
      }
    }
    if (total) this.total = Math.max(this.total, total);
    this.soon();
    this.changed();
  }

  /** Looks again before long: for the counts and the critical path, and with a filter for the rows in view. */
  soon() {
    if (this.timer || this.closed) return;
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (this.filtered) this.again();
      else this.heading();
    }, AGAIN);
  }

  async heading() {
    try {
      const { rows: _rows, total, ...head } = await this.api.activations(this.run, { offset: 0, limit: 1 });
      this.total = Math.max(this.total, total);
      this.head = { ...head, critical: new Set(head.critical || []) };
    } catch {
      return;                           // the stream's own state says that the server is gone
    }
    if (!this.closed) this.changed();
  }

  /** Asks anew for the pages that are here. */
  again() {
    this.error = null;
    const held = [...this.pages.keys()];
    for (const page of held) this.load(page);
    if (!held.length) this.load(0);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }
}
