"""What leads from one set of files to another, as a patch that `git apply` takes (https://git-scm.com/docs/diff-format)."""

from __future__ import annotations

import hashlib
import zlib
from base64 import b85encode
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from metaflow_agents.schema.binary import text_in

_AROUND = 3                         # unchanged lines around a change
_MOST_PAIRS = 4_000_000             # lines × lines that are compared; past that the whole part is replaced
_LINE = 52                          # bytes in a line of a binary patch
_NOTHING = "0" * 40                 # git's name for a file that is not there

_Operation = tuple[str, int, int, int, int]


def make_patch(repo: Mapping[str, bytes], tree: Mapping[str, bytes]) -> str:
    """The patch from `repo` to `tree` (path → bytes), in the order of the paths; empty where they are the same.

    A renamed file is one that goes and one that comes. What is no text in UTF-8 comes whole, as a binary patch. Modes of files
    are not known, and stay as they are.
    """
    return "".join(_of_file(path, repo.get(path), tree.get(path)) for path in sorted({*repo, *tree})
                   if repo.get(path) != tree.get(path))


def difference(repo: Mapping[str, str | bytes], tree: Mapping[str, str | bytes]) -> dict[str, Any]:
    """What leads from `repo` to `tree`: the texts that are `written`, by path, and the paths that are `removed`."""
    return {"written": {path: text for path, text in tree.items() if isinstance(text, str) and repo.get(path) != text},
            "removed": sorted({*repo} - {*tree})}


def change_of(diff: str | None, base: dict[str, bytes] | None, repo: dict[str, bytes] | None) -> str:
    """The change that is to be reviewed: `diff` as it was given, or what leads from `base` to `repo`. Raises ValueError."""
    if diff and diff.strip():
        return diff
    if base is None or repo is None:
        raise ValueError("there is no change to review: give `--diff FILE`, or `--base FOLDER` and `--repo FOLDER`")
    patch = make_patch(base, repo)
    if not patch:
        raise ValueError("there is no change to review: `base` and `repo` hold the same files")
    return patch


def _of_file(path: str, before: bytes | None, after: bytes | None) -> str:
    old, new = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    head = f"diff --git {old} {new}\n"
    if before is None:
        head += "new file mode 100644\n"
    if after is None:
        head += "deleted file mode 100644\n"
    texts = [None if held is None else text_in(held) for held in (before, after)]
    if any(text is None and held is not None for text, held in zip(texts, (before, after), strict=True)):
        return head + _binary(before, after)
    one, other = (_lines(text or "") for text in texts)
    if not one and not other:
        return f"{head}index {_name(before)}..{_name(after)}\n"
    old, new = (name + ("\t" if " " in name else "") for name in (old, new))
    names = f"--- {'/dev/null' if before is None else old}\n+++ {'/dev/null' if after is None else new}\n"
    return f"{head}{names}{_hunks(one, other)}"


def _quoted(path: str) -> str:
    """As git spells a path: in quotation marks where it holds one, a backslash or what is no printable ASCII."""
    if all(" " <= sign <= "~" and sign not in '"\\' for sign in path):
        return path
    escaped = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in path.encode())
    return f'"{"".join(escaped)}"'


def _lines(text: str) -> list[str]:
    """Lines as git has them: a line feed ends one, and nothing else does."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _operations(one: Sequence[str], other: Sequence[str]) -> Iterator[_Operation]:
    """What leads from one text to the other. Lines that both begin with, and those that both end with, are not compared."""
    first = 0
    while first < min(len(one), len(other)) and one[first] == other[first]:
        first += 1
    last = 0
    while last < min(len(one), len(other)) - first and one[-1 - last] == other[-1 - last]:
        last += 1
    old, new = one[first:len(one) - last], other[first:len(other) - last]
    if first:
        yield "equal", 0, first, 0, first
    if len(old) * len(new) > _MOST_PAIRS:
        yield "replace", first, first + len(old), first, first + len(new)
    else:
        for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            yield kind, first + a, first + b, first + c, first + d
    if last:
        yield "equal", len(one) - last, len(one), len(other) - last, len(other)


def _hunks(one: list[str], other: list[str]) -> str:
    parts: list[str] = []
    for group in _groups(one, other):
        parts.append(f"@@ -{_range(group[0][1], group[-1][2])} +{_range(group[0][3], group[-1][4])} @@\n")
        for kind, a, b, c, d in group:
            if kind == "equal":
                parts += [_line(" ", line) for line in one[a:b]]
            else:
                parts += [_line("-", line) for line in one[a:b]] + [_line("+", line) for line in other[c:d]]
    return "".join(parts)


def _groups(one: list[str], other: list[str]) -> Iterator[list[_Operation]]:
    """The changes with what stands around them; two that are near each other stand in one group."""
    group: list[_Operation] = []
    changed = False
    for kind, a, b, c, d in _operations(one, other):
        if kind != "equal":
            group.append((kind, a, b, c, d))
            changed = True
            continue
        if changed and b - a > 2 * _AROUND:
            yield [*group, (kind, a, a + _AROUND, c, c + _AROUND)]
            group, changed = [], False
        if changed:
            group.append((kind, a, b, c, d))
        else:
            group = [(kind, max(a, b - _AROUND), b, max(c, d - _AROUND), d)]
    if changed:
        kind, a, b, c, d = group[-1]
        yield [*group[:-1], (kind, a, min(b, a + _AROUND), c, min(d, c + _AROUND)) if kind == "equal" else group[-1]]


def _range(start: int, end: int) -> str:
    size = end - start
    return f"{start + (1 if size else 0)},{size}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def _name(held: bytes | None) -> str:
    """Git's name of a file's bytes."""
    return _NOTHING if held is None else hashlib.sha1(b"blob %d\0" % len(held) + held, usedforsecurity=False).hexdigest()


def _binary(before: bytes | None, after: bytes | None) -> str:
    return f"index {_name(before)}..{_name(after)}\nGIT binary patch\n{_literal(after or b'')}\n{_literal(before or b'')}\n"


def _literal(held: bytes) -> str:
    packed = zlib.compress(held, 9)
    lines = [f"literal {len(held)}\n"]
    for start in range(0, len(packed), _LINE):
        part = packed[start:start + _LINE]
        length = chr(ord("A") + len(part) - 1) if len(part) <= 26 else chr(ord("a") + len(part) - 27)
        lines.append(f"{length}{b85encode(part, pad=True).decode()}\n")
    return "".join(lines)
