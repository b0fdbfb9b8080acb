# ruff: noqa: E501  (answers stand here as models write them)
"""Answers that are nearly JSON: what a repair may change, what it may not, where it is told, and that a resume does not repair anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scripted import Scripted, noted, write

from metaflow_agents import RunResult, resume, run
from metaflow_agents.agent import repair
from metaflow_agents.agent.repair_job import repair_job
from metaflow_agents.cli import command
from metaflow_agents.errors import ForeignRefused
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.texts.strict_json import NotJSON, read
from metaflow_agents.workers.jobs import JOBS

DATA = """
    sop: data
    inputs: {letter: string}
    roles: {clerk: {profile: You file.}}
    artifacts: {facts: {schema: {sender: string, pages: integer}}}
    steps: {read: {role: clerk, needs: [letter], makes: facts MORE}}
"""
FACTS = {"sender": "Jo", "pages": 2}

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(
    st.characters(codec="utf-8"))
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=6), inner, max_size=4), max_leaves=12)
containers = values.filter(lambda value: isinstance(value, dict | list))


def repaired(text: str) -> tuple[Any, list[str]] | None:
    """The value that a repair gives, and what it changed; None where it is refused."""
    found = repair_job(text.encode())
    return None if "refused" in found else (read(found["text"]), found["changes"])


@given(containers, st.booleans(), st.none() | st.integers(0, 3))
def test_valid_json_is_never_changed(value: Any, ascii_: bool, indent: int | None) -> None:
    written = json.dumps(value, ensure_ascii=ascii_, indent=indent)
    assert repair_job(written.encode()) == {"text": written, "changes": []}


@pytest.mark.one_in(4)
@settings(max_examples=400)
@given(st.text(alphabet="{}[]\",:'ab \n/tru", max_size=40))
@example("{'a': 'b',}")
@example('{"a" "b"}')
@example('[{"a": b}, {"a": "c" "d"}]')
def test_what_is_repaired_parses_stays_and_keeps_every_letter_and_bracket(text: str) -> None:
    found = repair_job(text.encode())
    if "refused" in found:
        return
    read(found["text"])
    assert repair_job(found["text"].encode()) == {"text": found["text"], "changes": []}
    left = [part for part in found["changes"] if "left out" in part]
    if not left:                                                # comments and words around it are told
        def kept(written: str) -> list[str]:
            return [letter for letter in written if letter.isalpha() or letter in "{}[]"]
        assert kept(found["text"].replace("\\n", "")) == kept(text)


@pytest.mark.one_in(4)
@settings(max_examples=400)
@given(st.dictionaries(st.text("ab{}[]\"'\\,:", max_size=5), st.text("ab{}[]\"'\\,: \n", max_size=8) | st.lists(st.integers(), max_size=3),
                       min_size=1, max_size=4), st.data())
@example({"a": "return {} and more"}, None)
@example({"a": "say \"hi\"} and"}, None)
@example({"": "", ":": "", "[": '":', "}": ""}, None)
@example({"": "", "::": '::::["\\:', ":::::": [1], '"': "}"}, None)
def test_an_answer_that_was_cut_off_is_never_repaired(value: Any, data: st.DataObject | None) -> None:
    written = json.dumps(value)
    places = range(1, len(written)) if data is None else [data.draw(st.integers(1, len(written) - 1))]
    for at in places:
        assert repaired(written[:at]) is None, written[:at]


words = st.text("abcxyz äß.-!", min_size=1, max_size=8).map(str.strip).filter(lambda word: any(map(str.isalpha, word)))
plain = st.recursive(st.none() | st.booleans() | st.integers(-999, 999) | words,
                     lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4), max_leaves=10)


@given(plain.filter(lambda value: isinstance(value, dict | list)), st.booleans())
def test_python_literals_and_trailing_commas_are_repaired(value: Any, python: bool) -> None:
    def spelled(one: Any) -> str:
        if isinstance(one, dict):
            return "{" + "".join(f"{spelled(key)}: {spelled(each)}, " for key, each in one.items()) + "}"
        if isinstance(one, list):
            return "[" + "".join(f"{spelled(each)},\n" for each in one) + "]"
        return repr(one) if python else json.dumps(one, ensure_ascii=False)
    found = repaired(spelled(value))
    assert found is not None and found[0] == value


@pytest.mark.parametrize(("answer", "value", "told"), [
    ('{"a": 1,}', {"a": 1}, ["repaired: Expecting property name enclosed in double quotes at line 1, column 9; commas: 1 removed"]),
    ('```json\n{"a": 1}\n```', {"a": 1}, ["code fence left out"]),
    ('```json\n{"a": 1}', {"a": 1}, ["code fence left out"]),
    ('Here it is:\n```\n{"a": 1,}\n```\nAll right?', {"a": 1},
     ["code fence left out", "left out before the JSON: 'Here it is:'", "left out after the JSON: 'All right?'"]),
    ('Sure! {"a": 1}', {"a": 1}, ["left out before the JSON: 'Sure!'"]), ("So:\n[1, 2]\n", [1, 2], ["left out before"]),
    ('{"a": 1, // the first\n "b": /* and */ 2}', {"a": 1, "b": 2}, ["comment left out: '// the first'", "comment left out: '/* and */'"]),
    ('{"a": "he said "no", and left", "b": "x"}', {"a": 'he said "no", and left', "b": "x"}, ["repaired"]),
    ('{"a": 1 "b": 1e5}', {"a": 1, "b": 100000.0}, ["commas: 1 added"]), ('{a: "x"}', {"a": "x"}, ["quotation marks: 2 added"]),
    ('{"a": "C:\\dir", "b": "two\nlines", "c": "\\ud83d\\ude00",}', {"a": "C:\\dir", "b": "two\nlines", "c": "😀"}, ["repaired"]),
    ("{'a': None, 'b': \"it's\"}", {"a": None, "b": "it's"}, ["repaired"]), ('{"a": "http://x/y",}', {"a": "http://x/y"}, ["commas"]),
])
def test_what_is_repaired_and_how_that_is_told(answer: str, value: Any, told: list[str]) -> None:
    found = repaired(answer)
    assert found is not None and found[0] == value
    for part in told:
        assert part in "\n".join(found[1])


@pytest.mark.parametrize("answer", [
    '{"a": "hel', '{"a": [{"b": 1}, {"b": 2}', '{"a": "return {}', '{"a": "return {} and mo', '{"a": 1', "[1, 2", '[{"a": 1}',    # cut off
    '{"a": "he said "no", and left"}',                                                                      # or may be
    '{"a": , "b": 1}', '{"a"}', '{"a": "x" "y": }',                                                         # a value is missing
    "[1, 2, ...]", '{"a": 1, "a": 2}', '{"a": 1}{"b": 2}', '{"a": .5}', '{"a": 007}', '{"a": 1}}',          # something would be lost
    "As [3] says.", "It is [1, 2].", "See [1]:\n[1, 2]", "<think>{or so}</think>{\"a\": 1}",                # which is the answer?
    '```\n{"a": 1}\n```\nor\n```\n{"a": 2}\n```', 'With {x}:\n```\n{"a": 1}\n```', '{"a": "\\ud800",}', '{"a": 1e999,}', "[" * 500,
])
def test_what_would_lose_add_or_guess_is_refused(answer: str) -> None:
    assert repaired(answer) is None


async def desk(tmp_path: Path, *answers: Any, more: str = "") -> tuple[RunResult, Scripted]:
    model = Scripted(read=list(answers))
    return await run(write(tmp_path, DATA.replace(" MORE", more)), letter="x", model=model, workspace=tmp_path), model


async def test_an_answer_is_repaired_without_another_call_and_the_journal_says_what_was_changed(tmp_path: Path) -> None:
    result, model = await desk(tmp_path, "Here:\n{'sender': 'Jo', 'pages': 2,}")
    assert result["facts"] == FACTS and model.keys == ["read@1~0/turn.0"]
    (found,) = noted(tmp_path, "data-1", "/turn.0/repaired")
    assert read(found["text"]) == FACTS and found["changes"][0] == "left out before the JSON: 'Here:'"


async def test_a_fence_around_the_whole_is_told_and_needs_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(JOBS, "json")
    result, _ = await desk(tmp_path, f"```json\n{json.dumps(FACTS)}\n```")
    assert result["facts"] == FACTS and noted(tmp_path, "data-1", "/repaired") == [{"changes": ["code fence left out"]}]


async def test_what_was_repaired_still_has_to_fit_its_schema(tmp_path: Path) -> None:
    result, model = await desk(tmp_path, "{'sender': 'Jo', 'pages': 'two',}", FACTS)
    assert result["facts"] == FACTS and model.keys == ["read@1~0/turn.0", "read@1~0/turn.0/repair.1"]
    assert "`pages` is \"two\"; expected integer" in model.last_said("read@1~0/turn.0/repair.1")


async def test_what_can_not_be_repaired_goes_back_with_its_fault_and_why_is_journalled(tmp_path: Path) -> None:
    result, model = await desk(tmp_path, '{"sender": "Jo", "pages": 2', FACTS)
    assert result["facts"] == FACTS and "not JSON: " in model.last_said("read@1~0/turn.0/repair.1")
    assert noted(tmp_path, "data-1", "/repaired") == [
        {"refused": "behind its last bracket stands a quotation mark, so that a string may go on there"}]


@pytest.mark.parametrize("answer", ["no", "", '{"sender": "' + "x" * 100 + "\",}"])
async def test_what_holds_no_json_or_is_too_long_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                  answer: str) -> None:
    monkeypatch.setattr(repair, "LONGEST", 100)
    result, _ = await desk(tmp_path, answer, FACTS)
    assert result["facts"] == FACTS and noted(tmp_path, "data-1", "/repaired") == []


async def test_a_resume_takes_the_repair_from_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cap is reached before the model is asked about the schema; then there is no worker."""
    stopped = await run(write(tmp_path, DATA.replace(" MORE", "")), letter="x", workspace=tmp_path, budget={"calls": 1},
                        model=Scripted(read="{'sender': 'Jo', 'pages': 'two',}"))
    assert stopped.outcome == "budget"
    monkeypatch.delitem(JOBS, "json")
    second = Scripted(read=FACTS)
    result = await resume("data-1", model=second, workspace=tmp_path, budget={"calls": 5})
    assert result["facts"] == FACTS and second.keys == ["read@1~0/turn.0/repair.1"]
    assert second.requests[0].messages[-2]["content"] == '{"sender": "Jo", "pages": "two"}'


