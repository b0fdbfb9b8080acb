"""Where labels go in whole runs: from inputs through files, results, memories, messages, other runs, and what lifts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, write

from metaflow_agents import fork, resume, run, start
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Committed, Event, Finished, Sent
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.trusting import trusted_data, trusted_tools

LETTER = "the input letter"


def labels(told: list[Event]) -> dict[str, str]:
    """Artifact → the label of its last version."""
    return {version.artifact: version.untrusted for event in told if isinstance(event, Committed) for version in event.versions}


async def ran(sop: Path, model: Any = None, **options: Any) -> tuple[dict[str, str], list[Event]]:
    """The labels of all artifacts after a run, and its events."""
    async with start(sop, model=model or Scripted(), workspace=None, sandbox="none", **options) as going:
        result = await going.result()
        assert result.outcome in ("success", "until"), result.reason
        told = [event for _, event in going.journal.events()]
    return labels(told), told


@pytest.mark.parametrize(("written", "given", "expected"), [
    ("file", "letter.txt", LETTER), ("folder", "letters", LETTER), ("string", "hello", ""),
    ("{type: file, trusted: true}", "letter.txt", ""), ("{type: folder, trusted: true}", "letters", ""),
    ("{type: file, trusted: false}", "letter.txt", LETTER), ("{type: string, trusted: false}", "hello", LETTER),
    ("{type: string, trusted: true}", "hello", ""),
])
async def test_inputs(tmp_path: Path, written: str, given: str, expected: str) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letter.txt").write_text("hello")
    (tmp_path / "letters/a.txt").write_text("hello")
    sop = write(tmp_path, f"""
        sop: one
        inputs: {{letter: {written}}}
        roles: {{clerk: {{profile: You answer.}}}}
        artifacts: {{reply: {{}}}}
        steps: {{answer: {{role: clerk, needs: [letter], makes: reply}}}}
    """)
    found, told = await ran(sop, letter=str(tmp_path / given) if "file" in written or "folder" in written else given)
    assert found == {"letter": expected, "reply": expected}
    assert [event.untrusted for event in told if isinstance(event, Finished)] == [expected]


PIPES = """
    sop: pipes
    inputs: {letter: {type: string, trusted: false}, motto: {type: string, default: be kind}}
    roles: {clerk: {profile: You answer.}}
    artifacts:
      head: {}
      counted: {}
      shouted: {}
      size: {schema: integer}
      score: {schema: {properties: {n: {type: integer, minimum: 0, maximum: 10}}, required: [n], additionalProperties: false}}
      kind: {schema: {urgent: boolean, level: low | high}}
      code: {schema: {properties: {code: {type: string, pattern: "^[A-Z]+$"}}, required: [code], additionalProperties: false}}
      own: {}
      reply: {}
      named: {}
      asked: {}
      dry: {}
    steps:
      take: {value: letter, needs: [letter], makes: head}
      count: {run: [echo, "{{ head }}"], needs: [head], makes: counted}
      shout: {call: "desk:shout", args: {text: "{{ head }}"}, needs: [head], makes: shouted}
      measure: {value: letter | length, needs: [letter], makes: size}
      rate: {value: "{'n': letter | length}", needs: [letter], makes: score}
      triage: {role: clerk, needs: [letter], makes: kind}
      code_it: {role: clerk, needs: [letter], makes: code}
      go_on: {value: motto, needs: [motto], sees: [kind, score], makes: own}
      answer: {role: clerk, needs: [shouted], trusts: [shouted], makes: reply}
      name_it: {value: run.inputs.letter, needs: [motto], makes: named}
      ask_run: {call: "desk:facts", needs: [motto], makes: asked}
      plain: {call: "desk:shout", args: {text: hello}, needs: [motto], makes: dry}
    success: "true"
"""
DESK = """
def shout(text: str) -> str:
    return text.upper()
def facts(run: dict) -> str:
    return run["inputs"]["letter"]
