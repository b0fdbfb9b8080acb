"""Ways in which PDDL comes out broken, and a mender that knows nothing but the faults that it is told.

Each kind changes one text in one place. The mender reads `FILE:LINE:COLUMN: found … ; MEND` and carries the mend out at that
place; it does not know PDDL, and a message that does not say what to do leaves it helpless.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DOMAIN, PROBLEM = "domain.pddl", "problem.pddl"


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to break a text: the first match of `pattern` (a regular expression, `.` matches line ends too) becomes `by`."""

    name: str
    world: str
    file: str
    pattern: str
    by: str

    def broken(self, text: str) -> str:
        """The text, broken."""
        made, count = re.subn(self.pattern, self.by, text, count=1, flags=re.DOTALL)
        assert count == 1 and made != text, f"{self.name} changes nothing"
        return made


KINDS = (
    Kind("the last parenthesis is missing", "blocksworld", PROBLEM, r"\)\s*$", "\n"),
    Kind("one parenthesis too many at the end", "blocksworld", PROBLEM, r"\)\s*$", "))\n"),
    Kind("a fact is not closed", "blocksworld", PROBLEM, r"\(on b c\)", "(on b c"),
    Kind("a fact is not opened", "blocksworld", PROBLEM, r"\(ontable d\)", "ontable d)"),
    Kind("the beginning is not closed", "blocksworld", PROBLEM, r"\)\s*\(:goal", "\n(:goal"),
    Kind("the beginning is closed twice", "blocksworld", PROBLEM, r"\(ontable c\)", "(ontable c))"),
    Kind("the objects are not closed", "depots", PROBLEM, r"Hoist\)", "Hoist"),
    Kind("parameters are not closed", "blocksworld", DOMAIN, r"\(\?ob \?underob\)", "(?ob ?underob"),
    Kind("a precondition is not closed", "blocksworld", DOMAIN, r"\(handempty\)\)\n  :effect", "(handempty)\n  :effect"),
    Kind("a condition is not opened", "blocksworld", DOMAIN, r"\(and \(clear \?ob\)", "(and clear ?ob)"),
    Kind("an action is closed before its end", "blocksworld", DOMAIN, r"\(\?ob \?underob\)", "(?ob ?underob))"),
    Kind("a section without parentheses", "blocksworld", PROBLEM, r"\(:domain blocksworld-4ops\)", ":domain blocksworld-4ops"),
    Kind("words before the problem", "blocksworld", PROBLEM, r"^\s*\(define", "Here is the problem you asked for:\n(define"),
    Kind("words after the problem", "blocksworld", PROBLEM, r"\)\s*$", ")\nI hope this helps!\n"),
    Kind("commas between objects", "blocksworld", PROBLEM, r"a b c d", "a, b c d"),
    Kind("a name in quotes", "blocksworld", PROBLEM, r"\(clear d\)", '(clear "d")'),
    Kind("`define` misspelt", "blocksworld", PROBLEM, r"\(define", "(defien"),
    Kind("`problem` misspelt", "blocksworld", PROBLEM, r"\(problem", "(problm"),
    Kind("a section misspelt", "logistics", PROBLEM, r":objects", ":objcts"),
    Kind("another domain's name", "blocksworld", PROBLEM, r":domain blocksworld-4ops", ":domain blocksworld"),
    Kind("a requirement misspelt", "blocksworld", DOMAIN, r":strips", ":stripps"),
    Kind("a requirement of numbers", "blocksworld", DOMAIN, r":strips", ":strips :action-costs"),
    Kind("a key of an action misspelt", "blocksworld", DOMAIN, r":precondition", ":precondtion"),
    Kind("a predicate misspelt in the beginning", "blocksworld", PROBLEM, r"ontable d", "ontabel d"),
    Kind("a predicate misspelt in the goal", "logistics", PROBLEM, r"(:goal.*)\(at ", r"\1(att "),
    Kind("a predicate misspelt in an effect", "blocksworld", DOMAIN, r":effect \(and \(holding", ":effect (and (holdin"),
    Kind("a predicate is not declared", "blocksworld", DOMAIN, r"\(holding \?x\)\s*", ""),
    Kind("a predicate is declared twice", "blocksworld", DOMAIN, r"\(handempty\)", "(handempty) (handempty)"),
    Kind("a variable misspelt", "blocksworld", DOMAIN, r"\(clear \?underob\) \(holding", "(clear ?undreob) (holding"),
    Kind("a parameter without its `?`", "blocksworld", DOMAIN, r":parameters \(\?ob\)", ":parameters (ob)"),
    Kind("a parameter without its parentheses", "blocksworld", DOMAIN, r":parameters \(\?ob\)", ":parameters ?ob"),
    Kind("an object with a `?`", "blocksworld", PROBLEM, r"\(clear a\)", "(clear ?a)"),
    Kind("an object misspelt", "logistics", PROBLEM, r"\(at p0 ", "(at p00 "),
    Kind("an object is not declared", "blocksworld", PROBLEM, r"a b c d", "a b d"),
    Kind("an object is declared twice", "blocksworld", PROBLEM, r"a b c d", "a b b c d"),
    Kind("a type misspelt", "depots", DOMAIN, r"\?y - place \?z", "?y - plase ?z"),
    Kind("a type below itself", "depots", DOMAIN, r"place locatable - object", "locatable - object place - depot"),
    Kind("an object of a type that is not there", "depots", PROBLEM, r"- Truck", "- Trucks"),
    Kind("one argument too many", "blocksworld", PROBLEM, r"\(ontable a\)", "(ontable a table)"),
    Kind("what is false at first", "blocksworld", PROBLEM, r"\(clear a\)", "(clear a) (not (clear c))"),
    Kind("a goal of two conditions without `and`", "blocksworld", PROBLEM, r"\(and\s*\(on c b\)\s*\)", "(on c b) (clear c)"),
    Kind("a number at first", "blocksworld", PROBLEM, r"\(handempty\)", "(handempty) (= (total-cost) 0)"),
    Kind("a metric", "blocksworld", PROBLEM, r"\(:goal", "(:metric minimize (total-cost))\n(:goal"),
    Kind("functions", "blocksworld", DOMAIN, r"\(:predicates", "(:functions (total-cost) - number)\n(:predicates"),
    Kind("a cost as an effect", "blocksworld", DOMAIN, r":effect \(and", ":effect (and (increase (total-cost) 1)"),
    Kind("`or` in an effect", "blocksworld", DOMAIN, r":effect \(and", ":effect (or"),
    Kind("what is true at first is left out", "blocksworld", PROBLEM, r"\(handempty\)\s*", ""),
)
"""All of them; each is broken in `world`'s first problem, or in its domain."""

