"""Results that a run takes over: those of an earlier run, or what a recording has of commands, tools and functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path

from metaflow_agents.engine.earlier_effects import EarlierEffects
from metaflow_agents.engine.result_cache import EarlierRun
from metaflow_agents.engine.work import Taken
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.models.recording import RecordedResult, Recording, read_recording
from metaflow_agents.runtime.wiring import Options
from metaflow_agents.schema.keys import ActivationKey, activations_in, slots
from metaflow_agents.schema.model import fingerprint
from metaflow_agents.schema.payload import blobs_of, unpack


def taken_over(options: Options, home: Path | None, from_run: str | None, recorded: str, steps: Collection[str]) -> Options:
    """The options of a run that takes over results: of a run of the workspace `home`, or else of the recording in the file
    `recorded`, if there is one. `steps`: those of its SOP. Raises UsageError.
    """
    if from_run is not None:
        run = EarlierRun(Journal.read(journal_path(home, from_run)), from_run, steps)
        return replace(options, earlier=run, effects=run.effects)
    return replace(options, earlier=RecordedResults(read_recording(Path(recorded)))) if recorded else options


def models_of(home: Path, run: str) -> str:
    """What is told before "no model is configured" where that run had models: `--from` takes inputs over, and no model, since
    that would be asked and paid unsaid. Empty where it had none that an option can name. Raises UsageError where it is no run.
    """
    with Journal.read(journal_path(home, run)) as journal:
        chosen = journal.state.chosen
    written = [f"`--model {spec if name == '*' else f'{name}={spec}'}`" for name, spec in chosen.items()
               if isinstance(spec, str) and ":" not in name]
    return f"`--from {run}` takes over the inputs of that run, and no model; it had {', '.join(written)}: add that, or " \
           "another. " if written else ""


class RecordedResults:
    """What commands, tools and functions gave in a recording: it stands for them where all that they depend on is equal."""

    effects: EarlierEffects | None = None

    def __init__(self, recording: Recording) -> None:
        self._name, self._contents = recording.name, recording.contents
        self._place: tuple[str, ...] = ()
        self._found: dict[tuple[tuple[str, ...], str, str], RecordedResult] = {}
        for one in recording.results:
            self._found[slots(one.key)[:-1], activations_in(one.key)[-1].step, one.depends] = one

    def find(self, key: ActivationKey, parts: Mapping[str, str]) -> Taken | tuple[str, ...]:
        """See `Earlier`."""
        one = self._found.get((self._place, key.step, fingerprint(dict(parts))))
        if one is None:
            return ()
        blobs = {name: self._contents[name] for name in (one.payload, *blobs_of(unpack(self._contents[one.payload])))}
        return Taken(one.payload, f"{self._name}:{one.key}", blobs, None, one.untrusted)

    def use(self, taken: Taken, key: ActivationKey) -> None:
        """Nothing of it is done once only."""

    def inside(self, key: ActivationKey) -> RecordedResults:
        """See `Earlier`."""
        found = copy(self)
        found._place = (*self._place, key.slot)
        return found

    def close(self) -> None:
        """Nothing is held."""
