# ruff: noqa: E501  (SOPs stand here as people write them)
"""A failure that stops the run loses no answer that was paid for: what was sent is answered and journalled, nothing is sent any more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from patience import PATIENCE
from scripted import events, finished, write

from metaflow_agents import resume, start
from metaflow_agents.engine.halting import Halting
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.port import ModelRequest, Reply, Traits
from metaflow_agents.schema.event import Failed, Reserved, Settled

SOP = """
    sop: many
    inputs: {names: [string]}
    roles: {clerk: {profile: You write.}}
    artifacts: {letters: {each: string}, alone: {}}
    steps:
      write: {role: clerk, needs: [names], foreach: {in: names, as: name, parallel: 3}, makes: letters MORE}
      beside: {role: clerk, needs: [names], makes: alone}
"""
INNER = SOP.replace("sop: many", "sop: inner").replace("artifacts:", "outputs: [alone]\n    artifacts:")
OUTER = """
    sop: outer
    inputs: {names: [string]}
    roles: {clerk: {profile: You write.}}
    artifacts: {letters: {}, alone: {}}
    steps:
      inside: {sop: inner, inputs: {names: names}, needs: [names], makes: letters MORE}
      beside: {role: clerk, needs: [names], makes: alone}
"""


@pytest.fixture(autouse=True)
def _told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model hears of it when a failure waits for what was sent, and answers only then."""
    settle = Halting.settle

    async def heard(halting: Halting) -> None:
        Paid.last.failed.set()
        await settle(halting)
    monkeypatch.setattr(Halting, "settle", heard)


class Paid:
    """A model behind an endpoint: `bad` fails once all were sent, and the others are answered only after that."""

    last: Paid

    name, traits = "openai:paid", Traits(endpoint="http://127.0.0.1:9/v1")

    def __init__(self, *, answers: bool = True, then: str = "fail", all_sent: int = 3, well: bool = False) -> None:
        self.well = well
        self.answers, self.then, self.all_sent = answers, then, all_sent
        self.asked: list[str] = []
        self.sent, self.failed = asyncio.Event(), asyncio.Event()
        Paid.last = self

    async def ask(self, request: ModelRequest) -> Reply:
        self.asked.append(request.key)
        if self.well:
            return Reply(text="fine", tokens_in=5, tokens_out=1)
        if len(self.asked) == self.all_sent:
            self.sent.set()
        if "[bad]" in request.key:
            await self.sent.wait()
            raise CallFailed("bad", then=self.then, charged=0)       # type: ignore[arg-type]
        await self.failed.wait()
        await asyncio.sleep(0.1)                # an answer takes its time: who does not wait for it is gone before
        if not self.answers:
            await asyncio.sleep(3600)
        return Reply(text="fine", tokens_in=5, tokens_out=1)


async def ends(path: Path, model: Paid, names: list[str]) -> str:
    async with asyncio.timeout(PATIENCE), start(path, model=model, workspace=path.parent, name="run", inputs={"names": names}) as going:
        return (await going.result()).outcome


@pytest.mark.parametrize("then", ["fail", "stop"])
async def test_what_was_sent_is_answered_and_not_paid_again(tmp_path: Path, then: str) -> None:
    model = Paid(then=then)
    assert await ends(write(tmp_path, SOP.replace("MORE", "")), model, ["bad", "slow"]) == {"fail": "stopped", "stop": "endpoint"}[then]
    settled = {event.key for event in events(tmp_path, "run", Settled) if event.reply}
    assert settled == {"write@1[slow]~0/turn.0", "beside@1~0/turn.0"}
    assert finished(tmp_path, "run") == {}                            # who was answered goes no further
    again = Paid(well=True)
    result = await resume("run", workspace=tmp_path, model=again)
    assert result.ok and len(again.asked) == 1 and "[bad]" in again.asked[0]


async def test_nothing_is_sent_any_more(tmp_path: Path) -> None:
    """An item whose turn comes while the others are waited for is not asked."""
    model = Paid(all_sent=4)
    assert await ends(write(tmp_path, SOP.replace("MORE", "")), model, ["bad", "slow", "slower", "later"]) == "stopped"
    assert len(model.asked) == 4 == len(events(tmp_path, "run", Reserved)) and not any("later" in key for key in model.asked)


@pytest.mark.parametrize("more", ["", ", retries: 1"])
async def test_in_a_sub_sop_and_beside_it(tmp_path: Path, more: str) -> None:
    path = write(tmp_path, OUTER.replace(" MORE", more), inner_yaml=INNER.replace("MORE", ""))
    model = Paid(all_sent=4)
    assert await ends(path, model, ["bad", "slow"]) == "stopped"
    assert len([event for event in events(tmp_path, "run", Settled) if event.reply]) == (3 if not more else 5)
    again = Paid(well=True)
    assert (await resume("run", workspace=tmp_path, model=again)).ok
    assert not any(key.startswith("beside") for key in again.asked)


async def test_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    model = Paid(answers=False)
    path = write(tmp_path, SOP.replace("MORE", ""))
    async with asyncio.timeout(PATIENCE), start(path, model=model, workspace=tmp_path, name="run", inputs={"names": ["bad", "slow"]}) as going:
        ending = asyncio.ensure_future(going.result())
        await model.failed.wait()
        assert events(tmp_path, "run", Failed) and not ending.done()
        going.stop()
        assert (await ending).outcome == "interrupted"


async def test_the_timeout_of_a_step_holds_while_it_is_waited_for(tmp_path: Path) -> None:
    model = Paid(answers=False)
    path = write(tmp_path, SOP.replace("MORE", ", timeout: 0.5").replace("makes: alone", "makes: alone, timeout: 0.5"))
    assert await ends(path, model, ["bad", "slow"]) == "stopped"


async def test_a_failure_above_waits_for_a_call_inside(tmp_path: Path) -> None:
    above = OUTER.replace(" MORE", "").replace("beside: {role: clerk, needs: [names], makes: alone}", "write: {role: clerk, needs: [names], foreach: {in: \"['bad']\", as: name}, makes: all}").replace("alone: {}", "all: {each: string}")
    path = write(tmp_path, above, inner_yaml=INNER.replace("MORE", ""))
    assert await ends(path, Paid(all_sent=3), ["slow"]) == "stopped"
    assert {event.key for event in events(tmp_path, "run", Settled) if event.reply} == {"inside@1~0/write@1[slow]~0/turn.0", "inside@1~0/beside@1~0/turn.0"}
