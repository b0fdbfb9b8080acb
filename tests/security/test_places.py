"""Every row of `places.yaml`, by every way in which a role's bytes come into a run's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiers
from scripted import events
from test_agent_tools import Script, calls

from metaflow_agents import run, run_sync
from metaflow_agents.cli.entry_point import command
from metaflow_agents.policy.action import Action
from metaflow_agents.policy.policy import Policy
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema import acting_files
from metaflow_agents.schema.event import Decided
from metaflow_agents.schema.tools import PolicySpec
from metaflow_agents.settings import Settings

TABLE: list[dict[str, Any]] = tiers.table(Path(__file__).with_name("places.yaml"))
HELD = [row["file"] for row in TABLE if row["expected"] in ("refused", "asked")]
FREE = [row["file"] for row in TABLE if row["expected"] in ("reported", "plain")]
WIDE = {"refused": "deny", "asked": "ask", "reported": "allow", "plain": "allow"}
SOP = """
sop: filing
policy: {preset: danger-full-access}
roles: {worker: {profile: a worker, tools: [TOOLS]}}
artifacts: {source: {files: "**"}}
steps: {work: {role: worker, makes: source, timeout: 60s}}
"""


def sop(folder: Path, tools: str = "", text: str = SOP) -> Path:
    (folder / "sop.yaml").write_text(text.replace("TOOLS", tools))
    return folder / "sop.yaml"


def blocks(files: list[str]) -> str:
    return "".join(f"=== file: {path} ===\nx\n=== end ===\n" for path in files)


def written(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")
            if path.is_file() and not path.relative_to(folder).as_posix().startswith(".git/")}


def refused(reason: str) -> list[str]:
    return [path for path in HELD if f"{path!r}: " not in reason]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["file"])
def test_the_list_and_the_policy(row: dict[str, Any]) -> None:
    found = acting_files.find(row["file"])
    assert (found.row.verdict if found else "plain") == row["expected"]
    wide = Policy(PolicySpec(preset="danger-full-access", allow=("write(**)", "write(**/*)")))
    assert wide.decide(Action("write", row["file"])).verdict == WIDE[row["expected"]], "no wildcard names a place"
    named = Policy(PolicySpec(allow=(row.get("rule", f"write({row['file']})"),)))
    if row["expected"] == "refused" or "rule" in row:
        assert named.decide(Action("write", row["file"])).verdict == ("deny" if row["expected"] == "refused" else "allow")
        denied = Policy(PolicySpec(allow=(row.get("rule", "write(x)"),), deny=("write(**)",)))
        assert denied.decide(Action("write", row["file"])).verdict == "deny"
    assert Policy(PolicySpec(preset="read-only")).decide(Action("write", row["file"])).verdict == "deny"


def test_the_table_is_whole() -> None:
    assert len(TABLE) == len({row["file"] for row in TABLE}) >= 100
    assert all(row.keys() <= {"file", "acts", "expected", "rule"} and row["acts"] for row in TABLE)
    known = {name for row in TABLE if (found := acting_files.find(row["file"])) for name in (found.row.why,)}
    assert known == {row.why for row in acting_files.TABLE} | {acting_files.SHORT.why}, "each row of the list has a case"


def test_an_answer(tmp_path: Path) -> None:
    result = run_sync(sop(tmp_path), model=lambda _: blocks(HELD), workspace=tmp_path / "w", name="r", settings=Settings())
    assert not result.ok and refused(result.reason) == []
    assert written(tmp_path / "w" / "r") == set()
    assert "write `policy: {allow: [\"write(.github/**)\"]}` in the SOP" in result.reason


def test_what_is_free_is_written_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "free_desk.py"
    model.write_text(f"def answer(request):\n    return {blocks(FREE)!r}\n")
    status = command(["run", str(sop(tmp_path)), "--model", "python:free_desk.py:answer", "--workspace", str(tmp_path / "w"),
                      "--name", "r"])
    said = capsys.readouterr().out
    assert status == 0 and written(tmp_path / "w" / "r") == set(FREE), said
    assert "files that act:" in said and "building or testing the product runs it: " in said and "pyproject.toml" in said


def test_a_function(tmp_path: Path) -> None:
    (tmp_path / "making.py").write_text(f"def make():\n    return {dict.fromkeys(HELD, 'x')!r}\n")
    text = "sop: f\nartifacts: {source: {files: '**'}}\nsteps: {work: {call: 'making:make', makes: source}}\n"
    result = run_sync(sop(tmp_path, text=text), workspace=tmp_path / "w", name="r", settings=Settings())
    assert not result.ok and refused(result.reason) == []
    assert written(tmp_path / "w" / "r") == set()


def test_a_sop_that_is_a_step(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(SOP.replace("TOOLS", "").replace("filing", "inner"))
    text = "sop: outer\nartifacts: {source: {files: '**'}}\nsteps: {work: {sop: inner, makes: source}}\n"
    file = sop(tmp_path, text=text)
    result = run_sync(file, model=lambda _: blocks(HELD), workspace=tmp_path / "w", name="r", settings=Settings())
    assert not result.ok and refused(result.reason) == []
    assert written(tmp_path / "w" / "r") == set()


def test_what_an_inner_sop_allows_the_outer_does_not(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(SOP.replace("TOOLS", "").replace("filing", "inner").replace(
        "access}", "access, allow: ['write(.envrc)']}"))
    text = "sop: outer\nartifacts: {source: {files: '**'}}\nsteps: {work: {sop: inner, makes: source}}\n"
    result = run_sync(sop(tmp_path, text=text), model=lambda _: blocks([".envrc"]), workspace=None, settings=Settings())
    assert not result.ok and refused(result.reason)[:1] != [".envrc"] and "'.envrc': " in result.reason


COPYING = """
sop: copying
inputs: {repo: {type: folder}}
roles: {worker: {profile: a worker}}
artifacts: {tree: {files: "**"}}
steps:
  copy: {WAY, needs: [repo], makes: tree}
  work: {role: worker, needs: [tree], makes: {tree: ["**"]}}
