"""What a run cost by step, role, model, item, key: all sums are the total, wherever the journal ends; and how people are told."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from crash_scenes import SCENES, Scene
from hypothesis import given
from hypothesis import strategies as st
from scripted import write

from metaflow_agents import run, run_sync
from metaflow_agents.api.run import start
from metaflow_agents.cli import command
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.ledger import DIMENSIONS, Ledger
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.records import Spending
from metaflow_agents.journal.repeats import BLOCK, repeated
from metaflow_agents.journal.state import RunState
from metaflow_agents.schema.event import Event, Reserved, Settled
from metaflow_agents.views.costs import costs_lines
from metaflow_agents.views.page import Page, columns


def sums(ledger: Ledger) -> list[Spending]:
    return [sum(one.values(), Spending()) for one in (ledger.lines, *ledger.by.values())]


# -- the law

TILL = """
def pay(item: str) -> str:
    return f"{item} is paid"
"""

KEYS = st.builds(
    lambda way, end: "/".join(way) + end,
    st.lists(st.sampled_from(["write@1~0", "write@2[a]~0", "write@1[a%2Fb]~1", "judge@1~0", "judge@1[a]~0"]),
             min_size=1, max_size=3),
    st.sampled_from(["/turn.0", "/turn.0/repair.1", "/embed.6f2a", "/vote.s3"]))
COUNTS = st.integers(0, 10**6)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Calls that are reserved, and some of them settled, in any order that the engine allows."""
    events: list[Event] = []
    waiting: list[Reserved] = []
    for number in range(draw(st.integers(0, 12))):
        event = Reserved(key=draw(KEYS), role=draw(st.sampled_from(["", "ann", "ben"])), digest="d", request="r",
                         model=draw(st.sampled_from(["one", "two"])), tokens=draw(COUNTS), cost=draw(COUNTS),
                         unpriced=draw(st.booleans()),
                         **{"try": number})
        events.append(event)
        waiting.append(event)
        while waiting and draw(st.booleans()):
            asked = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
            events.append(Settled(key=asked.key, tokens_in=draw(COUNTS), tokens_out=draw(COUNTS), cost=draw(COUNTS),
                                  tokens_cached=draw(COUNTS), calls=draw(st.integers(0, 1)), estimated=draw(st.booleans()),
                                  **{"try": asked.try_}))
    return events


@given(histories())
def test_all_sums_are_the_total_after_every_event(events: list[Any]) -> None:
    ledger, flying = Ledger(), {}
    answered = Spending()
    for event in events:
        ledger.apply(event)
        if isinstance(event, Reserved):
            flying[event.key, event.try_] = event
        else:
            del flying[event.key, event.try_]
            answered += Spending(event.calls, event.tokens_in + event.tokens_out, event.tokens_out, event.tokens_cached,
                                 event.cost, event.cost * event.estimated)
        assert sums(ledger) == [ledger.total] * (1 + len(DIMENSIONS))
        total = ledger.total
        assert (total.calls, total.tokens, total.out, total.cached, total.cost, total.estimated) == (
            answered.calls, answered.tokens, answered.out, answered.cached, answered.cost, answered.estimated)
        assert (total.open_calls, total.open_tokens, total.open_cost) == (
            len(flying), sum(one.tokens for one in flying.values()), sum(one.cost for one in flying.values()))


@given(histories())
def test_the_sum_of_a_key_is_all_that_was_asked_for_it_in_any_step(events: list[Any]) -> None:
    ledger = Ledger()
    worst: Counter[str] = Counter()
    for event in events:
        ledger.apply(event)
        if isinstance(event, Reserved):
            outermost = re.search(r"\[(.*?)\]", event.key)
            worst[unquote(outermost[1]) if outermost else ""] += event.tokens
    apart = {key: sum((one for line, one in ledger.lines.items() if line.key == key), Spending()) for key in worst}
    assert ledger.by["key"] == apart
    if not any(isinstance(event, Settled) for event in events):
        assert {key: one.open_tokens for key, one in ledger.by["key"].items()} == worst


