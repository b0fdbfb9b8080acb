"""The syntax errors of a YAML parser in words that a person can act on."""

from __future__ import annotations

import re

import yaml

from metaflow_agents.errors import Problem

_QUOTE = "put the value in quotes"
_TEMPLATE = re.compile(r"(?::\s|[-,\[{]\s?)\s*\{\{")
_KNOWN: tuple[tuple[str, str, str], ...] = (
    ("mapping values are not allowed", "`: ` stands where no key can begin",
     "put a text that holds `: ` in quotes; or check the indentation of this line"),
    ("found unknown escape character", "the backslash begins no escape that YAML knows",
     "use single quotes, where a backslash is a backslash"),
    ("could not find expected ':'", "a line without `:` stands where a key was expected",
     "write `key: value`; a text of several lines begins with `|`, and a value that begins with a quote ends with it"),
    ("did not find expected ',' or ']'", "a list in brackets is not closed, or an item needs quotes",
     "close it with `]`, and put items that hold brackets, braces or quotes in quotes"),
    ("did not find expected ',' or '}'", "a mapping in braces is not closed, or a value needs quotes",
     "close it with `}`, and put values that hold commas, brackets, braces or quotes in quotes"),
    ("did not find expected alphabetic", "`*` or `&` at the start of a value names an anchor", _QUOTE + ", as in \"**/*.py\""),
    ("block sequence entries are not allowed", "`- ` stands where no list can begin",
     "begin the list on its own line under the key"),
    ("did not find expected '-' indicator", "this line is not an item of the list above it",
     "begin it with `- `, or indent it as its key stands"),
    ("did not find expected key", "this is no key of the mapping above it",
     "check the indentation; a value that begins with a quote, bracket or brace has to end with it, or stand in quotes"),
    ("did not find expected node content", "a value was expected here", "write a value, or put it in quotes"),
    ("block mapping entries are not allowed", "a key stands where none can begin", "check the indentation"),
    ("did not find expected comment or line break", "text stands behind `|` or `>`", "begin the text on the next line, indented"),
    ("found a tab character", "a tab is used for indentation", "indent with spaces"),
    ("found invalid Unicode character escape", "the escape names no character", "write the character itself"),
    ("found incompatible YAML document", "another version of YAML is asked for", "remove the `%YAML` line"),
)


def told(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """One problem for what the parser met; where it stopped, or where an unclosed quote began."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    context = str(getattr(error, "context", "") or "")
    problem = str(getattr(error, "problem", "") or getattr(error, "reason", "") or error)
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    if "nesting depth" in problem:          # of PyYAML 6.0.4 on, which reads ahead: before this package has counted
        return Problem("yaml-depth", "the file nests too many levels deep", "flatten it, or split the file", file, line, column)
    if "quoted scalar" in context and ("end of stream" in problem or "document indicator" in problem):
        start = getattr(error, "context_mark", None) or mark
        line, column = (start.line + 1, start.column + 1) if start else (line, column)
        if _opened_before(_line(text, line)[:column - 1], _character(text, start)):
            return Problem("yaml-cut", "YAML cut a value at a comma or bracket inside its quotes",
                           "put the whole value in quotes: inside `{…}` and `[…]` a comma ends it", file, line, column)
        return Problem("yaml-syntax", "the quote that opens here is never closed",
                       "close it, and double a quote inside a quoted text", file, line, column)
    if " flow " in context and mark is not None and mark.index >= len(text.rstrip()):
        start = getattr(error, "context_mark", None) or mark
        opener = start.index if start.index < len(text.rstrip()) else max(text.rfind("["), text.rfind("{"))
        before = text[:opener]
        return Problem("yaml-syntax", "the bracket or brace that opens here is never closed", "close it with `]` or `}`",
                       file, before.count("\n") + 1, opener - before.rfind("\n"))
    if " tag" in context + problem:
        return Problem("yaml-tag", "`!` begins a tag, and tags are refused",
                       "remove it, or put the value in quotes", file, line, column)
    message, mend = _words(problem, _character(text, mark))
    if _TEMPLATE.search(_line(text, line)) or _TEMPLATE.search(_line(text, line - 1)):
        return Problem("yaml-braces", "`{{ }}` at the start of an unquoted value is a mapping to YAML",
                       'put the whole value in quotes: "{{ … }}"', file, line, column)
    return Problem("yaml-syntax", message, mend, file, line, column)


def _opened_before(line: str, quote: str) -> bool:
    """Whether the line opened such a quote already, inside a value that does not begin with it: `{value: join(', ')}`."""
    return line.count(quote) % 2 == 1 and re.search(r"[{\[]", line) is not None


def _words(problem: str, character: str) -> tuple[str, str]:
    if "cannot start any token" in problem:
        if character == "\t":
            return "a tab is used for indentation", "indent with spaces"
        return f"a value can't begin with the character {character}", _QUOTE
    for part, message, mend in _KNOWN:
        if part in problem:
            return message, mend
    return f"this is no YAML: {problem}", "check quotes, brackets and indentation around this place"


def _character(text: str, mark: object) -> str:
    index = getattr(mark, "index", len(text))
    return text[index] if index < len(text) else "the end of the file"


def _line(text: str, number: int) -> str:
    lines = re.split(r"\r\n|\n|\r", text)
    return lines[number - 1] if 0 < number <= len(lines) else ""
