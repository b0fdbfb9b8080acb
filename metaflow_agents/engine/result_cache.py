"""`--from RUN`: which results of an earlier run may be taken over, and why others may not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy

from metaflow_agents.engine.earlier_effects import EarlierEffects, unwrapped
from metaflow_agents.engine.work import Taken
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Done, Finished, Inner
from metaflow_agents.schema.keys import CODE, ActivationKey, activations_in, slots
from metaflow_agents.schema.model import fingerprint
from metaflow_agents.schema.payload import blobs_of, unpack


class _Results:
    """What finished in one place of a run: in its own steps, or in those of a sub-SOP (at its last attempt)."""

    def __init__(self, attempts: tuple[int, ...]) -> None:
        self.attempts = attempts
        self.equal: dict[tuple[str, str], list[tuple[str, Finished]]] = {}
        self.slots: dict[str, tuple[str, Finished]] = {}

    def add(self, where: str, key: ActivationKey, event: Finished) -> None:
        """`where`: the activation, as the run's journal spells it."""
        self.equal.setdefault((key.step, fingerprint(event.parts)), []).append((where, event))
        self.slots[key.slot] = where, event


class EarlierRun:
    """The finished activations of a run, by what they depended on. `steps`: those of the SOP as it is now.

    Inside of a sub-SOP that is carried out anew, `inside` has those of its steps.
    """

    def __init__(self, journal: Journal, name: str, steps: Collection[str] = ()) -> None:
        self._journal, self._name = journal, name
        self.effects = EarlierEffects(journal, name, steps)
        self._places: dict[tuple[str, ...], _Results] = {}
        self._place: tuple[str, ...] = ()
        self._prefix = ""
        opened = journal.state.opened
        # What tools only told in a staged run was not done: who works with tools does it now.
        self._staged = {slots(event.key) for _, event in journal.events(Done)} if opened is not None and opened.staged else set()
        for _, outer in journal.events(Finished, Inner):
            where, event = unwrapped(outer)
            if not isinstance(event, Finished) or event.assumed or slots(where) in self._staged:
                continue                                       # what nobody answered then is asked now
            *around, key = activations_in(where)
            attempts = tuple(one.attempt for one in around)
            held = self._places.setdefault(slots(where)[:-1], _Results(attempts))
            if held.attempts < attempts:
                held = self._places[slots(where)[:-1]] = _Results(attempts)
            if held.attempts == attempts:
                held.add(where, key, event)

    def inside(self, key: ActivationKey) -> EarlierRun | None:
        """What that run did inside of this activation, a sub-SOP. None at a second attempt, which begins anew for a reason."""
        if key.attempt:
            return None
        found = copy(self)
        found._place, found._prefix = (*self._place, key.slot), f"{self._prefix}{key}/"
        return found

    def close(self) -> None:
        """Lets go of that run's journal."""
        self._journal.__exit__()

    def find(self, key: ActivationKey, parts: Mapping[str, str]) -> Taken | tuple[str, ...]:
        """The result whose every part is equal (the same slot's first), else the parts that differ.

        Where all else is equal and the journal says nothing of Python files, it was written before they were kept.
        """
        results = self._places.get(self._place, _Results(()))
        equal = results.equal.get((key.step, fingerprint(dict(parts))), [])
        if equal:
            same_slot = [one for one in equal if slots(one[0])[-1] == key.slot]
            return self._taken(*(same_slot or equal)[0])
        here = "/".join((*self._place, key.slot))
        if (*self._place, key.slot) in self._staged:
            return (f"in {self._name} its tools were staged",)
        if key.slot not in results.slots:
            return (f"{self._name} has no {here}",)
        before = results.slots[key.slot][1]
        names = dict.fromkeys([*parts, *before.parts])
        differ = tuple(name for name in names if parts.get(name) != before.parts.get(name))
        if all(name.startswith(CODE) for name in differ) and not any(name.startswith(CODE) for name in before.parts):
            return (f"{self._name} does not say which Python it ran, so it may have been another",)
        return differ

    def use(self, taken: Taken, key: ActivationKey) -> None:
        """It stands for this activation: what it did that may happen once is done."""
        for effect in taken.effects:
            self.effects.use(effect, f"{self._prefix}{key}")

    def _taken(self, where: str, event: Finished) -> Taken:
        names = [event.payload, *blobs_of(unpack(self._journal.blob(event.payload)))]
        if event.memory is not None:
            names += [name for entry in (event.memory, *event.besides) for name in (entry.asked, entry.answered)]
        blobs = {name: self._journal.blob(name) for name in names}
        effects = self.effects.behind(where)
        for effect in effects:
            blobs |= self.effects.blobs(effect)
        return Taken(event.payload, f"{self._name}:{where}", blobs, event.memory, event.untrusted, event.besides,
                     effects)
