"""Screens of a policy: what they find ends the run, in each place that they look at, whatever a model or a SOP says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from scripted import events

from metaflow_agents import check, plugins, resume, run, start
from metaflow_agents.cli import command
from metaflow_agents.errors import NotHere, SOPInvalid
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.policy.screens import ScreenRule, Terms
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Decided
from metaflow_agents.steps import screening
from metaflow_agents.texts.names import Names

NAMES = """
projects: [Bluebird, Operation Larch, αlpha seven]
people: [J. Doe, Ørsted]
"""
SOP = """
sop: screened
policy: {screen: [own.yaml], allow: [call(look)]}
inputs: {question: {type: string, default: hello}, more: {type: string, default: ""}, notes: {type: folder, default: notes}}
tools: {look: {python: "looks:look", effect: none}, put: {python: "looks:put", effect: once}}
roles: {clerk: {profile: You answer., tools: [look, put, read]}}
artifacts: {answer: {schema: {said: string}, file: answer.json}}
steps:
  find: {role: clerk, needs: [question, more], sees: [notes], makes: answer, retries: 2, on_fail: skip}
"""
LOOKS = """
def look(first: str, second: str = "", third: str = "") -> str:
    "Looks up."
    return {"it": "it is Bluebird"}.get(first, "nothing")
def put(text: str) -> str:
    "Puts it somewhere."
    open(HERE, "a").write(text)
    return "done"
"""
RULE = "deny screen(own.yaml) of the SOP: Bluebird (projects)"


def written(folder: Path, sop: str = SOP, names: str = NAMES) -> Path:
    (folder / "own.yaml").write_text(names)
    (folder / "looks.py").write_text(LOOKS.replace("HERE", repr(str(folder / "put.log"))))
    (folder / "notes").mkdir(exist_ok=True)
    (folder / "notes" / "a.txt").write_text("nothing")
    (folder / "sop.yaml").write_text(sop)
    return folder / "sop.yaml"


def calling(*calls: Mapping[str, Any], tool: str = "look", then: Any = None) -> Callable[[ModelRequest], Any]:
    """A model that makes these calls, one a turn, and then says what it got."""
    def model(request: ModelRequest) -> Any:
        found = [one for one in request.messages if one["role"] == "tool"]
        if len(found) < len(calls):
            return Reply("", calls=(ToolCall("", tool, calls[len(found)]),))
        return then or json.dumps({"said": "fine"})
    return model


def denied(folder: Path, name: str) -> list[Decided]:
    return [one for one in events(folder / "workspace", name) if isinstance(one, Decided) and one.action.startswith("screen(")]


async def refused(folder: Path, where: str, model: Any, **inputs: Any) -> Decided:
    """The record of a run that was ended by its screen in one place; it made nothing."""
    result = await run(folder / "sop.yaml", model=model, workspace=folder / "workspace", name="r", sandbox="none",
                       **{**({"notes": folder / "notes"} if "notes" in (folder / "sop.yaml").read_text() else {}), **inputs})
    assert (result.outcome, dict(result.outputs)) == ("stopped", {})
    assert RULE in result.reason
    record, = denied(folder, "r")
    assert (record.action, record.verdict, record.rule) == (f"screen({where})", "deny", RULE)
    return record


def never(request: ModelRequest) -> Any:
    raise AssertionError("no model is asked")


async def test_what_a_run_is_given(tmp_path: Path) -> None:
    """Before any model is asked."""
    written(tmp_path)
    await refused(tmp_path, "input question", never, question="Tell me about blue-bird.\n")


async def test_a_name_that_is_cut_into_two_inputs(tmp_path: Path) -> None:
    written(tmp_path)
    await refused(tmp_path, "inputs", never, question="Blue", more="bird")


async def test_a_file_that_a_run_is_given(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "notes" / "b.txt").write_text("\n| of | BLUEBIRD |\n")
    await refused(tmp_path, "input notes: b.txt", never)


async def test_the_arguments_of_a_tool(tmp_path: Path) -> None:
    """It is not called."""
    written(tmp_path)
    await refused(tmp_path, "arguments of put", calling({"text": "on Bluebird"}, tool="put"))
    assert not (tmp_path / "put.log").exists()


@pytest.mark.parametrize("calls", [[{"first": "Blu", "second": "ebi", "third": "rd"}], [{"first": "Blue"}, {"first": "bird"}]],
                         ids=["in one call", "in two turns"])
async def test_a_name_that_is_cut_into_arguments(tmp_path: Path, calls: Sequence[Mapping[str, Any]]) -> None:
    written(tmp_path)
    await refused(tmp_path, "arguments of look", calling(*calls))


async def test_arguments_that_a_person_changed(tmp_path: Path) -> None:
    written(tmp_path, SOP.replace("allow: [call(look)]", "ask: [call(put)]"))

    async def asker(question: Question, number: int) -> Answer:
        return Answer(verdict="yes", arguments={"text": "on Bluebird"})
    await refused(tmp_path, "arguments of put", calling({"text": "fine"}, tool="put"), asker=asker)
    assert not (tmp_path / "put.log").exists()


async def test_what_was_sent_to_a_role(tmp_path: Path) -> None:
    """Before the model is asked."""
    written(tmp_path, "sop: screened\npolicy: {screen: [own.yaml]}\nroles: {clerk: {profile: x}}\nartifacts: {one: {}, two: {}}\n"
                      "steps:\n  first: {value: \"'hello'\", makes: one}\n  then: {role: clerk, needs: [one], makes: two}\n")
    async with start(tmp_path / "sop.yaml", model=never, workspace=tmp_path / "workspace", name="r", sandbox="none") as going:
        await going.bus.send("a friend", "clerk", "Ask about Bluebird.")
        result = await going.result()
    assert result.outcome == "stopped" and RULE in result.reason
    assert [record.action for record in denied(tmp_path, "r")] == ["screen(memory)"]


async def test_what_a_tool_gives(tmp_path: Path) -> None:
    """Nobody sees it, and a resume does not either, though the call is done."""
    written(tmp_path)
    await refused(tmp_path, "result of look", calling({"first": "it"}))
    again = await resume("r", workspace=tmp_path / "workspace", model=calling({"first": "it"}))
    assert again.outcome == "stopped" and RULE in again.reason


async def test_the_answer(tmp_path: Path) -> None:
    """No retry, and `on_fail: skip` passes over nothing."""
    written(tmp_path)
    asked: list[str] = []

    def model(request: ModelRequest) -> Any:
        asked.append(request.key)
        return {"said": "It is Blue\u200bbird."}
    await refused(tmp_path, "answer answer", model)
    assert len(asked) == 1 and not (tmp_path / "workspace" / "r" / "answer.json").exists()


async def test_what_any_step_makes(tmp_path: Path) -> None:
    """A function's result too, and a name of a field."""
    written(tmp_path, "sop: screened\npolicy: {screen: [own.yaml]}\nartifacts: {answer: {}}\n"
                      "steps: {find: {call: 'looks:look', args: {first: it}, makes: answer}}\n")
    await refused(tmp_path, "answer answer", None)


