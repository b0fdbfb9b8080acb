"""Whatever a kill leaves of a run, its resume comes to the same end: every prefix of every scene's journal, resumed in process.

Each scene (`crash_scenes.py`, `crash/crash.yaml`, `crash/tools.yaml`) is recorded once, with all that lay beside its journal
before and after each write (`crash_prefixes.py`), and resumed from each of these moments. What the resume makes is compared with
the run in one go: outcome, every version with its label, the directory, how often each firing, activation, call and observation
happened, what every role was told. No call that was settled is asked again, who pays does so once. In the recording nothing acts
before its own event is in the file (`crash_written.py`). Real kills: `test_crash.py`, and `make test-all` at every write.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import crash_harness as harness
import crash_thinking as thinking
import crash_tools_harness as tools
import pytest
import tiers
from crash_pool import scratch
from crash_prefixes import Moment, Recording, Replayed, go_on_from, recorded
from crash_scenes import SCENES
from crash_written import Written, watched

AT_LEAST = 5
"""Moments that each scene has. Most have ten to sixty."""
names = pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.skipif(bool(scene.missing), reason=scene.missing)) for name, scene in SCENES.items()])


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with scratch() as folder, thinking.staged(folder / "home"):
        yield folder / "home"


def tried(recording: Recording) -> list[Moment]:
    """All moments in the full tier; else every fourth of 32 or more, others with each seed."""
    return recording.moments if len(recording.moments) < 32 else tiers.some(recording.moments, 4)


def must_go_on_alike(replayed: list[Replayed], *, same_calls: bool = True) -> None:
    assert [fault for each in replayed for fault in each.faults] == []
    again = [each for each in replayed if each.excess > each.in_flight]
    assert not same_calls or again == [], "only what was in flight is asked again"
    assert sum(each.resumed for each in replayed) >= AT_LEAST


def scene_from(recording: Recording, moment: Moment, name: str, known: thinking.Known) -> Replayed:
    """One scene resumed from one moment."""
    scene, home = SCENES[name], recording.home
    replayed = go_on_from(recording, moment, known.facts, partial(thinking.live, name, home), same_calls=not scene.freely)
    found = thinking.found_in(home, harness.facts(recording.path))
    replayed.faults += [f"{moment.what}: {fault}" for fault in thinking.different(scene, known, found)]
    return replayed


@pytest.mark.one_in(24, always=False)
@names
def test_from_every_prefix_a_scene_comes_to_the_same(home: Path, name: str) -> None:
    with recorded(home) as recording, watched(home) as written:
        known = thinking.reference(home, name)
    assert written.faults == [] and recording.faults == []
    must_have_checked(written, "reserved", "heard")
    must_go_on_alike([scene_from(recording, moment, name, known) for moment in tried(recording)],
                     same_calls=not SCENES[name].freely)
    if SCENES[name].meanwhile is None:          # what another run leaves each time may make another end of it
        killed_again(recording, name, known)


@pytest.mark.one_in(16)
def test_from_every_prefix_the_run_comes_to_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness.desk, "TOPICS", harness.desk.TOPICS[:harness.FEW])
    with recorded(home) as recording, watched(home) as written:
        known = harness.reference(home)
    assert written.faults == [] and recording.faults == []
    must_have_checked(written, "reserved", "fired", "heard")
    must_go_on_alike([go_on_from(recording, moment, known, partial(harness.live, home)) for moment in tried(recording)])


@pytest.mark.one_in(8)
def test_from_every_prefix_each_effect_happens_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with scratch() as folder, tools.staged(home := folder / "home"):
        monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))       # the heads of audits are a part of the moment
        with recorded(home) as recording, watched(home) as written:
            known = tools.reference(home)
        assert written.faults == [] and recording.faults == []
        must_have_checked(written, "reserved", "fired", "intended", "decided", "heard")
        must_go_on_alike([acts_from(recording, moment, known) for moment in tried(recording)])


def acts_from(recording: Recording, moment: Moment, known: harness.Facts) -> Replayed:
    """The run whose roles act resumed from one moment."""
    home = recording.home
    recording.lay(moment)
    early = list(tools.done_too_early(recording.path))
    replayed = go_on_from(recording, moment, known, partial(tools.to_the_end, home))
    found = harness.facts(recording.path)
    wrong = tools.of_effects(home, found) if replayed.resumed else ()
    replayed.faults += [f"{moment.what}: {fault}" for fault in (*early, *wrong)]
    return replayed


def killed_again(recording: Recording, name: str, known: thinking.Known) -> None:
    """A resume is recorded like a run, and resumed from some moment of it."""
    home, chance = recording.home, tiers.chance(name)
    first = chance.choice(recording.open)
    in_flight = in_flight_at(recording, first)
    with recorded(home, after=first.seq) as again:
        thinking.live(name, home)
    replayed = scene_from(again, chance.choice(again.open), name, known)
    assert replayed.faults == [], first.what
    assert SCENES[name].freely or replayed.excess <= replayed.in_flight + in_flight


def in_flight_at(recording: Recording, moment: Moment) -> int:
    """Makes the home what it was then: how many calls had no answer yet."""
    recording.lay(moment)
    left = harness.facts(recording.path)
    return len(left.reserved - left.settled)


def must_have_checked(written: Written, *what: str) -> None:
    """Or nothing is shown."""
    assert all(written.checked[kind] for kind in what), written.checked
