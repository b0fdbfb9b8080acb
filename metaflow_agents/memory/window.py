"""The window: the turns of a role's past that stand verbatim in its prompt; the oldest are dropped, or summed up."""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.memory.owners import is_shared
from metaflow_agents.schema.binary import Content, jsonable
from metaflow_agents.schema.event import Entry
from metaflow_agents.schema.keys import parse_firing
from metaflow_agents.schema.model import as_ordered, fingerprint
from metaflow_agents.schema.role import Role
from metaflow_agents.schema.trust import joined

_BYTES_A_TOKEN = 4                  # of English text and code, on average; the window bounds a prompt, it does not bill it

_KEPT = 64                          # firings whose memories are at hand: about as many as run side by side
_TURNS = 512                        # turns whose texts are at hand
_LAST = (10**6, 0)                  # the rank of a step that the program has no more

Said = tuple[str, str | None]
"""A turn by its digests: asked, answered. Of a watched message: artifact and payload as `name:digest`, None."""
Labelled = tuple[Said, str]
"""A turn by its digests, and what of it came from outside the user."""
Place = tuple[str, int]
"""Where a turn stands: its firing, and which one of it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Something a role was asked, and what it answered; `answered` is None for a message that it watched.

    `untrusted` says what of it came from outside the user, in words; empty: nothing.
    """

    asked: str
    answered: str | None
    untrusted: str = ""

    @property
    def tokens(self) -> int:
        """About how many tokens it takes in a prompt."""
        return -(-len((self.asked + (self.answered or "")).encode()) // _BYTES_A_TOKEN)


@dataclass(frozen=True, slots=True)
class Fallen:
    """What fell out of a window: the summary so far (empty: none), the turns that it does not hold, and how many fell in all."""

    before: str
    turns: tuple[Turn, ...]
    covers: int
    untrusted: str = ""


@dataclass(slots=True)
class _Shelf:
    """The firings that one role remembers or watched, in the order of rank and round, brought up to date when it is asked."""

    firings: list[tuple[tuple[int, int], int, str]] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    watched: dict[str, list[Labelled]] = field(default_factory=dict)     # firing → messages
    own_seen: int = 0
    watched_seen: dict[str, int] = field(default_factory=dict)           # artifact → versions


class RoleMemory:
    """A role's memory of a run: what the causal past of a firing committed, in the order of rank, round and key.

    `name` is the role's, or with `self` that of one of its characters (`ROLE[NAME]`), each of which has a memory of its own, or
    with `memory_of` that of a memory which roles share (`[NAME]`).
    Parallel work does not leak in: only firings from which the versions that are read descend are remembered.
    """

    def __init__(self, state: RunState, values: Values, rank: Mapping[str, tuple[int, int]]) -> None:
        self._state, self._values, self._rank = state, values, rank
        self._shelves: dict[str, _Shelf] = {}
        self._texts: OrderedDict[Said, Turn] = OrderedDict()
        self._recent: OrderedDict[tuple[str, int, str, str], list[tuple[Said, Turn]]] = OrderedDict()
        self._pasts: OrderedDict[tuple[str | None, str], list[tuple[str, Entry]]] = OrderedDict()

    def fingerprint(self, name: str, role: Role, firing: str) -> str:
        """Equal for equal memories: what stands in the prompt, and of what fell out of the window only what may be recalled.

        What other runs remember is no part of it: like results of tools it is what was found then.
        """
        told: list[Any] = [*(list(said) for said, _ in self._window(name, role, firing)), list(role.memory.window)]
        if role.memory.summary:
            told.append([list(said) for _, (said, _) in self._beyond(name, role, firing)])
        recall = role.memory.recall
        if recall is not None:
            past = self.past(name if recall.from_ == "role" else None, firing)
            told += [recall.model_dump(mode="json"),
                     [[entry.whose, entry.asked, entry.answered, entry.importance] for entry in past]]
        if role.memory.lessons is not None:
            told.append([entry.answered for entry in self.lessons(name, firing)])
        return fingerprint(told)

    def all_of(self, firing: str) -> str:
        """Equal where anybody remembers the same of the causal past of a firing, insights and lessons included."""
        return fingerprint([[entry.whose, entry.asked, entry.answered, entry.importance, entry.kind]
                            for _, entry in self._descended(None, firing) if entry.kind != "summary"])

    def past(self, name: str | None, firing: str) -> list[Entry]:
        """What a role or character (None: anybody) said in the causal past of a firing that is under way, oldest first."""
        return [entry for _, entry in self._descended(name, firing) if entry.kind in ("turn", "reflection")]

    def lessons(self, name: str | None, firing: str) -> list[Entry]:
        """The lessons that a role or character (None: anybody) drew in the causal past of a firing under way, oldest first."""
        return [entry for _, entry in self._descended(name, firing) if entry.kind == "lesson"]

    def fallen(self, name: str, role: Role, firing: str) -> Fallen:
        """What does not stand in the window of a firing. It builds on that summary in its causal past which holds most of it."""
        beyond = self._beyond(name, role, firing)
        held, before = self._summed_up(name, role, firing)
        turns = tuple(self._labelled(*labelled) for place, labelled in beyond if place not in held)
        return Fallen("" if before is None else self._values.text(before.answered), turns, len(beyond),
                      joined("" if before is None else before.untrusted, *(label for _, (_, label) in beyond)))

    def _summed_up(self, name: str, role: Role, firing: str) -> tuple[frozenset[Place], Entry | None]:
        """The turns that a summary holds, and it."""
        best: tuple[frozenset[Place], Entry | None] = frozenset(), None
        kept = self._state.summarised.get(name, {})
        for one, entry in self._descended(name, firing):
            if entry.kind == "summary" and one in kept:
                turns = [place for place, _ in self._backwards(name, role, kept[one])][::-1][:entry.covers]
                if len(turns) > len(best[0]):
                    best = frozenset(turns), entry
        return best

    def _beyond(self, name: str, role: Role, firing: str) -> list[tuple[Place, Labelled]]:
        """The turns of a causal past that its window does not hold, oldest first."""
        turns = [*self._backwards(name, role, self._state.active[firing].past)]
        return turns[len(self._window(name, role, firing)):][::-1]

    def unreflected(self, name: str, firing: str) -> list[Entry]:
        """The turns of the causal past that came since a role or character last reflected."""
        past = self._descended(name, firing)
        there = {(one, entry.activation) for one, entry in past if entry.kind == "reflection"}
        seen = 0
        for one, _ in there:
            seen |= self._state.reflected[one]
        return [entry for one, entry in past if entry.kind == "turn" and not seen >> self._state.order[one] & 1
                and (one, entry.activation) not in there]

    def items(self, firing: str) -> tuple[str, ...]:
        """The keys of the items of a firing that is under way."""
        return self._state.active[firing].items or ()

    def _descended(self, name: str | None, firing: str) -> list[tuple[str, Entry]]:
        """What was remembered in the causal past of a firing, each with the firing that it is of."""
        key = (name, firing)
        if key not in self._pasts:
            past = self._state.active[firing].past
            found = sorted((self._rank.get(step, _LAST), round_, one) for one in self._state.memory
                           if past >> self._state.order[one] & 1 for step, round_ in [parse_firing(one)])
            self._pasts[key] = [(one, entry) for _, _, one in found for entry in self._state.memory[one]
                                if name in (None, entry.whose)]
            if len(self._pasts) > _KEPT:
                self._pasts.popitem(last=False)
        return self._pasts[key]

    def standing(self, name: str, role: Role, firing: str) -> list[Entry]:
        """What of a role's past stands in the prompts of a firing word for word."""
        said = {said for said, _ in self._window(name, role, firing)}
        return [entry for entry in self.past(name, firing) if (entry.asked, entry.answered) in said]

    def turns(self, name: str, role: Role, firing: str) -> list[Turn]:
        """What stands in the prompts of a firing that is under way: the latest turns that fit into the window, oldest first."""
        return [turn for _, turn in self._window(name, role, firing)]

    def untrusted(self, name: str, role: Role, firing: str) -> str:
        """The label of what stands in the prompts of a firing that is under way; empty: nothing of it is from outside."""
        if role.memory.summary:
            return joined(*(label for _, (_, label) in self._backwards(name, role, self._state.active[firing].past)))
        return joined(*(turn.untrusted for _, turn in self._window(name, role, firing)))

    def _window(self, name: str, role: Role, firing: str) -> list[tuple[Said, Turn]]:
        # What led to a firing has committed and changes no more, so that it is looked up once for all of its items.
        number, unit = role.memory.window           # of roles that share a memory each has its own
        key = (name, number, unit, firing)
        if key not in self._recent:
            newest = ((said, self._labelled(said, label))
                      for _, (said, label) in self._backwards(name, role, self._state.active[firing].past))
            self._recent[key] = _fitting(newest, number, unit)[::-1]
            if len(self._recent) > _KEPT:
                self._recent.popitem(last=False)
        return self._recent[key]

    def _backwards(self, name: str, role: Role, past: int) -> Iterator[tuple[Place, Labelled]]:
        """What a role was asked and told in a causal past, newest first, and where it stands."""
        shelf = self._shelf(name, role)
        for _, _, firing in reversed(shelf.firings):
            if past >> self._state.order[firing] & 1:
                mine: list[Labelled] = [((entry.asked, entry.answered), entry.untrusted)
                                        for entry in self._state.memory.get(firing, ())
                                        if entry.whose == name and entry.kind == "turn"]
                turns = mine or shelf.watched.get(firing, [])
                yield from (((firing, place), turns[place]) for place in reversed(range(len(turns))))

    def _shelf(self, name: str, role: Role) -> _Shelf:
        shelf = self._shelves.setdefault(name, _Shelf())
        own = self._state.remembered.get(name, [])
        fresh = own[shelf.own_seen:]
        shelf.own_seen = len(own)
        for artifact in () if is_shared(name) else role.watches:        # what a role watches is no part of what roles share
            versions = self._state.versions.get(artifact, [])
            for made in versions[shelf.watched_seen.get(artifact, 0):]:
                if made.firing is not None:
                    shelf.watched.setdefault(made.firing, []).append(
                        ((f"{artifact}:{made.payload}", None), made.untrusted))
                    fresh.append(made.firing)
            shelf.watched_seen[artifact] = len(versions)
        for firing in fresh:
            if firing not in shelf.known:
                shelf.known.add(firing)
                step, round_ = parse_firing(firing)
                insort(shelf.firings, (self._rank.get(step, _LAST), round_, firing))
        return shelf

    def _labelled(self, said: Said, untrusted: str) -> Turn:
        turn = self._turn(said)
        return replace(turn, untrusted=untrusted) if untrusted else turn

    def _turn(self, said: Said) -> Turn:
        if said not in self._texts:
            self._texts[said] = self._read(*said)
            if len(self._texts) > _TURNS:
                self._texts.popitem(last=False)
        return self._texts[said]

    def _read(self, asked: str, answered: str | None) -> Turn:
        if answered is not None:
            return Turn(self._values.text(asked), self._values.text(answered))
        artifact, _, payload = asked.partition(":")
        value = self._values.plain(payload)
        shown = str(value) if isinstance(value, Content) else as_ordered(jsonable(value)).decode()
        return Turn(f"Message on `{artifact}`, which you watch:\n\n{shown}", None)


def latest(turns: Sequence[Turn], number: int, unit: str) -> list[Turn]:
    """The newest turns that fit: `number` of them, or of about so many tokens together. Oldest first, as they come."""
    return [turn for _, turn in _fitting(((("", None), turn) for turn in reversed(turns)), number, unit)][::-1]


def _fitting(newest_first: Iterable[tuple[Said, Turn]], number: int, unit: str) -> list[tuple[Said, Turn]]:
    kept: list[tuple[Said, Turn]] = []
    for said, turn in newest_first:
        number -= 1 if unit == "turns" else turn.tokens
        if number < 0:
            break
        kept.append((said, turn))
    return kept
