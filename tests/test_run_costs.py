# ruff: noqa: E501  (SOPs stand here as people write them)
"""Money and rate limits of whole runs: caps that hold, what is told of cost, and what models without a price get."""

from __future__ import annotations

import asyncio
import io
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from openai_server import Chances, OpenAIServer
from scripted import events, write

from metaflow_agents import check, resume, run
from metaflow_agents.api.run import start
from metaflow_agents.cli import command
from metaflow_agents.errors import UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.ledger import KINDS, ledger
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.records import Spending
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.models.port import ModelRequest, Reply, Traits
from metaflow_agents.models.pricing import PICO, Flat, at_least, dollars, picodollars
from metaflow_agents.models.retry_policy import Patience
from metaflow_agents.runtime.handle import Unanswered
from metaflow_agents.schema.event import Reserved, Settled
from metaflow_agents.settings import Settings
from metaflow_agents.views.board import Board

TEXT = """
    sop: spend
    inputs: {names: [string]}
    MORE
    roles: {clerk: {profile: You write.ROLE}, judge: {profile: You judge.}}
    artifacts: {letters: {each: string}, verdict: {}}
    steps:
      write: {role: clerk, needs: [names], foreach: {in: names, as: name}, makes: letters STEP}
      judge_it: {role: judge, needs: [letters], makes: verdict}
"""
NAMES = ["a", "b", "c", "d", "e"]


def spend(folder: Path, *more: str, role: str = "", step: str = "") -> Path:
    text = TEXT.replace("MORE", "\n    ".join(more)).replace("ROLE", f", {role}" if role else "")
    return write(folder, text.replace(" STEP", f", {step}" if step else ""))


class Paid:
    """A model that costs a dollar in, four out and a tenth cached, for a million tokens, and tells what it used."""

    name = "paid"

    def __init__(self, url: str = "http://paid", *, priced: bool = True, worst: int = 1000, seconds: float = 0.0,
                 used: Callable[[], tuple[int, int, int]] = lambda: (400, 100, 300)) -> None:
        self.traits = Traits(endpoint=url, tariff=Flat(10**6, 4 * 10**6, 10**5) if priced else None)
        self._worst, self._seconds, self._used = worst, seconds, used
        self.calls = self.under_way = self.most = 0

    def worst(self, request: ModelRequest) -> tuple[int, int]:
        return self._worst, self._worst

    async def ask(self, request: ModelRequest) -> Reply:
        self.calls += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(self._seconds)
        self.under_way -= 1
        tokens_in, tokens_out, cached = self._used()
        return Reply("fine", tokens_in=tokens_in, tokens_out=tokens_out, tokens_cached=cached)


ONE = 100 * 10**6 + 300 * 10**5 + 100 * 4 * 10**6         # what a call of it costs, in picodollars
WORST = 1000 * 10**6 + 1000 * 4 * 10**6


def against_the_cap(workspace: Path, name: str) -> int:
    """The most picodollars that stood against a cap at any moment: settled ones, and the worst case of those in flight."""
    spent = most = 0
    flying: dict[tuple[str, int], int] = {}
    for event in events(workspace, name, Reserved, Settled):
        if isinstance(event, Reserved):
            flying[event.key, event.try_] = event.cost
        else:
            spent += event.cost
            del flying[event.key, event.try_]
        most = max(most, spent + sum(flying.values()))
    return most


# --- caps on money