async def test_a_sub_sop_is_held_by_the_screens_around_it(tmp_path: Path) -> None:
    written(tmp_path, "sop: outer\npolicy: {screen: [own.yaml]}\nartifacts: {answer: {}}\n"
                      "steps: {find: {sop: inner, makes: answer}}\n")
    (tmp_path / "inner.yaml").write_text("sop: inner\nroles: {clerk: {profile: x}}\nartifacts: {said: {}}\n"
                                         "steps: {say: {role: clerk, makes: said}}\n")
    record = await refused(tmp_path, "answer said", lambda request: "It is Bluebird")
    assert record.key.startswith("find@1~0/say@1~0")


async def test_a_result_of_an_earlier_run_is_looked_at_too(tmp_path: Path) -> None:
    place = written(tmp_path, names="projects: [Larch]")
    asked: list[str] = []

    def model(request: ModelRequest) -> Any:
        asked.append(request.key)
        return {"said": "It is Bluebird"}

    first = await run(place, model=model, workspace=tmp_path / "workspace", name="first", sandbox="none",
                      notes=tmp_path / "notes")
    assert first.ok
    written(tmp_path)
    result = await run(place, model=model, workspace=tmp_path / "workspace", name="r", from_run="first", sandbox="none",
                       notes=tmp_path / "notes")
    assert result.outcome == "stopped" and RULE in result.reason and len(asked) == 1


async def test_harmless_runs_pass(tmp_path: Path) -> None:
    written(tmp_path)
    result = await run(tmp_path / "sop.yaml", model=calling({"first": "blue sky"}, {"first": "x"}), sandbox="none",
                       workspace=tmp_path / "workspace", name="r", question="Of bluebirders", notes=tmp_path / "notes")
    assert result.ok, result.reason
    assert denied(tmp_path, "r") == []


