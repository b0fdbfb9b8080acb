"""A plan looked for in a text: each of its steps has to stand there again, in its own line, in the plan's order.

The program knows words, not what they mean: a line says which action it tells by the words of the action's name, and of what by
the names of objects. So a line may hold neither a word that denies or conditions what it tells, nor one that joins a second step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

Action = tuple[str, ...]
"""The name of an action, and its objects."""
REFUSED = frozenset(Path(__file__).with_name("telling.words.j2").read_text(encoding="utf-8").split(", "))
"""Words that deny, condition or join. Whoever writes the text is told the same list."""
_MOST = 50                          # more lines than steps than this are not compared, line by line
_LONGEST = 400                      # characters of a line
_LINE = re.compile(r"\s*(\d{1,6})\.\s+(\S.*)")
_WORD = re.compile(r"\w+(?:-\w+)*")
_ENDINGS = "(?:s|es|d|ed|ing)?"


@dataclass(frozen=True, slots=True)
class Told:
    """A line of the text: what it tells, or, where that is no action, why."""

    number: int
    text: str
    action: Action = ()
    fault: str = ""


def faults(instructions: str, plan: dict[str, list[str]], rules: str) -> list[str]:
    """What is wrong with a text, held against the plan, by the names of a domain in PDDL. Nothing: each step is found."""
    steps = [tuple(action.lower().strip("() ").split()) for action in plan["actions"]]
    lines = [line for line in instructions.splitlines() if line.strip()]
    if not steps:
        return [] if len(lines) == 1 and re.match(r"0\.\s", lines[0]) else \
            ["the plan has no step: write one line that begins with `0. ` and says that the goal is reached already"]
    if len(lines) > len(steps) + _MOST:
        return [f"there are {len(lines)} lines for the {len(steps)} steps of the plan: write one for each step"]
    actions = re.findall(r"\(\s*:action\s+([^\s()]+)", re.sub(r";.*", "", rules).lower())
    objects = {name.lower() for name in plan["objects"]}
    numbered = [(line, found) for line in lines if (found := _LINE.fullmatch(line))]
    told = [_told(place, found, actions, objects) for place, (_, found) in enumerate(numbered, 1)]
    prose = [f"`{line.strip()[:80]}` is no step, since it begins with no number like `1. `: leave this line out"
             for line in lines if not _LINE.fullmatch(line)]
    wrong = prose + [one.fault for one in told if one.fault] + _compared(steps, told)
    return wrong or [f"line {place} begins with `{found[1]}. `: number the lines from 1 to {len(steps)}"
                     for place, (_, found) in enumerate(numbered, 1) if int(found[1]) != place]


def _told(number: int, found: re.Match[str], actions: Sequence[str], objects: set[str]) -> Told:
    """What a numbered line tells."""
    line = found[0].strip()
    place = f"line {number} (`{line[:80]}`)"
    if len(line) > _LONGEST:
        return Told(number, line, fault=f"{place} has {len(line):,} characters: tell the step in at most {_LONGEST}")
    tokens = _WORD.findall(found[2].lower())
    words = [word for token in tokens if token not in objects for word in re.split("[-_]", token)]
    wrong = [word for word in words if word in REFUSED] + re.findall(r"\w+n['’]t\b", found[2])
    if wrong:
        return Told(number, line, fault=f"{place} says `{wrong[0]}`: tell one step, and that it is done, without this word")
    names = _actions(words, actions)
    if len(names) != 1:
        tells = f"tells {len(names)} actions, {', '.join(f'`{name}`' for name in names)}" if names else "tells no action"
        return Told(number, line, fault=f"{place} {tells}; expected the words of one of these names: {', '.join(actions)}")
    return Told(number, line, (names[0], *(token for token in tokens if token in objects)))


def _actions(words: Sequence[str], actions: Sequence[str]) -> list[str]:
    """The actions whose names' words stand there in their order; not `load` where `load-truck` does."""
    text = " ".join(words)
    found = [name for name in actions if re.search(r"\b.*?\b".join(_spelt(part) for part in re.split("[-_]", name)), text)]
    return [name for name in found if not any(f"-{name}-" in f"-{other}-" for other in found if other != name)]


def _spelt(word: str) -> str:
    """A verb as it may stand in a sentence: stack, stacks, stacked; drive, driving; drop, dropped; fly, flies."""
    whole, head = re.escape(word), re.escape(word[:-1])
    stem = {"e": f"{head}(?:e|es|ed|ing)", "y": f"{head}(?:y|ys|ies|ied|yed|ying)"}.get(word[-1:], whole + _ENDINGS)
    return rf"\b(?:{stem}|{whole}{re.escape(word[-1:])}(?:ed|ing))\b"


def _compared(steps: Sequence[Action], told: Sequence[Told]) -> list[str]:
    """Where the text leaves the plan: steps that are out of order, changed, left out or added."""
    found, said = [], [one.action for one in told]
    blocks = [block for block in SequenceMatcher(None, steps, said, autojunk=False).get_opcodes() if block[0] != "equal"]
    lost = [(index, block) for block in blocks for index in range(block[1], block[2])]
    extra = [place for block in blocks for place in range(block[3], block[4])]
    changed: list[tuple[int, tuple[str, int, int, int, int]]] = []
    for index, block in lost:
        moved = [place for place in extra if said[place] == steps[index]]
        if moved:
            extra.remove(moved[0])
            found.append(f"step {index + 1} of the plan, {_shown(steps[index])}, stands in line {moved[0] + 1}: out of order")
        else:
            changed.append((index, block))
    for index, block in changed:
        near = [place for place in extra if block[3] <= place < block[4] and said[place][:1] in ((), steps[index][:1])]
        if not near:
            found.append(f"step {index + 1} of the plan, {_shown(steps[index])}, is left out")
            continue
        extra.remove(near[0])
        if said[near[0]]:
            found.append(f"line {near[0] + 1} (`{told[near[0]].text[:80]}`) tells {_shown(said[near[0]])}; step {index + 1} "
                         f"of the plan is {_shown(steps[index])}: name these objects, each once, in this order, and no other")
    return found + [f"line {place + 1} tells {_shown(said[place])}, which is added: the plan has no such step there"
                    for place in extra if said[place]]


def _shown(action: Action) -> str:
    return f"`({' '.join(action)})`"
