"""PDDL as text: words and forms with their places. What is open where something else begins is told there.

The grammar is that of McDermott et al., "PDDL: the Planning Domain Definition Language" (1998): nested lists, `;` begins a
comment, upper and lower case are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

from metaflow_agents.kits.planning.faults import LEAVE_OUT, PDDLFault, UnreadablePDDL, before, listed, write

MAX_CHARACTERS = 100_000
MAX_DEPTH = 60
_TOKEN = re.compile(r"[()]|[^\s();]+|;[^\n]*")
_NAME = re.compile(r"[?:]?[a-z0-9][a-z0-9_-]*", re.IGNORECASE)
_SIGNS = ("-", "=", "<", ">", "<=", ">=", "+", "*", "/")
_TOP = (":domain", ":requirements", ":types", ":constants", ":predicates", ":action", ":objects", ":init", ":goal")
"""Sections, which stand directly inside of `(define …)` and nowhere else."""
REFUSED = {
    ":functions": "numbers and costs", ":metric": "numbers and costs", ":derived": "derived predicates", ":axiom": "axioms",
    ":durative-action": "actions that last", ":process": "processes", ":event": "events", ":constraints": "constraints on plans",
    ":task": "hierarchies of tasks", ":method": "hierarchies of tasks", ":htn": "hierarchies of tasks",
}
"""Sections of PDDL that nothing here executes: refused by name."""
_OF_ACTIONS = (":parameters", ":precondition", ":effect")
_NESTING = ("define", "and", "or", "not", "imply", "forall", "exists", "when", "either", "increase", "decrease", "assign",
            "=", "<", ">", "<=", ">=", "+", "-", "*", "/", "preference")
"""Words whose forms may hold other forms; a form of any other word is a fact, a predicate or a name, and holds words alone."""
_FORMS_ONLY = (":init", ":predicates", "and", "or")
"""Words whose forms hold nothing but forms."""


@dataclass(frozen=True, slots=True)
class Word:
    """A name, a variable, a key or a sign. `text` is in lower case, `written` as it stands."""

    text: str
    written: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Form:
    """What stands between two parentheses."""

    items: tuple[Word | Form, ...]
    line: int
    column: int

    @property
    def head(self) -> str:
        """Its first word; empty where it begins with none."""
        return self.items[0].text if self.items and isinstance(self.items[0], Word) else ""


Node = Word | Form


def shown(node: Node) -> str:
    """A node as people write it, cut where it is long."""
    if isinstance(node, Word):
        return node.written
    text = f"({' '.join(shown(item) for item in node.items)})"
    return text if len(text) <= 80 else f"{text[:77]}…"


def read(text: str, file: str) -> list[Form]:
    """The forms of a text. Raises Unreadable at the first place where parentheses or names go wrong."""
    if len(text) > MAX_CHARACTERS:
        raise UnreadablePDDL(PDDLFault(file, 1, 1, f"the text has more than {MAX_CHARACTERS:,} characters", "say it shorter"))
    return _Reader(text, file).forms()


class _Reader:
    """One walk over the text, with the forms that are open on the way."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.open: list[tuple[list[Node], int, int]] = []
        self.done: list[Form] = []

    def forms(self) -> list[Form]:
        for (token, line, column), (following, _, _) in pairwise(chain(self._tokens(), [("", 0, 0)])):
            if token == "(":
                self._may_open(following.lower(), line, column)
                self.open.append(([], line, column))
                if len(self.open) > MAX_DEPTH:
                    raise self._wrong(line, column, f"more than {MAX_DEPTH} parentheses are open here", "nest less deeply")
            elif token == ")":
                self._close(line, column)
            else:
                self._word(token, line, column)
        if self.open:
            line, column = self._end()
            raise self._wrong(line, column, f"found the end of the text, while {self._innermost()} is still open; expected `)`",
                              before(")"))
        return self.done

    def _tokens(self) -> Iterator[tuple[str, int, int]]:
        for number, line in enumerate(self.text.split("\n"), 1):
            for match in _TOKEN.finditer(line):
                if not match[0].startswith(";"):
                    yield match[0], number, match.start() + 1

    def _end(self) -> tuple[int, int]:
        return self.text.count("\n") + 1, len(self.text) - self.text.rfind("\n")

    def _may_open(self, following: str, line: int, column: int) -> None:
        """Raises Unreadable where a form can't begin: then a parenthesis before it is missing, or one too many."""
        what = f"found `({following}`"
        if following in REFUSED:
            raise self._wrong(line, column, f"{what}: {REFUSED[following]} are not understood here; expected one of "
                              f"{listed(_TOP)}", LEAVE_OUT)
        if following in _TOP and len(self.open) > 1:
            raise self._wrong(line, column, f"{what}, while {self._innermost()} is still open; expected `)`", before(")"))
        if following == "either":
            return
        head = self._head()
        lost = not following.startswith(":") and head == "define" and len(self.open[-1][0]) > 2
        if lost or (following in _TOP and not self.open and self.done):
            raise self._wrong(*self._last_closed(line, column), f"found one `)` too many: `({following}` comes after it at "
                              f"{line}:{column}, and expected is that it lies inside", LEAVE_OUT)
        if self.open and head and not head.startswith(":") and head not in _NESTING and len(self.open) > 1:
            raise self._wrong(line, column, f"{what}, while {self._innermost()} is still open, which holds names alone; "
                              "expected `)`", before(")"))

    def _outside(self, line: int, column: int) -> str:
        """The text from a place to the end of its line, or to the next parenthesis."""
        rest = self.text.split("\n")[line - 1][column - 1:]
        return re.split(r"[();]", rest)[0].rstrip()

    def _last_closed(self, line: int, column: int) -> tuple[int, int]:
        """Where the parenthesis stands that came before a place."""
        found = (1, 1)
        for token, at_line, at_column in self._tokens():
            if (at_line, at_column) >= (line, column):
                break
            found = (at_line, at_column) if token == ")" else found
        return found

    def _close(self, line: int, column: int) -> None:
        if not self.open:
            raise self._wrong(line, column, "found `)`, and nothing is open", LEAVE_OUT)
        items, at_line, at_column = self.open.pop()
        form = Form(tuple(items), at_line, at_column)
        (self.open[-1][0] if self.open else self.done).append(form)

    def _word(self, token: str, line: int, column: int) -> None:
        if not self.open:
            raise self._wrong(line, column, f"found `{self._outside(line, column)}` outside of parentheses; "
                              "expected `(define …)`", LEAVE_OUT)
        text, head = token.lower(), self._head()
        self._may_stand(text, token, head, line, column)
        if head in _FORMS_ONLY:
            raise self._wrong(line, column, f"found `{token}` in {self._innermost()}, which holds forms like `(name …)`; "
                              "expected `(`", before("("))
        if not _NAME.fullmatch(text) and text not in _SIGNS and not _number(text):
            good = "".join(re.findall(r"[?:]?[a-z0-9_-]+", token, re.IGNORECASE))
            mend = write(good) if _NAME.fullmatch(good) else LEAVE_OUT
            raise self._wrong(line, column, f"found `{token[:60]}`; expected a name of letters, digits, `-` and `_`", mend)
        self.open[-1][0].append(Word(text, token, line, column))

    def _may_stand(self, text: str, token: str, head: str, line: int, column: int) -> None:
        """Raises Unreadable where a key can't stand: then a parenthesis before it is missing, or one too many."""
        if not text.startswith(":") or not self.open[-1][0] or head in (":action", ":requirements"):
            return
        if head != "define":
            raise self._wrong(line, column, f"found `{token}`, while {self._innermost()} is still open; expected `)`",
                              before(")"))
        if text in _OF_ACTIONS:
            raise self._wrong(*self._last_closed(line, column), f"found one `)` too many: `{token}` comes after it at "
                              f"{line}:{column}, and expected is that it lies inside of `(:action`", LEAVE_OUT)
        raise self._wrong(line, column, f"found `{token}` in {self._innermost()}; expected `(`", before("("))

    def _head(self) -> str:
        first = self.open[-1][0][:1] if self.open else []
        return first[0].text if first and isinstance(first[0], Word) else ""

    def _innermost(self) -> str:
        items, line, column = self.open[-1]
        return f"`({' '.join(item.written for item in items[:3] if isinstance(item, Word))}` of {line}:{column}"

    def _wrong(self, line: int, column: int, told: str, mend: str) -> UnreadablePDDL:
        return UnreadablePDDL(PDDLFault(self.file, line, column, told, mend))


def _number(text: str) -> bool:
    return bool(re.fullmatch(r"\d+(\.\d+)?", text))
