// A unified difference, as the command line prints it, as the hunks that `Diff` draws.

export function hunksOf(text) {
	const hunks = [];
	for (const line of text.split("\n")) {
		const head = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
		if (head) hunks.push({ old: Number(head[1]), new: Number(head[2]), lines: [] });
		else if (hunks.length && line !== "\\ No newline at end of file") hunks[hunks.length - 1].lines.push([line[0] === "+" || line[0] === "-" ? line[0] : " ", line.slice(1)]);
	}
	return hunks;
}
