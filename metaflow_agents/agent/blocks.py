"""Files as a model answers with them: blocks, one a file, each with its path and its whole text, or edits to it.

The form, which the prompt template for file answers tells::

    === file: src/a.py ===          === edit: src/a.py ===        === rename: src/a.py -> src/b.py ===
    the whole text                  <<<<<<< SEARCH                === delete: src/c.py ===
    === end ===                     whole lines as they are
                                    =======
                                    what stands there instead
                                    >>>>>>> REPLACE
                                    === end ===

A text that holds such lines itself is put between longer ones: `==== file: docs/form.md ====` … `==== end ====`.
A later answer says only what changes, and may take back what an earlier one did to a file: `=== undo: src/a.py ===`.
What stands outside of blocks is ignored, a Markdown fence around a block's inside too. All faults of an answer are
found at once, since each costs its author a model call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from metaflow_agents.code.edits import Edit
from metaflow_agents.errors import AnswerInvalid, did_you_mean

Kind = Literal["file", "edit", "rename", "delete", "undo"]
KINDS: tuple[Kind, ...] = get_args(Kind)

MARKDOWN = (".md", ".markdown", ".mdx", ".rst")        # files that may hold fenced blocks of their own

_KIND = re.compile(r"[A-Za-z_]+")
_END = re.compile(r"(={3,}) ?end ?(={3,})\s*")
_FENCE = re.compile(r"(`{3,}+|~{3,}+)([^`]*)")
_SEARCH, _DIVIDER, _REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"


@dataclass(frozen=True, slots=True)
class Block:
    """One block of an answer. `line` counts from 1 in the answer; `target` is the new path of a rename."""

    kind: Kind
    path: str
    line: int
    text: str = ""
    edits: tuple[Edit, ...] = ()
    target: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that it changes."""
        return (self.path, self.target) if self.kind == "rename" else (self.path,)


class Blocks(tuple[Block, ...]):
    """The blocks of an answer, in order; `remarks` is what stood outside of them."""

    remarks: str = ""


def holds_block(text: str) -> bool:
    """Whether an answer holds a line that opens a block."""
    return any(_header(line) is not None for line in text.replace("\r\n", "\n").split("\n"))


def parse_blocks(text: str) -> Blocks:
    """The blocks of an answer. Raises AnswerInvalid with all faults of form, each with its line."""
    blocks, faults = read_blocks(text)
    if faults:
        raise AnswerInvalid(faults)
    return blocks


def read_blocks(text: str) -> tuple[Blocks, list[str]]:
    """The blocks of an answer that are in form, and the faults of what is not, each with its line."""
    reader = _Reader(text.replace("\r\n", "\n").split("\n"))
    reader.read()
    blocks = Blocks(_merged(reader.blocks))
    faults = reader.faults + [fault for told in said_twice(blocks).values() for fault in told]
    if not blocks and not faults:
        faults = ["the answer holds no block: write `=== file: PATH ===`, the whole text, `=== end ===`"]
    blocks.remarks = "\n".join(reader.remarks).strip()
    return blocks, faults


def written_blocks(blocks: Iterable[Block]) -> str:
    """The answer that holds these blocks and nothing else."""
    return "".join(_written(block) for block in blocks)


def _written(block: Block) -> str:
    if block.kind == "rename":
        return f"=== rename: {block.path} -> {block.target} ===\n"
    if block.kind in ("delete", "undo"):
        return f"=== {block.kind}: {block.path} ===\n"
    lines = block.text.removesuffix("\n").split("\n") if block.text else []
    for edit in block.edits:
        lines += [_SEARCH, *edit.search, _DIVIDER, *edit.replace, _REPLACE]
    signs = "=" * max([3, *(len(line) - len(line.lstrip("=")) + 1 for line in lines if _header(line) or _END.fullmatch(line))])
    inside = "".join(f"{line}\n" for line in lines)
    if unfenced_lines(lines, block.path)[0] != lines and not block.edits:
        fence = "`" * max([3, *(len(found[1]) + 1 for line in lines if (found := _FENCE.match(line)))])
        inside = f"{fence}{'markdown' if block.path.lower().endswith(MARKDOWN) else ''}\n{inside}{fence}\n"
    return f"{signs} {block.kind}: {block.path} {signs}\n{inside}{signs} end {signs}\n"


