"""The software company against an endpoint that keeps its own ledger and has its bad days.

The commands of these runs are taken to succeed: what is looked at here are calls, tokens and caps.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from company_desk import IDEA, Staff
from endpoint_calls import Unpaced, model_at, way
from openai_server import Chances, OpenAIServer

from metaflow_agents import start
from metaflow_agents.models.retry_policy import Patience
from metaflow_agents.runtime.handle import RunResult
from metaflow_agents.sandbox.port import Completed
from metaflow_agents.schema.event import Reserved, Settled

TROUBLE = {"rate": 0.1, "error_500": 0.05, "cut": 0.05, "malformed": 0.1}
GREEN = (b'<testsuites><testsuite tests="1" failures="0" errors="0"><testcase classname="t" name="n" file="t.py"/>'
         b'</testsuite></testsuites>')
STAFF = Staff()


class Content:
    """A sandbox in which every command is content."""

    name = "none"
    image = ""
    owner = None

    async def run(self, argv: Sequence[str], *, files: Mapping[str, bytes], timeout: float | None = None,  # noqa: ASYNC109
                  collect: Sequence[str] = (), packages: Path | None = None) -> Completed:
        """Exit code 0, and for a test report one test that passed."""
        return Completed(0, "", "", 0.0, files={name: b'["t.py::n"]' if name.endswith(".json") else GREEN for name in collect})


@pytest.fixture(autouse=True)
def _content_and_hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaflow_agents.runtime.prepare.choose", lambda *_, **__: Content())
    monkeypatch.setattr("metaflow_agents.runtime.handle.Limiters", Unpaced)
    monkeypatch.setattr("metaflow_agents.models.caller.Patience", lambda: Patience(tries=8, first=0.0))


def answer(asked: dict[str, Any]) -> str:
    return STAFF.answer("\n".join(message["content"] for message in asked["messages"]))


async def ran(server: OpenAIServer, *, streamed: bool = False, **options: Any) -> tuple[RunResult, list[Settled], int]:
    """The run, what came of its calls, and how many of them were under way when it stopped."""
    endpoint = model_at(server.url, max_tokens=4000)
    async with start("design_first.yaml", idea=IDEA, model=way(endpoint, streamed=streamed), workspace=None,
                     **options) as going:
        result = await going.result()
        settled = [event for _, event in going.journal.events(Settled)]
        return result, settled, sum(1 for _ in going.journal.events(Reserved)) - len(settled)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(50))
async def test_it_ends_well_on_a_bad_day(seed: int) -> None:
    async with OpenAIServer(answer, plan=Chances(seed, TROUBLE), usage="none" if seed % 5 == 0 else "plain") as server:
        result, settled, _ = await ran(server, streamed=seed % 2 == 1)
        assert result.ok, result.reason
        assert len(settled) == len(server.bills)
        told = Counter(bill.tokens for bill in server.bills if bill.told)
        assert told == Counter(one.tokens_in + one.tokens_out for one in settled if not one.estimated and one.tokens_in)
        assert result.tokens == sum(one.tokens_in + one.tokens_out for one in settled) >= server.tokens


async def capped(seeds: range) -> set[str]:
    """Runs under random caps; how they ended."""
    seen = set()
    for seed in seeds:
        chance = random.Random(seed)
        caps = {"tokens": chance.randint(5_000, 400_000), "calls": chance.randint(2, 40)}
        async with OpenAIServer(answer, plan=Chances(seed, TROUBLE), usage="none" if seed % 4 == 0 else "plain") as server:
            result, settled, under_way = await ran(server, streamed=seed % 2 == 1, budget=caps)
            # A call that was cut off may be billed: it is told as unanswered, and charged against the caps.
            tokens, calls = result.tokens + result.unanswered.tokens, result.calls + result.unanswered.calls
            assert server.tokens <= tokens <= caps["tokens"] and calls <= caps["calls"], seed
            told = Counter(bill.tokens for bill in server.bills if bill.told)
            heard = Counter(one.tokens_in + one.tokens_out for one in settled if not one.estimated and one.tokens_in)
            assert heard <= told and (told - heard).total() <= under_way, f"{seed}: only an answer after the stop goes unheard"
            seen.add(result.outcome)
    return seen


@pytest.mark.one_in(8)
async def test_no_cap_is_overrun() -> None:
    assert {"success", "budget"} <= await capped(range(25))


@pytest.mark.slow
async def test_no_cap_is_overrun_in_500_runs() -> None:
    assert {"success", "budget"} <= await capped(range(1000, 1500))
