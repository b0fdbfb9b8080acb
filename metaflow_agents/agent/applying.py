"""The files that the blocks of an activation's answers make, answer by answer.

Of an answer, what fits is taken, and the next one says only what changes. So the answers are carried out in order, each on the
files as those before it left them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from metaflow_agents.agent.blocks import Block, read_blocks, said_twice, written_blocks
from metaflow_agents.code.edits import Edit, Hints, edited
from metaflow_agents.errors import AnswerInvalid, did_you_mean
from metaflow_agents.schema import paths
from metaflow_agents.schema.binary import Content

SHOWN_AGAIN = 24_000
"""Characters of an answer that its author is shown when a part of it is sent back and no fault names a file."""
BESIDE = 6_000
"""Characters that are shown besides the files that a fault names."""
Answered = tuple[tuple[Block, ...], ...]
"""The blocks of each answer, in order."""


class PartTaken(AnswerInvalid):
    """An answer that can't be taken as it is, where something can: `kept`, of it and of the answers before it."""

    def __init__(self, faults: Iterable[str], kept: Iterable[Sequence[Block]]) -> None:
        super().__init__(faults)
        self.kept: Answered = tuple(tuple(blocks) for blocks in kept if blocks)


def following(taken: Answered, blocks: Sequence[Block]) -> Answered:
    """The answers with one more behind them, which may take back what they did to a path."""
    if not taken:
        return (tuple(blocks),)
    undone = {block.path for block in blocks if block.kind == "undo"}
    return (*without(taken, undone), tuple(block for block in blocks if block.kind != "undo"))


def without(answered: Answered, left_out: Collection[str]) -> Answered:
    """The answers without what they did to these paths. A rename is left out whole, with all that was done to its other path."""
    other: dict[str, list[str]] = {}
    for block in (block for blocks in answered for block in blocks if block.kind == "rename"):
        other.setdefault(block.path, []).append(block.target)
        other.setdefault(block.target, []).append(block.path)
    touched, waiting = set[str](), [*left_out]
    while waiting:
        path = waiting.pop()
        if path not in touched:
            touched.add(path)
            waiting += other.get(path, ())
    return tuple(tuple(block for block in blocks if not touched & {*block.paths}) for blocks in answered)


def told_blocks(answered: Answered) -> list[str]:
    """What the answers do to each path, in short."""
    told, edits = dict[str, str](), dict[str, int]()
    for block in (block for blocks in answered for block in blocks):
        path = block.path
        if block.kind == "edit":
            if path in told and path not in edits:
                continue                                        # it is told whole
            edits[path] = edits.get(path, 0) + len(block.edits)
            told[path] = f"`{path}` ({edits[path]} {'edit' if edits[path] == 1 else 'edits'})"
        else:
            edits.pop(path, None)
            more = {"delete": " (deleted)", "rename": f" (now `{block.target}`)"}
            told[path] = f"`{path}`{more.get(block.kind, '')}"
    return list(told.values())


def shown_again(said: str, faults: Iterable[str], stands: Answered) -> str:
    """What an author is shown of an answer that is sent back: all of it up to `SHOWN_AGAIN` characters. Of a longer one the files
    that a fault names and what does not stand, and of the others as many as there is room for. Each is whole or not there.
    """
    if len(said) <= SHOWN_AGAIN:
        return said
    blocks, malformed = read_blocks(said)
    standing, told = {block.path for answer in stands for block in answer}, "\n".join(faults)
    if malformed or not standing:
        return said
    shown = {number for number, block in enumerate(blocks) if block.path not in standing or block.path.rpartition("/")[2] in told}
    room = BESIDE if shown else SHOWN_AGAIN
    for number, block in enumerate(blocks):
        if number not in shown and len(block.text) <= room:
            shown.add(number)
            room -= len(block.text)
    return written_blocks(block for number, block in enumerate(blocks) if number in shown) or said


def written_answers(answered: Answered) -> str:
    """The answers as one text."""
    return "".join(written_blocks(blocks) for blocks in answered)


def apply_blocks(blocks: Sequence[Block], current: Mapping[str, Content], patterns: Sequence[str],
                 faults: Sequence[str] = ()) -> tuple[dict[str, Content], tuple[str, ...]]:
    """What one answer makes of `current` (path → content); see `apply_answers`."""
    return apply_answers((tuple(blocks),), current, patterns, faults)


