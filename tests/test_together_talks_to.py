"""`talks_to:`: a role puts questions to another one, which answers from its own memory; on the bus, bounded, labelled."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, write
from stopping import NAME, stopped_everywhere

from metaflow_agents import check, run, start
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall, Traits
from metaflow_agents.schema.caps import ROLE_QUESTIONS
from metaflow_agents.schema.event import Done, Reserved, Sent

TEAM = """
    sop: team
    inputs: {idea: string}
    roles:
      engineer: {profile: You build.}
      architect: {profile: You design.}
    artifacts: {design: {}, go: {}, code: {}}
    steps:
      draw: {role: architect, needs: [idea], makes: design}
      open: {value: "'go'", needs: [design], makes: go}
      build: {role: engineer, needs: [go], makes: code, talks_to: [architect]}
    outputs: [code]
"""


def asks(*questions: tuple[str, str]) -> Reply:
    return Reply("", calls=tuple(ToolCall(f"c{place}", "ask_role", {"role": role, "question": question})
                                 for place, (role, question) in enumerate(questions)))


def results(request: ModelRequest) -> list[str]:
    """What the tools said so far."""
    return [message["content"] for message in request.messages if message["role"] == "tool"]


async def team(request: ModelRequest) -> Any:
    """The architect knows the port from its own memory only; the engineer asks for it, then for its double."""
    if request.role == "architect":
        said = "\n".join(message["content"] for message in request.messages)
        if request.step == "draw":
            return "It listens on port 7007."
        port = re.search(r"port (\d+)", said)
        if "twice" in request.messages[-1]["content"]:          # known from the question before only
            return f"twice is {2 * int(known[1])}" if (known := re.search(r"it is (\d+)", said)) else "twice what?"
        return f"it is {port[1]}" if port else "I don't know"
    heard = results(request)
    if len(heard) < 2:
        return asks(("architect", "which port?" if not heard else "and twice that?"))
    return f"listen({heard[0]}); {heard[1]}"


async def test_the_other_role_answers_from_its_own_memory_and_knows_what_it_was_asked(tmp_path: Path) -> None:
    model = Scripted(draw=team, build=team)
    result = await run(write(tmp_path, TEAM), idea="a server", model=model, workspace=None)
    assert result["code"] == "listen(it is 7007); twice is 14014"
    assert model.keys[1:] == ["build@1~0/turn.0", "build@1~0/turn.0/tool.0/ask.0.architect", "build@1~0/turn.1",
                              "build@1~0/turn.1/tool.0/ask.0.architect", "build@1~0/turn.2"]
    asked = model.said("build@1~0/turn.0/tool.0/ask.0.architect")
    assert "You design." in asked and "port 7007" in asked and "`engineer`, who works on the step `build`, asks you" in asked
    assert "7007" not in model.said("build@1~0/turn.0"), "the engineer has not read the design"


@pytest.mark.one_in(4)
async def test_questions_of_one_turn_know_nothing_of_each_other(tmp_path: Path) -> None:
    def both(request: ModelRequest) -> Any:
        if request.role == "architect":
            return f"{len(request.messages)} messages"
        return " and ".join(results(request)) or asks(("architect", "one?"), ("architect", "two?"))

    # Also where the one was answered before the run was stopped, and the other was not.
    path = write(tmp_path, TEAM)
    whole = await stopped_everywhere(path, lambda: Scripted(draw="d", build=both), tmp_path / "runs", idea="x")
    assert whole.result["code"] == "4 messages and 4 messages"


async def test_words_go_over_the_bus_once_and_into_nobodys_later_prompts(tmp_path: Path) -> None:
    later = TEAM.replace("code: {}}", "code: {}, log: {}}").replace(
        "outputs: [code]", "  look: {role: architect, needs: [code], makes: log}\n    outputs: [log]")
    model = Scripted(draw=team, build=team, look="fine")
    going = start(write(tmp_path, later), idea="x", model=model, workspace=tmp_path, name="bus")
    async with going:
        heard = going.bus.inbox("architect", after=0)
        await going.result()
        questions = [message async for message in heard]
    assert [(message.sender, message.payload) for message in questions] == [("engineer", "which port?"),
                                                                            ("engineer", "and twice that?")]
    said = [(event.sender, event.to, event.key.partition("~0/")[2]) for event in events(tmp_path, "bus", Sent)]
    assert said == [(*pair, f"turn.{turn}/tool.0/ask.0.architect") for turn in (0, 1)
                    for pair in (("engineer", "architect"), ("architect", "engineer"))]
    assert "Message from" not in model.said("look@1~0/turn.0")


async def test_it_is_bounded(tmp_path: Path) -> None:
    def curious(request: ModelRequest) -> Any:
        if request.role == "architect":
            return "so"
        heard = results(request)
        return heard[-1] if heard and "no more" in heard[-1] else asks(("architect", f"question {len(heard)}?"))

    model = Scripted(draw="d", build=curious)
    result = await run(write(tmp_path, TEAM), idea="x", model=model, workspace=None)
    assert f"you have asked {ROLE_QUESTIONS} questions" in result["code"]
    assert sum("/ask.0." in key for key in model.keys) == ROLE_QUESTIONS


async def test_who_may_not_be_asked_is_told_with_who_may(tmp_path: Path) -> None:
    def lost(request: ModelRequest) -> Any:
        return (results(request) or [asks(("architekt", "?"))])[0]

    result = await run(write(tmp_path, TEAM), idea="x", model=Scripted(draw="d", build=lost), workspace=None)
    assert "no role `architekt` to be asked: did you mean `architect`" in result["code"]


async def test_who_asks_pays(tmp_path: Path) -> None:
    poor = TEAM.replace("{profile: You build.}", "{profile: You build., budget: {calls: 3}}").replace(
        "{profile: You design.}", "{profile: You design., budget: {calls: 1}}")
    result = await run(write(tmp_path, poor), idea="x", model=Scripted(draw=team, build=team), workspace=tmp_path, name="poor")
    assert result.outcome == "budget" and "role engineer's cap of 3 calls" in result.reason
    assert [event.role for event in events(tmp_path, "poor", Reserved)] == ["architect", "engineer", "engineer", "engineer"]


LABELLED = """
    sop: team
    inputs: {idea: {type: string, trusted: IDEA}, task: {type: string, trusted: TASK}}
    roles: {engineer: {profile: You build.}, architect: {profile: You design.}}
    artifacts: {design: {}, go: {}, code: {}}
    steps:
      draw: {role: architect, needs: [idea], makes: design}
      open: {value: "'go'", needs: [design], makes: go, trusts: [design]}
      build: {role: engineer, needs: [task, go], makes: code, talks_to: [architect], trusts: [TRUSTS]}
