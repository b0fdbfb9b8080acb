"""What changed in a run: commits, and what sub-SOPs made anew, in the order of the events, each with what had come up since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, write
from ui_desk import read

from metaflow_agents import run
from metaflow_agents.views.ui import changes
from metaflow_agents.views.ui.files import FileHistory

OUTER = """
    sop: outer
    inputs: {topic: {type: string, default: tea}}
    artifacts:
      built: {schema: {type: object, additionalProperties: {type: string}}}
      tree: {files: "src/**"}
      note: {file: note.md}
    steps:
      build: {sop: inner.yaml, needs: [topic], inputs: {topic: topic}, makes: built}
      lay_out: {value: "{'src/a.py': built['a.py']}", needs: [built], makes: tree}
      tell: {value: "'about ' ~ topic", needs: [topic, tree], rounds: 1, makes: note}
      tell_more: {value: "note ~ ', more'", needs: [note], rounds: 1, makes: note}
    outputs: [tree, note]
"""
INNER = """
    sop: inner
    inputs: {topic: string}
    roles: {author: {profile: You write.}}
    artifacts: {plan: {}, product: {files: "**"}, tried: {schema: {why: string}}}
    steps:
      plan_it: {role: author, needs: [topic], makes: plan}
      begin: {value: "{'LICENSE': 'free'}", needs: [plan], makes: product}
      draft: {value: "{'a.py': '1', 'b.py': '1', 'gone.py': '1'}", needs: [product], rounds: 1, makes: product}
      try_it: {value: "{'why': 'a is wrong'}", needs: [product], when: "'a.py' in product", rounds: 2, makes: tried}
      revise: {role: author, needs: [tried], sees: [plan, product], rounds: 1, makes: product}
    outputs: [product]
"""


def told(it: Any, offset: int = 0) -> dict[str, Any]:
    history = FileHistory()
    history.update(it.journal, it.index.seq)
    return changes.changes_told(it.index, history, {}, it.journal.blob, offset)


ANSWER = "=== file: a.py ===\n2\n=== end ===\n=== file: c.py ===\n1\n=== end ===\n=== delete: gone.py ===\n"


async def test_what_sub_sops_changed_stands_between_the_commits(tmp_path: Path) -> None:
    await run(write(tmp_path, OUTER, inner_yaml=INNER), model=Scripted(revise=ANSWER), workspace=tmp_path, name="it")
    with read(tmp_path, "it") as it:
        found = told(it)
    assert [one["told"] for one in found["changes"]] == [
        "tell_more: note@2 by an expression", "tell: note@1 by an expression", "lay_out: tree@1 by an expression",
        "build: built@1 by a SOP",
        "build@1/product@3 by author", "build@1/product@2 by expression", "given: topic@1"]
    assert found["total"] == 7
    more, first, _, _, revised, drafted, _ = found["changes"]
    name = "build@1~0/product"
    assert revised["since"] == [{"told": "tried@1", "query": {"name": "build@1~0/tried", "version": 1}}], "the plan is older"
    assert revised["files"] == [{"told": path, "sign": sign, "query": {"name": name, "a": 2, "b": 3, "path": path}}
                                for path, sign in (("a.py", " "), ("c.py", "+"), ("gone.py", "-"))]
    assert (drafted["since"], [one["sign"] for one in drafted["files"]]) == ([], ["+", "+", "+"])
    assert revised["key"] == "build@1~0/revise@1" and first["key"] == "tell@1"
    assert first["files"] == [{"told": "note.md", "sign": "+", "query": {"tab": "files", "path": "note.md", "version": "note@1"}}]
    assert more["files"] == [{"told": "note.md", "sign": " ", "query": {"tab": "files", "path": "note.md", "version": "note@2",
                                                                      "a": "note@1"}}]
    assert drafted["seconds"] <= revised["seconds"] <= more["seconds"]


async def test_the_files_of_a_change_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await run(write(tmp_path, OUTER, inner_yaml=INNER), model=Scripted(revise=ANSWER), workspace=tmp_path, name="it")
    monkeypatch.setattr(changes, "_FILES", 1)
    with read(tmp_path, "it") as it:
        found = told(it)["changes"]
    revised, laid_out = (next(one for one in found if one["told"].startswith(name)) for name in ("build@1/product@3", "lay_out"))
    assert ([one["told"] for one in revised["files"]], revised["more"]) == (["a.py"], 2)
    assert revised["rest"] == {"name": "build@1~0/product", "a": 2, "b": 3}
    assert (laid_out["more"], laid_out["rest"]) == (0, {"tab": "files"})


async def test_pages_of_changes_follow_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await run(write(tmp_path, OUTER, inner_yaml=INNER), model=Scripted(revise=ANSWER), workspace=tmp_path, name="it")
    with read(tmp_path, "it") as it:
        whole = told(it)["changes"]
        monkeypatch.setattr(changes, "MOST", 3)
        assert [*told(it)["changes"], *told(it, 3)["changes"], *told(it, 6)["changes"]] == whole and told(it)["total"] == 7


async def test_of_values_only_those_of_roles_are_changes(tmp_path: Path) -> None:
    """What a program works out anew each round is no repair; a text that a role writes anew is one."""
    inner = """
        sop: inner
        roles: {author: {profile: You write.}}
        artifacts: {draft: {}, tried: {schema: {round: integer}}}
        steps:
          draft_it: {role: author, wants: [tried], rounds: 2, makes: draft}
          try_it: {value: "{'round': draft | length}", needs: [draft], rounds: 2, makes: tried}
        outputs: [draft]
    """
    outer = """
        sop: outer
        artifacts: {text: {}}
        steps:
          build: {sop: inner.yaml, makes: text}
    """
    await run(write(tmp_path, outer, inner_yaml=inner), model=Scripted(draft_it=["one", "longer"]), workspace=tmp_path, name="it")
    with read(tmp_path, "it") as it:
        assert it.index.versions.version("build@1~0/tried") == 2
        (one,) = [one for one in told(it)["changes"] if "/" in one["told"]]
    assert one["told"] == "build@1/draft@2 by author" and one["since"][0]["told"] == "tried@1"
    assert one["files"] == [{"told": "what differs", "sign": " ", "query": {"name": "build@1~0/draft", "a": 1, "b": 2}}]
