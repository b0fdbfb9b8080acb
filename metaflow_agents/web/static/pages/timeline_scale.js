// Time on the time line, as pure functions. `t` is in seconds since the run began; `u` is the same without the rests in which
// nothing ran (a run may wait days for an answer), each of which takes a small constant instead. A window is {from, to} in `u`.

const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600,
  7200, 14400, 28800, 86400, 172800, 604800];
const SHORTEST = 0.02;                  // seconds in a window: deeper there is nothing to see
const BREAK = 0.03;                     // what a rest takes, of the time in which something ran

/** The scale of a run that has `end` seconds; `rests` are [from, to] in order. `fold` false: rests keep their length. */
export function timeScale(end, rests = [], fold = true) {
  const kept = fold ? rests.map(([from, to]) => [from, Math.min(to, end)]).filter(([from, to]) => to - from > 1) : [];
  const ran = Math.max(end - kept.reduce((sum, [from, to]) => sum + to - from, 0), SHORTEST);
  const gap = ran * BREAK;
  const breaks = [];                    // {t0, t1, u0, u1}: where time is folded
  let taken = 0;
  for (const [from, to] of kept) {
    if (to - from <= gap) continue;
    breaks.push({ t0: from, t1: to, u0: from - taken, u1: from - taken + gap });
    taken += to - from - gap;
  }
  const toU = (t) => {
    let cut = 0;
    for (const one of breaks) {
      if (t <= one.t0) break;
      if (t < one.t1) return one.u0 + ((t - one.t0) / (one.t1 - one.t0)) * gap;
      cut = one.t1 - one.u1;
    }
    return t - cut;
  };
  const toT = (u) => {
    let cut = 0;
    for (const one of breaks) {
      if (u <= one.u0) break;
      if (u < one.u1) return one.t0 + ((u - one.u0) / gap) * (one.t1 - one.t0);
      cut = one.t1 - one.u1;
    }
    return u + cut;
  };
  return { toU, toT, breaks, length: Math.max(toU(end), SHORTEST) };
}

/** A window inside of what there is. */
export function clamped({ from, to }, length) {
  const width = Math.min(Math.max(to - from, Math.min(SHORTEST, length)), length);
  const start = Math.min(Math.max(from, 0), length - width);
  return { from: start, to: start + width };
}

/** The window at `factor` of its length; what stands at `part` of it (0 to 1) stays there. */
export function zoomed({ from, to }, factor, part, length) {
  const width = Math.min(Math.max((to - from) * factor, Math.min(SHORTEST, length)), length);
  const at = from + (to - from) * part;
  return clamped({ from: at - width * part, to: at + width * (1 - part) }, length);
}

/** The window moved by a part of its length: -0.25 is a quarter to the left. */
export function panned({ from, to }, part, length) {
  const by = (to - from) * part;
  return clamped({ from: from + by, to: to + by }, length);
}

/** The window that shows t0 to t1 with some room at both sides. */
export function around(scale, t0, t1) {
  const [from, to] = [scale.toU(t0), scale.toU(t1)];
  const room = Math.max((to - from) * 0.1, SHORTEST);
  return clamped({ from: from - room, to: to + room }, scale.length);
}

/** Marks of the axis, {t, x, text}, at least `apart` pixels from each other, in a window that is `width` pixels wide. */
export function ticks(scale, { from, to }, width, apart = 72) {
  const perPixel = (to - from) / Math.max(width, 1);
  const step = STEPS.find((one) => one / perPixel >= apart) || Math.ceil((perPixel * apart) / 604800) * 604800;
  const marks = [];
  const edges = [scale.toT(from), ...scale.breaks.flatMap((one) => [one.t0, one.t1]), scale.toT(to)];
  for (let segment = 0; segment + 1 < edges.length; segment += 2) {
    const [t0, t1] = [Math.max(edges[segment], edges[0]), Math.min(edges[segment + 1], edges[edges.length - 1])];
    for (let number = Math.ceil(t0 / step - 1e-9); number * step <= t1 + 1e-9 && marks.length < 200; number += 1) {
      const x = (scale.toU(number * step) - from) / perPixel;
      if (!marks.length || x - marks[marks.length - 1].x >= apart * 0.75) marks.push({ t: number * step, x, text: moment(number * step, step) });
    }
  }
  return marks;
}

/** A point in time of a run as a mark says it: `0.25 s`, `12 s`, `3:05`, `2:00:00`, `3 d 4 h`. */
export function moment(t, step = 1) {
  if (step < 1 && t < 60) return `${t.toFixed(Math.min(3, Math.ceil(-Math.log10(step))))} s`;
  if (t < 60) return `${Math.round(t)} s`;
  const whole = Math.round(t);
  const [days, hours, minutes, seconds] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
  const two = (number) => String(number).padStart(2, "0");
  const part = step < 1 ? (t % 1).toFixed(3).slice(1) : "";
  if (days) return step >= 3600 ? `${days} d ${hours} h` : `${days} d ${hours}:${two(minutes)}`;
  return hours ? `${hours}:${two(minutes)}:${two(seconds)}${part}` : `${minutes}:${two(seconds)}${part}`;
}

/** How long something took: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 3 min`, `3 d 4 h`. */
export function lasted(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "";
  if (seconds < 0.0005) return "0 s";
  if (seconds < 0.1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole / 3600) % 24} h`;
}