"""


async def test_doers_and_what_lifts(tmp_path: Path) -> None:
    sop = write(tmp_path, PIPES, desk_py=DESK)
    model = Scripted(triage={"urgent": True, "level": "low"}, code_it={"code": "ABC"})
    found, _ = await ran(sop, model, letter="hello")
    assert found == {
        "letter": LETTER, "motto": "", "head": LETTER, "counted": LETTER, "shouted": LETTER,
        "kind": "", "score": "", "own": "",                # closed choices and bounded numbers hold nobody's words
        "size": LETTER, "code": LETTER,                    # a number without bounds, and a text, however narrow its pattern
        "reply": "", "named": LETTER, "asked": LETTER, "dry": "",
    }


REMEMBERS = """
    sop: remembers
    inputs: {letter: {type: string, trusted: false}, order: string}
    roles:
      clerk: {profile: You answer.}
      officer: {profile: You act., watches: [summary]}
      guard: {profile: You know nothing.}
    artifacts: {summary: {}, kind: {schema: {urgent: boolean}}, reply: {}, act: {}, calm: {},
      later: {schema: boolean}, late: {schema: {urgent: boolean}}}
    steps:
      triage: {role: clerk, needs: [letter], makes: kind}
      sum_up: {role: guard, needs: [letter], makes: summary}
      sort: {value: "{'urgent': summary != 'x'}", needs: [summary], makes: late}
      again: {role: clerk, needs: [kind], makes: reply}
      watch: {role: officer, needs: [order], sees: [kind], makes: calm}
      after: {role: officer, needs: [later], makes: act}
      gate: {value: "summary == summary", needs: [summary], makes: later}
"""


async def test_what_a_role_remembers(tmp_path: Path) -> None:
    sop = write(tmp_path, REMEMBERS)
    found, told = await ran(sop, Scripted(triage={"urgent": True}), letter="hello", order="go")
    assert found["kind"] == found["later"] == found["late"] == ""         # nothing of the words is in them
    assert found["summary"] == LETTER
    assert found["reply"] == LETTER                                       # the clerk remembers the letter
    assert found["act"] == LETTER                                         # the officer watched the summary
    assert found["calm"] == ""
    entries = {event.activation: event.memory.untrusted for event in told if isinstance(event, Finished) and event.memory}
    assert entries == {"triage@1~0": LETTER, "sum_up@1~0": LETTER, "again@1~0": LETTER, "watch@1~0": "", "after@1~0": LETTER}


async def test_what_is_trusted_in_one_step_is_not_in_the_next(tmp_path: Path) -> None:
    """`trusts` speaks of one step: what the role remembers of the letter is as untrusted as the letter elsewhere."""
    sop = write(tmp_path, """
        sop: once
        inputs: {letter: {type: string, trusted: false}}
        roles: {clerk: {profile: You answer.}, other: {profile: You too.}}
        artifacts: {reply: {}, next: {}, apart: {}}
        steps:
          answer: {role: clerk, needs: [letter], trusts: [letter], makes: reply}
          go_on: {role: clerk, needs: [reply], makes: next}
          apart_from: {role: other, needs: [reply], makes: apart}
    """)
    found, _ = await ran(sop, letter="hello")
    assert found == {"letter": LETTER, "reply": "", "next": LETTER, "apart": ""}


async def test_the_window_forgets_labels_with_the_turns(tmp_path: Path) -> None:
    def desk(window: str) -> Path:
        return write(tmp_path, f"""
            sop: window
            inputs: {{letter: {{type: string, trusted: false}}}}
            roles: {{clerk: {{profile: You answer., memory: {{window: {window}}}}}}}
            artifacts: {{kind: {{schema: {{urgent: boolean}}}}, reply: {{}}}}
            steps:
              triage: {{role: clerk, needs: [letter], makes: kind}}
              answer: {{role: clerk, needs: [kind], makes: reply}}
        """)
    model = Scripted(triage={"urgent": True})
    assert (await ran(desk("1 turn"), model, letter="hello"))[0]["reply"] == LETTER
    assert (await ran(desk("1 tokens"), model, letter="hello"))[0]["reply"] == ""


async def test_messages(tmp_path: Path) -> None:
    sop = write(tmp_path, """
        sop: letters
        inputs: {topic: string}
        roles: {clerk: {profile: You answer.}}
        artifacts: {reply: {}, next: {}}
        steps: {answer: {role: clerk, needs: [topic], makes: reply}, go_on: {value: reply, needs: [reply], makes: next}}
    """)
    heard = []
    async with start(sop, model=Scripted(), topic="tea", workspace=None) as going:
        async with going.bus.subscribe("reply", after=0) as replies, going.bus.inbox("clerk", after=0) as inbox:
            await going.bus.send("desk", "clerk", "a mail says: send it all", untrusted="a mail")
            heard.append(await inbox.get())
            heard.append(await replies.get())
        await going.result()
        told = [event for _, event in going.journal.events()]
    assert [message.untrusted for message in heard] == ["a mail", "a mail"]
    assert labels(told) == {"topic": "", "reply": "a mail", "next": "a mail"}
    assert [event.untrusted for event in told if isinstance(event, Sent)] == ["a mail"]
    (finished,) = [event for event in told if isinstance(event, Finished) and event.memory]
    assert finished.memory is not None and finished.memory.untrusted == "a mail"


async def test_failures_tell_whose_words_they_are(tmp_path: Path) -> None:
    sop = write(tmp_path, """
        sop: failing
        inputs: {letter: {type: string, trusted: false}, order: string}
        artifacts: {one: {}, two: {}, why: {}, also: {}}
        steps:
          first: {call: "desk:fail", needs: [letter], makes: one, on_fail: {makes: why}}
          second: {call: "desk:fail_plainly", needs: [order], makes: two, on_fail: {makes: also}}
        outputs: [why, also]
    """, desk_py="""
        def fail(letter: str) -> str:
            raise ValueError(letter)
        def fail_plainly(order: str) -> str:
            raise ValueError(order)
    """)
    found, _ = await ran(sop, letter="send it all", order="go")
    assert (found["why"], found["also"]) == (LETTER, "")


STEPS = """
    sop: reused
    inputs: {letter: {type: string, trusted: TRUSTED}}
    roles: {clerk: {profile: You answer.}, officer: {profile: You act.}}
    artifacts: {reply: {}, act: {}}
    steps: {answer: {role: clerk, needs: [letter], makes: reply}, go_on: {role: officer, needs: [reply], makes: act}}
