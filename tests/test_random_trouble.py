"""An exception at a random place of an attempt: the run ends by its rules or rests resumable, and a resume makes up for it."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tiers
from random_trouble import ALL as SCENES
from random_trouble import EXCEPTIONS, Harness, Trouble, begun, troubled
from scripted import events

from metaflow_agents.agent import agent, answers
from metaflow_agents.agent import toolset as equipment
from metaflow_agents.cli import command
from metaflow_agents.engine import scheduler
from metaflow_agents.errors import JournalError
from metaflow_agents.journal.state import RunState
from metaflow_agents.models import caller
from metaflow_agents.runtime import handle as underway
from metaflow_agents.runtime import step_runner as doers_runner
from metaflow_agents.schema.event import Failed, RunEnded
from metaflow_agents.steps import command as commands
from metaflow_agents.steps import documents, function
from metaflow_agents.steps import validation as acceptance

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
"""A coroutine into whose caller an exception is thrown between its making and its beginning is never awaited."""


@pytest.fixture
def harness() -> Iterator[Harness]:
    place = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="crash-of-sop-", dir=place))
    try:
        yield Harness(folder)
    finally:
        gc.collect()
        shutil.rmtree(folder)


def thrown(harness: Harness, count: int) -> None:
    faults = harness.random(tiers.SEED, count)
    assert faults == [], f"{count} exceptions by SOP_TESTS_SEED={tiers.SEED}, runs that ended as {harness.ends}"
    assert harness.ends.get("stopped", 0) > count // 3, f"most places are part of an attempt: {harness.ends}"


@pytest.mark.one_in(12, always=False)
def test_exceptions_at_random_places(harness: Harness) -> None:
    thrown(harness, 20)


@pytest.mark.slow
def test_a_thousand_exceptions_at_random_places(harness: Harness) -> None:
    thrown(harness, 1000)


SITES: list[tuple[Any, str]] = [
    (agent.RoleAgent, "work"), (agent.RoleAgent, "_in_form"), (answers.Answers, "taken"), (caller.Caller, "_tried"),
    (caller, "_stored"), (function.Functions, "_result"), (commands, "read"), (commands.Commands, "files"), (equipment, "Acting"),
    (acceptance.Acceptance, "accept"), (doers_runner.Doers, "parts"),
]
"""What raises in the attempts of the SOP: each is met by one of its steps."""


def raising(error: Callable[[], BaseException]) -> Any:
    def raises(*_: Any, **__: Any) -> Any:
        raise error()
    return raises


KINDS = ("KeyError", "Silent", "UnicodeEncodeError", "ExceptionGroup", "huge", "lines")


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("owner", "name", "kind"), [
    (*site, KINDS[number % len(KINDS)]) for number, site in enumerate(SITES)],
    ids=lambda given: getattr(given, "__name__", given).rpartition(".")[2])
def test_the_command_line_tells_it_in_a_line(harness: Harness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
                                             owner: Any, name: str, kind: str) -> None:
    home = harness.folder / "home"
    monkeypatch.setattr(owner, name, raising(EXCEPTIONS[kind]))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    status = command(["run", str(harness.sops / "stopped.yaml"), "--names", '["ann", "bob"]', "--model",
                      "python:random_trouble:mixing", "--workspace", str(home), "--name", "run", "--sandbox", "none"])
    told = "".join(capfd.readouterr())
    assert status == 1 and "run: stopped: " in told, (status, told[-500:])
    assert "Traceback" not in told and not {"\x1b", "\u202e"} & set(told) and len(told) < 30_000, told[-2000:]
    failed = events(home, "run", Failed)
    assert failed and len(failed[-1].error) < 5_000, failed


@pytest.mark.one_in(4)
def test_what_nobody_foresaw_is_journalled_with_its_place_and_the_end_of_its_traceback(
        harness: Harness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(*_: Any) -> Any:
        return {}["nothing \udc80"]

    monkeypatch.setattr(answers.Answers, "taken", broken)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    home = harness.folder / "home"
    assert command(["run", str(harness.sops / "stopped.yaml"), "--names", '["ann"]', "--model", "python:random_trouble:mixing",
                    "--workspace", str(home), "--name", "run", "--sandbox", "none"]) == 1
    (failed,) = events(home, "run", Failed)
    assert failed.error == (
        rf"unexpected KeyError: 'nothing \udc80' (test_random_trouble.py:{broken.__code__.co_firstlineno + 1})")
    assert failed.trace.rstrip().endswith(r"KeyError: 'nothing \udc80'") and "in _in_form" in failed.trace
    capfd.readouterr()
    assert command(["log", "run", "--workspace", str(home), "--full", "--kind", "failed"]) == 0
    told = capfd.readouterr().out
    assert "traceback" in told and "in _in_form" in told


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("owner", "name", "kind"), [
    (scheduler.Scheduler, "_capped", "ZeroDivisionError"), (underway, "run_budget", "ZeroDivisionError"),
    (documents.Documents, "renew", "Own"), (underway, "run_budget", "Own")])
def test_a_fault_outside_of_every_attempt_stops_the_run_and_it_is_gone_on_with(
        harness: Harness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], owner: Any, name: str,
        kind: str) -> None:
    """Also where it is no Exception: nothing that somebody's library raises comes out of a run as it is."""
    home = harness.folder / "home"
    words = ["--model", "python:random_trouble:mixing", "--workspace", str(home), "--sandbox", "none"]
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, raising(EXCEPTIONS[kind]))
        assert command(["run", str(harness.sops / "stopped.yaml"), "--names", '["ann"]', "--name", "run", *words]) == 1
    (ended,) = events(home, "run", RunEnded)
    assert f"a fault of this program, outside of every attempt: unexpected {kind}" in ended.reason
    assert "Traceback" not in "".join(capfd.readouterr())
    assert command(["resume", "run", *words]) == 0


