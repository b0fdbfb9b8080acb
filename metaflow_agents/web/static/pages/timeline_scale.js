// The window of the time line, as pure functions. Times are seconds of the run, without its rests.
// A window is {from, to}; `length` is what there is to see.

const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600,
	7200, 14400, 28800, 86400, 172800, 604800];
const SHORTEST = 0.01;                  // seconds in a window: deeper there is nothing to see

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

/** The window that shows `began` to `ended` with some room at both sides. */
export function around(began, ended, length) {
	const room = Math.max((ended - began) * 0.1, SHORTEST);
	return clamped({ from: began - room, to: ended + room }, length);
}

/** Marks of the axis, {t, x, text}, at least `apart` pixels from each other; `width`: pixels of the window. */
export function ticks({ from, to }, width, apart = 80) {
	const perPixel = (to - from) / Math.max(width, 1);
	const step = STEPS.find((one) => one / perPixel >= apart) || Math.ceil((perPixel * apart) / 604800) * 604800;
	const marks = [];
	for (let number = Math.ceil(from / step - 1e-9); number * step <= to + 1e-9 && marks.length < 100; number += 1) {
		marks.push({ t: number * step, x: (number * step - from) / perPixel, text: moment(number * step, step) });
	}
	return marks;
}

/** A point in time of a run as a mark says it: `0.25 s`, `12 s`, `3:05`, `2:00:00`, `3 d 4 h`. */
export function moment(t, step = 1) {
	if (t < 60 && step < 60) return step < 1 && t ? `${t.toFixed(Math.min(3, Math.ceil(-Math.log10(step))))} s` : `${Math.round(t)} s`;
	const whole = Math.floor(t + 1e-6);
	const [days, hours, minutes, seconds] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
	const two = (number) => String(number).padStart(2, "0");
	const part = step < 1 ? (t - whole).toFixed(Math.min(3, Math.ceil(-Math.log10(step)))).slice(1) : "";
	if (days) return step >= 3600 ? `${days} d ${hours} h` : `${days} d ${hours}:${two(minutes)}`;
	return hours ? `${hours}:${two(minutes)}:${two(seconds)}${part}` : `${minutes}:${two(seconds)}${part}`;
}