@pytest.mark.parametrize("scene", [pytest.param(scene, id=name) for name, scene in SCENES.items()
                                   if name in ("sop", "self_consistency", "reflexion_by_a_role", "review", "talks_to", "progress",
                                               "embeddings", "route")])
async def test_the_sums_are_the_runs_own_wherever_its_journal_ends(scene: Scene, tmp_path: Path) -> None:
    if scene.missing:
        pytest.skip(scene.missing)
    path = write(tmp_path, scene.sop)
    for name, text in scene.files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "till.py").write_text(TILL)
    async with start(path, model=scene.model(), models={name: make() for name, make in scene.models.items()}, workspace=None,
                     inputs=scene.inputs, sandbox="none") as going:
        await going.result()
        state, ledger, asked = RunState(), Ledger(), 0
        for seq, event in going.journal.events():
            state.apply(seq, event)
            if isinstance(event, Reserved | Settled):
                ledger.apply(event)
                asked += 1
                assert sums(ledger) == [state.total()] * (1 + len(DIMENSIONS))
        assert asked and ledger.total.open_calls == 0
        assert {step.partition("/")[0] for step in ledger.by["step"]} <= {*going.program.sop.steps, "progress"}


# -- what people see

PRICED = """
sop: priced
inputs: {names: [string]}
roles: {clerk: {profile: You write.}, judge: {profile: You judge., model: other}}
models: {other: {name: "python:desk.py:judge", price: {in: 100, out: 400}}}
artifacts: {letters: {each: string}, verdict: {}, chapter: {}}
steps:
  write_the_letters: {role: clerk, needs: [names], foreach: {in: names}, makes: letters, task: TASK}
  judge_it: {role: judge, needs: [letters], makes: verdict}
  inside: {sop: chapter, needs: [verdict], inputs: {name: verdict}, output: last, makes: chapter}
"""
CHAPTER = """
sop: chapter
inputs: {name: string}
roles: {writer: {profile: You write.}}
artifacts: {last: {}}
steps: {draft_it: {role: writer, needs: [name], makes: last}}
"""
DESK = """
from metaflow_agents.models.port import Reply


def clerk(request):
    return Reply(text="fine", tokens_in=1000, tokens_out=10)


def judge(request):
    return Reply(text="good", tokens_in=2000, tokens_out=5000)
"""


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def say(*words: str) -> tuple[int, str, str]:
        status = command(list(words))
        return (status, *capsys.readouterr())
    return say


def made(folder: Path, name: str, task: str = "Write.", model: str = "clerk", profile: str = "You write.") -> None:
    path = write(folder, PRICED.replace("TASK", task).replace("You write.", profile), chapter_yaml=CHAPTER, desk_py=DESK)
    assert run_sync(path, names=["ann", "ben"], models={"default": f"python:desk.py:{model}"}, workspace=folder / "workspace",
                    name=name).ok


def test_show_costs_tells_each_step_role_model_and_item_and_their_sum(say: Any, tmp_path: Path) -> None:
    made(tmp_path, "one")
    status, out, _ = say("show", "one", "--costs")
    rows = [line.split() for line in out.splitlines() if line]
    assert status == 0 and ["one:", "costs"] in rows
    for row in (["write_the_letters", "2", "2,000", "20"], ["judge_it", "1", "2,000", "5,000", "$2.20"],
                ["inside/draft_it", "1", "1,000", "10"], ["total", "4", "5,000", "5,030", "$2.20"],
                ["clerk", "2", "2,000", "20"], ["writer", "1", "1,000", "10"], ["python:desk.py:clerk", "3", "3,000", "30"],
                ["python:desk.py:judge", "1", "2,000", "5,000", "$2.20"], ["write_the_letters[ben]", "1", "1,000", "10"]):
        assert row in rows, out
    told = json.loads(say("show", "one", "--costs", "--json")[1])
    assert told["total"]["tokens"] == 10_030 == sum(one["tokens"] for one in told["steps"].values()) == json.loads(
        say("show", "one", "--json")[1])["tokens"]
    assert told["items"]["write_the_letters[ann]"]["calls"] == 1 and told["models"]["python:desk.py:judge"]["cost"] == 2.2
    assert told["total"]["unanswered"] == {"calls": 0, "tokens": 0, "cost": 0.0} and len(told["lines"]) == 4
    assert say("show", "one", "verdict", "--costs")[0] == 2