def _with_edits(before: Block, more: Block) -> Block:
    """An edit block with the edits of a later one of the same file behind its own; what is said once more counts once."""
    known = {(edit.search, edit.replace) for edit in before.edits}
    return replace(before, edits=before.edits + tuple(edit for edit in more.edits if (edit.search, edit.replace) not in known))


def _merged(blocks: Iterable[Block]) -> list[Block]:
    """The blocks, those that edit the same file as one, in the place of the first; a block that was said word for word before is
    left out.
    """
    found: list[Block] = []
    edits: dict[str, int] = {}          # path → where in `found` its edits are
    said = set()
    for block in blocks:
        key = replace(block, line=0, edits=tuple(replace(edit, line=0) for edit in block.edits))
        if key in said:
            continue
        said.add(key)
        if block.kind == "edit" and block.path in edits:
            place = edits[block.path]
            found[place] = _with_edits(found[place], block)
            continue
        if block.kind == "edit":
            edits[block.path] = len(found)
        found.append(block)
    return found


def said_twice(blocks: Iterable[Block]) -> dict[str, list[str]]:
    """The faults of paths that stand in several blocks, by path; one that is taken back may be said anew, and a new file edited
    behind its block.
    """
    faults, first, new = dict[str, list[str]](), dict[str, int](), set[str]()
    for block in blocks:
        new |= {block.path} if block.kind == "file" and block.path not in first else set()
        for path in block.paths if block.kind != "undo" else ():
            if path in first and not (block.kind == "edit" and path in new):
                told = f"line {block.line}: `{path}` stands in a block at line {first[path]} already: "
                faults.setdefault(path, []).append(f"{told}one block a file, with all its edits")
            first.setdefault(path, block.line)
    return faults


class _Reader:
    """One walk over the lines of an answer."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0
        self.blocks: list[Block] = []
        self.remarks: list[str] = []
        self.faults: list[str] = []
        self._closed: dict[str, tuple[int, bool]] = {}      # signs → up to which line what `_is_closed` says is known, and it

    def read(self) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            header = _header(line)
            self.at += 1
            if header is None:
                if _END.fullmatch(line):
                    self._fault(self.at, "`=== end ===` closes no block")
                self.remarks.append(line)
            else:
                self._block(header, self.at)

    def _fault(self, line: int, why: str) -> None:
        self.faults.append(f"line {line}: {why}")

    def _block(self, header: tuple[str, str, str], line: int) -> None:
        signs, kind, rest = header
        if kind not in KINDS:
            self._fault(line, f"no block is called `{kind}`: {did_you_mean(kind, KINDS)}")
            if self._is_closed(signs):
                self._inside(signs, line, rest)             # to read on behind it
            return
        if kind == "rename":
            old, arrow, new = (part.strip() for part in rest.partition("->"))
            if not arrow or not old or not new:
                self._fault(line, f"`rename: {rest}` names one path: write `=== rename: OLD -> NEW ===`")
                return
            self.blocks.append(Block("rename", _bare(old), line, target=_bare(new)))
        elif kind in ("delete", "undo"):
            self.blocks.append(Block("delete" if kind == "delete" else "undo", _bare(rest), line))
        else:
            path = _bare(rest)
            start = self.at
            inside = self._inside(signs, line, path)
            if inside is None:
                return
            body, offset = unfenced_lines(inside, path)
            if kind == "edit":
                edits = self._edits(body, start + offset, path, line)
                self.blocks.append(Block("edit", path, line, edits=edits))
            else:
                self.blocks.append(Block("file", path, line, text="".join(f"{each}\n" for each in body)))

    def _is_closed(self, signs: str) -> bool:
        """Whether an end comes before another block opens."""
        until, closed = self._closed.get(signs, (-1, False))
        if self.at > until:
            until, closed = len(self.lines), False
            for at in range(self.at, len(self.lines)):
                closed = _ends(self.lines[at], signs)
                if closed or _opens(self.lines[at], signs):
                    until = at
                    break
            self._closed[signs] = until, closed
        return closed

    def _inside(self, signs: str, line: int, path: str) -> list[str] | None:
        """The lines up to the block's end; None, with the fault noted, where it is left open."""
        body: list[str] = []
        while self.at < len(self.lines):
            here = self.lines[self.at]
            if _ends(here, signs):
                self.at += 1
                return body
            if _opens(here, signs):
                self._fault(line, f"the block of `{path}` is not closed: `{signs} end {signs}` is missing before line "
                            f"{self.at + 1} (text that holds such lines itself goes between longer ones, `{signs}= file: …`)")
                return None
            body.append(here)
            self.at += 1
        self._fault(line, f"the block of `{path}` is left open at the end of the answer: `{signs} end {signs}` is missing")
        return None

    def _edits(self, body: list[str], start: int, path: str, line: int) -> tuple[Edit, ...]:
        """The search/replace pairs of an edit block; `start` is the answer's line before the body's first."""
        edits: list[Edit] = []
        at = 0
        while at < len(body):
            if body[at].strip() != _SEARCH:
                if body[at].strip() and not _FENCE.fullmatch(body[at].strip()):
                    self._fault(start + at + 1, f"`{path}`: `{_SEARCH}` is expected here")
                    return ()
                at += 1
                continue
            divider = _find(body, _DIVIDER, at + 1)
            close = _find(body, _REPLACE, divider + 1) if divider is not None else None
            if divider is None or close is None:
                missing = _DIVIDER if divider is None else _REPLACE
                self._fault(start + at + 1, f"`{path}`: the edit that starts here has no line `{missing}`")
                return ()
            edits.append(Edit(tuple(body[at + 1:divider]), tuple(body[divider + 1:close]), start + at + 1))
            at = close + 1
        if not edits:
            self._fault(line, f"`{path}`: the edit block holds no edit (`{_SEARCH}`, `{_DIVIDER}`, `{_REPLACE}`)")
        return tuple(edits)


