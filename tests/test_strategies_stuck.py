"""`stuck:` inside strategies: what their roles do with tools, and what the strategies do themselves, again and again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, write
from stopping import stopped_everywhere
from walk_strategies import LAMPS, SWITCHES, planned_apart

from metaflow_agents import check, run
from metaflow_agents.journal.journal import Journal
from metaflow_agents.kits.planning import solving
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.sandbox.port import Completed
from metaflow_agents.sandbox.unconfined import Unconfined
from metaflow_agents.schema.event import Failed, Observed
from metaflow_agents.schema.payload import Data, unpack

SOP = """
    sop: thinks
    inputs: {rules: {type: string, default: "RULES"}}
    roles: {writer: {profile: You write., tools: [list]}, other: {profile: You write too., tools: [list]}}
    artifacts: {letter: ARTIFACT}
    steps: {write: {role: writer, needs: [rules], makes: letter, strategy: {STRATEGY}STUCK}}
"""
STUCK, TOLD = ", stuck: {}", "It does not get on"


def desk(folder: Path, strategy: str, stuck: str, artifact: str = "{}") -> Path:
    rules = SWITCHES.replace("\n", " ")
    return write(folder, SOP.replace("STRATEGY", strategy).replace("STUCK", stuck).replace("ARTIFACT", artifact)
                 .replace("RULES", rules))


def plan(*names: str) -> Mapping[str, Any]:
    return {"tasks": [{"name": one, "does": one, "needs": [], "makes": [f"{one}.out"], "value": 1, "effort": 1} for one in names]}


def done(request: ModelRequest) -> Any:
    """Of a plan's task."""
    return {"ok": True, "why": "", "results": dict.fromkeys(request.schema["properties"]["results"]["properties"], "done")
            if request.schema else {}}


def hinted(request: ModelRequest) -> bool:
    return any(TOLD in str(message["content"]) for message in request.messages)


# -- what roles do with tools

def answers(request: ModelRequest) -> Any:
    """What the simplest model would say to each kind of question that a strategy asks."""
    key = request.key
    if "/task." in key:
        return done(request)
    if "/do/" in key:
        return {"ok": True, "result": "done"}
    if "/create" in key:
        return {"tasks": [] if "/queue.0/" in key else ["a"]}
    if "/plan." in key:
        return plan("a")
    if key.endswith("/choice"):
        return {"expert": "other", "why": ""}
    if key.endswith(".propose"):
        return {"thoughts": ["a"]}
    if ".value." in key:
        return {"why": "", "value": "sure"}
    return "a word"


def looking(request: ModelRequest) -> Any:
    """Looks again and again where it has tools, until it is told that it does."""
    if not request.tools or hinted(request):
        return Reply("", calls=(ToolCall("", "finish", {"answer": "a word"}),)) \
            if any(tool["name"] == "finish" for tool in request.tools) else answers(request)
    return Reply("", calls=(ToolCall("", "list", {}),))


ACTING = {
    "single": "single: {}", "chain_of_thought": "chain_of_thought: {}", "self_consistency": "self_consistency: {samples: 3}",
    "react": "react: {max_steps: 25}", "reflexion": "reflexion: {evaluator: {assert: answer}}",
    "tree_of_thoughts": "tree_of_thoughts: {depth: 1, samples: 1}", "plan_and_execute": "plan_and_execute: {}",
    "task_queue": "task_queue: {tasks: 2}", "route": "route: {experts: {writer: {}, other: {}}}",
    "debate": "debate: {roles: [writer, other]}", "hindsight": "hindsight: {episodes: '[rules]'}"}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("strategy", ACTING.values(), ids=ACTING)
async def test_the_same_look_with_the_same_result_is_noticed_in_every_strategy_that_acts(tmp_path: Path, strategy: str) -> None:
    calls = []
    for stuck in (STUCK, ""):
        model = Scripted(write=looking)
        result = await run(desk(tmp_path, strategy, stuck), model=model, workspace=None)
        assert result.ok, result
        calls.append(len(model.keys))
        assert any(map(hinted, model.requests)) == bool(stuck)
    assert calls[0] <= 12 and calls[1] > 25, calls


