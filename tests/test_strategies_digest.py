# ruff: noqa: E501  (SOPs stand here as people write them)
"""What `--from` reuses where a strategy names other roles, templates, expressions or commands; and what these name is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from scripted import Scripted, finished, ran, write

from metaflow_agents import check, run
from metaflow_agents.agent import strategies
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.strategies import STRATEGIES, Evaluator, Reference, Refers, RoleName, StrategySpec, references
from metaflow_agents.schema.strategies.workers import partners, tools_in, workers
from metaflow_agents.sop.naming import Named, named, runs_commands
from metaflow_agents.views.roles_table import cast

DESK = """
    sop: desk
    inputs: {question: string, style: {type: string, default: plain}}
    roles:
      chair: {profile: You lead.}
      low: {profile: You guess low.}
      high: {profile: You guess high., prompt: high.md.j2}
      judge: {profile: You judge., model: strong, tools: [read]}
    models: {strong: dry}
    artifacts: {note: {}, answer: {schema: {number: integer}}}
    steps:
      remember: {role: judge, needs: [question], makes: note, task: Note it.}
      solve:
        role: chair
        needs: [question]
        sees: [note]
        makes: answer
        strategy:
          debate: {roles: [low, high], rounds: 1, judge: judge, prompts: {judge: choose.j2}, compare: answer.number}
    outputs: [answer]
