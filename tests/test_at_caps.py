# ruff: noqa: E501  (SOPs stand here as people write them)
"""The end at a cap: what was sent is answered, what else can go on does, and the cap that is named goes further."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Scripted, events, write
from tiers import examples

from metaflow_agents import resume, run
from metaflow_agents.errors import BudgetExceeded
from metaflow_agents.models.port import ModelRequest, Reply, Traits
from metaflow_agents.models.pricing import Flat
from metaflow_agents.schema.event import Failed, Reserved, Settled

ROWS = """
    sop: rows
    inputs: {names: [string]}
    roles: {clerk: {profile: You write.}, judge: {profile: You judge.}}
    artifacts: {letters: {each: string}, judgements: {each: string}}
    steps:
      write: {role: clerk, needs: [names], foreach: {in: names, as: name MORE}, makes: letters}
      judge_it: {role: judge, needs: [letters], foreach: {in: "letters | items | list", as: pair, key: "pair[0]" MORE}, makes: judgements STEP}
    BUDGET
"""
PRICE = Flat(10**6, 10**6, 10**6)          # a dollar for a million tokens, in and out


@dataclass(frozen=True)
class Share:
    """Of a call: its worst case in tokens, what of it is used, and for how many turns of the loop it is under way."""

    worst: int = 1000
    used: int = 1000
    naps: int = 0


class Paid:
    """A model whose calls cost what `shares` says of their keys. It counts who is answered, and who was asked twice."""

    name = "paid"

    def __init__(self, shares: Callable[[str], Share]) -> None:
        self.shares, self.traits = shares, Traits(endpoint="http://paid", tariff=PRICE)
        self.sent: list[str] = []
        self.answered: list[str] = []

    def worst(self, request: ModelRequest) -> tuple[int, int]:
        return self.shares(request.key).worst, 0

    async def ask(self, request: ModelRequest) -> Reply:
        share = self.shares(request.key)
        self.sent.append(request.key)
        for _ in range(share.naps):
            await asyncio.sleep(0.001)
        self.answered.append(request.key)
        return Reply("fine", tokens_in=share.used)


def rows(folder: Path, *, more: str = "", step: str = "", budget: str = "") -> Path:
    text = ROWS.replace(" MORE", f", {more}" if more else "").replace(" STEP", f", budget: {{{step}}}" if step else "")
    return write(folder, text.replace("BUDGET", f"budget: {{{budget}}}" if budget else ""))


def advised(reason: str) -> dict[str, Any]:
    measure, cap = re.search(r"--budget (\w+)=([\d.]+)`", reason).groups()      # type: ignore[union-attr]
    return {measure: cap}


async def test_what_was_sent_is_answered_before_the_run_ends_at_its_cap(tmp_path: Path) -> None:
    """The small call finds room, the large one never: it is not the end of the small one, which is under way."""
    model = Paid(lambda key: Share(5000, 5000) if "[large]" in key else Share(1000, 10, naps=20))
    result = await run(rows(tmp_path), names=["small", "other", "large"], model=model, workspace=tmp_path, name="r",
                       budget={"usd": "0.003"})
    assert result.outcome == "budget" and result.unanswered.calls == 0 and model.answered == model.sent
    assert result.reason.startswith("the run's cap of $0.003 is reached: $0.000020 spent, and the next call may cost $0.0050 more")
    assert not events(tmp_path, "r", Failed)
    again = await resume("r", model=model, workspace=tmp_path, budget=advised(result.reason))
    assert "write@1[large]~0/turn.0" in model.answered and again.unanswered.calls == 0
    assert len(set(model.sent)) == len(model.sent)


async def test_the_cap_that_is_named_holds_all_calls_that_found_no_room(tmp_path: Path) -> None:
    model = Paid(lambda key: Share(1000, 1000))
    names = [f"n{number}" for number in range(6)]
    result = await run(rows(tmp_path), names=names, model=model, workspace=tmp_path, name="r", budget={"tokens": 2500})
    assert "2,000 spent, and the next 4 calls may take 4,000 more; `sop resume r --budget tokens=6000`" in result.reason
    again = await resume("r", model=model, workspace=tmp_path, budget=advised(result.reason))
    assert again.outcome == "budget" and again.calls == 6
    assert (await resume("r", model=model, workspace=tmp_path, budget=advised(again.reason))).ok


async def test_an_item_at_the_cap_keeps_its_place_so_that_no_others_are_begun(tmp_path: Path) -> None:
    text = """
    sop: fetch
    inputs: {names: [string]}
    roles: {clerk: {profile: You write.}}
    artifacts: {letters: {each: string}}
    steps:
      each_one: {sop: inner.yaml, foreach: {in: names, as: name, parallel: 2}, needs: [names], inputs: {name: name}, makes: letters}
    """
    inner = """
    sop: inner
    inputs: {name: string}
    roles: {clerk: {profile: You write.}}
    artifacts: {page: {}, letter: {}}
    steps:
      look: {call: "here:look", needs: [name], makes: page}
      write: {role: clerk, needs: [page], makes: letter}
    outputs: [letter]
    """
    write(tmp_path, inner).rename(tmp_path / "inner.yaml")
    path = write(tmp_path, text, here_py="""
        from pathlib import Path
        def look(name):
            with (Path(__file__).parent / "looked").open("a") as file:
                file.write(name)
            return name
        """)
    names = list("abcdefgh")
    result = await run(path, names=names, model=Paid(lambda key: Share()), workspace=tmp_path, budget={"calls": 3})
    assert result.outcome == "budget" and result.calls == 3
    assert sorted((tmp_path / "looked").read_text()) == list("abcde")       # two at once: in either order


async def test_steps_under_another_cap_go_on_to_their_end(tmp_path: Path) -> None:
    text = """
    sop: two
    inputs: {topic: string}
    roles: {clerk: {profile: You write.}, judge: {profile: You judge., budget: {calls: 1}}}
    artifacts: {a: {}, b: {}, c: {}, d: {}}
    steps:
      judge_a: {role: judge, needs: [topic], makes: a}
      judge_b: {role: judge, needs: [a], makes: b}
      write_c: {role: clerk, needs: [a], makes: c}
      write_d: {role: clerk, needs: [c], makes: d}
    """
    model = Scripted()
    result = await run(write(tmp_path, text), topic="rain", model=model, workspace=None)
    assert result.outcome == "budget" and "the role judge's cap of 1 calls" in result.reason
    assert sorted(model.steps) == ["judge_a", "write_c", "write_d"] and {"a", "c", "d"} <= set(result.artifacts)


async def test_all_caps_that_were_met_are_told(tmp_path: Path) -> None:
    result = await run(rows(tmp_path, step="calls: 1", budget="calls: 4"), names=["a", "b"], model=Scripted(), workspace=None)
    assert result.reason.startswith("the step judge_it's cap of 1 calls is reached: 1 spent") and result.calls == 3
    assert str(BudgetExceeded("a", lambda: "b", "a")) == "a; b"
    assert str(BudgetExceeded(*"abcde")) == "a; b; c; … (5 in all)"


async def test_samples_made_at_once_are_all_answered(tmp_path: Path) -> None:
    text = """
    sop: vote
    inputs: {puzzle: string}
    roles: {solver: {profile: You solve.}}
    artifacts: {solved: {schema: {answer: string}}}
    steps:
      solve: {role: solver, needs: [puzzle], makes: solved, strategy: {self_consistency: {samples: 4}}}
    """
    model = Paid(lambda key: Share(3000 if ".s3/" in key or key.endswith(".s3") else 1000, 100, naps=20))
    result = await run(write(tmp_path, text), puzzle="1+1", model=model, workspace=None, budget={"tokens": 2500})
    assert result.outcome == "budget" and result.unanswered.calls == 0 and len(model.answered) == len(model.sent) == 3


async def test_a_look_that_meets_a_cap_ends_no_other_call(tmp_path: Path) -> None:
    text = """
    sop: looked_at
    inputs: {names: [string]}
    roles: {clerk: {profile: You write.}, lead: {profile: You lead., budget: {tokens: 10}}}
    artifacts: {letters: {each: string}}
    progress: {role: lead, goal: all letters, every: 1 call}
    steps:
      write: {role: clerk, needs: [names], foreach: {in: names, as: name}, makes: letters}
    """
    model = Paid(lambda key: Share(naps=20 if "[b]" in key else 0))
    result = await run(write(tmp_path, text), names=["a", "b"], model=model, workspace=None)
    assert result.outcome == "budget" and "the role lead's cap of 10 tokens" in result.reason
    assert result.unanswered.calls == 0 and len(model.answered) == 2 and "letters" in result.artifacts


async def test_open_questions_are_told_beside_the_cap(tmp_path: Path) -> None:
    text = """
    sop: both
    inputs: {topic: string}
    roles: {clerk: {profile: You write.}}
    artifacts: {a: {}, b: {}, c: {}}
    steps:
      ask: {human: text, needs: [topic], makes: a, task: "Which one?"}
      write_b: {role: clerk, needs: [topic], makes: b}
      write_c: {role: clerk, needs: [b], makes: c}
    """
    result = await run(write(tmp_path, text), topic="rain", model=Scripted(), workspace=tmp_path, budget={"calls": 1})
    assert result.outcome == "budget" and "cap of 1 calls" in result.reason and "Which one?" in result.reason


share = st.builds(Share, st.integers(1, 2000), st.integers(0, 2000), st.integers(0, 6)).map(
    lambda one: Share(one.worst, min(one.used, one.worst), one.naps))


@pytest.mark.one_in(8)
@settings(max_examples=examples(80), deadline=None)
@given(st.lists(share, min_size=8, max_size=8), st.integers(1, 4000), st.sampled_from(["usd", "tokens"]),
       st.sampled_from(["", "parallel: 1", "parallel: 2"]))
def test_nothing_is_paid_twice_no_cap_is_passed_and_each_resume_goes_further(
    shares: list[Share], first: int, measure: str, more: str
) -> None:
    """Random worst cases, costs, durations and caps: the run is gone on with by the cap that is named until it is done."""
    names = list("abcd")
    keys = {f"{step}@1[{name}]~0/turn.0": shares[index] for index, (step, name) in enumerate(
        (step, name) for step in ("write", "judge_it") for name in names)}
    model = Paid(keys.__getitem__)
    cap = f"{first / 10**6:f}" if measure == "usd" else str(first)

    async def all_of_it(folder: Path) -> None:
        result = await run(rows(folder, more=more), names=names, model=model, workspace=folder, name="r", budget={measure: cap})
        sittings, most = 1, first
        while not result.ok:
            check(folder, result, most)
            before, given = len(model.answered), advised(result.reason)
            most = round(float(given[measure]) * 10**6) if measure == "usd" else int(given[measure])
            result = await resume("r", model=model, workspace=folder, budget=given)
            assert len(model.answered) > before, result.reason
            sittings += 1
        check(folder, result, most)
        assert sorted(model.sent) == sorted(keys) and sittings <= 9

    def check(folder: Path, result: Any, most: int) -> None:
        assert result.outcome in ("budget", "success") and result.unanswered.calls == 0
        spent, open_ = 0, dict[str, int]()
        for event in events(folder, "r", Reserved, Settled):
            if isinstance(event, Reserved):
                open_[event.key] = event.tokens
                assert spent + sum(open_.values()) <= most
            else:
                del open_[event.key]
                spent += event.tokens_in
        room = most - spent
        if not result.ok:           # who was not asked, and could be, has no room
            left = [keys[key].worst for key in keys if key not in model.sent and key.startswith("write")]
            assert not left or max(left) > room or more

    with TemporaryDirectory() as folder:
        asyncio.run(all_of_it(Path(folder)))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("budget", [{"calls": 2}, {"tokens": 2500}, {"usd": "0.0025"}])
async def test_a_sub_sop_waits_for_what_its_items_have_sent(tmp_path: Path, budget: dict[str, Any]) -> None:
    inner = write(tmp_path, ROWS.replace(" MORE", "").replace(" STEP", "").replace("BUDGET", "outputs: [judgements]"))
    inner.rename(tmp_path / "inner.yaml")
    path = write(tmp_path, """
        sop: outer
        inputs: {names: [string]}
        artifacts: {made: {schema: any}}
        steps:
          go: {sop: inner.yaml, needs: [names], inputs: {names: names}, makes: made}
        """)
    model = Paid(lambda key: Share(naps=5 if "[a]" in key else 1))
    result = await run(path, names=["a", "b", "c"], model=model, workspace=tmp_path, name="r", budget=budget)
    assert result.outcome == "budget" and result.unanswered.calls == 0 and len(model.answered) == 2
    again = await resume("r", model=model, workspace=tmp_path, budget=advised(result.reason))
    assert again.calls == 3 and len(set(model.sent)) == len(model.sent) == 3
