"""Reflexion: trials anew, lessons in words, who evaluates, what ends it; HumanEval against GPT-4's log, and without lessons."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from sandboxes import needs_bubblewrap
from scripted import Scripted, events, write
from stopping import stopped_everywhere

from benchmarks.papers import reflexion
from metaflow_agents import check, run
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.schema.event import Failed, Observed
from metaflow_agents.schema.payload import Data, unpack

DATA = os.environ.get("SOP_TEST_DATA")
GUESS = """
    sop: guess
    inputs: {limit: integer}
    roles: {solver: {profile: You guess.}, judge: {profile: You judge.}}
    artifacts: {guess: {schema: {number: integer}, file: guess.json}}
    steps:
      solve: {role: solver, needs: [limit], makes: guess, strategy: {reflexion: {PARAMETERS}}}
"""
ASSERTED = 'evaluator: {assert: "answer.number >= limit"}'
LESSON = re.compile(r"<lesson>\n(.*?)\n</lesson>", re.DOTALL)


def lessons_in(request: ModelRequest) -> list[str]:
    return LESSON.findall(request.messages[-1]["content"])


def learner(request: ModelRequest) -> Any:
    """Says one more than the largest number of which a lesson says that it is too small; without lessons 1."""
    if request.key.endswith("/lesson"):
        tried = int(re.search(r'"number": (\d+)', request.messages[-1]["content"])[1])       # type: ignore[index]
        return f"{tried} is too small."
    if request.key.endswith("/verdict/verdict"):
        tried = int(re.search(r'"number": (\d+)', request.messages[-1]["content"])[1])       # type: ignore[index]
        return {"good": tried >= 3, "why": f"{tried} is not enough, the judge says"}
    return {"number": 1 + max((int(lesson.split()[0]) for lesson in lessons_in(request)), default=0)}


def written(folder: Path, parameters: str, **files: str) -> Path:
    return write(folder, GUESS.replace("PARAMETERS", parameters), **files)


async def done(path: Path, model: Any, **options: Any) -> Any:
    return await run(path, **{"limit": 3, "model": model, "workspace": None, "sandbox": "none", **options})


async def test_a_lesson_stands_in_the_next_trial_which_begins_anew(tmp_path: Path) -> None:
    model = Scripted(solve=learner)
    result = await done(written(tmp_path, ASSERTED), model)
    assert result["guess"] == {"number": 3} and result.calls == 5
    assert model.keys == [f"solve@1~0/trial.{number}" + end for number, end in (
        (1, "/turn.0"), (1, "/lesson"), (2, "/turn.0"), (2, "/lesson"), (3, "/turn.0"))]
    assert [len(request.messages) for request in model.requests] == [2] * 5, "every one of them begins a conversation"
    assert lessons_in(model.requests[4]) == ["1 is too small.", "2 is too small."]
    reflecting = model.said("solve@1~0/trial.2/lesson")
    assert '"number": 2' in reflecting and "`answer.number >= limit` does not hold" in reflecting
    assert "1 is too small." in reflecting, "what it told itself before"


async def test_the_first_trial_is_asked_as_without_the_strategy(tmp_path: Path) -> None:
    model, plain = Scripted(solve=learner), Scripted(solve=learner)
    await done(written(tmp_path, ASSERTED), model)
    path = written(tmp_path, ASSERTED)
    path.write_text(re.sub(r", strategy: .*}$", "}", path.read_text(), flags=re.MULTILINE))
    await done(path, plain)
    assert model.requests[0].messages == plain.requests[0].messages


async def test_without_its_lessons_nothing_is_learnt(tmp_path: Path) -> None:
    """The mechanism taken out: the same model, the same trials, a prompt that shows no lesson."""
    deaf = written(tmp_path, f"{ASSERTED}, prompts: {{trial: deaf.j2}}, trials: 5, unsolved: last",
                   deaf_j2="{{ output_format }}")
    result = await done(deaf, Scripted(solve=learner), workspace=tmp_path, name="deaf")
    assert result["guess"] == {"number": 1}


async def test_the_last_lessons_stand_there_and_the_first_is_pushed_out(tmp_path: Path) -> None:
    for kept in (1, 2, 3):
        model = Scripted(solve=learner)
        path = written(tmp_path, f"{ASSERTED}, trials: 6" + (f", lessons: {kept}" if kept != 3 else ""))
        assert (await done(path, model, limit=6))["guess"] == {"number": 6}
        trials = [lessons_in(request) for request in model.requests if request.key.endswith("turn.0")]
        every = [f"{number} is too small." for number in range(1, 6)]
        assert trials == [every[max(0, number - kept):number] for number in range(6)], kept
    assert "1 is too small." in trials[3] and "1 is too small." not in trials[4], "the fourth lesson pushes out the first"


async def test_where_no_trial_is_good_the_attempt_fails_or_the_last_answer_is_taken(tmp_path: Path) -> None:
    result = await done(written(tmp_path, f"{ASSERTED}, trials: 2"), Scripted(solve=learner), workspace=tmp_path, name="fails")
    assert result.outcome == "stopped" or result.outcome == "failure", result
    (failed,) = events(tmp_path, "fails", Failed)
    assert "no trial of 2 was good (all trials are used up)" in failed.error and "does not hold" in failed.error
    last = await done(written(tmp_path, f"{ASSERTED}, trials: 2, unsolved: last"), Scripted(solve=learner))
    assert last["guess"] == {"number": 2}


async def test_the_same_answer_and_the_same_verdict_end_it_and_the_journal_says_why(tmp_path: Path) -> None:
    model = Scripted(solve=lambda request: "Try harder." if request.key.endswith("/lesson") else {"number": 1})
    path = written(tmp_path, f"{ASSERTED}, trials: 5, unsolved: last")
    result = await done(path, model, workspace=tmp_path, name="stuck")
    assert result["guess"] == {"number": 1} and result.calls == 3, "two trials and a lesson, not five"
    assert notes(tmp_path, "stuck") == [{"trials": 2, "good": False, "told": "`answer.number >= limit` does not hold",
                                         "ended": "stuck: the same answer got the same verdict as in the trial before"}]


async def test_the_same_answer_with_another_verdict_goes_on(tmp_path: Path) -> None:
    def moody(request: ModelRequest) -> Any:
        if request.key.endswith("/verdict/verdict"):
            return {"good": False, "why": f"mood {request.key}"}
        return "Try harder." if request.key.endswith("/lesson") else {"number": 1}
    result = await done(written(tmp_path, "evaluator: {role: judge}, trials: 3, unsolved: last"), Scripted(solve=moody))
    assert result.calls == 3 + 3 + 2


async def test_times_in_what_a_command_says_are_no_difference(tmp_path: Path) -> None:
    model = Scripted(solve=lambda request: "Try harder." if request.key.endswith("/lesson") else {"number": 1})
    timed = "import time, sys; print(f'1 failed in {time.perf_counter():.7f}s at {hex(time.perf_counter_ns())}'); sys.exit(1)"
    path = written(tmp_path, f'evaluator: {{run: [python, -c, "{timed}"]}}, trials: 5, unsolved: last')
    assert (await done(path, model)).calls == 3


async def test_a_command_judges_the_answer_as_it_lies_in_its_file(tmp_path: Path) -> None:
    judging = "import json, sys; n = json.load(open('guess.json'))['number']; print('too small:', n); sys.exit(n < {{ limit }})"
    model = Scripted(solve=learner)
    path = written(tmp_path, f'evaluator: {{run: [python, -c, "{judging}"]}}')
    assert (await done(path, model, workspace=tmp_path, name="command"))["guess"] == {"number": 3}
    assert "too small: 1" in model.said("solve@1~0/trial.1/lesson")
    assert [note["trials"] for note in notes(tmp_path, "command")] == [3]


async def test_a_role_judges_in_its_own_words(tmp_path: Path) -> None:
    model = Scripted(solve=learner)
    result = await done(written(tmp_path, "evaluator: {role: judge}"), model)
    assert result["guess"] == {"number": 3} and result.calls == 3 + 3 + 2
    (judged, *_) = [request for request in model.requests if request.key == "solve@1~0/trial.1/verdict/verdict"]
    assert judged.role == "judge" and "1 is not enough, the judge says" in model.said("solve@1~0/trial.1/lesson")


async def test_what_is_not_in_form_is_a_failed_trial(tmp_path: Path) -> None:
    def formless(request: ModelRequest) -> Any:
        return {"number": 5} if lessons_in(request) else "number: `number` five"
    model = Scripted(solve=lambda request: "Write JSON." if request.key.endswith("/lesson") else formless(request))
    assert (await done(written(tmp_path, ASSERTED), model))["guess"] == {"number": 5}
    assert "number: `number` five" in model.said("solve@1~0/trial.1/lesson")


async def test_each_trial_has_files_of_its_own_and_those_of_the_last_are_taken(tmp_path: Path) -> None:
    text = GUESS.replace("You guess.", "You guess., tools: [write, list]")
    text = text.replace("{schema: {number: integer}, file: guess.json}", '{files: "out/*"}')
    path = write(tmp_path, text.replace("PARAMETERS", "evaluator: {assert: \"'out/b' in answer\"}"))

    def writer(request: ModelRequest) -> Any:
        if request.key.endswith("/lesson"):
            return "Write b."
        if request.messages[-1]["role"] == "tool":
            return "done"
        name = "b" if lessons_in(request) else "a"
        return Reply(text="", calls=(ToolCall("", "write", {"path": f"out/{name}", "text": name}),))
    assert (await done(path, Scripted(solve=writer)))["guess"] == {"out/b": "b"}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("evaluator", [ASSERTED, "evaluator: {role: judge}"])
async def test_it_goes_on_from_every_call(tmp_path: Path, evaluator: str) -> None:
    whole = await stopped_everywhere(written(tmp_path, evaluator), lambda: learner, tmp_path / "runs", limit=3)
    assert len(whole.keys) == (5 if evaluator is ASSERTED else 8)


async def test_a_failed_attempt_fails_again_after_a_stop(tmp_path: Path) -> None:
    path = written(tmp_path, f"{ASSERTED}, trials: 2")
    whole = await stopped_everywhere(path, lambda: learner, tmp_path / "runs", limit=3)
    assert not whole.result.ok and len(whole.keys) == 3


async def test_a_dry_walk_executes_nothing_and_the_bound_holds(tmp_path: Path) -> None:
    for evaluator, calls, most in (('{assert: "answer.number > 100"}', 1, 3 + 2), ("{run: [cat, absent]}", 1, 3 + 2),
                                   ("{role: judge}", 2, 3 * (1 + 3) + 2)):
        path = written(tmp_path, f"evaluator: {evaluator}")
        result = await run(path, limit=3, model="dry", workspace=None)
        assert result.ok and result.calls == calls, evaluator
        bounds = check(path).bounds
        assert bounds is not None and bounds.steps["solve"].calls == most + 2, "two repairs"


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    for parameters, told in (
            ("trials: 2", "wants `evaluator`"), ("evaluator: {}", "exactly one of `run`, `assert` and `role`"),
            ("evaluator: {run: a, role: judge}", "exactly one of"), ("evaluator: {role: jugde}", "did you mean `judge`"),
            ('evaluator: {assert: "anwser.number"}', "did you mean `answer`"),
            ('evaluator: {run: "a && b"}', "shell"), ('evaluator: {run: "a {{ limt }}"}', "limt"),
            ('evaluator: {run: [a, "{{ limt }}"]}', "limt"), (f"{ASSERTED}, unsolved: pass", "fail"),
            (f"{ASSERTED}, lessons: 0", "at least 1"), (f"{ASSERTED}, prompts: {{lesson: x.j2}}", "no prompt `lesson`")):
        said = "\n".join(map(str, check(written(tmp_path, parameters)).problems))
        assert told in said, (parameters, said)
    for command in ("{run: a}", "{run: [a, b]}"):
        path = written(tmp_path, f"evaluator: {command}")
        path.write_text(path.read_text().replace(", file: guess.json", ""))
        assert [problem.code for problem in check(path).errors] == ["check-blind"]


async def test_what_the_strategy_refers_to_counts_in_what_is_reused(tmp_path: Path) -> None:
    """A run that takes over another's work does it anew where a prompt of the strategy, or a role that it names, has changed."""
    path = written(tmp_path, "evaluator: {role: judge}, prompts: {reflect: reflect.j2}", reflect_j2="{{ answer | tojson(2) }}")
    options: dict[str, Any] = {"workspace": tmp_path, "limit": 3}
    assert (await done(path, Scripted(solve=learner), name="first", **options)).ok
    again = Scripted(solve=learner)
    assert (await done(path, again, name="second", from_run="first", **options)).ok and again.keys == []
    (tmp_path / "reflect.j2").write_text("Say it in words. {{ answer | tojson(2) }}")
    other = Scripted(solve=learner)
    assert (await done(path, other, name="third", from_run="second", **options)).ok and other.keys
    path.write_text(path.read_text().replace("You judge.", "You judge well."))
    third = Scripted(solve=learner)
    assert (await done(path, third, name="fourth", from_run="third", **options)).ok and third.keys