async def test_a_worker_that_gives_up_is_told_and_the_model_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(job: str, data: bytes) -> Any:
        raise ForeignRefused("took more than 5 s of processor time")

    monkeypatch.setattr(repair, "parsed", slow)
    result, model = await desk(tmp_path, "{'sender': 'Jo', 'pages': 2,}", FACTS)
    assert result["facts"] == FACTS and len(model.keys) == 2
    assert noted(tmp_path, "data-1", "/repaired") == [{"refused": "a repair took more than 5 s of processor time"}]


@pytest.mark.parametrize("given_", ["not JSON either", '{"sender": NaN}'])
async def test_what_a_worker_gives_is_read_strictly_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_: str) -> None:
    async def lies(job: str, data: bytes) -> Any:
        return {"text": given_, "changes": ["everything"]}

    monkeypatch.setattr(repair, "parsed", lies)
    result, model = await desk(tmp_path, "{'sender': 'Jo', 'pages': 2,}", FACTS)
    assert result["facts"] == FACTS and len(model.keys) == 2
    assert model.requests[1].messages[-2]["content"] == "{'sender': 'Jo', 'pages': 2,}"
    with pytest.raises(NotJSON):
        read(given_)


def test_the_log_the_summary_and_the_json_tell_what_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, DATA.replace(" MORE", ""), desk_py='''
        def answer(request):
            return "Here:\\n{'sender': 'Jo', 'pages': 2,}" if "repair" in request.key else '{"sender": "Jo", "pages": 2'
    ''')
    monkeypatch.chdir(tmp_path)
    told = "left out before the JSON: 'Here:'; repaired: Expecting property name enclosed in double quotes at line 1, column 2; commas: 1 removed"

    def said(*words: str) -> str:
        assert command(words) == 0
        return capsys.readouterr().out

    out = said("run", "desk.yaml", "--letter", "x", "--model", "python:desk.py:answer", "--name", "r")
    assert f"read@1/turn.0/repair.1: repair of its answer: {told}" in out
    assert "read@1/turn.0: repair of its answer: none: behind its last bracket" in out
    summary = out[out.index("r: success"):]
    assert "repaired, 1 answer:\n" in summary and f"read@1/turn.0/repair.1  {told}" in summary
    assert "repaired, 1 answer:\n" in said("show", "r")
    assert f"read@1/turn.0/repair.1: repair of its answer: {told}" in said("log", "r")
    found = json.loads(said("show", "r", "--json"))["repaired"]
    assert found["read@1~0/turn.0/repair.1"] == {"changes": told.split("; ", 1)}
    assert list(found["read@1~0/turn.0"]) == ["refused"]


async def test_a_look_at_the_run_and_a_strategys_own_forms_are_repaired_too(tmp_path: Path) -> None:
    sop = """
        sop: series
        inputs: {topic: string}
        roles: {author: {profile: writes}, lead: {profile: looks}}
        artifacts: {first: {}, second: {}}
        steps:
          write: {role: author, needs: [topic], makes: first, strategy: {route: {experts: {author: {}, lead: {}}}}}
          go_on: {role: author, needs: [first], makes: second}
        progress: {role: lead, every: 1 call, goal: a story}
    """

    def answer(request: ModelRequest) -> str:
        if request.schema is None:
            return "text"
        return "{'expert': 'lead', 'why': 'x',}" if request.step == "write" else "{'action': 'continue', 'why': 'x',}"

    result = await run(write(tmp_path, sop), topic="x", model=answer, workspace=tmp_path)
    assert result.ok, result.reason
    assert {one["text"] for one in noted(tmp_path, "series-1", "/repaired")} == {
        '{"expert": "lead", "why": "x"}', '{"action": "continue", "why": "x"}'}
