"""The window: the turns of a role's past that stand verbatim in its prompt; the oldest are dropped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metaflow_agents.journal.state import RunState, in_order
from metaflow_agents.journal.values import Values
from metaflow_agents.schema.model import canonical, fingerprint
from metaflow_agents.schema.sop import Role

_BYTES_A_TOKEN = 4                  # of English text and code, on average; the window bounds a prompt, it does not bill it

_KEPT = 64                          # firings whose memories are at hand: about as many as run side by side


@dataclass(frozen=True, slots=True)
class Turn:
    """Something a role was asked, and what it answered; `answered` is None for a message that it watched."""

    asked: str
    answered: str | None

    @property
    def tokens(self) -> int:
        """About how many tokens it takes in a prompt."""
        return -(-len((self.asked + (self.answered or "")).encode()) // _BYTES_A_TOKEN)


class RoleMemory:
    """A role's memory of a run: what the causal past of a firing committed, in the order of rank, round and key.

    Parallel work does not leak in: only firings from which the versions that are read descend are remembered.
    """

    def __init__(self, state: RunState, values: Values, rank: Mapping[str, tuple[int, int]]) -> None:
        self._state, self._values, self._rank = state, values, rank
        self._recent: OrderedDict[tuple[str, frozenset[tuple[str, int]]], list[tuple[str, str | None]]] = OrderedDict()

    def digests(self, name: str, role: Role, read: Mapping[str, int]) -> list[tuple[str, str | None]]:
        """(asked, answered) digests of the turns that the role remembers, oldest first, the window not yet applied.

        For a watched message: (artifact name with its payload's digest, None). What led to these versions has committed
        and changes no more, so that it is looked up once for all items of a firing.
        """
        key = (name, frozenset(read.items()))
        if key not in self._recent:
            self._recent[key] = self._digests(name, role, read)
            if len(self._recent) > _KEPT:
                self._recent.popitem(last=False)
        return self._recent[key]

    def _digests(self, name: str, role: Role, read: Mapping[str, int]) -> list[tuple[str, str | None]]:
        found: list[tuple[str, str | None]] = []
        watched = self._watched(role)
        for firing in in_order(self._state.past(read), self._rank):
            mine = [entry for entry in self._state.memory.get(firing, ()) if entry.role == name]
            found += [(entry.asked, entry.answered) for entry in mine]
            if not mine:
                found += [(f"{artifact}:{payload}", None) for artifact, payload in watched.get(firing, ())]
        return found

    def fingerprint(self, name: str, role: Role, read: Mapping[str, int]) -> str:
        """Equal for equal memories."""
        return fingerprint([list(turn) for turn in self.digests(name, role, read)] + [list(role.memory.window)])

    def turns(self, name: str, role: Role, read: Mapping[str, int]) -> list[Turn]:
        """What stands in the prompt: the latest turns that fit into the window, oldest first."""
        number, unit = role.memory.window
        digests = self.digests(name, role, read)
        if unit == "turns":
            digests = digests[-number:]                 # what falls out of the window is not read
        return latest([self._turn(asked, answered) for asked, answered in digests], number, unit)

    def _watched(self, role: Role) -> dict[str, list[tuple[str, str]]]:
        by_firing: dict[str, list[tuple[str, str]]] = {}
        for artifact in role.watches:
            for made in self._state.versions.get(artifact, ()):
                if made.firing is not None:
                    by_firing.setdefault(made.firing, []).append((artifact, made.payload))
        return by_firing

    def _turn(self, asked: str, answered: str | None) -> Turn:
        if answered is not None:
            return Turn(self._values.text(asked), self._values.text(answered))
        artifact, _, payload = asked.partition(":")
        value = self._values.plain(payload)
        shown = value if isinstance(value, str) else canonical(value).decode()
        return Turn(f"Message on `{artifact}`, which you watch:\n\n{shown}", None)


def latest(turns: Sequence[Turn], number: int, unit: str) -> list[Turn]:
    """The newest turns that fit: `number` of them, or of about so many tokens together."""
    if unit == "turns":
        return list(turns[-number:])
    kept: list[Turn] = []
    for turn in reversed(turns):
        number -= turn.tokens
        if number < 0:
            break
        kept.append(turn)
    return kept[::-1]
