"""Lessons that outlive their trials (`memory.lessons`): over runs, within one, how many, whose, and over stops."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from cli_desk import sop
from scripted import Scripted, events, write
from stopping import stopped_everywhere

from metaflow_agents import check, resume, run
from metaflow_agents.api.run import start
from metaflow_agents.memory.store import PLACE, MemoryDatabase
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.event import Finished

GUESS = """
    sop: guess
    inputs: {limit: integer}
    roles: {solver: {profile: You guess., memory: {MEMORY}}}
    artifacts: {guess: {schema: {number: integer}}, again: {schema: {number: integer}}, apart: {schema: {number: integer}}}
    steps:
      solve:
        role: solver
        needs: [limit]
        makes: guess
        strategy: {reflexion: {evaluator: {assert: "answer.number >= limit"}, trials: 9}}
      beside: {role: solver, needs: [limit], makes: apart}
      repeat: {role: solver, needs: [guess], makes: again}
"""
LESSON = re.compile(r"<lesson(?: at=\"[^\"]*\")?>\n(.*?)\n</lesson>", re.DOTALL)
KEPT = re.compile(r"<lesson at=\"([^\"]*)\">\n(.*?)\n</lesson>", re.DOTALL)


def said(request: ModelRequest) -> str:
    return "\n".join(str(message["content"]) for message in request.messages)


def kept(request: ModelRequest) -> list[str]:
    """The lessons of the role's memory in a prompt."""
    return [lesson for _, lesson in KEPT.findall(said(request))]


def learner(request: ModelRequest) -> Any:
    """Says one more than the largest number of which a lesson says that it is too small; without lessons 1."""
    if request.key.endswith("/lesson"):
        tried = int(re.search(r'"number": (\d+)', str(request.messages[-1]["content"]))[1])       # type: ignore[index]
        return f"{tried} is too small."
    return {"number": 1 + max((int(re.split(r"\W", lesson)[0]) for lesson in LESSON.findall(said(request))), default=0)}


def scripted() -> Scripted:
    return Scripted(dict.fromkeys(("solve", "beside", "repeat"), learner))


def guess(folder: Path, memory: str = "lessons: 3") -> Path:
    return write(folder, GUESS.replace("MEMORY", memory))


async def lived(path: Path, name: str, limit: int = 3, **given: Any) -> Scripted:
    """What a run in the project of that folder asked."""
    model = scripted()
    assert (await run(path, limit=limit, model=model, workspace=path.parent, name=name, sandbox="none", **given)).ok
    return model


def asked(model: Scripted, step: str) -> list[ModelRequest]:
    return [request for request in model.requests if request.step == step]


def trials(model: Scripted) -> int:
    return sum(request.key.endswith("/turn.0") for request in asked(model, "solve"))


@pytest.mark.parametrize(("memory", "second"), [("lessons: 3", 1), ("window: 40 turns", 3), ("recall: {}", 3)])
async def test_what_a_run_learnt_the_next_one_knows_at_its_first_trial(tmp_path: Path, memory: str, second: int) -> None:
    path = guess(tmp_path, memory)
    assert trials(await lived(path, "a")) == 3
    assert trials(await lived(path, "b")) == second


async def test_the_fourth_lesson_pushes_out_the_first(tmp_path: Path) -> None:
    path = guess(tmp_path)
    await lived(path, "a", 4)
    second, third = await lived(path, "b", 5), await lived(path, "c", 5)
    assert kept(asked(second, "solve")[0]) == ["1 is too small.", "2 is too small.", "3 is too small."]
    assert kept(asked(third, "solve")[0]) == ["2 is too small.", "3 is too small.", "4 is too small."]
    guess(tmp_path, "lessons: 1")
    assert kept(asked(await lived(path, "d", 5), "solve")[0]) == ["4 is too small."]


async def test_in_a_run_they_stand_where_what_led_there_learnt_them(tmp_path: Path) -> None:
    model = await lived(guess(tmp_path), "a")
    assert [kept(request) for request in asked(model, "repeat")] == [["1 is too small.", "2 is too small."]]
    assert KEPT.findall(said(asked(model, "repeat")[0]))[0][0] == "solve@1~0"
    assert [kept(request) for request in [*asked(model, "solve"), *asked(model, "beside")]] == [[]] * 6