@pytest.mark.parametrize(("where", "told"), [
    ("sop", "the run's cap of $0.0062 is reached: $0.0016 spent, and the next 2 calls may cost $0.010 more; `sop resume spend-1 --budget usd="),
    ("role", "the role clerk's cap of $0.0062 is reached"), ("step", "the step write's cap of $0.0062 is reached"), ("given", "the run's cap"),
])
async def test_a_cap_on_money_stops_the_run_with_status_3_and_is_not_overrun(tmp_path: Path, where: str, told: str) -> None:
    cap = "budget: {usd: 0.0062}"
    path = spend(tmp_path, *([cap] if where == "sop" else []), role=cap * (where == "role"), step=cap * (where == "step"))
    given: dict[str, Any] = {"budget": {"usd": "$0.0062"}} if where == "given" else {}
    result = await run(path, names=NAMES, model=Paid(), workspace=tmp_path, **given)
    assert (result.outcome, result.exit_status) == ("budget", 3) and told in result.reason
    assert against_the_cap(tmp_path, "spend-1") <= 6_200_000_000
    # One call fits beside what the earlier ones cost for as long as its worst case does.
    assert result.calls == (6_200_000_000 - WORST) // ONE + 1 and result.cost == Decimal(result.calls * ONE) / PICO


async def test_the_cap_that_is_told_is_enough_for_the_next_call(tmp_path: Path) -> None:
    path = spend(tmp_path, "budget: {usd: 0.0062}")
    result = await run(path, names=NAMES, model=Paid(), workspace=tmp_path)
    seen = 0
    while not result.ok:
        assert result.calls > seen, "the cap that was told was not enough"
        seen = result.calls
        told = re.search(r"--budget usd=([\d.]+)`", result.reason)
        assert told is not None, result.reason
        result = await resume("spend-1", workspace=tmp_path, model=Paid(), budget={"usd": told[1]})
    assert result.calls == 6 and result.cost == Decimal(6 * ONE) / PICO and not result.estimated
    assert result.tokens_cached == 6 * 300


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(12))
async def test_no_cap_is_overrun_by_a_picodollar_whatever_calls_cost(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    cap = chance.randint(1, 40) * 10**9 + chance.randint(0, 10**9)

    def used() -> tuple[int, int, int]:
        tokens_in = chance.randint(0, 1000)
        return tokens_in, chance.randint(0, 1000), chance.randint(0, tokens_in)

    names = [f"n{number}" for number in range(12)]
    result = await run(spend(tmp_path), names=names, model=Paid(used=used, seconds=0.001), workspace=tmp_path,
                       budget={"usd": f"{Decimal(cap) / PICO:f}"})
    assert result.outcome in ("budget", "success")
    assert against_the_cap(tmp_path, result.name) <= cap and result.cost * PICO <= cap
    assert result.ok or result.cost * PICO > cap - WORST


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(4))
async def test_money_and_the_endpoints_own_ledger(tmp_path: Path, seed: int) -> None:
    """With faults: equal where a usage block arrived, and elsewhere the journal is never the lower."""
    chances = Chances(seed, {"429": 0.1, "500": 0.05, "cut": 0.1})
    async with OpenAIServer(plan=chances) as server:
        model = f"models: {{default: {{name: m, endpoint: '{server.url}', price: {{in: 1, out: 4}}, max_tokens: 500}}}}"
        going = start(spend(tmp_path, model), names=[f"n{number}" for number in range(15)], workspace=tmp_path)
        object.__setattr__(going._options, "patience", Patience(tries=9, first=0.001, longest=0.01))
        async with going:
            result = await going.result()
    assert result.ok, result.reason
    billed = sum(bill.tokens_in + 4 * bill.tokens_out for bill in server.bills) * 10**6
    assert result.cost * PICO >= billed
    assert result.estimated or result.cost * PICO == billed
    assert result.estimated == any(bill.fault == "cut" for bill in server.bills)