@pytest.mark.one_in(4)
def test_a_timeout_by_nobody_before_the_first_firing_stops_the_run(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told as what it is, and not as the end of the time budget, which has not begun to run."""
    from random_trouble import drive

    from metaflow_agents.runtime.output_sync import Folder

    monkeypatch.setattr(Folder, "settle", raising(EXCEPTIONS["TimeoutError"]))
    ended = drive(lambda: begun(SCENES["stopped"], "stopped", harness.sops, harness.folder / "home"), None)
    assert ended.outcome == "stopped" and ended.result is not None and "unexpected TimeoutError" in ended.result.reason


@pytest.mark.one_in(4)
def test_a_cancellation_by_nobody_beside_the_attempts_stops_the_run(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task group takes a child that ends so for one that it has cancelled, and would wait for ever."""
    from random_trouble import drive

    from metaflow_agents.engine import step_execution as fanout

    monkeypatch.setattr(fanout, "stored", raising(EXCEPTIONS["CancelledError"]))
    ended = drive(lambda: begun(SCENES["stopped"], "stopped", harness.sops, harness.folder / "home"), None)
    assert ended.outcome == "stopped" and ended.result is not None and "CancelledError" in ended.result.reason


@pytest.mark.one_in(4)
def test_the_harness_throws_where_it_says(harness: Harness) -> None:
    """At a named place, not at a count: what a tool raises is told to its role, which goes on, and the count moves."""
    from random_trouble import drive

    assert harness.known("stopped").calls > 1000
    trouble = Trouble(2, EXCEPTIONS["ValueError"], named=answers.Answers.taken.__qualname__)
    ended = drive(lambda: begun(SCENES["stopped"], "stopped", harness.sops, harness.folder / "home"), trouble)
    assert trouble.place.startswith("agent/answers.py:") and trouble.place.endswith(" Answers.taken")
    assert ended.outcome == "stopped"
    with troubled(None):
        pass


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["Own", "KeyError"])
def test_what_breaks_the_fold_leaves_no_gap_in_the_journal(harness: Harness, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Events that were numbered and never written would be missing for ever: nothing more is written behind them."""
    from random_trouble import drive, gone_on

    home, fold, folded = harness.folder / "home", RunState.apply, 0

    def breaks(state: RunState, seq: int, event: Any) -> None:
        nonlocal folded
        folded += 1
        if folded == 8:
            raise EXCEPTIONS[kind]()
        fold(state, seq, event)

    with monkeypatch.context() as patched:
        patched.setattr(RunState, "apply", breaks)
        ended = drive(lambda: begun(SCENES["stopped"], "stopped", harness.sops, home), None)
    assert ended.result is None and isinstance(ended.error, JournalError)
    assert drive(lambda: gone_on(SCENES["stopped"], home), None).outcome == "success"