async def test_what_parallel_work_learns_is_not_known_in_the_same_run(tmp_path: Path) -> None:
    path, model, learnt = guess(tmp_path), scripted(), asyncio.Event()
    path.write_text(path.read_text().replace("artifacts: {", "artifacts: {late: {}, ") + (
        "  later: {role: solver, needs: [apart], makes: late}\n"))

    async def last(_: ModelRequest) -> Any:
        await learnt.wait()
        return {"number": 1}

    def repeated(request: ModelRequest) -> Any:
        learnt.set()
        return learner(request)

    model.answers.update(beside=last, repeat=repeated)
    assert (await run(path, limit=3, model=model, workspace=tmp_path, name="a")).ok
    assert kept(asked(model, "repeat")[0]) and not kept(asked(model, "later")[0])


async def test_the_same_words_stand_there_once_and_count_as_the_latest(tmp_path: Path) -> None:
    text = GUESS.replace("MEMORY", "lessons: 3").replace("trials: 9", "trials: 3, unsolved: last")
    path, words, numbers = write(tmp_path, text), iter(["2: look.", "2: look.", "4: think.", "2: look."]), iter(range(9))
    model = scripted()
    model.answers["solve"] = lambda request: next(words) if request.key.endswith("/lesson") else {"number": next(numbers)}
    for name in ("a", "b"):
        assert (await run(path, limit=99, model=model, workspace=tmp_path, name=name)).ok
    assert kept(asked(await lived(path, "c", 1), "beside")[0]) == ["4: think.", "2: look."]


@pytest.mark.one_in(4)
async def test_nobody_recalls_or_reflects_on_them_and_the_command_shows_them(tmp_path: Path) -> None:
    path = guess(tmp_path, "lessons: 3, recall: {importance: 0}")
    await lived(path, "a")
    model = await lived(path, "b")
    recalled = [block for request in model.requests for block in re.findall(r"<memory .*?</memory>", said(request), re.DOTALL)]
    assert recalled and not any("too small" in block for block in recalled)
    told = sop(tmp_path, "memory", "show", "--kind", "lesson", "--role", "solver", "--workspace", str(tmp_path))
    assert told.returncode == 0 and told.stdout.count("lesson of solver, a solve@1~0") == 2 and "1 is too small." in told.stdout
    assert "Asked" not in told.stdout


async def test_each_character_of_a_role_has_lessons_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, """
        sop: shared
        inputs: {names: [string], limit: integer}
        roles: {solver: {profile: You guess., memory: {lessons: 3}}}
        artifacts: {guesses: {each: {number: integer}}, again: {each: {number: integer}}}
        steps:
          solve:
            role: solver
            needs: [names, limit]
            foreach: {in: names}
            self: "{{ item }}"
            makes: guesses
            strategy: {reflexion: {evaluator: {assert: "answer.number >= (limit if item == 'ann' else 0)"}}}
          repeat: {role: solver, needs: [guesses, names], foreach: {in: names}, self: "{{ item }}", makes: again}
    """)
    model = scripted()
    assert (await run(path, names=["ann", "bob"], limit=2, model=model, workspace=tmp_path, name="a")).ok
    found = {request.key: kept(request) for request in asked(model, "repeat")}
    assert found == {"repeat@1[ann]~0/turn.0": ["1 is too small."], "repeat@1[bob]~0/turn.0": []}
    again = scripted()
    assert (await run(path, names=["ann", "bob"], limit=2, model=again, workspace=tmp_path, name="b")).ok
    found = {request.key: kept(request) for request in asked(again, "solve")}
    assert found == {"solve@1[ann]~0/trial.1/turn.0": ["1 is too small."], "solve@1[bob]~0/trial.1/turn.0": []}