async def test_a_model_without_a_price_is_refused_under_a_cap_on_money_before_anything_is_made(tmp_path: Path) -> None:
    cap = "budget: {usd: 5}"
    for more, told in (({"role": ""}, "the run"), ({"role": cap}, "role clerk"), ({"step": cap}, "step write")):
        path = spend(tmp_path, *([cap] if told == "the run" else []), **more)
        with pytest.raises(UsageError, match=rf"of {told} caps what paid costs, and nobody knows its price: write it as `models: {{default: {{…, price"):
            await run(path, names=NAMES, model=Paid(priced=False), workspace=tmp_path / "runs")
    with pytest.raises(UsageError, match="nobody knows its price"):
        await run(spend(tmp_path), names=NAMES, model=Paid(priced=False), workspace=tmp_path / "runs", budget={"usd": 1})
    assert not (tmp_path / "runs").exists()
    for model in (Paid(), "dry", lambda request: "fine"):
        assert (await run(spend(tmp_path, cap), names=NAMES, model=model, workspace=None)).ok
    other_role = spend(tmp_path, "models: {mine: dry}", role=cap, step="model: mine")
    assert (await run(other_role, names=NAMES, models={"default": Paid(priced=False), "mine": Paid()}, workspace=None)).ok


async def test_a_resume_under_a_cap_on_money_refuses_a_model_without_a_price(tmp_path: Path) -> None:
    await run(spend(tmp_path), names=NAMES, model=Paid(priced=False), workspace=tmp_path, until="write")
    with pytest.raises(UsageError, match="nobody knows its price"):
        await resume("spend-1", workspace=tmp_path, model=Paid(priced=False), budget={"usd": 1})
    assert (await resume("spend-1", workspace=tmp_path, model=Paid(), budget={"usd": 1})).ok


# --- what is told

Say = Callable[..., tuple[int, str]]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Say]:
    """Carries out a command beside a SOP whose model is a server that has a price, or none: status and what it printed."""
    def carried_out(*words: str) -> tuple[int, str]:
        status = command(words)
        return status, capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with OpenAIServer(lambda asked: "fine").in_thread() as server:
        where = f"name: m, endpoint: '{server.url}', max_tokens: 200"
        spend(tmp_path, f"models: {{default: {{{where}, price: {{in: 1, out: 5}}}}}}").rename(tmp_path / "priced.yaml")
        spend(tmp_path, f"models: {{default: {{{where}}}}}").rename(tmp_path / "free.yaml")
        spend(tmp_path, f"models: {{default: {{{where}, price: {{in: 1, out: 5}}}}, local: {{{where}}}}}", step="model: local").rename(tmp_path / "both.yaml")
        yield carried_out


@pytest.mark.one_in(4)
def test_cost_is_told_wherever_people_look(say: Say) -> None:
    status, ending = say("run", "priced.yaml", "--names", '["a", "b"]', "--name", "one")
    assert status == 0
    told = re.search(r"^cost: (\$0\.\d+), 3 calls, [\d,]+ tokens, 3 activations, ", ending, re.MULTILINE)
    assert told is not None, ending
    shown = json.loads(say("show", "one", "--json")[1])
    assert dollars(picodollars(shown["cost"])) == told[1] and (shown["tokens_cached"], shown["estimated"], shown["unpriced"]) == (0, False, 0)
    assert f"cost     {told[1]}, 3 calls" in say("show", "one")[1]
    assert say("runs")[1].splitlines()[1].endswith(told[1])
    (listed,) = json.loads(say("runs", "--json")[1])
    assert listed["cost"] == shown["cost"] and listed["estimated"] is False
    log = say("log", "one")[1]
    assert len(re.findall(r"asks openai:m.* \(at most [\d,]+ tokens, \$0\.\d+\)", log)) == 3
    assert len(re.findall(r"is answered \(\d+ tokens in, 4 out, \$0\.\d+\)", log)) == 3
    say("run", "priced.yaml", "--names", '["a"]', "--name", "two")
    assert re.search(rf"^cost +{re.escape(told[1])} +\$0\.\d+$", say("diff", "one", "two")[1], re.MULTILINE)
    assert json.loads(say("diff", "one", "two", "--json")[1])["cost"]["one"]["cost"] == shown["cost"]


