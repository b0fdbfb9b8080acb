"""A diff that somebody gave, read line by line: which lines of which files it holds, and whether remarks are about these."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPED = re.compile(r"\\([0-7]{3}|.)")
_NAMED = 12                         # lines or files that a fault names


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff. `old`, `new`: its numbers before and after the change, None where it is not there."""

    path: str
    kind: Literal["added", "removed", "kept"]
    old: int | None
    new: int | None
    text: str


def lines_of(diff: str) -> Iterator[DiffLine]:
    """The lines of a unified diff, git's or another program's. Raises ValueError where a hunk ends before its lines are there."""
    old_path = new_path = ""
    rows = iter(enumerate(diff.split("\n"), 1))
    for number, row in rows:
        if row.startswith("--- "):
            old_path = _path(row[4:], "a/")
        elif row.startswith("+++ "):
            new_path = _path(row[4:], "b/")
        elif (hunk := _HUNK.match(row)) and (old_path or new_path):
            yield from _hunk(rows, hunk, new_path or old_path, number)


def _hunk(rows: Iterator[tuple[int, str]], hunk: re.Match[str], path: str, number: int) -> Iterator[DiffLine]:
    old, new = int(hunk[1]), int(hunk[3])
    lacks_old, lacks_new = (1 if hunk[group] is None else int(hunk[group]) for group in (2, 4))
    while lacks_old or lacks_new:
        _, row = next(rows, (0, None))
        sign, text = (row[:1] or " ", row[1:].removesuffix("\r")) if row is not None else ("", "")
        if sign == "\\":
            continue
        if sign not in (" ", "+", "-") or (sign != "+" and not lacks_old) or (sign != "-" and not lacks_new):
            raise ValueError(f"the diff breaks off: line {number} of it, `{hunk[0]}` of `{path}`, says more lines than follow")
        yield DiffLine(path, "added" if sign == "+" else "removed" if sign == "-" else "kept", None if sign == "+" else old,
                   None if sign == "-" else new, text)
        if sign != "+":
            old, lacks_old = old + 1, lacks_old - 1
        if sign != "-":
            new, lacks_new = new + 1, lacks_new - 1


def _path(written: str, prefix: str) -> str:
    """A path out of `--- a/…`; empty for `/dev/null`. What follows a tab is a time."""
    name = written.partition("\t")[0].rstrip("\r")
    if name.startswith('"') and name.endswith('"') and len(name) > 1:
        name = _unquoted(name[1:-1])
    return "" if name == "/dev/null" else name.removeprefix(prefix)


def _unquoted(name: str) -> str:
    signs = {"n": b"\n", "t": b"\t", '"': b'"', "\\": b"\\"}
    found, at = b"", 0
    for escaped in _ESCAPED.finditer(name):
        found += name[at:escaped.start()].encode()
        found += bytes([int(escaped[1], 8) & 255]) if len(escaped[1]) == 3 else signs.get(escaped[1], escaped[1].encode())
        at = escaped.end()
    return (found + name[at:].encode()).decode("utf-8", "replace")


def numbered(change: str) -> str:
    """A diff for those who remark on it: each line with its number, of the old file where it is removed, else of the new one.

    Raises ValueError where it holds no line of a file.
    """
    shown: list[str] = []
    path, last = "", 0
    for line in lines_of(change):
        number = line.new or line.old or 0
        if line.path != path:
            path = line.path
            shown.append(f"\n{path}\n")
        elif number > last + 1:
            shown.append("     …\n")
        last = number
        shown.append(f"{number:>6} {'+' if line.kind == 'added' else '-' if line.kind == 'removed' else ' '} {line.text}\n")
    if not shown:
        raise ValueError("the diff holds no line of a text file: `git diff BASE...BRANCH` gives one")
    return "".join(shown).lstrip("\n")


def remark_faults(review: Mapping[str, Any], change: str) -> list[str]:
    """A fault for each remark that is about no line of the change: `file`, `line`, `side` and `quote` have to fit."""
    known: dict[tuple[str, str, int], str] = {}
    for line in lines_of(change):
        for side, number in (("old", line.old), ("new", line.new)):
            if number is not None:
                known[line.path, side, number] = line.text
    faults = []
    touched = sorted({path for path, _, _ in known})
    for place, remark in enumerate(review["remarks"], 1):
        file, side, number, quote = remark["file"], remark["side"], remark["line"], remark["quote"].strip()
        text = known.get((file, side, number))
        if file not in touched:
            faults.append(f"remark {place}: the change does not touch `{file}`; it touches {_listed(touched)}")
        elif text is None:
            faults.append(f"remark {place}: line {number} of `{file}` ({side}) is not in the change; "
                          f"there are {_listed(_ranges(sorted(n for p, s, n in known if (p, s) == (file, side))))}")
        elif (not quote and text.strip()) or quote not in text:
            where = [n for (p, s, n), held in known.items() if (p, s) == (file, side) and quote and quote in held]
            there = f"; it stands in {_listed([str(n) for n in where])}" if where else ""
            faults.append(f"remark {place}: line {number} of `{file}` ({side}) is `{text.strip()}`, and `{quote}` does not stand "
                          f"in it{there}")
    return faults


def _ranges(numbers: Sequence[int]) -> list[str]:
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [str(first) if first == last else f"{first} to {last}" for first, last in found]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "") if names else "none"