"""
FILES = {"high_md_j2": "You guess high.", "choose_j2": "{% include 'list.j2' %} Choose.",
         "list_j2": "{% for one in answers %}{{ one.number }} {% endfor %}"}


def solved(request: Any) -> Any:
    if request.step == "remember":
        return "noted"
    return {"best": 1, "why": "x"} if "/judge/" in request.key else {"number": 1 if request.role == "low" else 2}


async def twice(folder: Path, text: str = DESK, models: Callable[[Any], Any] | None = None, **files: str) -> set[str]:
    """A run, then another one from it with something changed: why the step was done anew; empty where it was not."""
    async def default(request: Any) -> Any:
        return solved(request)

    async def strong(request: Any) -> Any:
        return solved(request)

    await run(write(folder, DESK, **FILES), question="x", models={"default": default, "strong": strong}, workspace=folder, name="first")
    result = await run(write(folder, text, **{**FILES, **files}), question="x", workspace=folder, name="second", from_run="first",
                       models={"default": default, "strong": models or strong})
    assert result.ok, result.reason
    event = finished(folder, "second")["solve@1~0"]
    return set() if event.reused_from else set(event.why)


async def test_nothing_changed_nothing_runs(tmp_path: Path) -> None:
    assert await twice(tmp_path) == set() and ran(tmp_path, "second") == set()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("old", "new", "why"), [
    ("You guess low.", "You guess lower.", {"role:low"}),
    ("You judge.", "You judge well.", {"role:judge"}),
    ("rounds: 1", "rounds: 2", {"step"}),
    ("roles: [low, high]", "roles: [high, low]", {"step"}),
    ("tools: [read]", "tools: [list]", {"role:judge", "tools:judge"}),
    ("task: Note it.", "task: Note it down.", {"memory:judge"}),
    ("You lead.", "You lead us.", {"role"}),
])
async def test_another_role_that_a_strategy_names_counts(tmp_path: Path, old: str, new: str, why: set[str]) -> None:
    assert old in DESK
    assert await twice(tmp_path, DESK.replace(old, new)) == why


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("file", "text", "why"), [
    ("high_md_j2", "You guess higher.", {"role:high"}),
    ("choose_j2", "{% include 'list.j2' %} Choose one.", {"step"}),
    ("list_j2", "{% for one in answers %}{{ one.number }}; {% endfor %}", {"step"}),
])
async def test_templates_that_roles_and_parameters_name_count_with_what_they_include(tmp_path: Path, file: str, text: str,
                                                                                     why: set[str]) -> None:
    assert await twice(tmp_path, **{file: text}) == why


async def test_a_named_role_s_model_counts(tmp_path: Path) -> None:
    async def stronger(request: Any) -> Any:
        return solved(request)
    assert await twice(tmp_path, models=stronger) == {"model:judge"}


async def test_what_a_template_or_a_named_role_s_prompt_takes_from_the_run_counts(tmp_path: Path) -> None:
    for name, files in (("a", {"choose_j2": "{{ run.inputs.style }}"}), ("b", {"high_md_j2": "{{ run.inputs.style }}"})):
        (tmp_path / name).mkdir()
        path = write(tmp_path / name, DESK, **{**FILES, **files})
        model = Scripted(solve=solved, remember=solved)
        for run_name, style, options in (("first", "plain", {}), ("second", "grand", {"from_run": "first"})):
            await run(path, question="x", style=style, model=model, name=run_name, workspace=tmp_path / name, **options)
        assert finished(tmp_path / name, "second")["solve@1~0"].why == ("run",)


# --- all strategies: what their references are

class Everything(StrategySpec):
    """A strategy with each kind of reference, in each place where one may stand."""

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {"ask": ("answers",)}

    lead: RoleName | None = None
    crew: tuple[RoleName, ...] = ()
    posts: dict[RoleName, str] | None = None
    until: Annotated[str | None, Refers("expression", ("answer",))] = None
    evaluate: Evaluator | None = None


class Thinks(strategies.Strategy[Everything]):
    SPEC = Everything

    async def answer(self, thinking: strategies.Thinking) -> strategies.Said:
        return await thinking.ask("turn.0", thinking.compose(thinking.prompt("ask", answers=[])))


GIVEN = {"lead": "ann", "crew": ["bob", "ann"], "posts": {"cid": "aft"}, "until": "history('draft') | length > run.inputs.most",
         "evaluate": {"run": ["test", "{{ run.inputs.file }}"]}, "prompts": {"ask": "ask.j2"}}


def told(found: Iterator[Reference]) -> set[tuple[Any, ...]]:
    return {(one.refers.to, one.text, one.place[0]) for one in found}


def test_references_are_found_in_lists_mappings_and_evaluators() -> None:
    found = told(references({"everything": GIVEN}, {"everything": Everything}))
    assert found == {("role", "ann", "lead"), ("role", "bob", "crew"), ("role", "ann", "crew"), ("role", "cid", "posts"),
                     ("expression", GIVEN["until"], "until"), ("command", "test", "evaluate"),
                     ("command", "{{ run.inputs.file }}", "evaluate"), ("template", "ask.j2", "prompts")}
    assert not list(references({"everything": {"lead": 3}}, {"everything": Everything})), "what is wrong is told by the check"
    assert not list(references({"nothing": {}})) and not list(references(None))


def test_what_they_name_counts_as_read_and_who_they_name_works_in_the_step() -> None:
    known = {**STRATEGIES, "everything": Everything}
    step = Step.model_validate({"role": "dan", "sees": ["draft"], "makes": "out", "strategy": {"everything": GIVEN}})
    roles = {"ann": {"tools": ["read"]}, "bob": {"prompt": "bob.j2"}, "cid": {}, "dan": {"tools": ["list"]}, "eve": {"tools": ["run"]}}
    sop = SOP.model_validate({"sop": "s", "inputs": {name: "string" for name in ("most", "file", "told", "asked")}, "roles": roles,
                              "artifacts": {"draft": {}, "out": {}}, "steps": {"do": step.model_dump(by_alias=True, exclude_unset=True)}})
    program = Program(sop=sop, templates={"ask.j2": "{{ run.inputs.asked }}", "bob.j2": "{{ run.inputs.told }}"})
    assert partners(step, known) == ("ann", "bob", "cid") and workers(sop, step, known) == ("dan", "ann", "bob", "cid")
    assert tools_in(sop, step, known) == ("list", "read") and runs_commands(step, known) and not runs_commands(step)
    assert named(program, step, known) == Named(frozenset({"most", "file", "told", "asked"}), frozenset({"draft"}))
    assert named(program, step) == Named(), "as if it were not there"


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_of_the_package_marks_what_refers(name: str) -> None:
    """A parameter that says role, expression, template or command in words has the mark that makes it count."""
    marked = {str(field) for field, of in STRATEGIES[name].model_fields.items() if "Refers(" in repr(of.annotation) + repr(of.metadata)}
    for field, of in STRATEGIES[name].model_fields.items():
        said = (of.description or "").lower()
        if field != "prompts" and any(word in said for word in ("a role that", "as an expression", "who debates", "role →")):
            assert field in marked, (name, field)


async def test_those_of_a_strategy_that_was_registered_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "_REGISTRY", dict(strategies._REGISTRY))
    strategies.register("everything", Thinks)
    text = """
        sop: own
        inputs: {question: string}
        roles: {dan: {profile: You work.}, ann: {profile: You lead., model: strong}}
        models: {strong: dry}
        artifacts: {out: {}}
        steps: {solve: {role: dan, needs: [question], makes: out, strategy: {everything: {lead: ann, prompts: {ask: ask.j2}}}}}
    """
    model = Scripted()
    for name, ask, written, options in (("first", "Do.", text, {}), ("second", "Do it.", text, {"from_run": "first"}),
                                        ("third", "Do it.", text.replace("You lead.", "You lead us."), {"from_run": "second"})):
        path = write(tmp_path, written, ask_j2=ask)
        assert check(path).problems == ()
        await run(path, question="x", models={"default": model, "strong": model}, workspace=tmp_path, name=name, **options)
    assert finished(tmp_path, "second")["solve@1~0"].why == ("step",)
    assert finished(tmp_path, "third")["solve@1~0"].why == ("role:ann",)


def test_people_are_shown_which_model_each_of_them_has() -> None:
    sop = SOP.model_validate({"sop": "s", "roles": {"a": {}, "b": {"model": "strong"}, "c": {"model": "strong"}}, "artifacts": {"out": {}},
                              "steps": {"do": {"role": "a", "makes": "out", "strategy": {"debate": {"roles": ["a", "b"]}}}}})
    assert cast(Program(sop=sop), {"default": "m", "strong": "M"}) == {"a": "m", "b": "M"}
