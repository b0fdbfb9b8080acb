// Colours for the text of a SOP: YAML, and the expressions and templates in it. Line by line, so that a keystroke costs one line.

const EXPRESSION_KEYS = new Set(["when", "in", "key", "after", "where", "accept", "only", "value", "priority", "success", "expect", "assert"]);
const WORDS = new Set(["and", "or", "not", "is", "in", "if", "else", "elif", "endif", "for", "endfor", "set", "include", "macro", "endmacro",
	"import", "from", "with", "endwith", "extends", "block", "endblock", "call", "endcall", "filter", "endfilter", "raw", "endraw", "true", "false", "none"]);
const CONSTANT = /^(?:null|Null|NULL|~|true|True|TRUE|false|False|FALSE)$/;
const NUMBER = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/;
const KEY = /^(\s*(?:- +)*)((?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#&*!|>'"%@`{}[\],:?-][^#{}[\],:]*?|[?:-](?=\S)[^#{}[\],:]*?))(\s*)(:)(?=\s|$)/;
const BLOCK = /^([|>][-+0-9]*)(\s*(?:#.*)?)$/;
const OPEN_TEMPLATE = /\{\{|\{%|\{#/g;

const kept = new Map();                 // state and line → tokens and the state behind it
const MOST_KEPT = 8000;

/**
 * The lines of a text, each as [class, text] pairs under pygments' short names. A line's state says what it continues:
 * "" plain YAML, "|4:e" a block deeper than 4 columns (e: an expression), a quote that is open.
 */
export function highlight(text) {
	let state = "";
	return text.split("\n").map((line) => {
		const key = `${state}\n${line}`;
		let found = kept.get(key);
		if (!found) {
			if (kept.size > MOST_KEPT) kept.clear();
			found = joined(ofLine(line, state));
			kept.set(key, found);
		}
		state = found.state;
		return found.tokens;
	});
}

/** Without empty tokens, and one for each run of a class: fewer elements. */
function joined({ tokens, state }) {
	const found = [];
	for (const [kind, text] of tokens) {
		if (found.length && found[found.length - 1][0] === kind) found[found.length - 1] = [kind, found[found.length - 1][1] + text];
		else if (text) found.push([kind, text]);
	}
	return { tokens: found, state };
}

function ofLine(line, state) {
	if (state.startsWith("|")) {
		const [indent, kind] = state.slice(1).split(":");
		const depth = /\S/.exec(line)?.index ?? Infinity;
		if (depth > Number(indent)) return { tokens: kind === "e" ? expression(line) : template(line, ""), state };
		state = "";
	}
	if (state === '"' || state === "'") {
		const end = closing(line, 0, state);
		if (end < 0) return { tokens: template(line, "s"), state };
		const rest = values(line.slice(end), "");
		return { tokens: [...template(line.slice(0, end), "s"), ...rest.tokens], state: rest.state };
	}
	if (/^\s*#/.test(line)) return { tokens: [["c", line]], state: "" };
	const key = KEY.exec(line);
	if (!key) {
		const [lead] = /^\s*(?:- +)*/.exec(line);
		const rest = values(line.slice(lead.length), "", lead.lastIndexOf("-"));
		return { tokens: [["", lead], ...rest.tokens], state: rest.state };
	}
	const [whole, lead, name, space, colon] = key;
	const bare = name.replace(/^["']|["']$/g, "");
	const after = line.slice(whole.length);
	const rest = values(after, bare, lead.replace(/- +$/, "").length);
	return { tokens: [["", lead], ["nt", name], ["", space], ["p", colon], ...rest.tokens], state: rest.state };
}

/** What follows a key, or stands alone: scalars, flow collections, comments. `key`: whose value it is; `indent`: of that key. */
function values(line, key, indent = 0) {
	const [begin] = /^\s*/.exec(line);
	const written = line.slice(begin.length);
	const block = BLOCK.exec(written);
	const expressed = EXPRESSION_KEYS.has(key);
	if (block) return { tokens: [["", begin], ["k", block[1]], ["c", block[2]]], state: `|${indent}:${expressed ? "e" : "t"}` };
	if (/^["']/.test(written)) {
		const quote = written[0];
		const end = closing(written, 1, quote);
		const inside = (text) => (expressed ? quotedExpression(text, quote) : template(text, "s"));
		if (end < 0) return { tokens: [["", begin], ...inside(written)], state: quote };
		const rest = /^\s*[,\]}]/.test(written.slice(end)) ? flow(written.slice(end)) : plain(written.slice(end), "");      // of a list in lines
		return { tokens: [["", begin], ...inside(written.slice(0, end)), ...rest], state: "" };
	}
	if (/^[[{]/.test(written) && !written.startsWith("{{")) return { tokens: [["", begin], ...flow(written)], state: "" };
	return { tokens: [["", begin], ...plain(written, key)], state: "" };
}

function plain(written, key) {
	const comment = /(?:^|\s)#.*$/.exec(written);
	const [value, after] = comment ? [written.slice(0, comment.index), written.slice(comment.index)] : [written, ""];
	const tail = after ? [["c", after]] : [];
	if (EXPRESSION_KEYS.has(key)) return [...expression(value), ...tail];
	if (/^[&*][^\s]/.test(value)) {
		const [anchor] = /^[&*]\S+/.exec(value);
		return [["k", anchor], ...plain(value.slice(anchor.length), ""), ...tail];
	}
	return [...scalar(value), ...tail];
}

function scalar(value) {
	const bare = value.trim();
	if (CONSTANT.test(bare)) return [["kc", value]];
	if (NUMBER.test(bare)) return [["m", value]];
	return template(value, "");
}

const FLOW = /("(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?)(\s*:(?=\s|$))?|([[\]{},])|(\s#.*$)|([^[\]{},"'#\s](?:[^[\]{},#:]|:(?!\s|$))*)(:(?=\s|$))?|(\s+|.)/gy;

/** `{a: 1, b: [x, "y"]}` in one line. */
function flow(text) {
	const tokens = [];
	let expressed = false;
	FLOW.lastIndex = 0;
	for (let match = FLOW.exec(text); match && match[0]; match = FLOW.exec(text)) {
		const [whole, quoted, quotedColon, sign, comment, word, colon] = match;
		const end = quotedColon || colon;
		if (sign) tokens.push(["p", sign]);
		else if (comment) tokens.push(["c", comment]);
		else if (end) tokens.push(["nt", quoted || word], ["p", end]);
		else if (quoted) tokens.push(...(expressed ? quotedExpression(quoted, quoted[0]) : template(quoted, "s")));
		else if (word) tokens.push(...(expressed ? expression(word) : scalar(word)));
		else tokens.push(["", whole]);
		if (end) expressed = EXPRESSION_KEYS.has((quoted || word).trim());
		else if (sign) expressed = false;
	}
	return tokens;
}

/** A text with `{{ … }}`, `{% … %}` and `{# … #}` in it; `kind` is the class of the rest. */
function template(text, kind) {
	const tokens = [];
	let at = 0;
	OPEN_TEMPLATE.lastIndex = 0;
	for (let match = OPEN_TEMPLATE.exec(text); match; match = OPEN_TEMPLATE.exec(text)) {
		const close = { "{{": "}}", "{%": "%}", "{#": "#}" }[match[0]];
		const end = text.indexOf(close, match.index + 2);
		const until = end < 0 ? text.length : end + 2;
		if (match.index > at) tokens.push([kind, text.slice(at, match.index)]);
		if (match[0] === "{#") tokens.push(["c", text.slice(match.index, until)]);
		else {
			tokens.push(["k", match[0]], ...expression(text.slice(match.index + 2, end < 0 ? until : end)));
			if (end >= 0) tokens.push(["k", close]);
		}
		at = until;
		OPEN_TEMPLATE.lastIndex = until;
	}
	if (at < text.length) tokens.push([kind, text.slice(at)]);
	return tokens;
}

/** An expression that stands in quotes, which are YAML's. */
function quotedExpression(text, quote) {
	const closed = text.length > 1 && text.endsWith(quote);
	return [["s", quote], ...expression(text.slice(1, closed ? -1 : undefined)), ...(closed ? [["s", quote]] : [])];
}

function expression(text) {
	const tokens = [];
	const part = /("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|([A-Za-z_]\w*)|(\d+(?:\.\d+)?)|(\s+|.)/gy;
	let match;
	let before = "";
	while ((match = part.exec(text)) && match[0]) {
		const [whole, quoted, word, number] = match;
		if (quoted) tokens.push(["s", quoted]);
		else if (word) tokens.push([WORDS.has(word) && before !== "." ? "k" : before === "|" ? "nf" : "", word]);
		else tokens.push([number ? "m" : "", whole]);
		if (whole.trim()) before = whole;
	}
	return tokens;
}

/** Behind the quote that ends what began before `from`; -1 where the line ends first. */
function closing(line, from, quote) {
	for (let at = from; at < line.length; at += 1) {
		if (quote === '"' && line[at] === "\\") at += 1;
		else if (line[at] === quote) {
			if (quote === "'" && line[at + 1] === "'") at += 1;
			else return at + 1;
		}
	}
	return -1;
}