@pytest.mark.one_in(4)
def test_without_a_price_nothing_is_said_of_money(say: Say) -> None:
    status, ending = say("run", "free.yaml", "--names", '["a", "b"]', "--name", "one")
    assert status == 0 and re.search(r"^cost: 3 calls, [\d,]+ tokens, ", ending, re.MULTILINE)
    for words in (["show", "one"], ["runs"], ["log", "one"], ["diff", "one", "one"]):
        assert "$" not in say(*words)[1]
    shown = json.loads(say("show", "one", "--json")[1])
    assert (shown["cost"], shown["unpriced"]) == (0.0, 3)


def test_where_some_models_have_no_price_it_is_said(say: Say) -> None:
    ending = say("run", "both.yaml", "--names", '["a", "b"]', "--name", "one")[1]
    assert re.search(r"^cost: \$0\.\d+ and 2 calls whose price is not known, 3 calls, ", ending, re.MULTILINE), ending


def test_a_cap_from_the_command_line_stops_and_a_higher_one_goes_on(say: Say) -> None:
    status, ending = say("run", "priced.yaml", "--names", '["a", "b"]', "--name", "one", "--budget", "usd=0.0025")
    assert status == 3 and re.search(r"sop resume one --budget usd=… +goes on with a higher cap", ending), ending
    assert say("resume", "one", "--budget", "usd=$1")[0] == 0


def test_a_cap_of_the_sop_says_to_raise_it_there(say: Say, tmp_path: Path) -> None:
    text = (tmp_path / "priced.yaml").read_text().replace("profile: You write.", "profile: You write., budget: {usd: 0.001}")
    (tmp_path / "tight.yaml").write_text(text)
    status, ending = say("run", "tight.yaml", "--names", '["a"]', "--name", "one")
    assert status == 3 and "raise `budget: {usd: …}` of the role clerk" in ending
    assert re.search(r"sop resume one --accept-changes +goes on once the SOP gives it a higher cap", ending), ending


async def test_what_is_only_known_to_be_no_more_is_told_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with OpenAIServer(lambda asked: "fine", usage="none") as server:
        path = spend(tmp_path, f"models: {{default: {{name: m, endpoint: '{server.url}', price: {{in: 1, out: 5}}, max_tokens: 200}}}}")
        result = await run(path, names=["a"], workspace=tmp_path)
    assert result.ok and result.estimated and result.cost > 0
    command(["show", "spend-1", "--workspace", str(tmp_path)])
    assert f"at most {dollars(int(result.cost * PICO))}, 2 calls" in capsys.readouterr().out


async def test_a_call_that_was_under_way_when_the_run_was_stopped_may_have_cost_its_worst(tmp_path: Path) -> None:
    async with start(spend(tmp_path), names=["a"], model=Paid(seconds=60), workspace=tmp_path) as going:
        async for event in going.events():
            if isinstance(event, Reserved):
                going.stop()
        stopped = await going.result()
    unanswered = Unanswered(1, 2000, Decimal(WORST) / PICO)
    assert (stopped.calls, stopped.tokens, stopped.cost, stopped.unanswered) == (0, 0, 0, unanswered)
    result = await resume("spend-1", workspace=tmp_path, model=Paid())
    assert result.ok and not result.estimated and result.cost == Decimal(2 * ONE) / PICO
    assert (result.calls, result.tokens, result.unanswered) == (2, 1000, unanswered), "nobody settles it any more"
    with Journal.read(journal_path(tmp_path, "spend-1")) as journal:
        assert journal.state.total().charged == (3, 3000, WORST + 2 * ONE), "it stays charged against the caps"


