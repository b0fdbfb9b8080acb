# ruff: noqa: E501  (SOPs stand here as people write them)
"""Small things that authors of SOPs ran into: what they wrote works, or the message names the right fix."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, write

import metaflow_agents
from metaflow_agents import SOPInvalid, UsageError, check, errors, load_sop, resume, run
from metaflow_agents.cli import command

NAMED = """
    sop: named
    inputs: {name: string, idea: {type: string, description: "in a line"}}
    artifacts: {told: {}, out: {}}
    steps:
      tell: {value: "name ~ ': ' ~ idea", needs: [name, idea], makes: told}
      end: {value: told | upper, needs: [told], makes: out}
"""


def one(folder: Path, inputs: str, step: str = "{value: x, needs: [x], makes: out}") -> Path:
    return write(folder, f"""
        sop: it
        inputs: {{x: {inputs}}}
        artifacts: {{out: {{}}}}
        steps: {{go: {step}}}
    """)


def test_an_input_called_like_an_option_is_given_by_input_and_the_message_says_so(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, NAMED)
    monkeypatch.chdir(tmp_path)
    assert command(["run", "desk.yaml", "--name", "Jo"]) == 2
    told = "missing required options of named: `--input name=…`, `--idea` (in a line) (the command has `--name` itself)"
    assert told in capsys.readouterr().err
    assert command(["run", "desk.yaml", "--input", "name=Jo", "--idea", "tea", "--name", "one", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"] == {"out": "JO: TEA"}
    assert command(["run", "desk.yaml", "--input", "name=Jo"]) == 2
    assert "missing required option of named: `--idea` (in a line)" in capsys.readouterr().err


def test_a_text_that_is_the_name_of_a_file_is_taken_and_told(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    one(tmp_path, "string")
    (tmp_path / "changes.txt").write_text("fix: a typo")
    monkeypatch.chdir(tmp_path)
    note = "`--x changes.txt` is taken as text, and a file of that name is there: write `--x @changes.txt` for what it holds"
    for words, said in (["--x", "changes.txt"], note), (["--x", "@changes.txt"], ""), (["--x", "changes"], ""):
        assert command(["run", "desk.yaml", *words, "--json"]) == 0
        assert capsys.readouterr().err.count(note) == bool(said), words
    one(tmp_path, "file")
    assert command(["run", "desk.yaml", "--x", "changes.txt"]) == 0 and note not in capsys.readouterr().err


def test_a_firing_of_a_run_that_stopped_is_unfinished_and_not_under_way(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, """
        sop: it
        artifacts: {out: {}}
        steps: {go: {call: "broken:fail", makes: out}}
    """)
    (tmp_path / "broken.py").write_text("def fail():\n    raise ValueError('no')\n")
    monkeypatch.chdir(tmp_path)
    assert command(["run", "desk.yaml", "--name", "first"]) == 1
    capsys.readouterr()
    assert command(["show", "first"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  go ")] == [
        ["go", "1", "firing", "unfinished"]]


def test_a_run_from_another_without_a_model_says_which_that_one_had(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, """
        sop: it
        inputs: {x: string}
        roles: {ann: {profile: p}}
        artifacts: {out: {}}
        steps: {go: {role: ann, needs: [x], makes: out}}
    """)
    monkeypatch.chdir(tmp_path)
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "SOP_MODEL"):
        monkeypatch.delenv(variable, raising=False)
    assert command(["run", "desk.yaml", "--x", "1", "--model", "dry", "--name", "first"]) == 0
    capsys.readouterr()
    assert command(["run", "desk.yaml", "--from", "first"]) == 5
    err = capsys.readouterr().err
    assert err.startswith("sop: `--from first` takes over the inputs of that run, and no model; it had `--model dry`: add that, or")
    assert "no model is configured; ways to get one:" in err
    assert command(["run", "desk.yaml", "--x", "1"]) == 5 and capsys.readouterr().err.startswith("sop: no model is configured")


@pytest.mark.parametrize("kind", ["folder", "file", "string"])
async def test_an_optional_input_may_be_left_out_and_is_null_then(tmp_path: Path, kind: str) -> None:
    path = one(tmp_path, f"{{type: {kind}, optional: true}}", "{value: \"'none' if x is none else (x | length) ~ ''\", needs: [x], makes: out}")
    assert check(path).ok
    assert (await run(path, workspace=None))["out"] == "none"
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "a.txt").write_text("abc")
    given: Any = {"folder": tmp_path / "given", "file": tmp_path / "given" / "a.txt", "string": "abc"}[kind]
    assert (await run(path, x=given, workspace=None))["out"] == ("1" if kind == "folder" else "3")


async def test_an_input_that_is_not_optional_has_to_be_given(tmp_path: Path) -> None:
    path = one(tmp_path, "{type: folder, optional: false}", "{value: x | length | string, needs: [x], makes: out}")
    with pytest.raises(UsageError, match="input `x` is missing"):
        await run(path, workspace=None)


def test_optional_is_a_field_where_it_is_no_yes_or_no(tmp_path: Path) -> None:
    path = one(tmp_path, "{type: string, optional: boolean}")
    assert load_sop(path).program.sop.inputs["x"].type == {"type": "string", "optional": "boolean"}


@pytest.mark.parametrize(("inputs", "code", "told"), [
    ("{type: folder, description: The files, all of them}", "yaml-cut", "comma before `all of them`"),
    ("{type: string, description: The first, and others}", "yaml-cut", "comma before `and others`"),
    ("{type: folder, desription: x}", "unknown-key", "an input has no key `desription`"),
    ("{type: file, optionl: true}", "unknown-key", "did you mean `optional`?"),
    ("{type: folder, banana: string}", "unknown-key", "an input has no key `banana`"),
    ("{type: folder, optional: 3}", "wrong-type", "`optional` has to be true or false"),
])
def test_a_file_or_folder_with_a_wrong_key_is_no_schema(tmp_path: Path, inputs: str, code: str, told: str) -> None:
    problems = check(one(tmp_path, inputs)).problems
    assert [problem.code for problem in problems if problem.severity == "error"] == [code]
    assert told in f"{problems[0].message} {problems[0].mend}"


def test_a_schema_with_fields_called_type_and_description_is_a_schema(tmp_path: Path) -> None:
    given = one(tmp_path, "{type: string, description: string, note: string}", "{value: x.note, needs: [x], makes: out}")
    assert check(given).ok and "note" in load_sop(given).program.sop.inputs["x"].type


@pytest.mark.parametrize(("step", "code", "fix"), [
    ("{value: item, needs: [x], foreach: x, makes: out}", "wrong-type", "write `foreach: {in: x}`"),
    ("{value: x, needs: [x], when: {{ x | length > 0 }}, makes: out}", "yaml-braces",
     "write `when: x | length > 0`: `when` is an expression, which takes no braces"),
    ("{value: {{ x }}, needs: [x], makes: out}", "yaml-braces", "write `value: x`"),
    ("{human: text, task: {{ x }}, needs: [x], makes: out}", "yaml-braces", 'put the whole value in quotes: "{{ x }}"'),
])
def test_braces_and_lists_get_the_fix_that_works(tmp_path: Path, step: str, code: str, fix: str) -> None:
    (problem,) = check(one(tmp_path, "string", step)).errors
    assert problem.code == code and problem.mend.startswith(fix)


async def test_a_resume_of_a_run_that_has_succeeded_ends_with_0(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    await run(write(tmp_path, NAMED), inputs={"name": "Jo", "idea": "tea"}, workspace=tmp_path / "workspace", name="done")
    await run(tmp_path / "desk.yaml", inputs={"name": "Jo", "idea": "tea"}, workspace=tmp_path / "workspace", name="half",
              until="tell")
    monkeypatch.chdir(tmp_path)
    before = [event.kind for event in events(tmp_path / "workspace", "done")]
    with pytest.raises(UsageError, match="has succeeded"):
        await resume("done", workspace=tmp_path / "workspace")
    def carried_out(*words: str) -> tuple[int, str]:
        return command(words), capsys.readouterr().out

    status, out = await asyncio.to_thread(carried_out, "resume", "done")
    assert status == 0 and out.startswith("done: has succeeded already; nothing is left to do") and "done: success" in out
    status, out = await asyncio.to_thread(carried_out, "resume", "done", "--json")
    found = json.loads(out)
    assert status == 0 and (found["outcome"], found["exit_status"], found["outputs"]) == ("success", 0, {"out": "JO: TEA"})
    assert [event.kind for event in events(tmp_path / "workspace", "done")] == before
    assert (await resume("half", workspace=tmp_path / "workspace"))["out"] == "JO: TEA"


def test_errors_that_a_program_catches_are_public(tmp_path: Path) -> None:
    for name in ("SOPInvalid", "SOPNotFound", "UsageError", "RunBusy", "SOPError", "RunError", "StepFailed", "BudgetExceeded", "Waiting",
                 "ModelMissing", "EndpointRefused", "JournalError", "PromptChanged", "ExpressionError"):
        assert getattr(metaflow_agents, name) is getattr(errors, name) and name in metaflow_agents.__all__
    write(tmp_path, "sop: [")
    with pytest.raises(SOPInvalid):
        load_sop(tmp_path / "desk.yaml")


async def test_a_result_holds_what_steps_passed_on(tmp_path: Path) -> None:
    result = await run(write(tmp_path, NAMED), inputs={"name": "Jo", "idea": "tea"}, workspace=None)
    assert dict(result.artifacts) == {"told": "Jo: tea", "out": "JO: TEA"} and dict(result.outputs) == {"out": "JO: TEA"}
    with pytest.raises(KeyError, match="told"):
        result["told"]


async def test_what_is_given_of_a_collection_is_a_mapping_of_key_to_item(tmp_path: Path) -> None:
    path = write(tmp_path, """
        sop: noted
        inputs: {names: [string]}
        roles: {clerk: {profile: You note.}}
        artifacts: {notes: {each: {text: string, pages: integer}}, words: {each: string}, out: {}}
        steps:
          note: {role: clerk, needs: [names], foreach: {in: names}, makes: notes}
          say: {role: clerk, needs: [names], foreach: {in: names}, makes: words}
          end: {value: notes | tojson, needs: [notes, words], makes: out}
        tests:
          some:
            inputs: {names: [a, b]}
            given: {notes: {b: {text: short}}, words: {a: hello}}
            expect: notes.b.text == 'short' and notes.a.pages == 0 and words.a == 'hello' and words.b != 'hello'
    """)
    assert check(path).ok and await asyncio.to_thread(command, ["test", str(path)]) == 0
    model = Scripted(note={"text": "its own work", "pages": 2})
    result = await run(path, names=["a", "b"], model=model, workspace=None,
                       given={"notes": {"b": {"text": "short"}, "z": {"text": "nobody's"}}, "words": {"a": "hello", "b": "you"}})
    assert result.artifacts["notes"] == {"a": {"text": "its own work", "pages": 2}, "b": {"text": "short", "pages": 0}}
    assert result.artifacts["words"] == {"a": "hello", "b": "you"} and len(model.requests) == 1