def _header(line: str) -> tuple[str, str, str] | None:
    """The signs, the kind and the rest of a line like `=== file: src/a.py ===`; looked at without going back and forth."""
    text = line.rstrip()
    if not text.startswith("==="):
        return None
    signs = text[:len(text) - len(text.lstrip("="))]
    if text[len(text.rstrip("=")):] != signs:
        return None
    kind, colon, rest = text[len(signs):-len(signs)].removeprefix(" ").partition(":")
    rest = rest.strip(" ") or rest[:1]
    return (signs, kind.lower(), rest) if colon and rest and _KIND.fullmatch(kind) else None


def _opens(line: str, signs: str) -> bool:
    header = _header(line)
    return header is not None and header[0] == signs and header[1] in KINDS


def _ends(line: str, signs: str) -> bool:
    match = _END.fullmatch(line)
    return match is not None and match[1] == match[2] == signs


def _bare(path: str) -> str:
    """A path without the quotes that models like to put around it."""
    return path[1:-1] if len(path) > 2 and path[0] == path[-1] and path[0] in "`'\"" else path


def _find(lines: Sequence[str], wanted: str, start: int) -> int | None:
    return next((at for at in range(start, len(lines)) if lines[at].rstrip() == wanted), None)


def unfenced_lines(body: list[str], path: str) -> tuple[list[str], int]:
    """The lines inside of a Markdown fence that wraps the whole body, and how many stand before them.

    A Markdown file that happens to be one fenced block is its own text: only a fence that says `markdown` wraps it.
    """
    filled = [at for at, line in enumerate(body) if line.strip()]
    opening = _FENCE.fullmatch(body[filled[0]].rstrip()) if filled else None
    if opening is None:
        return body, 0
    if path.lower().endswith(MARKDOWN) and opening[2].strip().lower() not in ("markdown", "md", "mdx", "rst"):
        return body, 0
    depth = 0
    for at in filled:
        fence = _FENCE.fullmatch(body[at].rstrip())
        if fence and fence[1][0] == opening[1][0] and len(fence[1]) >= len(opening[1]):
            depth += 1 if fence[2].strip() or depth == 0 else -1
            if depth == 0:
                return (body[filled[0] + 1:at], filled[0] + 1) if at == filled[-1] else (body, 0)
    return body, 0