async def test_the_board_tells_cost_against_the_cap_and_who_waits(tmp_path: Path) -> None:
    from metaflow_agents.sop.graph import SOPGraph
    from metaflow_agents.views.page import Page

    path = spend(tmp_path, "budget: {usd: 5}", "limits: {concurrency: 1}")
    heads = []
    async with start(path, names=NAMES, model=Paid("http://board", seconds=0.01), workspace=None) as going:
        state = going.journal.state
        board = Board(going.program, SOPGraph(going.program.sop), state, going.program.sop.budget, lambda: going.waiting)
        async for event in going.events():
            board.apply(event)
            if isinstance(event, Reserved | Settled):
                heads.append(board.lines(Page(), state.latest)[:2])
        assert (await going.result()).ok
    assert "   cost $0 of $5   time " in heads[0][0]                      # reserved, and nothing paid yet
    assert f"   cost {dollars(6 * ONE)} of $5   time " in heads[-1][0]
    assert any(second.endswith("   4 calls wait for the rate limit") for _, second in heads)
    assert heads[-1][1].endswith("with paid")


async def test_cached_tokens_are_counted_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = await run(spend(tmp_path), names=["a"], model=Paid(), workspace=tmp_path)
    assert (result.tokens, result.tokens_cached) == (1000, 600)
    command(["show", "spend-1", "--workspace", str(tmp_path)])
    assert f"{dollars(2 * ONE)}, 2 calls, 1,000 tokens (600 of them cached)" in capsys.readouterr().out
    command(["log", "spend-1", "--workspace", str(tmp_path)])
    assert f"is answered (400 tokens in, 300 of them cached, 100 out, {dollars(ONE)})" in capsys.readouterr().out


@pytest.mark.one_in(4)
async def test_both_folds_of_a_journal_agree_on_cost_wherever_it_ends(tmp_path: Path) -> None:
    """Killed at any event: what was under way stands apart, at its worst; all sums of the ledger are the total."""
    async with OpenAIServer(plan=Chances(3, {"429": 0.2, "cut": 0.2})) as server:
        where = f"name: m, endpoint: '{server.url}', max_tokens: 200"
        models = f"models: {{default: {{{where}, price: {{in: 1, out: 4}}}}, local: {{{where}}}}}"
        going = start(spend(tmp_path, models, step="model: local"), names=NAMES, workspace=tmp_path, name="whole")
        object.__setattr__(going._options, "patience", Patience(tries=9, first=0.001, longest=0.01))
        async with going:
            assert (await going.result()).ok
    await run(spend(tmp_path), names=NAMES, model=Paid(), workspace=tmp_path, name="paid")
    for name in ("whole", "paid"):
        with Journal.read(journal_path(tmp_path, name)) as journal:
            last = journal.last
        for until in range(2, last + 1, 3):
            Journal.copy(journal_path(tmp_path, name), journal_path(tmp_path, f"{name}-{until}"), until).__exit__()
            with Journal.read(journal_path(tmp_path, f"{name}-{until}")) as journal, RawJournal(journal.path) as raw:
                spent, glance, found = journal.state.total(), raw.glance(), ledger(raw.events(*KINDS))
            assert (glance.calls, glance.tokens, glance.tokens_cached, glance.cost, glance.estimated, glance.unpriced) == (
                spent.calls, spent.tokens, spent.cached, spent.cost, spent.estimated, spent.unpriced)
            assert (glance.open_calls, glance.open_tokens, glance.open_cost) == (
                spent.open_calls, spent.open_tokens, spent.open_cost)
            assert all(sum(sums.values(), Spending()) == spent for sums in (found.lines, *found.by.values()))
            assert found.total == spent


# --- limits of endpoints

async def test_limits_of_a_sop_hold_for_its_endpoint(tmp_path: Path) -> None:
    model = Paid("http://one-at-once", seconds=0.002)
    assert (await run(spend(tmp_path, "limits: {concurrency: 2}"), names=NAMES, model=model, workspace=None)).ok
    assert model.most == 2