@pytest.mark.parametrize("strategy", [ACTING[name] for name in ("react", "reflexion", "task_queue", "plan_and_execute", "route")])
async def test_the_last_rung_ends_it_in_every_strategy(tmp_path: Path, strategy: str) -> None:
    """Also a plan's task: it is not planned around."""
    path = desk(tmp_path, strategy, ", stuck: {after: 3, then: [stop]}, retries: 3")
    result = await run(path, model=Scripted(write=lambda request: Reply("", calls=(ToolCall("", "list", {}),))
                                            if request.tools else answers(request)), workspace=tmp_path, name="ended")
    assert result.outcome == "stopped" and "stuck: `list` was called 3 times" in result.reason
    assert [event.final for event in events(tmp_path, "ended", Failed)] == [True]


# -- what strategies do themselves

def trials(request: ModelRequest) -> Any:
    return f"the same lesson {request.key[-8:]}" if request.key.endswith("/lesson") else "good" if hinted(request) else "x"


def chatting(request: ModelRequest) -> Any:
    """Talks, each time in other words, and calls nothing."""
    if not request.tools:
        return "no idea"
    return Reply("", calls=(ToolCall("", "finish", {"answer": "good"}),)) if hinted(request) else f"Well, {request.key}"


def failing_tasks(request: ModelRequest) -> Any:
    """Each of its tasks fails for want of paper, until it is told."""
    if "/do/" in request.key:
        good = "use a slate" in str(request.messages[-1]["content"]).partition("<part>")[2].partition("</part>")[0]
        return {"ok": good, "result": "good" if good else f"there is no paper, after 0.{request.key.partition('queue.')[2][0]} s"}
    if "/create" in request.key:
        over = "</done>" in str(request.messages[-1]["content"])
        return {"tasks": [] if over else ["use a slate"] if hinted(request) else [f"write on sheet {request.key[-9:]}"]}
    return "good" if "<result>\ngood" in str(request.messages[-1]["content"]) else "nothing"


def failing_plans(request: ModelRequest) -> Any:
    """Plans in other words each time what fails in the same way."""
    if "/task." in request.key:
        good = "task.slate" in request.key
        return {**done(request), "ok": good, "why": "" if good else "there is no paper"}
    if "/plan." in request.key:
        return plan("slate" if hinted(request) else f"sheet{len(request.messages[-1]['content'])}")
    return "good" if "slate.out" in str(request.messages[-1]["content"]) else "nothing"


def stubborn(request: ModelRequest) -> Any:
    return "good" if hinted(request) else request.role


def badly_put(request: ModelRequest) -> Any:
    """Leaves the same fault where it is, however often it is told of it."""
    if "/turn.0" in request.key:
        return "good"
    problem = LAMPS if hinted(request) else LAMPS.replace("(lamp b)", "(lmp b)").replace("lamps", f"l{len(request.messages)}")
    return f"=== file: problem.pddl ===\n{problem}\n=== end ==="


OWN: dict[str, tuple[str, Callable[[ModelRequest], Any], str]] = {
    "reflexion": ("reflexion: {evaluator: {assert: answer == 'good'}, trials: 4}", trials, "a trial failed 2 times"),
    "react": ("react: {max_steps: 5}", chatting, "a message failed 2 times"),
    "task_queue": ("task_queue: {tasks: 4}", failing_tasks, "a task failed 2 times"),
    "plan_and_execute": ("plan_and_execute: {replans: 2}", failing_plans, "the plan failed 2 times"),
    "debate": ("debate: {roles: [writer, other], rounds: 4}", stubborn, "agreeing on an answer failed 2 times"),
    "solver": ("solver: {domain: rules, repairs: 3}", badly_put, "the translation failed 2 times")}


@pytest.fixture(autouse=True)
def a_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(self: Unconfined, argv: Sequence[str], **given: Any) -> Completed:
        return Completed(0, "", "", 0.1, files={"outcome.json": planned_apart(argv, given["timeout"])})

    monkeypatch.setattr(Unconfined, "run", run)
    monkeypatch.setattr(solving, "missing", lambda: "")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", OWN)