async def test_what_its_expression_names_of_the_run_counts_too(tmp_path: Path) -> None:
    path = written(tmp_path, 'evaluator: {assert: "answer.number >= run.inputs.limit"}')
    path.write_text(path.read_text().replace("needs: [limit], ", ""))
    assert (await done(path, Scripted(solve=learner), name="first", workspace=tmp_path, limit=1))["guess"] == {"number": 1}
    again = await done(path, Scripted(solve=learner), name="second", workspace=tmp_path, limit=2, from_run="first")
    assert again["guess"] == {"number": 2}


@pytest.mark.one_in(10)
@needs_bubblewrap
@pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA does not name a folder with public data")
def test_human_eval() -> None:
    """All that the papers' table tells of it: the log's own verdicts, its reflections in the prompts, a bug that lessons mend."""
    agree, reflections, mended, stuck = (row.here for row in reflexion.rows(Path(DATA or "")))
    assert agree == "82 of 82; 73"
    assert reflections == "87 of 87"
    assert mended == "82; 0; 0 of 82"
    assert stuck == "82 of 82"


def notes(workspace: Path, name: str) -> list[Any]:
    with Journal.read(workspace / ".journals" / f"{name}.db") as journal:
        payloads = [unpack(journal.blob(event.payload)) for _, event in journal.events(Observed) if event.key.endswith("/trials")]
    return [payload.value for payload in payloads if isinstance(payload, Data)]
