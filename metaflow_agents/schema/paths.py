"""Paths in a run's repository and the patterns that confine them. Pure: nothing here looks at a disk.

A path is relative, of non-empty parts joined by `/`. A pattern is a path whose parts may hold wildcards, as gitignore
writes them: `?` one character, `*` any number of them, `[abc]`, `[a-z]`, `[!abc]` one of a class, none of which ever
matches `/`; a part `**` stands for any number of parts, zero included. At the end `**` needs at least one part:
`src/**` matches `src/a.py` and `src/a/b.py`, not `src`.

A pattern matches files, never what lies below them: `docs` matches a file called `docs` and nothing in a folder of
that name; write `docs/**` for that. A pattern that ends in `/` is refused for the same reason.

Patterns become automata, so that matching takes no more than path × pattern steps whatever a model wrote into one,
and whether two patterns meet is decided exactly: by a walk over the product of both automata and the one of all
paths that are not refused (bounds on length aside).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

PART_BYTES = 240                    # file systems hold 255; temporary names need some
PATH_BYTES = 1000
_DRIVE = re.compile(r"[A-Za-z]:")
_UNSEEN = ((0x00, 0x1F), (0x7F, 0x9F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0xD800, 0xDFFF), (0xFEFF, 0xFEFF))
"""Control and invisible characters. HFS+ drops most of the latter, so that `.g<U+200C>it` is `.git` there."""
_CONTROL = re.compile(f"[{''.join(f'{chr(low)}-{chr(high)}' for low, high in _UNSEEN)}]")
_GIT = re.compile(r"(\.git|git~1)[ .]*(:.*)?", re.IGNORECASE | re.ASCII | re.DOTALL)
"""What git and the file systems of others take for `.git`: NTFS has short names, drops dots and spaces, has streams after `:`."""
_WILD = re.compile(r"[*?\[]")
_ANY = ((0, 0x10FFFF),)
_KEPT = 4096            # what was found out of a path or a pattern, which is asked several times in a run

Ranges = tuple[tuple[int, int], ...]


@lru_cache(maxsize=_KEPT)
def refusal(path: str) -> str | None:
    """Why a path may not stand in a run's repository, or None where it may."""
    return _form(path, "path") or next(filter(None, (_part(part) for part in path.split("/"))), None)


@lru_cache(maxsize=_KEPT)
def pattern_refusal(pattern: str) -> str | None:
    """Why a path pattern is refused, or None where it is fine."""
    why = _form(pattern, "pattern")
    if why:
        return f"{why}: write `{pattern}**` for all below it" if why.startswith("it ends in `/`") else why
    for part in pattern.split("/"):
        why = None if part == "**" else _wild_part(part)
        if why:
            return why
    return None


def _form(written: str, what: str) -> str | None:
    if not written:
        return "it is empty"
    if _CONTROL.search(written):
        return "it holds a control or an invisible character"
    if "\\" in written:
        return "it holds a backslash: parts are joined by `/`"
    if written.startswith("/") or _DRIVE.match(written):
        return f"it is absolute: a {what} is relative to the run's repository"
    if written.startswith("~"):
        return "it starts with `~`: nothing is expanded, a path is relative to the run's repository"
    if written.endswith("/"):
        return "it ends in `/`"
    if len(written.encode()) > PATH_BYTES:
        return f"it is longer than {PATH_BYTES} bytes"
    return "it has an empty part" if "//" in written else None


def _part(part: str) -> str | None:
    if part == "..":
        return "`..` would leave the run's repository"
    if part == ".":
        return "it has a part `.`"
    if is_git(part):
        return f"{'' if part == '.git' else f'its part `{part}` is a spelling of `.git`, and '}`.git` belongs to git alone"
    if part[-1] in ". ":
        return f"its part `{part}` ends in a {'dot' if part[-1] == '.' else 'space'}"
    return f"one of its parts is longer than {PART_BYTES} bytes" if len(part.encode()) > PART_BYTES else None


def is_git(part: str) -> bool:
    """Whether git, or some file system, takes this part of a path for `.git`."""
    return _GIT.fullmatch(part) is not None


def _wild_part(part: str) -> str | None:
    try:
        tokens = _tokens(part)
    except ValueError as error:
        return str(error)
    fixed = _fixed(tokens)
    if fixed is not None:
        return _part(fixed)
    return f"its part `{part}` ends in a dot or a space, which no path does" if part[-1] in ". " else None


def escape(text: str) -> str:
    """The pattern that matches exactly this text: `app/[slug]/page.tsx` becomes `app/[[]slug]/page.tsx`."""
    return _WILD.sub(lambda wild: f"[{wild[0]}]", text)


@lru_cache(maxsize=_KEPT)
def literal(pattern: str) -> str | None:
    """The one path that a pattern without wildcards matches; None where it has some (or is refused)."""
    if not _WILD.search(pattern):
        return pattern
    try:
        return _fixed(_tokens(pattern))
    except ValueError:
        return None