async def test_what_a_strategy_does_itself_in_vain_is_noticed(tmp_path: Path, name: str) -> None:
    strategy, model, sign = OWN[name]
    result = await run(desk(tmp_path, strategy, STUCK), model=Scripted(write=model), workspace=tmp_path, name="with",
                       sandbox="none")
    assert result.ok and result["letter"] == "good", result
    notes = [note for note in noted(tmp_path, "with") if "rung" in note]
    assert [note["rung"] for note in notes] == ["hint"] and sign in notes[0]["told"], notes
    result = await run(desk(tmp_path, strategy, ""), model=Scripted(write=model), workspace=None, sandbox="none")
    assert not result.ok or result["letter"] != "good", "it is the hint that helps"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", OWN)
async def test_it_is_thought_about_asked_about_and_ended_with_the_reason(tmp_path: Path, name: str) -> None:
    """A model that no hint helps. A person's word is not what it listens to, and the third time ends it."""
    strategy, model, sign = OWN[name]
    asked: list[Question] = []

    def deaf(request: ModelRequest) -> Any:
        if request.key.endswith("/reflect"):
            return "no idea"
        kept = tuple({**message, "content": str(message["content"]).replace(TOLD, "So it is")} for message in request.messages)
        return model(replace(request, messages=kept))

    async def person(question: Question, number: int) -> Answer:
        asked.append(question)
        return Answer(text="take a walk")

    for then, outcome in (("[reflect, stop]", "stopped"), ("[ask, stop]", "stopped")):
        heard = Scripted(write=deaf)
        more = re.sub(r"(trials|tasks|rounds|repairs|max_steps|replans): \d", r"\1: 6", strategy)
        result = await run(desk(tmp_path, more, f", stuck: {{then: {then}}}"), model=heard, workspace=None, sandbox="none",
                           asker=person)
        assert result.outcome == outcome and "stuck: " + sign.replace("2", "3") in result.reason, result
        told = "You thought about it:\n\nno idea" if "reflect" in then else "A person was asked, and says:\n\ntake a walk"
        assert any(told in str(message["content"]) for request in heard.requests for message in request.messages)
    assert len(asked) == 1 and sign in asked[0].text


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", OWN)
async def test_it_is_stopped_at_every_call_and_gone_on_with(tmp_path: Path, name: str) -> None:
    strategy, model, _ = OWN[name]
    path = desk(tmp_path, strategy, ", stuck: {then: [reflect]}")
    whole = await stopped_everywhere(path, lambda: Scripted(write=model), tmp_path / "runs")
    assert whole.result.ok and len([key for key in whole.keys if key.endswith("/reflect")]) == 1, whole.keys


@pytest.mark.parametrize(("name", "failures"), [("reflexion", 3), ("react", 5), ("task_queue", 4), ("plan_and_execute", 2),
                                                ("debate", 3), ("solver", 3)])
def test_the_bound_counts_a_reflection_for_each_failure_and_one_before(tmp_path: Path, name: str, failures: int) -> None:
    bounds = []
    for stuck in (", stuck: {then: [hint, reflect]}", ", stuck: {then: [hint]}"):
        path = desk(tmp_path, OWN[name][0], stuck)
        if name != "react":
            path.write_text(path.read_text().replace(", tools: [list]", ""))        # each turn with a tool counts one more
        found = check(path).bounds
        assert found is not None and found.calls is not None
        bounds.append(found.calls)
    assert bounds[0] - bounds[1] == 1 + failures


async def test_a_dry_run_is_never_stuck(tmp_path: Path) -> None:
    result = await run(desk(tmp_path, "react: {max_steps: 6}", ", stuck: {then: [stop]}"), model="dry", workspace=None)
    assert result.ok


async def test_reflexion_stops_by_itself_where_nobody_says_what_to_do(tmp_path: Path) -> None:
    """As the paper does; with the key the ladder is climbed in its place."""
    model = Scripted(write=trials)
    result = await run(desk(tmp_path, OWN["reflexion"][0], ""), model=model, workspace=None, sandbox="none")
    assert "stuck: the same answer got the same verdict" in result.reason and len(model.keys) == 3


def noted(folder: Path, name: str) -> list[Mapping[str, Any]]:
    with Journal.read(folder / ".journals" / f"{name}.db") as journal:
        values = [unpack(journal.blob(event.payload)) for _, event in journal.events(Observed)]
    return [value.value for value in values if isinstance(value, Data) and isinstance(value.value, Mapping)]