async def test_untrusted_lessons_are_untrusted_in_other_runs_and_secrets_are_blotted(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_KEY", "xyzzy-4711")
    text = GUESS.replace("MEMORY", "lessons: 3").replace(
        "inputs: {limit: integer}", "inputs: {limit: {type: integer, trusted: false}}\n    secrets: [DESK_KEY]")
    model = scripted()
    model.answers["solve"] = lambda request: "2 is too small, xyzzy-4711" if request.key.endswith("/lesson") else learner(request)
    await run(write(tmp_path, text), limit=3, model=model, workspace=tmp_path, name="monday")
    finished = {event.activation: event for event in events(tmp_path, "monday", Finished)}
    (lesson,) = finished["solve@1~0"].besides
    assert "limit" in lesson.untrusted and lesson.kind == "lesson"
    for file in (tmp_path / PLACE.parent).iterdir():
        assert b"xyzzy" not in file.read_bytes()
    path, model = guess(tmp_path), scripted()
    path.write_text(path.read_text().replace("apart: {schema: {number: integer}}", "apart: {}"))
    model.answers["beside"] = "some words"
    result = await run(path, limit=3, model=model, workspace=tmp_path, name="tuesday", sandbox="none")
    assert [one[:15] for one in kept(asked(model, "beside")[0])] == ["2 is too small,"]
    labels = {event.activation: event for event in events(tmp_path, "tuesday", Finished)}
    assert "limit" in labels["beside@1~0"].untrusted, "it was told what came from outside"
    assert trials(model) == 1 and all(event.memory and "limit" in event.memory.untrusted for event in labels.values()), result


@pytest.mark.one_in(4)
async def test_stopped_at_every_call_they_know_the_same(tmp_path: Path) -> None:
    whole = await stopped_everywhere(guess(tmp_path), lambda: learner, tmp_path, limit=3)
    assert whole.result["again"] == {"number": 3} and whole.result["apart"] == {"number": 1}


async def test_what_others_learn_while_a_run_is_stopped_changes_no_prompt_of_what_it_had_begun(tmp_path: Path) -> None:
    path = guess(tmp_path, "lessons: 5")
    await lived(path, "before", 2)
    model = scripted()

    async def stop_here() -> Any:
        going.stop()
        await asyncio.sleep(60)

    model.answers["solve"] = lambda request: stop_here() if "trial.2" in request.key else learner(request)
    async with start(path, limit=4, model=model, workspace=tmp_path, name="cut", sandbox="none") as going:
        await going.result()
    before = {request.key: request.messages for request in model.requests}
    await lived(path, "between", 9)
    rest = scripted()
    assert (await resume("cut", model=rest, workspace=tmp_path, sandbox="none")).ok
    assert kept(asked(rest, "solve")[0]) == ["1 is too small."], "as it was when the activation began"
    assert all(before.get(request.key, request.messages) == request.messages for request in rest.requests)
    assert kept(asked(rest, "repeat")[0])[-2:] == ["2 is too small.", "3 is too small."], "its own are the latest"


@pytest.mark.parametrize(("memory", "anew"), [("lessons: 3", True), ("window: 40 turns", False)])
async def test_from_runs_anew_what_was_told_other_lessons(tmp_path: Path, memory: str, anew: bool) -> None:
    path = guess(tmp_path, memory)
    await lived(path, "a")
    assert (await lived(path, "b", from_run="a")).keys == []
    besides = [{event.activation: event.besides for event in events(tmp_path, name, Finished)} for name in ("a", "b")]
    assert besides[0] == besides[1] and bool(besides[0]["solve@1~0"]) == anew
    (tmp_path / "other.j2").write_text('"number": {{ answer.number }}')
    path.write_text(path.read_text().replace("trials: 9", "trials: 8, prompts: {reflect: other.j2}"))
    model = await lived(path, "c", from_run="a")
    assert bool(asked(model, "repeat")) == anew and not asked(model, "beside")


def test_who_keeps_lessons_that_nobody_draws_is_told(tmp_path: Path) -> None:
    (problem,) = check(write(tmp_path, GUESS.replace("MEMORY", "lessons: 3").replace("role: solver\n", "role: other\n").replace(
        "roles: {", "roles: {other: {profile: You guess.}, "))).problems
    assert problem.code == "lessons-unwritten" and "`solver` keeps lessons" in problem.message
    assert check(guess(tmp_path)).problems == ()


def test_without_the_key_none_are_kept(tmp_path: Path) -> None:
    asyncio.run(lived(guess(tmp_path, "recall: {importance: 0}"), "a"))
    store = MemoryDatabase(tmp_path / PLACE)
    assert store.listed(kind="turn") and not store.listed(kind="lesson")
    store.close()
