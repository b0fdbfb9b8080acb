"""`stuck:`: what comes again and again is noticed, by exact signs; a hint, a reflection, a person, the end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, firings, write
from stopping import stopped_everywhere

from metaflow_agents import check, run
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Failed

LOOP = """
    sop: loop
    inputs: {wish: string}
    roles: {coder: {profile: You write code.}}
    artifacts:
      code: {}
      result: {schema: {ok: boolean, failures: [{id: string}]}}
    steps:
      write: {role: coder, needs: [wish], wants: [result], makes: code, rounds: 6, when: not result.ok STUCK}
      test: {value: "VALUE", needs: [code], makes: result}
    success: result.ok
"""
FAILS = "{'ok': 'y' in code, 'failures': [{'id': 'a' ~ code | length}, {'id': 't'}] if 'y' not in code else []}"
MODES = re.compile(r"Do something else|You thought about it:\n\n(.*)|A person was asked, and says:\n\n(.*)")


def loop(stuck: str, value: str = FAILS) -> str:
    return LOOP.replace(" STUCK", f", stuck: {stuck}" if stuck else "").replace("VALUE", value)


def stubborn(way: str) -> Any:
    """A coder that always makes its code a little longer, and turns to `y` only by what it is told of being stuck."""
    async def code(request: ModelRequest) -> Any:
        said = request.messages[-1]["content"]
        if "/reflect" in request.key:
            return "it lacks a y" if "the test `t` failed" in said else "no idea"
        told = MODES.search(said)
        found = "" if told is None else (told[1] or told[2] or "something else")
        return "y" if way and way in found else "x" * int(request.key.partition("@")[2][0])
    return code


async def looped(folder: Path, stuck: str, way: str, name: str = "loop", **options: Any) -> Any:
    model = Scripted(write=stubborn(way))
    result = await run(write(folder, loop(stuck)), wish="w", model=model, workspace=folder, name=name, **options)
    return result, model


async def test_a_test_that_keeps_failing_gives_a_hint_and_without_the_key_there_is_none(tmp_path: Path) -> None:
    """The code differs in each round, and one of the failing tests does too: the other one is the sign."""
    result, model = await looped(tmp_path, "{}", "something else", "with")
    assert result.ok and firings(tmp_path, "with") == ["write@1", "test@1", "write@2", "test@2", "write@3", "test@3"]
    assert "the test `t` failed in 2 rounds in a row" in model.last_said("write@3~0/turn.0")
    assert "It does not get on" not in model.last_said("write@2~0/turn.0")
    result, _ = await looped(tmp_path, "", "something else", "without")
    assert result.outcome == "failure" and len(firings(tmp_path, "without")) == 12


async def test_where_a_hint_is_not_enough_the_role_thinks_about_it(tmp_path: Path) -> None:
    result, model = await looped(tmp_path, "{}", "lacks a y")
    assert result.ok and [key for key in model.keys if "reflect" in key] == ["write@4~0/rounds/reflect"]
    assert "You thought about it:\n\nit lacks a y" in model.last_said("write@4~0/turn.0")
    assert "Do something else" not in model.said("write@4~0/turn.0"), "a hint is no part of what a role remembers"


async def test_a_person_is_asked_and_their_word_stands_in_the_prompt(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def person(question: Question, number: int) -> Answer:
        asked.append(question)
        return Answer(text="use a y")

    result, _ = await looped(tmp_path, "{then: [hint, ask]}", "use a y", asker=person)
    assert result.ok and len(asked) == 1
    question, _, did = asked[0].text.partition("\n\n")
    assert question == "`coder` is stuck in `write`: the test `t` failed in 3 rounds in a row. What shall it do?"
    assert '"failures": [{"id": "a3"}' in did.replace("\n", "").replace("  ", "") and "<made>\nxxx\n</made>" in did, did


async def test_with_nobody_there_the_run_parks(tmp_path: Path) -> None:
    result, _ = await looped(tmp_path, "{then: [ask]}", "use a y")
    assert result.outcome == "waiting" and "is stuck in `write`" in result.reason


async def test_the_last_rung_ends_it_with_the_reason_whatever_the_retries(tmp_path: Path) -> None:
    result, _ = await looped(tmp_path, "{after: 3, then: [stop]}, retries: 5", "never")
    assert result.outcome == "stopped" and result.reason == "write@4~0: stuck: the test `t` failed in 3 rounds in a row"
    assert [(event.activation, event.final) for event in events(tmp_path, "loop", Failed)] == [("write@4~0", True)]


async def test_an_artifact_that_does_not_change_is_a_sign(tmp_path: Path) -> None:
    """No test is named: what the step makes, and what it is told, is the same text again."""
    def said(request: ModelRequest) -> Any:
        return "y" if "`code` is the same after 2 rounds" in request.messages[-1]["content"] else "x"

    sop = loop("{}", "{'ok': 'y' in code, 'failures': [] if round > 9 else []}")
    result = await run(write(tmp_path, sop), wish="w", model=Scripted(write=said), workspace=tmp_path, name="same")
    assert result.ok and firings(tmp_path, "same")[-1] == "test@3"


READING = """
    sop: reading
    inputs: {book: file}
    roles: {clerk: {profile: You look., tools: [list]}}
    artifacts: {letter: {}}
    steps:
      write: {role: clerk, needs: [book], makes: letter STUCK}
