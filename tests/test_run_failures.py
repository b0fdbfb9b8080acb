# ruff: noqa: E501  (SOPs stand here as people write them)
"""What happens when work fails: attempts, timeouts, on_fail, faults of models and functions, and that nothing keeps running."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE
from scripted import Scripted, events, finished, firings, write

from metaflow_agents import RunResult, resume, run, start
from metaflow_agents.models.port import ModelRequest, Reply
from metaflow_agents.schema.event import Failed, Finished, RunEnded, Settled

ONE = """
    sop: one
    inputs: {letter: string}
    roles: {clerk: {profile: You write.}}
    artifacts: {reply: {}}
    steps: {answer: {role: clerk, needs: [letter], makes: reply MORE}}
"""
MANY = """
    sop: many
    inputs: {names: [string]}
    roles: {clerk: {profile: You write.}}
    artifacts:
      letters: {each: string}
      trouble: {}
      summary: {}
    steps:
      write:
        role: clerk
        needs: [names]
        foreach: {in: names, as: name, AFTER}
        makes: letters
        MORE
      sum: {value: "(letters | list | join(' ')) ~ ' missing ' ~ (letters.missing | join(' '))", needs: [letters], makes: summary}
    outputs: [summary]
"""


def one(tmp_path: Path, more: str = "") -> Path:
    return write(tmp_path, ONE.replace(" MORE", more))


def many(tmp_path: Path, more: str = "", after: str = "") -> Path:
    text = MANY.replace("MORE", more).replace(", AFTER", after)
    if "trouble" not in more:
        text = text.replace("      trouble: {}\n", "")
    return write(tmp_path, text)


async def ask(path: Path, model: Any, workspace: Path | None = None, **inputs: Any) -> RunResult:
    return await asyncio.wait_for(run(path, model=model, workspace=workspace, inputs=inputs or {"letter": "x"}), 20)


def failures(tmp_path: Path, name: str) -> list[tuple[str, bool, bool]]:
    return [(event.activation, event.final, event.stops) for event in events(tmp_path, name, Failed)]


async def test_retries_are_fresh_attempts_with_numbers_of_their_own(tmp_path: Path) -> None:
    model = Scripted(answer=[ValueError("once"), ValueError("twice"), "at last"])
    result = await ask(one(tmp_path, ", retries: 2"), model, tmp_path)
    assert result["reply"] == "at last"
    assert model.keys == ["answer@1~0/turn.0", "answer@1~1/turn.0", "answer@1~2/turn.0"]
    assert failures(tmp_path, "one-1") == [("answer@1~0", False, False), ("answer@1~1", False, False)]
    assert list(finished(tmp_path, "one-1")) == ["answer@1~2"]
    assert model.requests[0].messages == model.requests[2].messages       # nothing of the failed ones


async def test_stop_is_the_default_and_a_resume_grants_a_fresh_series(tmp_path: Path) -> None:
    model = Scripted(answer=ValueError("no"))
    result = await ask(one(tmp_path, ", retries: 1"), model, tmp_path)
    assert (result.outcome, result.exit_status) == ("stopped", 1)
    assert "answer@1~1" in result.reason and "ValueError: no" in result.reason
    again = await resume("one-1", workspace=tmp_path, model=model)
    assert again.outcome == "stopped" and model.keys[2:] == ["answer@1~2/turn.0", "answer@1~3/turn.0"]
    last = await resume("one-1", workspace=tmp_path, model=Scripted(answer="yes"))
    assert last["reply"] == "yes" and list(finished(tmp_path, "one-1")) == ["answer@1~4"]


async def test_one_item_that_stops_the_run_cancels_the_others_and_the_done_stay_done(tmp_path: Path) -> None:
    slow: list[str] = []

    async def model(request: ModelRequest) -> str:
        if "[bad]" in request.key:
            await asyncio.sleep(0.05)
            raise ValueError("bad")
        if "[slow]" in request.key:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                slow.append("cancelled")
                raise
        return "fine"

    async with asyncio.timeout(PATIENCE):
        result = await ask(many(tmp_path), model, tmp_path, names=["good", "bad", "slow"])
    assert result.outcome == "stopped" and slow == ["cancelled"]
    assert [key for key in finished(tmp_path, "many-1")] == ["write@1[good]~0"]
    mended = Scripted(write="fine")
    assert (await resume("many-1", workspace=tmp_path, model=mended))["summary"] == "good bad slow missing "
    assert sorted(mended.keys) == ["write@1[bad]~1/turn.0", "write@1[slow]~0/turn.0"]


async def test_skip_leaves_an_item_and_its_dependents_out_and_lists_them(tmp_path: Path) -> None:
    def model(request: ModelRequest) -> str:
        if "[b]" in request.key:
            raise ValueError("no b")
        return "fine"

    # d comes after b, c after nothing, e after d.
    after = ", after: \"{'d': ['b'], 'e': ['d']}[name] if name in ['d', 'e'] else []\""
    result = await ask(many(tmp_path, "on_fail: skip", after), Scripted(write=model), tmp_path, names=["a", "b", "c", "d", "e"])
    assert result.ok and result["summary"] == "a c missing b d e"
    assert failures(tmp_path, "many-1") == [("write@1[b]~0", True, False)]


async def test_skip_without_items_makes_no_version(tmp_path: Path) -> None:
    text = """
        sop: maybe
        inputs: {letter: string}
        roles: {clerk: {profile: You write.}}
        artifacts: {reply: {}, last: {}}
        steps:
          answer: {role: clerk, needs: [letter], makes: reply, on_fail: skip}
          close: {value: "reply or 'nothing came'", needs: [letter], wants: [reply], makes: last}
        outputs: [last]
    """
    result = await ask(write(tmp_path, text), Scripted(answer=ValueError("no")), tmp_path)
    assert result.ok and result["last"] == "nothing came" and firings(tmp_path, "maybe-1") == ["answer@1", "close@1"]


async def test_makes_tells_of_the_failures_in_an_artifact(tmp_path: Path) -> None:
    def model(request: ModelRequest) -> str:
        if "[a]" not in request.key:
            raise ValueError(f"no {request.key}")
        return "fine"

    path = many(tmp_path, "on_fail: {makes: trouble}")
    path.write_text(path.read_text().replace("outputs: [summary]", "outputs: [summary, trouble]"))
    result = await ask(path, Scripted(write=model), tmp_path, names=["a", "b", "c"])
    trouble = result["trouble"]
    assert (trouble["step"], trouble["key"]) == ("write", "b")
    assert "no write@1[b]~0" in trouble["error"] and [item["key"] for item in trouble["items"]] == ["b", "c"]
    assert result["summary"] == "a missing b c"


async def test_a_timeout_is_of_one_attempt(tmp_path: Path) -> None:
    calls = 0

    async def model(request: ModelRequest) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(3600)
        await asyncio.sleep(0.1)
        return "in time"

    result = await ask(one(tmp_path, ", timeout: 250ms, retries: 1"), model, tmp_path)
    assert result["reply"] == "in time"
    assert [event.error for event in events(tmp_path, "one-1", Failed)] == ["timed out after 0.25 s"]


async def test_a_timeout_raised_by_the_model_itself_is_told_as_its_own(tmp_path: Path) -> None:
    result = await ask(one(tmp_path, ", timeout: 9s"), Scripted(answer=TimeoutError("socket")))
    assert "raised TimeoutError: socket" in result.reason and "timed out after" not in result.reason


class Awkward:
    """What functions of users do, beyond raising an error of their own."""

    @staticmethod
    async def cancelled(request: ModelRequest) -> str:
        raise asyncio.CancelledError

    @staticmethod
    async def awaits_a_cancelled_task(request: ModelRequest) -> str:
        task = asyncio.create_task(asyncio.sleep(30))
        task.cancel()
        await task
        return "never"

    @staticmethod
    def exhausted(request: ModelRequest) -> str:
        return next(iter([]))

    @staticmethod
    def exits(request: ModelRequest) -> str:
        sys.exit(3)

    @staticmethod
    async def exits_async(request: ModelRequest) -> str:
        sys.exit(3)

    @staticmethod
    def cancels_in_its_thread(request: ModelRequest) -> str:
        raise asyncio.CancelledError


@pytest.mark.parametrize(("function", "told"), [
    (Awkward.cancelled, "CancelledError"), (Awkward.awaits_a_cancelled_task, "CancelledError"),
    (Awkward.exhausted, "StopIteration"), (Awkward.exits, "SystemExit: 3"), (Awkward.exits_async, "SystemExit: 3"),
    (Awkward.cancels_in_its_thread, "CancelledError"),
])
async def test_a_model_that_would_end_more_than_its_call_fails_its_attempt(tmp_path: Path, function: Any, told: str) -> None:
    result = await ask(one(tmp_path), function, tmp_path)
    assert result.outcome == "stopped" and told in result.reason and "answer@1~0" in result.reason
    (settled,) = events(tmp_path, "one-1", Settled)
    assert told in settled.error


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("function", "told"), [
    ("def f(letter):\n    raise SystemExit(2)\n", "SystemExit: 2"),
    ("def f(letter):\n    return next(iter([]))\n", "StopIteration"),
    ("import asyncio\nasync def f(letter):\n    raise asyncio.CancelledError\n", "CancelledError"),
    ("def f(letter):\n    return object()\n", "not JSON"),
    ("def f(letter):\n    return float('nan')\n", "not JSON"),
    ("def f(letter):\n    return '\\ud800'\n", "not JSON"),
    ("def f(letter):\n    a = []\n    a.append(a)\n    return a\n", "not JSON"),
    ("def f(letter: int):\n    return 'x'\n", "does not take what it is given: `letter`: Input should be a valid integer"),
    ("from pydantic import TypeAdapter\ndef f(letter):\n    return TypeAdapter(int).validate_python(letter)\n", "f raised ValidationError"),
    ("def f(letter: 'Nowhere'):\n    return 'x'\n", "signature of fns:f can't be read: name 'Nowhere' is not defined"),
    ("from metaflow_agents.errors import BudgetExceeded\ndef f(letter):\n    raise BudgetExceeded('mine')\n", "raised BudgetExceeded: mine"),
])
async def test_a_function_fails_its_attempt_in_one_line(tmp_path: Path, function: str, told: str) -> None:
    text = """
        sop: calls
        inputs: {letter: string}
        artifacts: {reply: {}}
        steps: {answer: {call: "fns:f", needs: [letter], makes: reply, on_fail: skip}}
        success: 'true'
    """
    result = await ask(write(tmp_path, text, fns_py=function), None, tmp_path)
    assert result.ok                                    # `on_fail: skip` takes it
    (failed,) = events(tmp_path, "calls-1", Failed)
    assert told in failed.error and "\n" not in failed.error


@pytest.mark.parametrize(("answer", "told"), [
    (None, "returned NoneType"), (object(), "returned object"), (float("nan"), "not JSON"), ("\ud800", "surrogates"),
    (Reply(text="\ud800", tokens_in=1), "not JSON"), (Reply(text=5, tokens_in=1), "`text` is no text"),      # type: ignore[arg-type]
    (Reply(text="x", tokens_in=-5), "no counts"), (Reply(), "neither text nor value"),
    ("x" * 400_000, "more than the"),
])
async def test_a_model_that_answers_rubbish_fails_its_attempt(tmp_path: Path, answer: Any, told: str) -> None:
    text = ONE.replace(" MORE", ", retries: 1, on_fail: skip").replace("steps:", "success: 'true'\n    steps:")
    model = Scripted(answer=[answer, "fine"])
    result = await ask(write(tmp_path, text), model, tmp_path)
    assert result.ok and result["reply"] == "fine"
    (failed,) = events(tmp_path, "one-1", Failed)
    assert told in failed.error and "\n" not in failed.error


async def test_a_list_that_cannot_be_walked_stops_with_the_step_and_the_reason(tmp_path: Path) -> None:
    """Two artifacts make the list: no author can be told, and so the run is."""
    text = """
        sop: two
        inputs: {a: [string], b: [string]}
        artifacts: {all: {each: string}}
        steps:
          join: {value: item, needs: [a, b], foreach: {in: a + b}, makes: all}
    """
    path = write(tmp_path, text)
    result = await ask(path, None, tmp_path, a=["x"], b=["x"])
    assert result.outcome == "stopped" and "steps.join.foreach" in result.reason and "key 'x' stands already" in result.reason


@pytest.mark.parametrize(("key", "expression"), [("when", "1 / amount > 0"), ("priority", "1 / amount"), ("priority", "words[0]")])
async def test_an_expression_of_a_step_that_fails_stops_with_its_place(tmp_path: Path, key: str, expression: str) -> None:
    text = f"""
        sop: sums
        inputs: {{amount: integer, words: {{type: any, default: [high]}}}}
        artifacts: {{out: {{}}}}
        steps: {{add: {{value: "'x'", needs: [amount, words], {key}: "{expression}", makes: out}}}}
    """
    result = await ask(write(tmp_path, text), None, tmp_path, amount=0)
    assert result.outcome == "stopped" and f"steps.add.{key}: " in result.reason


async def test_a_role_that_is_none_fails_the_item_that_named_it(tmp_path: Path) -> None:
    text = """
        sop: assigned
        inputs: {plan: [{id: string, who: string}]}
        roles: {drawer: {profile: You draw.}, writer: {profile: You write.}}
        artifacts: {works: {each: string}}
        steps:
          work: {role: task.who, needs: [plan], foreach: {in: plan, as: task, key: task.id}, makes: works, on_fail: skip}
    """
    model = Scripted(work="done")
    plan = [{"id": "a", "who": "writer"}, {"id": "b", "who": "wrtier"}, {"id": "c", "who": "drawer"}]
    result = await ask(write(tmp_path, text), model, tmp_path, plan=plan)
    assert result.ok and dict(result["works"]) == {"a": "done", "c": "done"}
    (failed,) = events(tmp_path, "assigned-1", Failed)
    assert "did you mean `writer`" in failed.error and failed.activation == "work@1[b]~0"
    assert [request.role for request in sorted(model.requests, key=lambda request: request.key)] == ["writer", "drawer"]


async def test_success_is_an_expression_and_what_never_fired_is_told(tmp_path: Path) -> None:
    text = """
        sop: gate
        inputs: {score: integer}
        artifacts: {praise: {}, blame: {}, echo: {}}
        steps:
          praise_it: {value: "'good'", needs: [score], when: score > 5, makes: praise}
          blame_it: {value: "'bad'", needs: [score], when: score <= 5, makes: blame}
          echo_it: {value: praise, needs: [praise], makes: echo}
        outputs: [praise, blame]
        success: praise == 'good'
    """
    path = write(tmp_path, text)
    good, bad = await ask(path, None, score=7), await ask(path, None, score=3)
    assert (good.outcome, dict(good.never)) == ("success", {"blame_it": "`when: score <= 5` never held"})
    assert (bad.outcome, bad.exit_status, bad.reason) == ("failure", 1, "`success: praise == 'good'` does not hold")
    assert dict(bad.never) == {"praise_it": "`when: score > 5` never held", "echo_it": "there is no praise"}
    assert dict(bad.outputs) == {"blame": "bad"}


async def test_by_default_success_means_that_every_output_exists_and_outputs_are_what_nobody_reads(tmp_path: Path) -> None:
    text = """
        sop: gate
        inputs: {score: integer}
        artifacts: {first: {}, second: {}, third: {}}
        steps:
          a: {value: "'one'", needs: [score], makes: first}
          b: {value: "first ~ ' two'", needs: [first], makes: second}
          c: {value: "first ~ ' three'", needs: [first], sees: [score], when: score > 5, makes: third}
    """
    path = write(tmp_path, text)
    assert dict((await ask(path, None, score=9)).outputs) == {"second": "one two", "third": "one three"}
    result = await ask(path, None, score=1)
    assert (result.outcome, result.reason) == ("failure", "not made: third")


async def until_written(pids: Path) -> None:
    """A command wrote its process id."""
    def written() -> bool:
        return pids.exists() and pids.read_text().endswith(" ")

    while not written():                                # noqa: ASYNC110  another process sets no event
        await asyncio.sleep(0.01)


async def test_cancelling_leaves_no_child_process_no_thread_and_no_task(tmp_path: Path) -> None:
    text = """
        sop: busy
        inputs: {letter: string}
        roles: {clerk: {profile: You write.}}
        artifacts: {told: {}, thought: {}, counted: {}}
        steps:
          tell: {run: [python, "-c", "import os, time; open(r'PIDS', 'a').write(f'{os.getpid()} '); time.sleep(60)"], needs: [letter], makes: told}
          think: {role: clerk, needs: [letter], makes: thought}
          count: {call: "fns:count", needs: [letter], makes: counted}
    """
    pids = tmp_path / "pids"
    path = write(tmp_path, text.replace("PIDS", str(pids)), fns_py="""
        import time
        def count(letter):
            time.sleep(0.3)
            return "counted"
    """)
    began = asyncio.Event()

    async def endless(request: ModelRequest) -> str:
        began.set()
        await asyncio.sleep(60)
        return "never"

    before = asyncio.all_tasks()
    async with start(path, letter="x", model=endless, workspace=tmp_path, sandbox="none") as going:
        await began.wait()
        await until_written(pids)
        going.stop()
        assert (await going.result()).outcome == "interrupted"
        assert not [thread for thread in threading.enumerate() if "sleep" in str(getattr(thread, "_target", ""))]
    assert asyncio.all_tasks() == before
    for pid in map(int, pids.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_timeout_kills_the_command(tmp_path: Path) -> None:
    text = """
        sop: slow
        inputs: {letter: string}
        artifacts: {told: {}}
        steps:
          tell: {run: [python, "-c", "import os, time; open(r'PIDS', 'a').write(f'{os.getpid()} '); time.sleep(60)"], needs: [letter], makes: told, timeout: 700ms}
    """
    pids = tmp_path / "pids"
    result = await asyncio.wait_for(
        run(write(tmp_path, text.replace("PIDS", str(pids))), letter="x", workspace=tmp_path, sandbox="none"), 20)
    assert result.outcome == "stopped" and "timed out after 0.7 s" in result.reason
    for pid in map(int, pids.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_render_that_fails_stops_the_run_and_says_where(tmp_path: Path) -> None:
    text = """
        sop: shown
        inputs: {letter: string}
        artifacts: {facts: {schema: {names: [string]}, file: facts.md, render: facts.md.j2}}
        steps: {read: {call: "fns:f", needs: [letter], makes: facts}}
    """
    path = write(tmp_path, text, facts_md_j2="First: {{ facts.names[0] }}\n", fns_py="def f(letter):\n    return {'names': []}\n")
    result = await run(path, letter="x", workspace=tmp_path)
    assert result.outcome == "stopped" and "facts.md.j2, which renders `facts` into facts.md" in result.reason


async def test_the_last_event_says_how_it_ended(tmp_path: Path) -> None:
    await ask(one(tmp_path), Scripted(answer=ValueError("no")), tmp_path)
    (ended,) = events(tmp_path, "one-1", RunEnded)
    assert ended.outcome == "stopped" and "ValueError: no" in ended.reason
    assert events(tmp_path, "one-1", Finished) == []
