"""Plans made at run time: graphs, who does which task with which model and tools, and later versions of a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, write
from stopping import stopped_everywhere

from metaflow_agents import check, run
from metaflow_agents.models.port import ModelRequest

PLAN = """
    sop: desk
    inputs: {goal: string}
    roles:
      planner: {profile: You plan.}
      writer: {profile: You write., tools: [read, search]}
      coder: {profile: You code., tools: [read, write], model: fast}
    models: {fast: "python:other.py:quick", strong: "python:other.py:strong"}
    artifacts:
      plan:
        schema: {tasks: [{id: string, what: string, needs: [string], 'role?': string, 'model?': string, 'tools?': [string]}]}
        graph: {nodes: tasks, key: id, edges: needs}
      results: {each: string}
    steps:
      make_plan: {role: planner, needs: [goal], makes: plan}
      do:
        role: task.role
        needs: [plan]
        foreach: {in: plan.tasks, as: task}
        makes: results
        KEYS
    outputs: [results]
"""


OTHER = "def quick(request): return 'quick'\ndef strong(request): return 'strong'"


def planned(folder: Path, keys: str = "priority: 0") -> Path:
    return write(folder, PLAN.replace("KEYS", keys), other_py=OTHER)


def task(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "what": f"do {name}", "needs": list(needs), "role": "writer", **more}


def plan(*tasks: dict[str, Any]) -> dict[str, Any]:
    return {"tasks": list(tasks)}


async def repaired(folder: Path, broken: dict[str, Any], keys: str = "priority: 0") -> str:
    """What the planner is told of a plan before it makes a good one."""
    model = Scripted(make_plan=[broken, plan(task("a"))])
    result = await run(planned(folder, keys), goal="x", model=model, workspace=None)
    assert result.ok and model.steps == ["make_plan", "make_plan", "do"]
    return model.last_said("make_plan@1~0/turn.0/repair.1")


async def test_a_foreach_over_a_graph_takes_key_and_after_from_there(tmp_path: Path) -> None:
    model = Scripted(make_plan=plan(task("c", "a", "b"), task("b", "a"), task("a")), do=lambda request: request.key)
    result = await run(planned(tmp_path), goal="x", model=model, workspace=None)
    assert model.keys[1:] == [f"do@1[{name}]~0/turn.0" for name in "abc"]
    assert list(result["results"]) == ["c", "b", "a"], "in the order of the list"


@pytest.mark.parametrize(("tasks", "told"), [
    ([task("a"), task("a")], "`plan.tasks`[1]: key 'a' stands already at [0]; keys are unique"),
    ([task("first"), task("b", "frist")], "'b' comes after 'frist', which is no key of `plan.tasks`: did you mean `first`?"),
    ([task("d", "c"), task("a", "c"), task("b", "a"), task("c", "b")], "items wait for each other in a circle: 'a', 'b', 'c'\n"),
    ([task("a", "a"), task("b", "c"), task("c", "b")], "in a circle: 'a'\n"),
    ([task("a", "a"), task("b", "c"), task("c", "b")], "in a circle: 'b', 'c'\n"),
    ([task("a", role="witer")], "'a': `role: task.role` gave 'witer', which is no role: did you mean `writer`?"),
    ([task("a", role=None)], "role"),
    ([{"id": "a", "what": "do a", "needs": []}], "'a': `role: task.role` gave nothing, which is no role: there is: "),
], ids=["twice", "unknown", "circle", "itself", "two circles", "role", "no role",
        "role left out"])
async def test_what_is_broken_in_a_plan_goes_back_to_its_planner_by_name(tmp_path: Path, tasks: list[Any], told: str) -> None:
    said = await repaired(tmp_path, plan(*tasks))
    assert told in said
    assert said.count("circle") <= 2 and said.count("stands already") <= 1, "each fault is told once"


@pytest.mark.parametrize(("keys", "more", "told"), [
    ("model: task.model", {"model": "stong"},
     "'a': `model: task.model` gave 'stong', which is no model of this SOP: did you mean `strong`?"),
    ("tools: {only: task.tools}", {"tools": ["write"]},
     "`tools: {only: task.tools}` gave 'write', which the role `writer` does not have: there is: read, search"),
    ("tools: {only: task.tools}", {"tools": ["*"]}, "gave '*', which the role `writer` does not have"),
    ("tools: {only: task.tools}", {"tools": ["reed"]},
     "gave 'reed', which the role `writer` does not have: did you mean `read`? there is: read, search"),
], ids=["model", "tools", "pattern", "tool"])
async def test_models_and_tools_that_a_plan_may_not_choose_go_back_too(tmp_path: Path, keys: str, more: Any, told: str) -> None:
    assert told in await repaired(tmp_path, plan(task("a", **more)), keys)


async def test_each_task_has_the_role_the_model_and_the_tools_that_the_plan_names(tmp_path: Path) -> None:
    offered: dict[str, list[str]] = {}

    def answering(name: str) -> Any:
        def said(request: ModelRequest) -> Any:
            if request.step == "make_plan":
                return plan(task("a", tools=["read"]), task("b", role="coder"), task("c", role="coder", model="strong", tools=[]))
            offered[request.key] = [tool["name"] for tool in request.tools]
            return f"{name}, {request.role}"
        return said

    path = planned(tmp_path, "model: task.model\n        tools: {only: task.tools}")
    result = await run(path, goal="x", workspace=None, models={name: answering(name) for name in ("default", "fast", "strong")})
    assert result["results"] == {"a": "default, writer", "b": "fast, coder", "c": "strong, coder"}
    assert offered == {"do@1[a]~0/turn.0": ["read"], "do@1[b]~0/turn.0": ["read", "write"], "do@1[c]~0/turn.0": []}


async def test_a_plan_walks_dry_and_names_the_model_that_is_chosen(tmp_path: Path) -> None:
    text = PLAN.replace("'role?': string", "role: writer | coder").replace("'model?': string", "model: fast | strong")
    path = write(tmp_path, text.replace("KEYS", "model: task.model"), other_py=OTHER)
    assert check(path).ok
    result = await run(path, goal="x", model="dry", workspace=None)
    assert result.ok and list(result["results"]) == ["id"]


async def test_other_tools_are_another_result_for_from(tmp_path: Path) -> None:
    path = planned(tmp_path, "tools: {only: task.tools}")
    made = plan(task("a", tools=["read"]), task("b", tools=["search"]))
    await run(path, goal="x", model=Scripted(make_plan=made), workspace=tmp_path, name="one")
    made["tasks"][1]["tools"] = ["read"]
    again = Scripted(make_plan=made)
    path.write_text(path.read_text().replace("profile: You plan.", "profile: You plan again."))
    await run(path, goal="x", model=again, workspace=tmp_path, name="two", from_run="one")
    assert again.steps == ["make_plan", "do"] and "[b]" in again.keys[1]


def problems(folder: Path, *pairs: tuple[str, str]) -> list[str]:
    text = PLAN.replace("KEYS", "priority: 0")
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    write(folder, text, other_py=OTHER)
    return [f"{one.code}: {one.message}; {one.mend}" for one in check(folder / "desk.yaml").errors]


@pytest.mark.parametrize(("pair", "told"), [
    (("key: id", "key: name"), "bad-graph: a node of `plan.tasks` has no field `name`"),
    (("edges: needs", "edges: what"), ""),
    (("edges: needs", "edges: id2"), "bad-graph: a node of `plan.tasks` has no field `id2`; did you mean `id`?"),
    (("nodes: tasks", "nodes: task"), "bad-graph: `plan` has no field `task`; did you mean `tasks`?"),
    (("nodes: tasks, ", ""), "bad-graph: `plan` is {tasks}; it must be a list; its lists are: `tasks`"),
    (("results: {each: string}", "results: {each: string, graph: {key: a, edges: b}}"), "bad-graph: `results` is a collection"),
    (("role: task.role", "role: task.needs"), "role-text: this expression gives"),
    (("priority: 0", "model: task.needs"), "model-text: this expression gives"),
    (("priority: 0", "model: gpt-4.1"), "unknown-model: `gpt-4.1` is no model"),
    (("priority: 0", "tools: {only: task.what}"), "tools-list: this expression gives"),
    (("'tools?': [string]", "'tools?': [red | write]"), ""),
], ids=str)
def test_what_is_wrong_with_a_graph_or_a_choice_is_told(tmp_path: Path, pair: tuple[str, str], told: str) -> None:
    found = problems(tmp_path, pair)
    if not told:
        assert not found
    else:
        assert len(found) == 1 and found[0].startswith(told), found


def test_an_enumeration_may_hold_only_what_is_declared(tmp_path: Path) -> None:
    found = problems(tmp_path, ("priority: 0", "model: task.model\n        tools: {only: task.tools}"),
                     ("'model?': string", "'model?': strong | weak"), ("'tools?': [string]", "'tools?': [reed | write]"))
    assert found[0].startswith("unknown-model: this expression may give 'weak', which is no model of this SOP")
    assert found[1].startswith("unknown-tool: this expression may give 'reed', which is no tool of this SOP; did you mean `read`")


def test_a_first_value_is_a_graph_too(tmp_path: Path) -> None:
    ring = json.dumps(plan(task("a", "b"), task("b", "a")))
    found = problems(tmp_path, ("graph: {nodes", f"initial: {ring}\n        graph: {{nodes"))
    assert found[0].startswith("initial-value: the initial value of `plan` is no graph: its nodes wait for each other in a")


REPLANNED = """
    sop: desk
    inputs: {goal: string}
    roles: {planner: {profile: You plan.}, writer: {profile: You write.}}
    artifacts:
      plan:
        schema: {tasks: [{id: string, what: string, needs: [string], 'role?': string}]}
        graph: {nodes: tasks, key: id, edges: needs}
      trouble: {}
      pages: {files: "pages/*"}
    steps:
      make_plan: {role: planner, needs: [goal], makes: plan}
      do:
        role: writer
        needs: [plan]
        foreach: {in: plan.tasks, as: task}
        task: "{{ task.what }}"
        makes: {pages: "pages/{{ task.id }}"}
        on_fail: {makes: trouble}
      replan: {role: planner, needs: [trouble], sees: [plan], makes: plan, rounds: 2}
    outputs: [pages]
