// How pages name an activation: `write@2[ch1]~1` is "write 2 [ch1], try 2"; those around it stand before.

/** {outer, step, round, item, attempt} of a row or a conversation; `outer` are the names of the activations around it. */
export function named({ key, step, round, item, attempt }) {
	const parts = segments(key);
	const outer = parts.slice(0, -1).map((part) => part.replace(/^([^@]+)@(\d+)(\[.*\])?~\d+$/s, (_, name, times, own = "") => `${name}${times > 1 ? ` ${times}` : ""}${own ? ` ${own}` : ""}`));
	const tried = attempt ?? Number(/~(\d+)$/.exec(parts[parts.length - 1] || "")?.[1] || 0);
	return { outer, step: step.split("/").at(-1), round, item: item ?? null, attempt: tried };
}

/** A key cut at the slashes between activations; a slash in an item's name is none. */
export function segments(key) {
	return key.split(/(?<=~\d+)\//);
}

/** The name in words, for labels and titles. */
export function words(row) {
	const { outer, step, round, item, attempt } = named(row);
	const own = `${step}${round > 1 ? ` ${round}` : ""}${item === null ? "" : ` [${item}]`}`;
	return `${[...outer, own].join(" › ")}${attempt ? `, try ${attempt + 1}` : ""}`;
}