outputs: [tree]
"""
CI = ".github/workflows/ci.yml"
INNER = """
sop: inner
inputs: {repo: {type: folder}}
artifacts: {tree: {files: "**"}}
steps: {copy: {value: repo, needs: [repo], makes: tree}}
"""


def repository(folder: Path) -> Path:
    for path, text in ((CI, "on: push\n"), ("pyproject.toml", "[project]\n"), ("src/a.py", "1\n")):
        (folder / "repo" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "repo" / path).write_text(text)
    return folder / "repo"


@pytest.mark.parametrize("way", ["value: repo", "call: 'making:same'", "sop: inner, inputs: {repo: repo}"])
def test_what_a_person_gave_is_copied_and_only_what_was_changed_is_told(
        tmp_path: Path, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "making.py").write_text("def same(repo: dict):\n    return dict(repo)\n")
    (tmp_path / "inner.yaml").write_text(INNER)
    file = sop(tmp_path, text=COPYING.replace("WAY", way))
    given: dict[str, Any] = {"repo": repository(tmp_path), "settings": Settings(), "workspace": tmp_path / "w"}
    result = run_sync(file, model=lambda _: blocks(["src/b.py", "Makefile"]), name="good", **given)
    assert result.ok and CI in result["tree"], result.reason
    assert command(["show", "good", "--workspace", str(tmp_path / "w")]) == 0
    told = capsys.readouterr().out
    assert "Makefile" in told and "ci.yml" not in told and "pyproject.toml" not in told
    for changed in (blocks([CI]), f"=== rename: {CI} -> .github/other.yml ===\n"):
        result = run_sync(file, model=lambda _, changed=changed: changed, name="bad", **{**given, "workspace": None})
        assert not result.ok and "'.github/" in result.reason


def test_what_is_changed_on_the_way_is_no_copy(tmp_path: Path) -> None:
    (tmp_path / "making.py").write_text(f"def other(repo: dict):\n    return {{**repo, {CI!r}: 'x'}}\n"
                                        f"def moved(repo: dict):\n    return {{'sub/{CI}': repo[{CI!r}]}}\n")
    for way in ("call: 'making:other'", "call: 'making:moved'"):
        result = run_sync(sop(tmp_path, text=COPYING.replace("WAY", way)), repo=repository(tmp_path), workspace=None,
                          settings=Settings(), model=lambda _: blocks(["x"]))
        assert not result.ok and f"{CI}': " in result.reason


def test_a_folder_that_a_sop_made_of_a_roles_words_is_nothing_that_a_person_gave(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(INNER)
    text = f"""
sop: outer
policy: {{preset: danger-full-access}}
roles: {{worker: {{profile: a worker}}}}
artifacts: {{word: {{}}, tree: {{files: "**"}}}}
steps:
  say: {{role: worker, makes: word}}
  enter: {{sop: inner, needs: [word], inputs: {{repo: "{{'{CI}': word}}"}}, makes: tree}}