async def test_runs_of_one_process_share_the_tightest_limit_until_its_run_is_over(tmp_path: Path) -> None:
    (tmp_path / "wide").mkdir()
    (tmp_path / "tight").mkdir()
    wide, tight = spend(tmp_path / "wide", "limits: {concurrency: 4}"), spend(tmp_path / "tight", "limits: {concurrency: 2}")
    model = Paid("http://shared", seconds=0.002)
    both = await asyncio.gather(run(wide, names=NAMES, model=model, workspace=None), run(tight, names=NAMES, model=model, workspace=None))
    assert all(result.ok for result in both) and model.calls == 12
    assert model.most in (2, 3, 4)              # the first calls of the wide one may go before the tight one begins
    model.most = 0
    assert (await run(wide, names=NAMES, model=model, workspace=None)).ok and model.most == 4


async def test_requests_a_minute_hold_a_run_back(tmp_path: Path) -> None:
    path = spend(tmp_path, "limits: {rpm: 3}", "budget: {time: 0.4}")
    result = await run(path, names=NAMES, model=Paid("http://three-a-minute"), workspace=None)
    assert result.outcome == "budget" and result.calls == 3
    assert result.cost == Decimal(3 * ONE) / PICO and not result.estimated      # who waited was never sent, and cost nothing


async def test_a_request_that_never_fits_stops_the_run_and_says_why(tmp_path: Path) -> None:
    result = await run(spend(tmp_path, "limits: {tpm: 1999}"), names=NAMES, model=Paid("http://narrow"), workspace=None)
    assert (result.outcome, result.exit_status, result.calls) == ("stopped", 1, 0)
    assert "a request of up to 2,000 tokens never fits `limits: {tpm: 1999}` of http://narrow: raise `tpm`, or lower the model's" in result.reason


async def test_the_users_configuration_limits_what_a_sop_does_not(tmp_path: Path) -> None:
    configuration = tmp_path / "config.yaml"
    configuration.write_text("limits: {concurrency: 1, rpm: 1000}\n")
    settings = Settings.read({"XDG_CONFIG_HOME": str(tmp_path)})
    assert settings.configuration is not None
    settings.configuration.parent.mkdir(parents=True, exist_ok=True)
    configuration.rename(settings.configuration)
    model = Paid("http://configured", seconds=0.002)
    assert (await run(spend(tmp_path), names=NAMES, model=model, workspace=None, settings=settings)).ok and model.most == 1
    path = spend(tmp_path, "limits: {concurrency: 3}")
    assert (await run(path, names=NAMES, model=model, workspace=None, settings=settings)).ok and model.most == 3


def test_the_told_cap_is_short_and_enough() -> None:
    for cost in (1, 123_456_789, 5 * PICO, 12_345_678_901_234_567):
        assert picodollars(float(at_least(cost))) >= cost and len(at_least(cost)) <= 16
    assert (at_least(4_200_000_001), at_least(PICO)) == ("0.00421", "1.00")


def test_a_check_tells_the_cap_as_the_bound_on_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = spend(tmp_path, "budget: {usd: 5, calls: 40}")
    assert command(["check", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("; at most 40 model calls, at most $5")
    assert command(["check", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bounds"]["usd"] == 5


def test_money_is_refused_on_a_step_that_asks_no_model(tmp_path: Path) -> None:
    path = write(tmp_path, "sop: it\nartifacts: {fact: {}}\nsteps: {look: {value: \"'x'\", makes: fact, budget: {usd: 1}}}\noutputs: [fact]\n")
    assert [problem.code for problem in check(path).errors] == ["key-misplaced"]


@pytest.mark.one_in(4)
def test_prices_are_loaded_for_a_check_only_where_money_is_capped(tmp_path: Path) -> None:
    model = "models: {default: 'openai:gpt-4o'}"
    for more, loaded in (([model], False), ([model, "budget: {usd: 5}"], True)):
        code = f"import sys; from metaflow_agents.cli import command; command(['check', {str(spend(tmp_path, *more))!r}]); print('genai_prices' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == str(loaded) and "no-price" not in done.stdout