async def test_the_audit_has_it_as_people_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path)
    await refused(tmp_path, "input question", never, question="Bluebird")
    monkeypatch.chdir(tmp_path)
    assert command(["log", "r", "--audit"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "- deny screen(input question) by" in told and RULE in told


FORMS = ["bluebird", "BLUEBIRD", "blue-bird", "blue\u2010bird", "blue\u00adbird", "bl\u200bue\u200dbird", "blue-\n  bird",
         "b l u e b i r d", "Ｂｌｕｅｂｉｒｄ", "blu\u0435bird", "b.l.u.e.b.i.r.d", "**blue**bird", "blue_bird", "blue%62ird",
         "&#98;luebird", "\\u0062luebird", "bluebird's", "Bluebirds", "(bluebird)", "x|bluebird|y", "blüebird"]


@pytest.mark.parametrize("text", FORMS)
def test_a_name_is_known_in_any_form(text: str) -> None:
    assert Terms({"projects": ["Bluebird"]}).find([f"of {text} it"]) == "Bluebird (projects)"


@pytest.mark.parametrize(("name", "text"), [
    ("Operation Larch", "operation\nlarch"), ("Operation Larch", "OperationLarch"), ("αlpha seven", "alphalpha-seven"),
    ("alpha seven", "α seven"), ("J. Doe", "J Doe"), ("Ørsted", "ørsted"), ("VX", "of vx."), ("VX", "v\u200bx"),
    ("α-amine", "alpha amine")])
def test_spaces_greek_letters_and_case_do_not_count(name: str, text: str) -> None:
    assert Names({name: "it"}).find([text]) == "it"


@pytest.mark.parametrize(("name", "text"), [
    ("sarin", "the SAR in this series"), ("soman", "so man of them"), ("ricin", "Ricinus"), ("VX", "v x"), ("VX", "VX2"),
    ("Bluebird", "bluebirders"), ("larch", "a larchwood"), ("tabun", "a tab un")])
def test_other_words_with_its_letters_are_not_the_name(name: str, text: str) -> None:
    assert Names({name: "it"}).find([text]) == ""


@pytest.mark.parametrize(("made", "told"), [
    (ValueError("no table"), "ValueError: no table"), (SystemExit(3), "SystemExit: 3"), (None, "it gave NoneType, and no text"),
    (asyncio.CancelledError(), "CancelledError")])
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_screen_that_fails_lets_nothing_pass(made: Any, told: str, is_async: bool) -> None:
    def gives() -> Any:
        if isinstance(made, BaseException):
            raise made
        return made

    class Broken:
        def find(self, parts: Sequence[str]) -> Any:
            return gives()

    class Waiting:
        async def find(self, parts: Sequence[str]) -> Any:
            await asyncio.sleep(0)
            return gives()
    found = await screening.refused([ScreenRule("broken", "the SOP", Waiting() if is_async else Broken())], ["anything"])
    assert found.startswith("deny screen(broken) of the SOP: it failed: ") and told in found


def gone() -> Any:
    raise NotHere("rdkit is not installed: `pip install 'metaflow-agents[chemistry]'`")


async def test_a_screen_that_can_not_run_begins_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins.Plugin, "load", lambda plugin: gone)
    place = written(tmp_path, SOP.replace("own.yaml", "chemistry"))
    with pytest.raises(NotHere, match="`chemistry` can't run, so the run does not begin: rdkit is not installed: `pip"):
        await run(place, model=never, workspace=tmp_path / "workspace", sandbox="none", notes=tmp_path / "notes")
    assert not (tmp_path / "workspace").exists()


@pytest.mark.parametrize(("sop", "names", "told"), [
    (SOP.replace("own.yaml", "alchemy"), NAMES, "there is no screen `alchemy`"),
    (SOP.replace("own.yaml", "ow.yaml"), NAMES, "there is no file `ow.yaml`"),
    (SOP.replace("own.yaml", "../own.yaml"), NAMES, "is no file's name"),
    (SOP, "a: b", "`own.yaml` is no list of names"), (SOP, "{}", "`own.yaml` is no list of names"),
    (SOP, "a: ['--']", "`own.yaml` is no list of names"),
    (SOP.replace("[own.yaml]", "[own.yaml, own.yaml]"), NAMES, "the screen `own.yaml` is duplicated"),
    (SOP.replace("tools: [", "policy: {screen: [own.yaml]}, tools: ["), NAMES, "the role `clerk` names a screen")])
async def test_what_is_wrong_with_a_screen_is_told_before_a_run(tmp_path: Path, sop: str, names: str, told: str) -> None:
    place = written(tmp_path, sop, names)
    assert told in "\n".join(str(one) for one in check(place).problems)
    with pytest.raises(SOPInvalid):
        await run(place, model=never, workspace=None, sandbox="none")