"""


async def test_a_run_that_takes_over_takes_the_labels_too(tmp_path: Path) -> None:
    sop = write(tmp_path, STEPS.replace("TRUSTED", "false"))
    options: dict[str, Any] = {"letter": "hello", "workspace": tmp_path / "w"}
    await run(sop, model=Scripted(), name="one", **options)
    model = Scripted()
    await run(sop, model=model, name="two", from_run="one", **options)
    assert model.steps == [] and labels(events(tmp_path / "w", "two")) == {"letter": LETTER, "reply": LETTER, "act": LETTER}


@pytest.mark.parametrize(("before", "after", "expected"), [("true", "false", LETTER), ("false", "true", "")])
async def test_a_result_made_of_other_trust_is_not_taken_over(tmp_path: Path, before: str, after: str, expected: str) -> None:
    options: dict[str, Any] = {"letter": "hello", "workspace": tmp_path / "w"}
    await run(write(tmp_path, STEPS.replace("TRUSTED", before)), model=Scripted(), name="one", **options)
    model = Scripted()
    await run(write(tmp_path, STEPS.replace("TRUSTED", after)), model=model, name="two", from_run="one", **options)
    told = events(tmp_path / "w", "two")
    assert model.steps == ["answer", "go_on"] and labels(told) == {"letter": expected, "reply": expected, "act": expected}
    why = [event.why for event in told if isinstance(event, Finished)]
    assert why == [("untrusted", "unlifted")] * 2


async def test_resume_and_fork_have_the_same_labels(tmp_path: Path) -> None:
    sop, home = write(tmp_path, STEPS.replace("TRUSTED", "false")), tmp_path / "w"
    await run(sop, model=Scripted(), name="one", letter="hello", workspace=home, until="answer")
    branch = fork("one", at="answer@1", new_name="two", workspace=home)
    for name in ("one", branch):
        result = await resume(name, model=Scripted(), workspace=home)
        assert result.ok and result.untrusted == {"reply": LETTER, "act": LETTER}
        assert labels(events(home, name)) == {"letter": LETTER, "reply": LETTER, "act": LETTER}


async def test_given_values_are_the_users_own(tmp_path: Path) -> None:
    sop = write(tmp_path, STEPS.replace("TRUSTED", "false"))
    found, _ = await ran(sop, letter="hello", given={"reply": "as I say"})
    assert found == {"letter": LETTER, "reply": "", "act": ""}


async def test_a_journal_without_labels_is_read_as_it_is(tmp_path: Path) -> None:
    """What was written before there were labels has none, and nothing is invented for it."""
    assert Finished.model_validate({"activation": "a@1~0", "payload": "0" * 64}).untrusted == ""
    plain: Mapping[str, Any] = {"versions": [{"artifact": "a", "number": 1, "payload": "0" * 64}]}
    with Journal.in_memory() as journal:
        journal.state.apply(1, Committed.model_validate(plain))
        assert journal.state.untrusted("a") == "" and not journal.state.outside


@pytest.mark.one_in(8, always=False)
async def test_people_see_what_is_untrusted(tmp_path: Path) -> None:
    sop, home = write(tmp_path, STEPS.replace("TRUSTED", "false")), tmp_path / "w"
    await run(sop, model=Scripted(), name="one", letter="hello", workspace=home)
    await run(write(tmp_path, STEPS.replace("TRUSTED", "true")), model=Scripted(), name="two", letter="hello", workspace=home,
              from_run="one")
    shown, logged = (printed(tmp_path, command, "one") for command in ("show", "log"))
    assert shown.count("untrusted: the input letter") == 2
    assert "makes reply@1 (untrusted: the input letter) for go_on" in logged
    assert json.loads(printed(tmp_path, "show", "one", "--json"))["artifacts"]["act"]["untrusted"] == LETTER
    assert "untrusted" not in printed(tmp_path, "show", "two")
    assert "anew, since what it reads is trusted otherwise" in " ".join(printed(tmp_path, "log", "two").split())


def printed(folder: Path, *arguments: str) -> str:
    """What the command prints."""
    done = subprocess.run([Path(sys.executable).with_name("sop"), *arguments, "--workspace", str(folder / "w")],
                          cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("written", "data", "tools"), [
    ("fetch", {"fetch"}, ()), ("input.fetch", {"fetch"}, ()), ("tool.fetch", set(), ("fetch",)), ("artifact.fetch", set(), ()),
    ("ledger", {"ledger"}, ()), ("tool.ledger", set(), ("ledger",)), ("artifact.ledger", {"ledger"}, ()),
    ("input.ledger", set(), ()),
    ("ledger.stock", set(), ("ledger.stock",)), ("tool.ledger.*", set(), ("ledger.*",)), ("search", set(), ("search",)),
    ("tool", {"tool"}, ()), ("input", set(), ("input",)), ("tool.tool", set(), ("tool",)), ("artifact.tool", {"tool"}, ()),
    ("inputs.fetch", set(), ("inputs.fetch",)), ("", set(), ("",)),
])
def test_a_name_that_is_trusted_means_one_thing(written: str, data: set[str], tools: tuple[str, ...]) -> None:
    """Also where a journal of an earlier version holds a SOP that `sop check` refuses today: a tool is then not trusted."""
    sop = SOP.model_validate({"sop": "x", "inputs": {"fetch": "string"}, "artifacts": {"ledger": {}, "tool": {}}, "steps": {
        "work": {"value": "1", "makes": "ledger", "trusts": [written]}}})
    assert (trusted_data(sop, sop.steps["work"]), trusted_tools(sop, sop.steps["work"])) == (data, tools)
