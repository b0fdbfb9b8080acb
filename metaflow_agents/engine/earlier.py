"""`--from RUN`: which results of an earlier run may be taken over, and why others may not."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from metaflow_agents.engine.earlier_effects import EarlierEffects
from metaflow_agents.engine.work import Taken
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Done, Finished
from metaflow_agents.schema.keys import CODE, ActivationKey, parse_activation
from metaflow_agents.schema.model import fingerprint
from metaflow_agents.schema.payload import blobs_of, unpack


class EarlierRun:
    """The finished activations of a run, by what they depended on. `steps`: those of the SOP as it is now."""

    def __init__(self, journal: Journal, name: str, steps: Collection[str] = ()) -> None:
        self._journal, self._name = journal, name
        self.effects = EarlierEffects(journal, name, steps)
        self._equal: dict[tuple[str, str], list[Finished]] = {}
        self._slots: dict[str, Finished] = {}
        opened = journal.state.opened
        # What tools only told in a staged run was not done: who works with tools does it now.
        self._staged = {parse_activation(event.key).slot for _, event in journal.events(Done)} \
            if opened is not None and opened.staged else set()
        for _, event in journal.events(Finished):
            if event.assumed or parse_activation(event.activation).slot in self._staged:
                continue                                       # what nobody answered then is asked now
            step = parse_activation(event.activation).step
            self._equal.setdefault((step, fingerprint(event.parts)), []).append(event)
            self._slots[parse_activation(event.activation).slot] = event

    def close(self) -> None:
        """Lets go of that run's journal."""
        self._journal.__exit__()

    def find(self, key: ActivationKey, parts: Mapping[str, str]) -> Taken | tuple[str, ...]:
        """The result whose every part is equal (the same slot's first), else the parts that differ.

        Where all else is equal and the journal says nothing of Python files, it was written before they were kept.
        """
        equal = self._equal.get((key.step, fingerprint(dict(parts))), [])
        if equal:
            same_slot = [event for event in equal if parse_activation(event.activation).slot == key.slot]
            return self._taken((same_slot or equal)[0])
        before = self._slots.get(key.slot)
        if key.slot in self._staged:
            return (f"in {self._name} its tools were staged",)
        if before is None:
            return (f"{self._name} has no {key.slot}",)
        names = dict.fromkeys([*parts, *before.parts])
        differ = tuple(name for name in names if parts.get(name) != before.parts.get(name))
        if all(name.startswith(CODE) for name in differ) and not any(name.startswith(CODE) for name in before.parts):
            return (f"{self._name} does not say which Python it ran, so it may have been another",)
        return differ

    def _taken(self, event: Finished) -> Taken:
        names = [event.payload, *blobs_of(unpack(self._journal.blob(event.payload)))]
        if event.memory is not None:
            names += [name for entry in (event.memory, *event.besides) for name in (entry.asked, entry.answered)]
        blobs = {name: self._journal.blob(name) for name in names}
        effects = self.effects.behind(event.activation)
        for effect in effects:
            blobs |= self.effects.blobs(effect)
        return Taken(event.payload, f"{self._name}:{event.activation}", blobs, event.memory, event.untrusted, event.besides,
                     effects)