"""


def looking(request: ModelRequest) -> Any:
    """Calls the same tool until it is told that it does."""
    if "/reflect" in request.key:
        return "stop looking"
    last = request.messages[-1]["content"]
    if "You thought about it:\n\nstop looking" in last:
        return "Dear you"
    return Reply("", calls=(ToolCall("c", "list", {}),))


async def test_the_same_call_with_the_same_result_is_a_sign(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("text")
    for stuck, calls in ((", stuck: {}", 5), ("", 31)):
        model = Scripted(write=looking)
        result = await run(write(tmp_path, READING.replace(" STUCK", stuck)), book=tmp_path / "b.txt", model=model,
                           workspace=None)
        assert (result.outcome, len(model.keys)) == (("success", calls) if stuck else ("stopped", calls)), (result, model.keys)
        if stuck:
            assert model.keys == ["write@1~0/turn.0", "write@1~0/turn.1", "write@1~0/turn.2", "write@1~0/turn.2/reflect",
                                  "write@1~0/turn.3"]
            assert "`list` was called 2 times with the same arguments" in model.last_said("write@1~0/turn.2")


CHECKED = """
    sop: checked
    inputs: {wish: string}
    roles: {coder: {profile: You write.}, critic: {profile: You judge.}}
    artifacts: {code: {}}
    steps:
      write: {role: coder, needs: [wish], makes: code, review: {role: critic, repairs: 6} STUCK}
"""


def judged(request: ModelRequest) -> Any:
    if "/reviewed." in request.key:
        answer = request.messages[-1]["content"].partition("<answer>")[2].partition("</answer>")[0]
        return {"good": "y" in answer, "why": "no good"}
    return "y" if "Do something else" in request.messages[-1]["content"] else f"x{len(request.messages)}"


async def test_the_same_complaint_of_a_check_or_review_is_a_sign(tmp_path: Path) -> None:
    for stuck, ends in ((", stuck: {}", "success"), ("", "stopped")):
        model = Scripted(write=judged)
        result = await run(write(tmp_path, CHECKED.replace(" STUCK", stuck)), wish="w", model=model, workspace=None)
        assert result.outcome == ends


@pytest.mark.one_in(4)
@pytest.mark.parametrize("sop", [loop("{}"), READING.replace(" STUCK", ", stuck: {}"), CHECKED.replace(" STUCK", ", stuck: {}")])
async def test_it_is_stopped_at_every_call_and_gone_on_with(tmp_path: Path, sop: str) -> None:
    (tmp_path / "b.txt").write_text("text")
    given: dict[str, Any] = {"book": tmp_path / "b.txt"} if "book" in sop else {"wish": "w"}
    says = stubborn("lacks a y") if "sop: loop" in sop else looking if "book" in sop else judged
    whole = await stopped_everywhere(write(tmp_path, sop), lambda: Scripted(write=says), tmp_path / "runs", **given)
    assert whole.result.ok


def test_it_is_checked_and_bounds_the_calls(tmp_path: Path) -> None:
    plain, watched = check(write(tmp_path, loop(""))), check(write(tmp_path, loop("{}")))
    assert plain.bounds is not None and watched.bounds is not None and not watched.warnings
    assert (plain.bounds.steps["write"].calls, watched.bounds.steps["write"].calls) == (3, 4)
    for wrong, told in (("{then: [stop, hint]}", "in the order hint, reflect, ask, stop"),
                        ("{then: [hint, hint]}", "may occur once"),
                        ("{after: 1}", "at least 2"), ("{then: []}", "then"), ("{then: [hnt]}", "hint")):
        problems = "\n".join(map(str, check(write(tmp_path, loop(wrong))).problems))
        assert told in problems, (wrong, problems)