"""


def replanning(request: ModelRequest) -> Any:
    """Does every task but those that are impossible; the new plan leaves these out, and `d`, changes `b`, and adds `e`."""
    if request.step == "do":
        key = request.key.partition("[")[2].partition("]")[0]
        what = [message["content"] for message in request.messages if "# Your task" in message["content"]][-1]
        what = what.partition("# Your task")[2].split("#")[0].strip()
        if what == "impossible":
            return "=== file: elsewhere.txt ===\nno\n=== end ==="
        return f"=== file: pages/{key} ===\n{what} in {request.key}\n=== end ==="
    if request.step == "make_plan":
        return plan(task("a"), task("b", "a"), task("c", "a", what="impossible"), task("d"), task("f", "b"), task("g", "a"))
    assert "impossible" in request.messages[-1]["content"]
    return plan(task("a"), task("b", "a", what="do b better"), task("e", "a"), task("f", "b"), task("g", "a"))


async def test_a_later_plan_keeps_what_is_done_runs_what_changed_and_drops_what_is_not_wanted(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: ModelRequest) -> Any:
        asked.append(request.key)
        return replanning(request)

    result = await run(write(tmp_path, REPLANNED), goal="x", model=answer, workspace=tmp_path, name="it")
    assert result.ok
    assert [key for key in asked if key.startswith("do@2")] == [
        f"do@2[{name}]~0/turn.0" for name in ("b", "e", "f")], "b changed, f comes after it, e is new; a and g stand"
    pages = {path.removeprefix("pages/"): text.strip() for path, text in result["pages"].items()}
    assert pages == {"a": "do a in do@1[a]~0/turn.0", "b": "do b better in do@2[b]~0/turn.0", "e": "do e in do@2[e]~0/turn.0",
                     "f": "do f in do@2[f]~0/turn.0", "g": "do g in do@1[g]~0/turn.0"}, "c and d are gone, their files too"
    assert sorted(path.name for path in (tmp_path / "it" / "pages").iterdir()) == ["a", "b", "e", "f", "g"]


@pytest.mark.one_in(4)
async def test_a_plan_is_stopped_at_every_call_and_gone_on_with(tmp_path: Path) -> None:
    whole = await stopped_everywhere(write(tmp_path, REPLANNED), lambda: replanning, tmp_path / "runs", goal="x")
    assert len(whole.keys) == 13
