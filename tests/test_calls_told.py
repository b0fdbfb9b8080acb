"""Calls under way are told: tries that fail, waits, silence; live, in the log, and counted at the end of a run."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path

import pytest
from endpoint_calls import model_at
from openai_server import OpenAIServer
from scripted import events, write

from metaflow_agents import run
from metaflow_agents.cli import command
from metaflow_agents.models.retry_policy import Patience
from metaflow_agents.schema.event import Failed, Reserved, Resumed, Settled
from metaflow_agents.views.calling import Calling, tries_told
from metaflow_agents.views.writing import Writing

SOP = """
    sop: desk
    roles: {ann: {profile: You write.}}
    artifacts: {note: {}}
    steps:
      write: {role: ann, makes: note}
"""


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaflow_agents.models.caller.Patience", lambda: Patience(first=0.01, longest=0.02))


def reserved(key: str, at: float, number: int = 0) -> Reserved:
    return Reserved(at=at, key=key, try_=number, digest="d", request="r", model="m", tokens=9)  # type: ignore[call-arg]


def test_what_is_told_of_a_call() -> None:
    now = [100.0]
    writing = Writing(lambda: now[0])
    calling = Calling(writing)
    key = "write@1~0/turn.0"
    calling.apply(reserved(key, 100))
    assert calling.told("write@1", 105) == "" and calling.told("write@1", 231) == "silent for 2 min 11 s"
    calling.apply(Settled(at=300, key=key, error="x", again=True, trouble="rate", wait=12, calls=0))
    assert calling.told("write@1", 302) == "refused for the rate, try 2 in 10 s" == calling.told_of("write@1", 302)
    assert calling.told("write@1", 999) == "refused for the rate, try 2 in 0.0 s"
    calling.apply(reserved(key, 312, 1))
    assert calling.told("write@1", 313) == "try 2" and calling.told("write@1", 330) == "try 2, silent for 18 s"
    now[0] = 325.0
    writing.hear(key, "word")
    assert calling.told("write@1", 330) == "try 2" and calling.told_of("write@1", 330) == "4 characters, try 2"
    calling.apply(Settled(at=331, key=key, try_=1, error="x", again=True, trouble="silence", wait=1))  # type: ignore[call-arg]
    assert calling.told_of("write@1", 331) == "silent for too long, try 3 in 1.0 s"  # what had come is gone
    writing.hear(key, "an answer")
    calling.apply(Settled(at=340, key=key, try_=2, reply="r"))  # type: ignore[call-arg]
    assert calling.told_of("write@1", 340) == "9 characters"
    calling.apply(reserved("write@1~0/turn.1", 341))
    assert calling.told_of("write@1", 341) == ""
    calling.apply(Failed(activation="write@1~0", error="x"))
    assert calling.told("write@1", 999) == "" and calling.failed == {"rate": 1, "silence": 1}


def test_what_is_told_of_several_calls() -> None:
    calling = Calling(Writing(lambda: 0.0))
    for number in range(3):
        calling.apply(reserved(f"write@1~0/sample.{number}", 0))
        calling.apply(reserved(f"each@1[{number}]~0/turn.0", 0))
    for number in range(2):
        for key in (f"write@1~0/sample.{number}", f"each@1[{number}]~0/turn.0"):
            calling.apply(Settled(at=1, key=key, error="x", again=True, wait=5 + number, calls=0))
    assert calling.told("write@1", 2) == "refused, try 2 in 4.0 s (2 calls)"   # a journal of before
    assert calling.told_of("each@1", 2) == "2 calls wait for another try" and calling.told_of("each@2", 2) == ""
    calling.apply(Resumed(sop="s", compiled="c", sources={}))
    assert calling.told("write@1", 900) == "" == calling.told_of("each@1", 900)


def test_a_count_of_tries() -> None:
    assert tries_told({}, 0.0) == "" and tries_told({"silence": 1, "rate": 2}, 45.0) \
        == "2 refused for the rate, 1 silent for too long; waited 45 s"


async def test_the_journal_has_what_was_wrong_and_how_long_was_waited(tmp_path: Path) -> None:
    async with OpenAIServer(plan={1: "rate_float", 2: "error_503", 3: "error_500", 4: "silence"}) as server:
        result = await run(write(tmp_path, SOP), model=model_at(server.url, timeout=0.3), workspace=tmp_path, name="it")
    assert result.ok
    settled = events(tmp_path, "it", Settled)
    assert [(one.trouble, one.again) for one in settled] == [
        ("rate", True), ("refused", True), ("failed", True), ("silence", True), (None, False)]
    assert settled[0].wait == 0.01 and settled[1].wait == 0.0 and 0.0 < settled[2].wait <= 0.02


def test_the_command_tells_them_as_they_come_and_counts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                           capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, SOP)
    monkeypatch.chdir(tmp_path)
    with OpenAIServer(lambda _: "tea", plan={1: "rate_float", 3: "error_500"}, formats=()).in_thread() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        names = count(1)
        file = next(tmp_path.glob("*.yaml")).name

        def ran(*more: str) -> str:
            assert command(["run", file, "--model", "openai:m", "--name", f"r{next(names)}", *more]) == 0
            return capsys.readouterr().out

        told = ran()
        line = r"  write@1/turn\.0: no answer, tries again in 0\.0 s: the endpoint \S+ refused it for its rate \(429\)"
        assert re.search(line, told)
        assert "failed tries: 1 refused for the rate; waited 0.0 s\n" in told
        found = json.loads(ran("--json"))
        assert found["tries"]["failed"] == {"failed": 1} and found["tries"]["waited"] > 0
        assert "tries" not in ran()
    for words, part in (([], "tries    failed: 1 refused for the rate; waited 0.0 s"), (["--json"], '"rate": 1')):
        assert command(["show", "r1", *words]) == 0 and part in capsys.readouterr().out
