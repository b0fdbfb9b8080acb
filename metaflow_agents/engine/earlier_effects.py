"""`--from RUN`: what the earlier run did that may happen once only, so that a step which is done again is asked about first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate
from typing import Any

from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Done, EarlierEffect, Failed, Finished, Inner, Intended, Observed
from metaflow_agents.schema.keys import activations_in, parse_activation
from metaflow_agents.schema.payload import Binary, Data, Files, blobs_of, unpack
from metaflow_agents.schema.trust import joined

_TIMED_OUT = "timed out after"      # how the error of an attempt begins whose time was over while it was under way


class EarlierEffects:
    """The calls of an earlier run whose effect may happen once only, its own and those behind results that it took over.

    `steps` are the steps that the SOP has now: what a step did that is gone may be what another one, renamed, is about to do.
    """

    def __init__(self, journal: Journal, run: str, steps: Collection[str]) -> None:
        self._journal, self._steps = journal, frozenset(steps)
        self._equal: dict[tuple[str, str], list[tuple[str, EarlierEffect]]] = {}
        self._at: dict[tuple[str, str], list[tuple[str, EarlierEffect]]] = {}
        self._by_activation: dict[str, list[EarlierEffect]] = {}
        self._used: dict[str, str] = {}
        for key, effect in _effects(journal, run):
            self._equal.setdefault((effect.tool, effect.arguments), []).append((key, effect))
            self._at.setdefault((_place(key), effect.tool), []).append((key, effect))
            for activation in accumulate(map(str, activations_in(key)), "{}/{}".format):
                self._by_activation.setdefault(activation, []).append(effect)

    def behind(self, activation: str) -> tuple[EarlierEffect, ...]:
        """What an activation of the earlier run did."""
        return tuple(self._by_activation.get(activation, ()))

    def find(self, key: str, tool: str, arguments: str) -> EarlierEffect | None:
        """What the earlier run did in the place of a call that is about to be made: with equal arguments (a digest) in the same
        activation, in another one of the step, or in a step that is gone; else with others in the same activation.

        What stands for another call of this run already is left out.
        """
        place, steps = _place(key), _steps(key)
        equal = [(theirs, effect) for theirs, effect in self._equal.get((tool, arguments), ())
                 if self._used.get(effect.source, place) == place
                 and (_steps(theirs) == steps or _steps(theirs)[0] not in self._steps)]
        there = self._at.get((place, tool), [])
        for found in ([one for one in equal if _place(one[0]) == place], equal,
                      [one for one in there if _tail(one[0]) == _tail(key)], there[-1:]):
            for _, effect in found:
                return effect
        return None

    def use(self, effect: EarlierEffect, key: str) -> None:
        """It stands for a call of this run, and for no other activation's."""
        self._used.setdefault(effect.source, _place(key))

    def recall(self, own: Journal, asked: Iterable[tuple[str, str]]) -> None:
        """What stands for which call of this run, for a resume: as its journal says, and its questions (key, `source`)."""
        for _, event in own.events(Finished, Inner):
            where, end = unwrapped(event)
            for effect in end.effects if isinstance(end, Finished) else ():
                self.use(effect, where)
        for key, source in asked:
            self._used.setdefault(source, _place(key))

    def blobs(self, effect: EarlierEffect) -> dict[str, bytes]:
        """What it names: its arguments, what it gave, what it wrote."""
        names = [effect.arguments]
        for payload in (effect.payload, effect.patch):
            if payload:
                names += [payload, *blobs_of(unpack(self._journal.blob(payload)))]
        return {name: self._journal.blob(name) for name in names}

    def value(self, name: str) -> Any:
        """The arguments of a call, or what it gave, for people: of files their paths."""
        payload = unpack(self._journal.blob(name))
        match payload:
            case Data():
                return payload.value
            case Files():
                return ", ".join(payload.files)
            case Binary():
                return f"{payload.name or 'a file'} ({payload.media_type}, {payload.size:,} bytes)"
        return ""


def _effects(journal: Journal, run: str) -> Iterator[tuple[str, EarlierEffect]]:
    """The key of each call and what it did. One that nobody knows the end of has no `payload`."""
    intended = {event.key: event for _, event in journal.events(Intended) if event.effect != "none"}
    ended: dict[str, Finished | Failed] = {}
    for _, event in journal.events(Finished, Failed, Inner):
        where, end = unwrapped(event)
        if not isinstance(end, Finished | Failed):
            continue
        ended[where] = end
        if isinstance(end, Finished):
            for effect in end.effects:
                yield _moved(effect.source.partition(":")[2], where), effect
    results = journal.events(Done, Observed) if intended else ()
    given: dict[str, Done | Observed] = {result.key: result for _, result in results if isinstance(result, Done | Observed)}
    for key, call in intended.items():
        if call.taken is not None:
            yield key, call.taken
            continue
        effect = EarlierEffect(source=f"{run}:{key}", tool=call.tool, arguments=call.arguments)
        last, activation = given.get(key), ended.get(_activation(key))
        if isinstance(last, Done):
            if not (last.error or last.refused or last.staged):
                yield key, effect.model_copy(update={"payload": last.payload, "patch": last.patch, "untrusted": last.untrusted})
        elif isinstance(last, Observed):
            label = ended.get(str(parse_activation(key)), activation)
            yield key, effect.model_copy(update={
                "payload": last.payload, "untrusted": _all_labels(journal) if label is None else label.untrusted})
        elif not (call.tool.startswith("call(") and isinstance(activation, Failed)
                  and not activation.error.startswith(_TIMED_OUT)):     # a function that raised: a retry does it again as well
            yield key, effect


def unwrapped(event: Any) -> tuple[str, Any]:
    """An event with its activation, as the run's journal spells it, out of the sub-SOPs that it happened in."""
    prefix = ""
    while isinstance(event, Inner):
        prefix, event = f"{prefix}{event.activation}/", event.event
    return f"{prefix}{getattr(event, 'activation', '')}", event


def _all_labels(journal: Journal) -> str:
    """What of all that a run made came from outside: of what was left under way, that is what it may have heard."""
    return joined(*(made.untrusted for versions in journal.state.versions.values() for made in versions))


def _moved(key: str, activation: str) -> str:
    """The key of a call under another activation than the one it was made in."""
    stood = "/".join(map(str, activations_in(key)[:len(activations_in(activation))]))
    return activation + key[len(stood):]


def _activation(key: str) -> str:
    """The innermost activation that a key leads through, as the run's journal spells it."""
    return "/".join(map(str, activations_in(key)))


def _place(key: str) -> str:
    return "/".join(activation.slot for activation in activations_in(key))


def _steps(key: str) -> tuple[str, ...]:
    return tuple(activation.step for activation in activations_in(key))


def _tail(key: str) -> str:
    return key[len(_activation(key)):]
