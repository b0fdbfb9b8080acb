"""Reading with exact places: Jinja2's nodes know only their line, so the column travels inside the line number.

While a text is read for analysis, every token's line number is `line * 2**20 + column`; nodes and syntax errors take it over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.parser import Parser

from metaflow_agents.errors import did_you_mean
from metaflow_agents.prompts.environment import TemplateSandbox, check_size
from metaflow_agents.prompts.hardening import size
from metaflow_agents.prompts.limits import MAX_EXPRESSION
from metaflow_agents.prompts.running import plainly

_SHIFT = 20
_NEWLINE = re.compile(r"\r\n|\r|\n")
TAGS = ("block", "call", "extends", "filter", "for", "from", "if", "import", "include", "macro", "raw", "set", "with")


class _Placing(TemplateSandbox):
    """A sandbox that is only read with: its tokens carry their column."""

    def _tokens(self, source: str, name: str | None, filename: str | None, state: str | None) -> Iterator[Any]:
        source = _NEWLINE.sub("\n", source)
        raw = self.lexer.tokeniter(source, name, filename, state)
        cursor = 0
        for line, token, text in raw:
            # only white space is ever skipped, so the next occurrence is the token itself
            start = max(source.find(text, cursor), cursor)
            cursor = start + len(text)
            column = start - (source.rfind("\n", 0, start) + 1) + 1
            yield (line << _SHIFT) + min(column, (1 << _SHIFT) - 1), token, self.escaped(text) if token == "string" else text


_PLACING = _Placing({})


def tokens(expression: str) -> Iterator[tuple[int, str, str]]:
    """The words and signs of an expression that can be read: place from 0, kind, text."""
    cursor = 0
    for _, kind, text in _PLACING.lexer.tokeniter(_NEWLINE.sub("\n", expression), None, None, "variable"):
        if kind != "whitespace":
            start = max(expression.find(text, cursor), cursor)      # only white space is ever skipped
            cursor = start + len(text)
            yield start, kind, text


def place(number: int | None) -> tuple[int, int]:
    """Line and column of a node's line number."""
    number = number or 1
    return (number >> _SHIFT, number & ((1 << _SHIFT) - 1)) if number >= 1 << _SHIFT else (number, 1)


def read_expression(text: str) -> nodes.Expr:
    """The tree of an expression with places. Raises one of `running.UNREADABLE`."""
    check_size(text, MAX_EXPRESSION)
    parser = Parser(_PLACING, text, state="variable")
    tree = parser.parse_expression()
    if not parser.stream.eos:
        current = parser.stream.current
        raise TemplateSyntaxError(f"the expression ends before `{current.value}`", current.lineno)
    size(tree)
    return tree


@lru_cache(maxsize=256)
def read_template(text: str) -> nodes.Template:
    """The tree of a template with places, which nobody changes: it is kept. Raises one of `running.UNREADABLE`."""
    check_size(text)
    tree = _PLACING._parse(text, None, None)
    size(tree)
    return tree


_UNCLOSED = re.compile(
    r"Unexpected end of template\. .*following tags: (.*?)\.(?: The innermost block that needs to be closed is '(\w+)'\.)?$")
_UNKNOWN_TAG = re.compile(r"(?:Encountered u|U)nknown tag '([^']+)'")
_CHAR = re.compile(r"unexpected char '?\"?(.+?)'?\"? at (\d+)$")
_EXPECTED = re.compile(r"expected token '([^']+)', got '(.+)'$")
_EARLY = re.compile(r"unexpected end of template, expected '(.+)'\.$")
_STRAY = re.compile(r"unexpected '([^\w\s']+)'")
_WORDS = {"end of print statement": "the end of `{{ … }}`", "end of statement block": "the end of the tag",
          "begin of print statement": "`{{`", "end of template": "the end"}


def syntax_fault(error: BaseException, text: str) -> tuple[str, str, int, int]:
    """A failure to read as (message, mend, line, column), in plain words."""
    message = plainly(error)
    line, column = place(getattr(error, "lineno", 1) if isinstance(error, TemplateSyntaxError) else 1)
    if found := _UNKNOWN_TAG.match(message):
        return f"there is no tag `{found[1]}`", did_you_mean(found[1], TAGS), line, column
    if found := _UNCLOSED.match(message):
        tag = found[2] or "a tag"
        return f"`{tag}` is not closed", f"add `{{% end{tag} %}}`" if found[2] else f"close it with {found[1]}", line, column
    if found := _CHAR.match(message):
        at = int(found[2])
        before = _NEWLINE.sub("\n", text)[:at]
        return (f"`{found[1]}` means nothing here", "leave it out, or put it into quotes", before.count("\n") + 1,
                at - (before.rfind("\n") + 1) + 1)
    if found := _EXPECTED.match(message):
        wanted, got = (_WORDS.get(word, f"`{word}`") for word in found.groups())
        return f"{wanted} is expected, here stands {got}", "", line, column
    if found := _EARLY.match(message):
        return f"`{found[1]}` is missing at the end", f"add `{found[1]}`", line, column
    if found := _STRAY.match(message):
        stands = text.splitlines()[line - 1].find(found[1]) + 1 if column == 1 and line <= len(text.splitlines()) else column
        return f"`{found[1]}` does not belong here", "leave it out", line, max(stands, 1)
    if message.startswith(("unexpected 'end of", "Expected an expression, got 'end of")):
        return "the expression ends too early", "write the rest, or leave the operator out", line, column
    for jargon, word in _WORDS.items():
        message = message.replace(f"'{jargon}'", word)
    return message[:1].lower() + message[1:], "", line, column