def test_show_costs_tells_what_repeats_the_beginning_of_an_earlier_call(say: Any, tmp_path: Path) -> None:
    """Two letters are written by one role, whose long prompt comes first, and then for whom."""
    made(tmp_path, "long", profile="You write what everybody likes to hear. " * 100)
    told = json.loads(say("show", "long", "--costs", "--json")[1])["repeated"]
    assert 0.1 < told < 0.5
    assert f"{told:.0%} of what was sent repeats the beginning of an earlier call to the same model" in " ".join(
        say("show", "long", "--costs")[1].split())


ROWS = """
sop: rows
inputs: {names: [string]}
roles: {clerk: {profile: You write.}}
artifacts: {letters: {each: string}, talks: {each: string}}
steps:
  write: {role: clerk, needs: [names], foreach: {in: names}, makes: letters}
  talk: {sop: talk, needs: [names, letters], foreach: {in: names, as: who}, inputs: {name: who}, output: last, makes: talks}
"""
TALK = """
sop: talk
inputs: {name: string}
roles: {clerk: {profile: You talk.}}
artifacts: {said: {each: string}, last: {}}
steps:
  say: {role: clerk, needs: [name], foreach: {in: "['a', 'b']", as: side}, makes: said}
  end: {role: clerk, needs: [said], makes: last}
"""


@pytest.mark.one_in(4)
def test_what_an_item_cost_over_all_steps_is_one_row(say: Any, tmp_path: Path) -> None:
    path = write(tmp_path, ROWS, talk_yaml=TALK, desk_py=DESK)
    assert run_sync(path, names=[f"n/{number}" for number in range(25)], model="python:desk.py:clerk",
                    workspace=tmp_path / "workspace", name="one").ok
    told = json.loads(say("show", "one", "--costs", "--json")[1])
    assert list(told["keys"]) == [f"n/{number}" for number in range(25)], "the outermost item counts, not `a` and `b`"
    assert all((one["calls"], one["tokens"]) == (4, 4040) for one in told["keys"].values())
    assert [line["step"] for line in told["lines"] if line["key"] == "n/7"] == ["write", *["talk/say"] * 2, "talk/end"]
    brief = say("show", "one", "--costs")[1]
    assert "the 20 most expensive of 25 keys" in brief and "the 20 most expensive of 100 items" in brief
    rows = [line.split() for line in say("show", "one", "--costs", "--all")[1].splitlines()]
    assert all([f"n/{number}", "4", "4,000", "40"] in rows for number in range(25))
    assert ["talk[n/24]/say[b]", "1", "1,000", "10"] in rows
    for wrong, mend in ((("--all",), "sop show one --costs --all"), (("--costs", "--all", "--json"), "leave it out")):
        status, _, err = say("show", "one", *wrong)
        assert status == 2 and mend in " ".join(err.split())


TWO = """
sop: it
roles: {clerk: {profile: You write.}}
artifacts: {one: {}, two: {}}
steps:
  first: {role: clerk, makes: one}
  second: {role: clerk, needs: [one], makes: two}
"""


def costly(items: int) -> Ledger:
    ledger = Ledger()
    for number in range(items):
        key = f"write_all_the_chapters@1[chapter {number} of what became of it in the end]~0/turn.0"
        ledger.apply(Reserved(key=key, role="the_writer", digest="d", request="r", model="openai:a-model-of-some-length",
                              tokens=10**7, cost=3 * 10**12))
        if number % 3:
            ledger.apply(Settled(key=key, reply="r", tokens_in=1_234_567, tokens_out=7_654, tokens_cached=1_000_000,
                                 cost=number * 10**11 + 1, estimated=number % 2 == 0))
    return ledger


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_tables_fit_and_no_number_is_cut(width: int) -> None:
    lines = costs_lines("run-1", costly(50), Page(width=width))
    assert max(map(columns, lines)) <= width
    total = next(line for line in lines if line.startswith("total"))
    assert "…" not in total, total
    assert "the 20 most expensive of 50 items; `--all` lists all" in " ".join(" ".join(lines).split()) and len(lines) < 50
    assert len(costs_lines("run-1", costly(50), Page(width=width), every=True)) > 50