_FAULT = re.compile(r"^- (\S+?):(\d+):(\d+): (.*)$", re.M)


def base_of(data: Path, kind: Kind) -> dict[str, str]:
    """The two texts that a kind breaks one of."""
    folder = data / "planbench" / kind.world
    return {DOMAIN: (folder / "domain.pddl").read_text(), PROBLEM: min(folder.glob("instance-*.pddl")).read_text()}


def mended(texts: Mapping[str, str], told: str) -> dict[str, str]:
    """The texts after what the faults say, the last place first, so that the others stay where they are."""
    made = dict(texts)
    for file, line, column, said in sorted(_FAULT.findall(told), key=lambda one: (int(one[1]), int(one[2])), reverse=True):
        if file in made:
            made[file] = _done(made[file], _offset(made[file], int(line), int(column)), said)
    return made


def _done(text: str, at: int, said: str) -> str:
    """The text after one mend. The first of these that the message says is done: what it is near to, what to write, …"""
    end = _extent(text, at, said)
    if found := re.search(r"did you mean `([^`]+)`", said):
        return text[:at] + found[1] + text[end:]
    if found := re.search(r"declare it in `([^`]+)` as `([^`]+)`", said):
        return text.replace(found[1], f"{found[1]} {found[2]} ", 1)
    if found := re.search(r"; write `([^`]+)` instead", said):
        return text[:at] + found[1] + text[end:]
    if found := re.search(r"; put `([^`]+)` before it", said):
        return text[:at] + found[1] + " " * (found[1] != "(") + text[at:]
    if re.search(r"; leave it out", said):
        return text[:at] + text[end:]
    return text


def _extent(text: str, at: int, said: str) -> int:
    """Where what was found ends: the words that the message quotes, a form, or one name."""
    quoted = re.match(r"found (?:one )?`([^`]+)`", said)
    if quoted and not quoted[1].startswith("(") and text.startswith(quoted[1], at):
        return at + len(quoted[1])
    if text[at:at + 1] != "(":
        name = re.compile(r"[()]|[^\s()]*").match(text, at)
        return name.end() if name else at
    depth = 0
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)


def _offset(text: str, line: int, column: int) -> int:
    lines = text.split("\n")
    return sum(len(one) + 1 for one in lines[:line - 1]) + column - 1
