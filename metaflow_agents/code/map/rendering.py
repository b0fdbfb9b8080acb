"""A map as text within a budget of tokens: the best files first, each with what it defines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from metaflow_agents.code.map.reading import Definition, Parts
from metaflow_agents.texts.search_words import words

BYTES_A_TOKEN = 4                   # as everywhere in this package where nobody counts
_INDENT = "  "
_LEFT = 70                          # bytes for the line that says how much is left out
_SHARE = 0.25                       # of the budget that one file may take


def rendered(parts: Mapping[str, Parts], order: Sequence[str], tokens: int, request: str = "") -> str:
    """The files of `order`, best first, with the definitions of each, in at most `tokens` tokens (bytes / 4).

    Each line of a definition begins with its line number. Of a file that is too long for its share, definitions whose names share
    a word with the request are kept first, then those that stand outermost. A file that is not parsed is named only.
    """
    room = tokens * BYTES_A_TOKEN - _LEFT
    wanted = frozenset(words(request))
    shown: list[str] = []
    for place, path in enumerate(order):
        found = parts[path]
        why = f" ({found.refused})" if found.refused else ""
        head = f"{path}{':' if found.definitions else why}\n"
        if len(head.encode()) > room:
            shown.append(f"[{len(order) - place} more files]\n")
            break
        room -= len(head.encode())
        body = _body(found.definitions, min(room, int(tokens * BYTES_A_TOKEN * _SHARE)), wanted)
        room -= len(body.encode())
        shown.append(head + body)
    return "".join(shown)


def _body(definitions: Sequence[Definition], room: int, wanted: Collection[str]) -> str:
    lines = [f"{_INDENT * (one.depth + 1)}{one.line}: {one.head}\n" for one in definitions]
    first = sorted(range(len(lines)), key=lambda at: (-len(set(words(definitions[at].name)) & set(wanted)),
                                                      definitions[at].depth, definitions[at].kind == "value", at))
    kept = set()
    left = f"{_INDENT}[{len(lines)} more]\n"
    room -= len(left.encode())
    for at in first:
        size = len(lines[at].encode())
        if size > room:
            break
        room -= size
        kept.add(at)
    text = "".join(lines[at] for at in sorted(kept))
    lacking = len(lines) - len(kept)
    return text + (f"{_INDENT}[{lacking} more]\n" if lacking and room >= 0 else "")