def apply_answers(answered: Answered, current: Mapping[str, Content], patterns: Sequence[str],
                  faults: Sequence[str] = ()) -> tuple[dict[str, Content], tuple[str, ...]]:
    """What the answers make of `current` (path → content): (written path → content, deleted paths), within `patterns`.

    What an answer says once more, word for word, counts once. `faults`: those of form that the last one had. Raises PartTaken
    with them and all others: refused paths and those outside of the patterns, what an edit does not find or finds more than
    once, what to rename or delete is missing, a rename onto a file that is there.
    """
    found, hints = list(faults), Hints()
    now, written, deleted = dict(current), dict[str, Content](), list[str]()
    kept, said = list[list[Block]](), dict[tuple[str, str], list[Block]]()
    for blocks in (part for answer in answered for part in _in_turn(answer)):
        one = _Answer(now, patterns, hints)
        one.take(_new(block, said.get((block.kind, block.path), []), now.get(block.path)) for block in blocks)
        found += [fault for fault in one.faults if fault not in found]
        after = {path: held for path, held in now.items() if path not in one.deleted} | one.written
        pair = paths.clash(after)
        if pair:
            found += [] if found else [f"`{pair[0]}` can't be a file and the folder of `{pair[1]}`"]
            continue
        kept.append(one.kept)
        for block in one.kept:
            said.setdefault((block.kind, block.path), []).append(block)
        now = after
        written = {path: held for path, held in written.items() if path not in one.deleted} | one.written
        deleted = [path for path in (*deleted, *one.deleted) if path in current and path not in one.written]
    if found:
        raise PartTaken(found, kept)
    return written, tuple(deleted)


def _in_turn(blocks: Sequence[Block]) -> list[Sequence[Block]]:
    """An answer as its author meant it: edits behind the block of a new file are made to that, as where a mistake was noticed."""
    new, corrections = set[str](), list[Block]()
    for block in blocks:
        if block.kind == "file":
            new.add(block.path)
        elif block.kind == "edit" and block.path in new:
            corrections.append(block)
    return [[block for block in blocks if all(block is not one for one in corrections)], corrections] if corrections else [blocks]


def _new(block: Block, said: Sequence[Block], now: Content | None) -> Block | None:
    """The block without what was `said` word for word and stands; None where nothing is left of it. `now`: what its file is."""
    if block.kind == "edit" and isinstance(now, str):
        known = {(edit.search, edit.replace) for one in said for edit in one.edits}
        text = now.replace("\r\n", "\n") if known else ""
        edits = tuple(edit for edit in block.edits if (edit.search, edit.replace) not in known or not _stands(edit, text))
        return replace(block, edits=edits) if edits else None
    gone = block.kind in ("delete", "rename") and now is None and any(one.target == block.target for one in said)
    return None if gone else block


def _stands(edit: Edit, text: str) -> bool:
    """Whether an edit that was made once has nothing to do any more."""
    return "\n".join(edit.replace) in text or "\n".join(edit.search) not in text


class _Answer:
    """One answer, carried out on the files as they are `now`. `kept`: its blocks, with those edits that fit."""

    def __init__(self, now: Mapping[str, Content], patterns: Sequence[str], hints: Hints) -> None:
        self._now, self._patterns, self._hints = now, patterns, hints
        self.written: dict[str, Content] = {}
        self.deleted: list[str] = []
        self.kept: list[Block] = []
        self.faults: list[str] = []

    def take(self, blocks: Iterable[Block | None]) -> None:
        """Carries out the blocks."""
        new = [block for block in blocks if block is not None]
        twice = said_twice(new)
        self.faults = [fault for told in twice.values() for fault in told]
        for block in new:
            wrong = self._refused(block)
            fits = None
            if not wrong:
                wrong, fits = self._carried_out(block)
            self.faults += wrong
            if fits is not None and not twice.keys() & {*block.paths}:
                self.kept.append(fits)

    def _refused(self, block: Block) -> list[str]:
        faults = []
        for path in block.paths:
            why = paths.refusal(path)
            if why:
                faults.append(f"line {block.line}: path `{path}` is refused: {why}")
            elif not paths.matches(self._patterns, path):
                allowed = ", ".join(f"`{pattern}`" for pattern in paths.told(self._patterns))
                faults.append(f"line {block.line}: path `{path}` is outside of what this step makes: {allowed}")
        return faults

    def _carried_out(self, block: Block) -> tuple[list[str], Block | None]:
        """The faults of a block, and the block with what fits, if anything does."""
        where = f"line {block.line}: "
        if block.kind == "file":
            self.written[block.path] = block.text
        elif block.kind == "undo":
            return [f"{where}no answer before this one did anything to `{block.path}`: leave out what you don't want"], None
        elif block.path not in self._now:
            there = f": {did_you_mean(block.path, self._now)}" if self._hints.spend() else ""
            return [f"{where}there is no file `{block.path}` to {block.kind}{there}"], None
        elif block.kind == "delete":
            self.deleted.append(block.path)
        elif block.kind == "rename":
            if block.target in self._now:
                return [f"{where}can't rename `{block.path}`: `{block.target}` is there already"], None
            self.written[block.target] = self._now[block.path]
            self.deleted.append(block.path)
        else:
            return self._edited(block, where)
        return [], block

    def _edited(self, block: Block, where: str) -> tuple[list[str], Block | None]:
        before = self._now[block.path]
        if not isinstance(before, str):
            return [f"{where}`{block.path}` can't be edited: it is {before}"], None
        done = edited(before, block.edits, self._hints)
        self.written[block.path] = done.text
        failed = [fault.edit for fault in done.faults]
        fits = tuple(edit for edit in block.edits if not any(edit is one for one in failed))
        return ([f"line {fault.edit.line}: `{block.path}`: {fault.why}" for fault in done.faults],
                replace(block, edits=fits) if fits else None)
