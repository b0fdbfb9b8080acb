"""JSON that a model wrote nearly right, made right: the part that runs in a worker process (docs/decisions/0059).

A repair may change quotation marks, commas and colons between values, white space, the spelling of numbers and of `True`, `False`
and `None`, and leave out comments and words around the value. Nothing else: what `json_repair` gives is compared with what it was
given. So nothing is lost, added or closed by a guess, and an answer that was cut off stays as it is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from metaflow_agents.texts.strict_json import NotJSON, read

_SHOWN = 200                        # characters that are told of what was left out
_FENCE = re.compile(r"[ \t]*```[\w-]*[ \t]*\r?(?:\n|\Z)")
_BRACKET = re.compile(r"[\[\]{}]")
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*+"|(?<![^\s,\[{])(//[^\n]*|/\*.*?\*/)', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}
_CONSTANT = re.compile(r"\b(?:True|False|None)\b")
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_QUOTES = "\"'“”‘’"
_FREE = re.compile(rf"[\s,:{_QUOTES}]+")
_EMPTY = re.compile(r"\"\"|''|“”|‘’")
_CLOSED = re.compile(rf"\s*[{_QUOTES}]")
_QUOTE = re.compile(rf"[{_QUOTES}]")
_WORDS = {",": "comma", ":": "colon"}


class _Refused(Exception):
    """Why an answer is not repaired."""


def repair_job(data: bytes) -> dict[str, Any]:
    """`text`, JSON, and `changes`, what was changed in words, of an answer (UTF-8) that is no JSON; or `refused`, why not."""
    try:
        text, changes = _repaired(data.decode())
    except _Refused as error:
        return {"refused": str(error)}
    return {"text": text, "changes": changes}


def _repaired(answer: str) -> tuple[str, list[str]]:
    part, behind, changes = _value_in(answer)
    try:
        read(part)
    except NotJSON as error:
        fault = str(error)
    else:
        return part, changes
    if '"' in behind:
        raise _Refused("behind its last bracket stands a quotation mark, so that a string may go on there")
    bare, comments = _without_comments(part)
    import json_repair  # the worker alone imports it

    try:
        value = read(json.dumps(json_repair.loads(bare, skip_json_loads=True)))        # as ASCII: pairs of halves come together
    except (ValueError, RecursionError) as error:               # NotJSON is a ValueError
        raise _Refused(f"a repair gives no JSON: {error}") from None
    written = json.dumps(value, ensure_ascii=False)
    if not _keeps(bare, value, written):
        raise _Refused("a repair would lose or add something, or close what was cut off")
    changes += [f"comment left out: {_short(one)}" for one in comments]
    return written, [*changes, f"repaired: {fault}{_counted(bare, written)}"]


def _value_in(answer: str) -> tuple[str, str, list[str]]:
    """The object or list of an answer, from its first bracket to its last; what stands behind it, inside of the fence if there
    is one; and what of the answer is left out.
    """
    lines = answer.splitlines(keepends=True)
    fences = [at for at, line in enumerate(lines) if _FENCE.fullmatch(line)]
    if len(fences) > 2:
        raise _Refused("it holds several fenced blocks")
    before, after = "", ""
    if len(fences) == 2:
        first, last = fences
        before, after = "".join(lines[:first]), "".join(lines[last + 1:])
        lines = lines[first + 1:last]
    else:
        lines = [line for at, line in enumerate(lines) if at not in fences]
    if _BRACKET.search(before + after):
        raise _Refused("brackets stand outside of its fenced block")
    inside = "".join(lines)
    found = [match.start() for match in _BRACKET.finditer(inside)]
    if not found:
        raise _Refused("it holds no JSON object and no list")
    start, end = found[0], found[-1] + 1
    if inside[start] == "[" and not (fences or _alone(inside, start, end)):
        raise _Refused("its list stands inside of a sentence")      # which may be a reference: [3]
    changes = ["code fence left out"] if fences else []
    for where, left in (("before", before + inside[:start]), ("after", inside[end:] + after)):
        if left.strip():
            changes.append(f"left out {where} the JSON: {_short(left)}")
    return inside[start:end], inside[end:], changes


def _alone(text: str, start: int, end: int) -> bool:
    """Whether a part begins its first line and ends its last one."""
    return not text[text.rfind("\n", 0, start) + 1:start].strip() and not text[end:].partition("\n")[0].strip()


def _without_comments(text: str) -> tuple[str, list[str]]:
    """The text without `// …` and `/* … */` where these follow white space, a comma or an opening bracket, outside of strings."""
    comments: list[str] = []

    def left(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        comments.append(match[1])
        return " "

    return _COMMENT.sub(left, text), comments


def _keeps(given: str, value: Any, written: str) -> bool:
    """Whether a value says what the text says: all that is no quotation mark, comma, colon or white space is there in its order,
    brackets too, and every string stands in the text word for word, in the same order. A string may have been cut off behind
    a bracket of its own: so one that a quotation mark opens is closed by one, they are added in pairs, and the last string holds
    no bare ones.
    """
    plain, made = _unescaped(given), _unescaped(written)
    added = len(_QUOTE.findall(made)) - len(_QUOTE.findall(plain))
    if _kept(plain) != _kept(made) or added < 0 or added % 2:
        return False
    at, string = 0, ""
    for string in _strings(value):
        if string:
            found = plain.find(string, at)
            at = found + len(string)
            if found > 0 and plain[found - 1] in _QUOTES and not _CLOSED.match(plain, at):
                return False
        else:                                                   # a value that is missing is no empty string
            match = _EMPTY.search(plain, at)
            found, at = (-1, at) if match is None else match.span()
        if found < 0:
            return False
    return _QUOTE.search(string) is None or any(
        json.dumps(string, ensure_ascii=ascii_)[1:-1] in given for ascii_ in (True, False))


def _kept(plain: str) -> str:
    text = _CONSTANT.sub(lambda match: _CONSTANTS[match[0]], plain)
    return _FREE.sub("", _NUMBER.sub(_number, text))


def _number(match: re.Match[str]) -> str:
    return match[0] if match[0].lstrip("-").isdigit() else repr(float(match[0]))


def _unescaped(text: str) -> str:
    """A text with its escapes read, wherever they stand; those that JSON does not know stay."""
    def read_escape(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[0])

    found = _ESCAPE.sub(read_escape, text)
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")         # pairs of halves are one character


def _strings(value: Any) -> Iterator[str]:
    """The keys and texts of a value, in order."""
    stack = [iter([value])]
    while stack:
        for one in stack[-1]:
            if isinstance(one, str):
                yield one
            elif isinstance(one, list | dict):
                stack.append(iter(one) if isinstance(one, list) else iter([part for pair in one.items() for part in pair]))
                break
        else:
            stack.pop()


def _counted(given: str, written: str) -> str:
    """What stands there more or less often: `; commas: 1 removed`."""
    before, after = (Counter(_kinds(text)) for text in (given, written))
    told = [f"{kind}s: {abs(after[kind] - before[kind])} {'added' if after[kind] > before[kind] else 'removed'}"
            for kind in ("quotation mark", "comma", "colon") if after[kind] != before[kind]]
    return "".join(f"; {one}" for one in told)


def _kinds(text: str) -> Iterator[str]:
    for letter in text:
        if letter in _WORDS:
            yield _WORDS[letter]
        elif letter in _QUOTES:
            yield "quotation mark"


def _short(text: str) -> str:
    told = " ".join(text.split())
    return repr(told) if len(told) <= _SHOWN else f"{told[:_SHOWN]!r}… ({len(told):,} characters)"