def told(patterns: Iterable[str]) -> list[str]:
    """Patterns as people and models read them: one that matches a single path is that path, without escapes."""
    return [literal(pattern) or pattern for pattern in patterns]


def matches(patterns: Sequence[str], path: str) -> bool:
    """Whether any of the patterns matches the path. A refused pattern matches nothing, nor is a refused path matched."""
    return refusal(path) is None and any(_matches(pattern, path) for pattern in patterns)


def fits(pattern: str, path: str) -> bool:
    """Whether a pattern matches a path of any form; a refused pattern matches nothing."""
    return _matches(pattern, path)


def overlap(first: str, second: str) -> str | None:
    """A shortest path that both patterns match, or None where there is none. Exact, bounds on length aside."""
    fixed = literal(first), literal(second)
    if fixed[0] is not None:
        return fixed[0] if matches((second,), fixed[0]) else None
    if fixed[1] is not None:
        return fixed[1] if matches((first,), fixed[1]) else None
    if pattern_refusal(first) or pattern_refusal(second):
        return None
    return _meeting(_automaton(first), _automaton(second))


def clash(paths: Iterable[str]) -> tuple[str, str] | None:
    """Two of the paths that can't both be files, since one would be a folder of the other; or None."""
    known = set(paths)
    for path in sorted(known):
        above = path
        while "/" in above:
            above = above.rpartition("/")[0]
            if above in known:
                return above, path
    return None


# A pattern's tokens: sets of characters, `*` (many) and, for whole parts, `**` (deep).

@dataclass(frozen=True, slots=True)
class _Token:
    many: bool = False
    ranges: Ranges = ()


def _tokens(pattern: str) -> list[_Token]:
    """Tokens of a pattern, or of one part of it. Raises ValueError for a class that is not closed or is empty."""
    tokens: list[_Token] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            if not (tokens and tokens[-1].many):
                tokens.append(_Token(many=True, ranges=_without_slash(_ANY)))
        elif char == "?":
            tokens.append(_Token(ranges=_without_slash(_ANY)))
        elif char == "[":
            ranges, at = _class(pattern, at)
            tokens.append(_Token(ranges=ranges))
        else:
            tokens.append(_Token(ranges=((ord(char), ord(char)),)))
        at += 1
    return tokens


def _class(pattern: str, at: int) -> tuple[Ranges, int]:
    """The characters of the class that opens at `at`, and where it closes."""
    start = at + 1
    negated = pattern[start:start + 1] in ("!", "^")
    start += negated
    end = pattern.find("]", start + 1)              # a `]` that stands first is one of the class
    if end < 0 or "/" in pattern[start:end]:
        raise ValueError(f"its `[` is not closed: write `[[]` for the character itself, in `{pattern}`")
    inner, ranges, i = pattern[start:end], [], 0
    while i < len(inner):
        if inner[i + 1:i + 2] == "-" and i + 2 < len(inner):
            low, high = ord(inner[i]), ord(inner[i + 2])
            i += 3
        else:
            low = high = ord(inner[i])
            i += 1
        if low > high:
            raise ValueError(f"its class `[{inner}]` has a range that runs backwards")
        ranges.append((low, high))
    return _without_slash(_negated(ranges) if negated else tuple(ranges)), end


def _negated(ranges: Iterable[tuple[int, int]]) -> Ranges:
    left, free = 0, []
    for low, high in sorted(ranges):
        if low > left:
            free.append((left, low - 1))
        left = max(left, high + 1)
    return (*free, (left, 0x10FFFF)) if left <= 0x10FFFF else tuple(free)


def _without_slash(ranges: Ranges) -> Ranges:
    slash = ord("/")
    kept: list[tuple[int, int]] = []
    for low, high in ranges:
        pieces = [(low, min(high, slash - 1)), (max(low, slash + 1), high)]
        kept += [(a, b) for a, b in pieces if a <= b]
    return tuple(kept)


def _fixed(tokens: Iterable[_Token]) -> str | None:
    """The one text that the tokens spell, or None where they leave a choice."""
    text = ""
    for token in tokens:
        if token.many or len(token.ranges) != 1 or token.ranges[0][0] != token.ranges[0][1]:
            return None
        text += chr(token.ranges[0][0])
    return text


@dataclass(slots=True)
class _Automaton:
    """States are numbers, 0 the first and the last one accepting; `moves[state]` are (characters, next state)."""

    moves: list[list[tuple[Ranges, int]]] = field(default_factory=lambda: [[]])
    free: list[list[int]] = field(default_factory=lambda: [[]])         # moves that take no character
    known: dict[tuple[frozenset[int], int], frozenset[int]] = field(default_factory=dict)

    def state(self) -> int:
        self.moves.append([])
        self.free.append([])
        return len(self.moves) - 1

    def closed(self, states: Iterable[int]) -> frozenset[int]:
        seen, todo = set(states), list(states)
        while todo:
            for after in self.free[todo.pop()]:
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
        return frozenset(seen)

    def step(self, states: frozenset[int], char: int) -> frozenset[int]:
        """The states after one more character; remembered, since thousands of paths begin alike."""
        after = self.known.get((states, char))
        if after is None:
            after = self.closed({after for state in states for ranges, after in self.moves[state]
                                 if _holds(ranges, char)})
            if len(self.known) < 20_000:
                self.known[states, char] = after
        return after