@given(st.lists(st.tuples(st.sampled_from("ab"), st.lists(st.sampled_from("xyz"), max_size=6)), max_size=12))
def test_what_repeats_a_beginning_is_counted_in_whole_blocks(calls: list[tuple[str, list[str]]]) -> None:
    """Against every earlier prompt of the same model, one by one."""
    sent = [(model, b"".join(letter.encode() * BLOCK for letter in letters) + b"end") for model, letters in calls]
    again = 0
    for at, (model, prompt) in enumerate(sent):
        alike = (sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(prompt, before, strict=False)))
                 for other, before in sent[:at] if other == model)
        again += max(alike, default=0) // BLOCK * BLOCK
    assert repeated(sent) == (again / sum(len(prompt) for _, prompt in sent) if sent else 0)


def test_what_was_never_answered_stands_apart() -> None:
    text = "\n".join(costs_lines("run-1", costly(6), Page()))
    assert "unanswered: 2 calls, sent and not answered, at most 20,000,000 tokens and at most $6.00" in text
    assert "2 (20M)" in text and "≤ $1.20" in text


async def test_the_summary_tells_what_was_never_answered_and_does_not_count_it(say: Any, tmp_path: Path) -> None:
    path = write(tmp_path, TWO, desk_py=DESK)
    await run(path, model="python:desk.py:clerk", workspace=tmp_path / "workspace", name="whole")
    with Journal.read(journal_path(tmp_path / "workspace", "whole")) as journal:
        last = [seq for seq, event in journal.events(Reserved)][-1]
    Journal.copy(journal_path(tmp_path / "workspace", "whole"), journal_path(tmp_path / "workspace", "cut"), last).__exit__()
    out = say("show", "cut")[1]
    assert "1 call, 1,010 tokens, 1 activation; 1 call never answered, at most" in " ".join(out.split()), out
    told = json.loads(say("show", "cut", "--json")[1])
    assert (told["calls"], told["tokens"], told["unanswered"]["calls"]) == (1, 1010, 1) and told["unanswered"]["tokens"] > 8192
    assert json.loads(say("runs", "--json")[1])[0]["unanswered"]["calls"] + 1 in (1, 2)


def test_diff_tells_models_prompts_and_costs(say: Any, tmp_path: Path) -> None:
    made(tmp_path, "one")
    made(tmp_path, "two", task="Write well.", model="judge")
    status, out, _ = say("diff", "one", "two")
    rows = [line.split() for line in out.splitlines()]
    assert status == 0 and ["clerk", "python:desk.py:clerk", "python:desk.py:judge"] in rows, out
    assert "prompts of write_the_letters" in out and "  2 calls differ: write_the_letters@1[ann]~0/turn.0" in out
    assert any(line.strip().startswith("-") and "Write." in line for line in out.splitlines())
    assert any(line.strip().startswith("+") and "Write well." in line for line in out.splitlines())
    assert "cost by step" in out and "cost by role" in out and "cost by model" in out
    told = json.loads(say("diff", "one", "two", "--json")[1])
    assert told["models"]["clerk"] == ["python:desk.py:clerk", "python:desk.py:judge"]
    assert told["prompts"]["write_the_letters"]["differ"] == [
        "write_the_letters@1[ann]~0/turn.0", "write_the_letters@1[ben]~0/turn.0"]
    assert "inside/draft_it" not in told["prompts"], "the same was asked of another model"
    assert [one["tokens"] for one in told["costs"]["steps"]["write_the_letters"]] == [2020, 14_000]
    assert "judge_it" not in told["costs"]["steps"], "what is equal is not told"
    same = json.loads(say("diff", "one", "one", "--json")[1])
    assert (same["models"], same["prompts"], same["costs"]) == ({}, {}, {"steps": {}, "roles": {}, "models": {}})
