// Stands in the place of api.js in the file of `sop show RUN --html`: answers from what lies in the file. Nothing is sent anywhere.

const data = JSON.parse(document.getElementById("sop-data").textContent);

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const absent = (what) => Promise.reject(new ApiError(404, `${what} is not in this file. \`${data.command}\` has all of the run.`));
const found = (value, what) => (value === undefined ? absent(what) : Promise.resolve(value));
const refused = () => Promise.reject(new ApiError(405, "This is a file: nothing can be changed from here."));

const STATES = ["running", "waiting", "done", "failed", "reused", "stopped"];

function activations(run, { offset = 0, limit = 200, step = "", state = "", q = "" } = {}) {
  const sought = q.toLowerCase();
  const fits = (row) => (!step || row.step === step || row.step.startsWith(`${step}/`))
    && (!sought || [row.key, decoded(row.key), row.role, row.error || ""].some((text) => text.toLowerCase().includes(sought)));
  const all = data.activations.rows.filter(fits);
  const chosen = all.filter((row) => !state || row.state === state || (state === "repeated" && row.attempt));
  const number = (wanted) => all.filter((row) => row.state === wanted).length;
  const counts = { all: all.length, ...Object.fromEntries(STATES.map((one) => [one, number(one)])), repeated: all.filter((row) => row.attempt).length };
  const begin = Number(offset);
  return Promise.resolve({ ...data.activations, counts, total: chosen.length, rows: chosen.slice(begin, begin + Number(limit)) });
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function artifacts(run, { name, offset = 0, q = "" } = {}) {
  const all = data.artifacts.artifacts;
  if (name) return Promise.resolve({ artifacts: all.filter((one) => one.name === name).map((one) => ({ ...one, versions: one.versions.slice(Number(offset)) })), total: 1 });
  const fitting = all.filter((one) => one.told.toLowerCase().includes(q.toLowerCase()));
  return Promise.resolve({ artifacts: fitting, total: q ? fitting.length : data.artifacts.total });
}

function artifact(run, { name, version, path }) {
  const known = data.artifacts.artifacts.find((one) => one.name === name);
  const number = version || known?.versions_total;
  const value = data.shown[path ? `${name}@${number}/${path}` : `${name}@${number}`];
  return found(value?.as ? { ...data.shown[value.as], name, number, path } : value, `\`${path || `${name}@${number}`}\``);
}

function log(run, { after, before, limit = 300, kind = "", step = "" } = {}) {
  const fits = (row) => (!kind || row.kind === kind) && (!step || row.place === step || (row.place.startsWith(step) && /[@/[]/.test(row.place[step.length])));
  const all = data.log.rows.filter(fits);
  const most = Number(limit);
  if (after !== undefined) return Promise.resolve({ ...data.log, rows: all.filter(({ seq }) => seq > after).slice(0, most) });
  return Promise.resolve({ ...data.log, rows: all.filter(({ seq }) => !before || seq < before).slice(-most) });
}

function diff(run, { name, a, b, path }) {
  const whole = data.diffs[`${name}@${a}..${b}`];
  const own = path && whole?.files?.find((one) => one.path === path);
  return found(own ? { ...own, same: false } : path ? data.diffs[`${name}@${a}..${b}/${path}`] : whole, "This difference");
}

/** What was said; of what was taken over from another run there is nothing but that. */
function conversation(run, key) {
  const row = data.activations.rows.find((one) => one.key === key);
  if (data.conversations[key] || row?.state !== "reused") return found(data.conversations[key], "This conversation");
  const ended = { state: row.state, at: row.ended, error: null, final: false, source: row.told, versions: [] };
  return Promise.resolve({ ...row, model: "", does: { kind: "", told: "", text: { text: "" } }, attempts: [key], read: {}, inside: row.inside || "",
    previous: null, next: null, ended, total: 0, offset: 0, more: null, turns: [], acts: [], thoughts: [] });
}

/** The state that is nearest before an event: the file has some of them. */
const at = (run, seq) => found(data.at.findLast((one) => one.seq <= seq) || data.at[0], "How the run stood then");

if (!location.hash) location.hash = `#/run/${encodeURIComponent(data.run)}`;

export default {
  live: false,
  session: refused,
  workspace: () => Promise.resolve(null),
  runs: () => absent("The list of runs"),
  run: (run) => (run === data.run ? Promise.resolve(data.overview) : absent(`The run ${run}`)),
  at,
  activations,
  conversation,
  text: () => absent("The whole of this text"),
  artifact,
  artifacts,
  page: () => "about:blank",
  diff,
  files: () => Promise.resolve(data.files),
  changes: () => Promise.resolve(data.changes),
  log,
  costs: () => Promise.resolve(data.costs),
  audit: () => Promise.resolve(data.audit),
  inbox: () => Promise.resolve({ questions: [] }),
  answer: refused, start: refused, stop: refused, resume: refused, fork: refused, upload: refused,
  sop: () => absent("The SOP"), check: refused, edit: refused, complete: refused, sopDiff: refused, save: refused, preview: refused,
  compare: () => absent("Another run"), compareArtifact: () => absent("Another run"),
  memory: () => absent("What roles remember"), forget: refused,
  runsStream: () => () => {},
  runStream: () => () => {},
};