@lru_cache(maxsize=2048)
def _automaton(pattern: str) -> _Automaton:
    """The automaton of a pattern that is not refused."""
    made, at = _Automaton(), 0
    parts = pattern.split("/")
    slash: Ranges = ((ord("/"), ord("/")),)
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            inside, done = made.state(), made.state()
            made.moves[at].append((_without_slash(_ANY), inside))
            made.moves[inside].append((_without_slash(_ANY), inside))
            made.moves[inside].append((slash, at))
            (made.free[inside] if last else made.free[at]).append(done)
            at = done
            continue
        for token in _tokens(part):
            if token.many:
                made.moves[at].append((token.ranges, at))
            else:
                after = made.state()
                made.moves[at].append((token.ranges, after))
                at = after
        if not last:
            after = made.state()
            made.moves[at].append((slash, after))
            at = after
    end = made.state()
    made.free[at].append(end)
    return made


def _matches(pattern: str, path: str) -> bool:
    fixed = literal(pattern)
    if fixed is not None:
        return fixed == path
    if pattern_refusal(pattern):
        return False
    automaton = _automaton(pattern)
    states = automaton.closed({0})
    for char in path:
        states = automaton.step(states, ord(char))
        if not states:
            return False
    return len(automaton.moves) - 1 in states


_Pair = tuple[int, int, str]          # a state of each automaton, and of the one of all paths


def _meeting(first: _Automaton, second: _Automaton) -> str | None:
    """A shortest path that both accept and that `refusal` lets pass: breadth first over the product of states."""
    chars = _letters(first, second)
    start: _Pair = (0, 0, "start")
    before: dict[_Pair, tuple[_Pair | None, str]] = {start: (None, "")}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        ends = first.closed({here[0]}), second.closed({here[1]})
        if len(first.moves) - 1 in ends[0] and len(second.moves) - 1 in ends[1] and _may_end(here[2]):
            return _spelled(before, here)
        moves = [(ranges, other, after, next_) for a in ends[0] for ranges, after in first.moves[a]
                 for b in ends[1] for other, next_ in second.moves[b]]
        for char in chars:
            follows = _follow(here[2], chr(char))
            for ranges, other, after, next_ in moves if follows else ():
                pair = (after, next_, follows or "")
                if pair not in before and _holds(ranges, char) and _holds(other, char):
                    before[pair] = here, chr(char)
                    queue.append(pair)
    return None


def _holds(ranges: Ranges, char: int) -> bool:
    return any(low <= char <= high for low, high in ranges)


def _spelled(before: Mapping[_Pair, tuple[_Pair | None, str]], end: _Pair) -> str:
    text, at = "", before[end]
    while at[0] is not None:
        text, at = at[1] + text, before[at[0]]
    return text


def _letters(*automata: _Automaton) -> list[int]:
    """One usable character at least of every set that the automata can tell apart, plain ones first.

    Where ranges meet, the meeting begins at the low end of one; where that one is of no use there, at the next that is.
    """
    edges = {ord(char) + more for char in "/.:~ 1agitxzAGITZ\\" for more in (0, 1)} | {high + 1 for _, high in _UNSEEN}
    for automaton in automata:
        edges.update(low for moves in automaton.moves for ranges, _ in moves for low, _ in ranges)
    usable = [edge for edge in edges if 0 <= edge <= 0x10FFFF and not _CONTROL.match(chr(edge)) and edge != ord("\\")]
    return sorted(usable, key=lambda char: (char != ord("x"), not chr(char).isalnum(), char > 127, char))


# The automaton of all paths that are not refused. A state says what the part in hand looks like so far:
# "start" (of the path), "new" (part), "drive" (one letter, first in the path; "g-drive" where that is a `g`), a beginning
# of ".git" or "git~1", "git-tail" (one of these, then dots and spaces), "bad" (it ends in a dot or a space and may not
# end here), "ok".

_GITS = (".git", "git~1")
_GIT_BEGINNINGS = {word[:length] for word in _GITS for length in range(1, 6)}


def _follow(part: str, char: str) -> str | None:
    """The state after one more character; None where every such path is refused."""
    if char == "/":
        return "new" if _may_end(part) else None
    if part == "start" and char == "~":
        return None
    if char == ":" and part in ("drive", "g-drive", "git-tail", *_GITS):
        return None
    first = part == "start" and char.isascii() and char.isalpha()
    grown = {"start": "", "new": "", "g-drive": "g"}.get(part, part) + (char.lower() if char.isascii() else char)
    if grown in _GIT_BEGINNINGS:
        return "g-drive" if first else grown
    if char in ". ":
        return "git-tail" if part in ("git-tail", *_GITS) else "bad"
    return "drive" if first else "ok"


def _may_end(part: str) -> bool:
    return part not in ("start", "new", "bad", ".", "git-tail", *_GITS)