"""
IDEA, TASK = "the input idea", "the input task"


@pytest.mark.parametrize(("idea", "task", "trusts", "question", "answer", "told", "made"), [
    ("false", "true", "", "", IDEA, IDEA, IDEA),
    ("true", "false", "", TASK, TASK, TASK, TASK),
    ("true", "true", "", "", "", "", ""),
    ("false", "false", "task", TASK, f"{IDEA}; {TASK}", IDEA, IDEA),
])
async def test_labels_go_both_ways(tmp_path: Path, idea: str, task: str, trusts: str, question: str, answer: str, told: str,
                                   made: str) -> None:
    """What the architect remembers from outside comes with its answer; what the engineer read goes with its question."""
    model = Scripted(draw="d", build=lambda request: "so" if request.role == "architect" else (
        results(request) or [asks(("architect", "?"))])[0])
    sop = LABELLED.replace("IDEA", idea).replace("TASK", task).replace("TRUSTS", trusts)
    result = await run(write(tmp_path, sop), idea="i", task="t", model=model, workspace=tmp_path, name="labels")
    assert [event.untrusted for event in events(tmp_path, "labels", Sent)] == [question, answer]
    assert [event.untrusted for event in events(tmp_path, "labels", Done)] == [told]
    assert result.untrusted.get("code", "") == made


async def test_a_step_may_trust_what_it_is_told(tmp_path: Path) -> None:
    trusting = TEAM.replace("idea: string", "idea: {type: string, trusted: false}").replace(
        "open: {value: \"'go'\", needs: [design]", "open: {value: \"'go'\", needs: [design], trusts: [design]")
    for trusts, label in (("", "the input idea"), (", trusts: [ask_role]", "")):
        sop = trusting.replace("talks_to: [architect]", f"talks_to: [architect]{trusts}")
        assert check(write(tmp_path, sop)).ok
        result = await run(write(tmp_path, sop), idea="i", model=Scripted(draw=team, build=team), workspace=None)
        assert result.untrusted.get("code", "") == label


async def test_it_is_stopped_at_every_call_and_gone_on_with(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    whole = await stopped_everywhere(write(tmp_path, TEAM), lambda: Scripted(draw=team, build=team), runs, idea="x")
    assert whole.result["code"] == "listen(it is 7007); twice is 14014"
    for number in whole.stops:
        said = [(event.key, event.sender) for event in events(runs / f"stopped{number}", NAME, Sent)]
        assert len(said) == len(set(said)) == 4, (number, said)


async def test_a_model_without_tool_calls_asks_in_its_text(tmp_path: Path) -> None:
    class InText(Scripted):
        name = "in text"

        async def ask(self, request: ModelRequest) -> Reply:
            found = await self(request)
            return found if isinstance(found, Reply) else Reply(text=found)

    def said(request: ModelRequest) -> Any:
        if request.role == "architect":
            return "it is 7007"
        last = request.messages[-1]["content"]
        return "listen(7007)" if "it is 7007" in last else '```tool\n{"name": "ask_role", "arguments": ' \
            '{"role": "architect", "question": "which port?"}}\n```'

    model = InText(draw="d", build=said)
    model.traits = Traits(native_tools=False)                  # type: ignore[attr-defined]
    result = await run(write(tmp_path, TEAM), idea="x", model=model, workspace=None)
    assert result["code"] == "listen(7007)"


def test_it_is_checked_and_bounds_the_calls(tmp_path: Path) -> None:
    report = check(write(tmp_path, TEAM))
    assert report.ok and not report.warnings and report.bounds is not None
    assert report.bounds.steps["build"].calls == 3 * (31 + ROLE_QUESTIONS)
    for wrong, told in (("architekt", "did you mean `architect`"), ("engineer", "needs no tool to talk to itself")):
        problems = check(write(tmp_path, TEAM.replace("talks_to: [architect]", f"talks_to: [{wrong}]"))).problems
        assert told in "\n".join(map(str, problems)), problems
    problems = check(write(tmp_path, TEAM.replace("talks_to: [architect]", "tools: [ask_role]"))).problems
    assert "write `talks_to: [ROLE]` at the step" in "\n".join(map(str, problems))
