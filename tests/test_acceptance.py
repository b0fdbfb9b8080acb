# ruff: noqa: E501  (SOPs stand here as people write them)
"""What an answer must fit: schema, rules, paths, and the lists that later steps walk over; told to its author in its activation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, block, events, firings, write

from metaflow_agents import RunResult, run
from metaflow_agents.models.dry import example_path
from metaflow_agents.schema.event import Failed

PLAN = """
    sop: plan
    inputs: {goal: string}
    roles: {planner: {profile: You plan.}, coder: {profile: You code.}}
    artifacts:
      design: {schema: {package: string, files: [{path: string, uses: [string]}]}, rules: [{assert: "design.files | length < 5", message: Four files at most.}]}
      source: {files: "{{ design.package }}/**"}
      docs: {files: "app/docs/**"}
      note: {file: app/note.txt}
    steps:
      plan_it: {role: planner, needs: [goal], makes: design}
      code:
        role: coder
        needs: [design]
        foreach: {in: design.files, as: file, key: file.path, after: file.uses}
        makes: {source: "{{ file.path }}"}
      document: {role: coder, needs: [design], makes: docs}
      note_it: {value: "'x'", needs: [design], makes: note}
"""


def files(*paths: str, **uses: list[str]) -> list[dict[str, Any]]:
    return [{"path": path, "uses": uses.get(path.rpartition("/")[2].partition(".")[0], [])} for path in paths]


GOOD = {"package": "app", "files": files("app/a.py", "app/b.py", b=["app/a.py"])}


def coder(request: Any) -> str:
    path = example_path(request.patterns[0])
    return block(path, request.key)


async def plan(tmp_path: Path, *answers: Any, text: str = PLAN) -> tuple[RunResult, Scripted]:
    model = Scripted(plan_it=list(answers), code=coder, document=coder)
    return await run(write(tmp_path, text), goal="x", model=model, workspace=tmp_path), model


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("bad", "told"), [
    ({"package": "app"}, "`files` is missing"),
    ({"package": "app", "files": [{"path": 5, "uses": []}]}, "`files[0].path` is 5; expected string"),
    ({"package": "app", "files": files("app/a.py", "app/b.py", "app/a.py")}, "[2]: key 'app/a.py' stands already at [0]"),
    ({"package": "app", "files": files("app/a.py", a=["app/z.py"])}, "'app/a.py' comes after 'app/z.py', which is no key"),
    ({"package": "app", "files": files("app/a.py", "app/b.py", a=["app/b.py"], b=["app/a.py"])}, "in a circle: 'app/a.py', 'app/b.py'"),
    ({"package": "app", "files": files("app/a.py", a=["app/a.py"])}, "in a circle"),
    ({"package": "app", "files": files("")}, "its key must be a text that is not empty"),
    ({"package": "app", "files": files("/etc/passwd")}, "/etc/passwd"),
    ({"package": "app", "files": files("app/../../x")}, "app/../../x"),
    ({"package": "app", "files": files("app/.git/hooks")}, ".git"),
    ({"package": "app", "files": files("lib/a.py")}, "'lib/a.py' lies outside `source`, which is confined to app/**"),
    ({"package": "app", "files": files("app/docs/a.md")}, "'app/docs/a.md' belongs to `docs` (app/docs/**)"),
    ({"package": "app", "files": files("app/note.txt")}, "'app/note.txt' belongs to `note`"),
    ({"package": "app", "files": files("app/1", "app/2", "app/3", "app/4", "app/5")}, "Four files at most."),
    ({"package": "app", "files": files("app/x", "app/x/y")}, "can't be a file and the folder of"),
])
async def test_the_author_hears_of_it_and_mends_it_in_its_own_activation(tmp_path: Path, bad: Any, told: str) -> None:
    result, model = await plan(tmp_path, bad, GOOD)
    assert result.ok, result.reason
    assert [key for key in model.keys if key.startswith("plan_it")] == ["plan_it@1~0/turn.0", "plan_it@1~0/turn.0/repair.1"]
    assert told in model.last_said("plan_it@1~0/turn.0/repair.1")
    assert firings(tmp_path, "plan-1").count("plan_it@1") == 1 and events(tmp_path, "plan-1", Failed) == []


async def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    _, model = await plan(tmp_path, {"package": "app", "files": files("app/a.py", "lib/b.py", "app/docs/c.md", "../d", "app/e")}, GOOD)
    said = model.last_said("plan_it@1~0/turn.0/repair.1")
    assert all(part in said for part in ("Four files", "lib/b.py", "app/docs/c.md", "../d"))


async def test_after_two_repairs_the_attempt_has_failed_with_the_faults(tmp_path: Path) -> None:
    bad = {"package": "app", "files": files("app/a.py", "app/a.py")}
    result, model = await plan(tmp_path, bad)
    assert result.outcome == "stopped" and "plan_it@1~0" in result.reason and "stands already" in result.reason
    assert model.steps == ["plan_it"] * 3


async def test_a_value_put_into_a_pattern_matches_itself(tmp_path: Path) -> None:
    result, model = await plan(tmp_path, {"package": "app", "files": files("app/[slug]/page*.tsx")})
    (said,) = [request.messages[-1]["content"] for request in model.requests if request.step == "code"]
    assert "- `app/[slug]/page*.tsx`" in said           # and it is told as it is
    assert result.ok and list(result["source"]) == ["app/[slug]/page*.tsx"]


async def test_items_are_confined_to_their_own_path(tmp_path: Path) -> None:
    def sly(request: Any) -> str:
        if "repair" in request.key or "[app/a.py]" not in request.key:
            return coder(request)
        return block("app/a.py", "mine") + block("app/b.py", "not mine")

    model = Scripted(plan_it=GOOD, code=sly, document=coder)
    result = await run(write(tmp_path, PLAN), goal="x", model=model, workspace=tmp_path)
    assert result.ok and "not mine" not in result["source"]["app/b.py"]
    assert "path `app/b.py` is outside of what this step makes: `app/a.py`" in model.last_said("code@1[app/a.py]~0/turn.0/repair.1")


async def test_a_file_of_another_artifact_is_refused(tmp_path: Path) -> None:
    text = """
        sop: two
        inputs: {goal: string}
        roles: {coder: {profile: You code.}}
        artifacts: {source: {files: "{{ goal }}/**"}, docs: {files: "app/docs/**"}}
        steps:
          code: {role: coder, needs: [goal], makes: source}
          document: {role: coder, needs: [goal], makes: docs}
    """
    model = Scripted(code=[block("app/docs/x.md", "x"), block("app/x.py", "x")], document=block("app/docs/x.md", "docs"))
    result = await run(write(tmp_path, text), goal="app", model=model, workspace=tmp_path)
    assert result.ok, result.reason
    assert "'app/docs/x.md' belongs to `docs`" in model.last_said("code@1~0/turn.0/repair.1")


async def test_a_rule_that_fails_to_evaluate_is_a_fault_too(tmp_path: Path) -> None:
    text = """
        sop: rule
        inputs: {goal: string}
        roles: {coder: {profile: You count.}}
        artifacts: {sums: {schema: {a: integer, b: integer}, rules: [{assert: sums.a / sums.b > 1}, {assert: "sums.a < 100", message: Too much.}]}}
        steps: {count: {role: coder, needs: [goal], makes: sums}}
    """
    model = Scripted(count=[{"a": 500, "b": 0}, {"a": 9, "b": 3}])
    result = await run(write(tmp_path, text), goal="x", model=model, workspace=None)
    assert result.ok
    said = model.last_said("count@1~0/turn.0/repair.1")
    assert "rule `sums.a / sums.b > 1` of `sums` failed" in said and "Too much." in said


@pytest.mark.parametrize("doer", ["value: \"{'n': amount}\"", "call: fns:f"])
async def test_who_is_no_model_is_held_to_the_same(tmp_path: Path, doer: str) -> None:
    text = f"""
        sop: rule
        inputs: {{amount: integer}}
        artifacts: {{out: {{schema: {{n: integer}}, rules: [{{assert: out.n > 5, message: More than five.}}]}}}}
        steps: {{make: {{{doer}, needs: [amount], makes: out}}}}
    """
    path = write(tmp_path, text, fns_py="def f(amount):\n    return {'n': amount}\n")
    assert (await run(path, amount=6, workspace=None))["out"] == {"n": 6}
    result = await run(path, amount=5, workspace=None)
    assert result.outcome == "stopped" and "More than five." in result.reason


async def test_each_item_of_a_collection_is_held_to_its_rules(tmp_path: Path) -> None:
    text = """
        sop: rule
        inputs: {names: [string]}
        roles: {coder: {profile: You count.}}
        artifacts: {sizes: {each: integer, rules: [{assert: sizes > 0, message: Above nothing.}]}}
        steps: {count: {role: coder, needs: [names], foreach: {in: names, as: name}, makes: sizes}}
    """
    model = Scripted(count=lambda request: 3 if "repair" in request.key or "[a]" in request.key else 0)
    result = await run(write(tmp_path, text), names=["a", "b"], model=model, workspace=None)
    assert result["sizes"] == {"a": 3, "b": 3}
    assert "Above nothing." in model.last_said("count@1[b]~0/turn.0/repair.1")


async def test_items_of_a_collection_are_no_list_to_walk_over(tmp_path: Path) -> None:
    """A later step walks over the whole collection; no item is held to that."""
    text = """
        sop: walk
        inputs: {names: [string]}
        artifacts: {words: {each: string}, long: {each: string}}
        steps:
          echo: {value: name ~ name, needs: [names], foreach: {in: names, as: name}, makes: words}
          stretch: {value: "words[item] ~ '!'", needs: [words], foreach: {in: words | list, key: item}, makes: long}
    """
    result = await run(write(tmp_path, text), names=["aa", "b"], workspace=None)
    assert result.ok and dict(result["long"]) == {"aa": "aaaa!", "b": "bb!"}


async def test_no_file_at_all_is_a_fault(tmp_path: Path) -> None:
    text = """
        sop: empty
        inputs: {goal: string}
        artifacts: {source: {files: "app/**"}}
        steps:
          make: {value: "{} if goal == 'none' else {'app/x': 1} if goal == 'number' else 'text'", needs: [goal], makes: source}
    """
    path = write(tmp_path, text)
    for goal, told in (("none", "no file was given; wanted: app/**"), ("number", "a mapping of path to text"), ("x", "a mapping of path")):
        assert told in (await run(path, goal=goal, workspace=None)).reason


async def test_what_is_named_with_nothing_is_deleted_and_what_is_not_named_stays(tmp_path: Path) -> None:
    """By an expression, a function and a function that plays the model; a file that is not there is no file to delete."""
    text = """
        sop: less
        inputs: {path: string}
        artifacts: {source: {files: "app/**", initial: {app/a: 1, app/b: 2}}, seen: {schema: string}}
        steps:
          less: {value: "{path: none, 'app/c': 'new'}", needs: [path], sees: [source], rounds: 1, makes: source}
          look: {value: "source | list | join(' ')", needs: [source], makes: seen}
    """.replace("app/a: 1, app/b: 2", "app/a: '1', app/b: '2'")
    path = write(tmp_path, text)
    result = await run(path, inputs={"path": "app/b"}, workspace=tmp_path / "w")
    assert result["seen"] == "app/a app/c" and not (tmp_path / "w" / "less-1" / "app/b").exists()
    told = await run(path, inputs={"path": "app/z"}, workspace=None)
    assert "'app/z' can't be deleted, as there is no such file; leave it out" in told.reason