"""
    result = run_sync(sop(tmp_path, text=text), workspace=None, settings=Settings(), model=lambda _: "on: push")
    assert result.reason.startswith(f"enter@1~0/copy@1~0: '{CI}': "), "inside, before the outer one looks at it"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("tool", ["write", "edit"])
async def test_the_tools(tool: str, tmp_path: Path) -> None:
    """Refused ones are denied, the others are asked about, and a person says no; where nobody is there the run waits."""
    async def no(question: Question, number: int) -> Answer:
        return Answer(verdict="no")

    def wanted(path: str) -> dict[str, str]:
        return {"path": path, "text": "x"} if tool == "write" else {"path": path, "search": "a", "replace": "b"}
    model = Script(calls(*((tool, wanted(path)) for path in HELD)))
    model.turns.append(blocks(["a.txt"]))
    result = await run(sop(tmp_path, tool), model=model, workspace=tmp_path / "w", name="r", asker=no, settings=Settings())
    assert result.ok, result.reason
    decided = {event.action: event.verdict for event in events(tmp_path / "w", "r", Decided)}
    assert decided == {f"write({row['file']})": WIDE[row["expected"]] for row in TABLE if row["file"] in HELD}
    assert written(tmp_path / "w" / "r") == {"a.txt"}
    model = Script(calls((tool, wanted(".envrc"))))
    assert (await run(tmp_path / "sop.yaml", model=model, workspace=None, settings=Settings())).outcome == "waiting"


async def test_what_a_person_allows_is_written(tmp_path: Path) -> None:
    model = Script(calls(("write", {"path": ".envrc", "text": "x"})), "done")
    result = await run(sop(tmp_path, "write"), model=model, workspace=tmp_path / "w", name="r", yes=True, settings=Settings())
    assert result.ok, result.reason
    assert written(tmp_path / "w" / "r") == {".envrc"}
    again = Script(calls(("write", {"path": "a.txt", "text": "x"})), blocks([".envrc"]))
    result = await run(sop(tmp_path, "write"), model=again, workspace=None, yes=True, settings=Settings())
    assert not result.ok, "an answer is no tool call: nobody was asked about it"


async def test_what_a_command_changed(tmp_path: Path) -> None:
    code = f"import pathlib\nfor name in {[*HELD, 'kept.txt']!r}:\n    path = pathlib.Path(name)\n" \
           "    path.parent.mkdir(parents=True, exist_ok=True)\n    path.write_text('x')\n"
    model = Script(calls(("run", {"command": ["python", "-c", code]})), "done")
    result = await run(sop(tmp_path, "run"), model=model, workspace=tmp_path / "w", name="r", settings=Settings())
    assert result.ok, result.reason
    assert written(tmp_path / "w" / "r") == {"kept.txt"}
    assert "not kept: `" in model.results(1)[0]
    decided = {event.action for event in events(tmp_path / "w", "r", Decided) if event.verdict != "allow"}
    assert {f"write({path})" for path in HELD} == decided


async def test_what_the_author_wrote_is_the_authors_to_allow(tmp_path: Path) -> None:
    """By the path itself, or by a rule; not by a pattern that a model fills in."""
    named = SOP.replace('"**"', "[.github/workflows/ci.yml, 'src/**']").replace("TOOLS", "")
    answer = blocks([".github/workflows/ci.yml"])
    result = await run(sop(tmp_path, text=named), model=lambda _: answer, workspace=None, settings=Settings())
    assert result.ok, result.reason
    ruled = SOP.replace("access}", "access, allow: ['write(.github/**)']}").replace("TOOLS", "")
    result = await run(sop(tmp_path, text=ruled), model=lambda _: blocks([".github/x.yml"]), workspace=None, settings=Settings())
    assert result.ok, result.reason
    filled = SOP.replace("makes: source", "makes: {source: '{{ name }}'}, needs: [name]").replace(
        "roles:", "inputs: {name: string}\nroles:").replace("TOOLS", "")
    result = await run(sop(tmp_path, text=filled), inputs={"name": ".envrc"}, model=lambda _: blocks([".envrc"]), workspace=None,
                       settings=Settings())
    assert not result.ok and "direnv" not in result.reason and "a shell or a program takes" in result.reason


def test_git_of_a_person_runs_nothing_of_a_finished_run(tmp_path: Path) -> None:
    """What the finding was: a bare repository in a sub-directory ran `core.fsmonitor` on `git status`."""
    files = {"bare/HEAD": "ref: refs/heads/main\n", "bare/config": "[core]\n\tfsmonitor = touch WAS_RUN\n",
             "bare/objects/x": "x\n", "bare/refs/x": "x\n"}
    answer = "".join(f"=== file: {path} ===\n{text}=== end ===\n" for path, text in files.items())
    result = run_sync(sop(tmp_path), model=lambda _: answer, workspace=tmp_path / "w", name="r", settings=Settings())
    assert not result.ok and "bare repository" in result.reason
    assert written(tmp_path / "w" / "r") == set()
