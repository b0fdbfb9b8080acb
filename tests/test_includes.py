"""`{% include %}` in a task: what is read, what of it stands in the compiled SOP, what a check says where it is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, write

from metaflow_agents import UsageError, check, load_sop, resume, run
from metaflow_agents.cli import command

DESK = """
    sop: desk
    inputs: {who: string}
    roles: {clerk: {profile: You write., memory: none}}
    artifacts: {first: {}, letter: {}}
    steps:
      greet: {role: clerk, needs: [who], makes: first, task: Begin.}
      write: {role: clerk, needs: [first, who], makes: letter, task: "{% include 'bit.md.j2' %} Write."}
    outputs: [letter]
"""
OUTER = """
    sop: outer
    artifacts: {letter: {}}
    steps: {ask: {sop: inner.yaml, inputs: {who: "'Jo'"}, makes: letter}}
"""
BITS = {"bit_md_j2": "Be kind to {{ who }}. {% include 'deep.md.j2' %}", "deep_md_j2": "Use few words."}
TOLD = "Be kind to Jo. Use few words. Write."


def bit(folder: Path, text: str) -> None:
    (folder / "bit.md.j2").write_text(text)


async def test_a_task_includes_templates_that_lie_beside_the_sop_and_what_they_include(tmp_path: Path) -> None:
    path = write(tmp_path, DESK, **BITS)
    assert check(path).ok
    assert set(load_sop(path).program.templates) == {"bit.md.j2", "deep.md.j2"}
    desk = Scripted()
    assert (await run(path, model=desk, who="Jo", workspace=None)).ok
    assert TOLD in desk.said("write@1~0/turn.0")


def test_one_that_is_not_there_is_told_once_at_its_place_with_the_paths_looked_for(tmp_path: Path) -> None:
    path = write(tmp_path, DESK.replace("bit.md.j2", "bti.md.j2"), **BITS)
    (told,) = check(path, start=tmp_path).errors
    assert (told.code, told.file, told.line) == ("template-not-found", "desk.yaml", 8)
    assert "no template `bti.md.j2`: looked for `bti.md.j2`" in told.message and "did you mean `bit.md.j2`" in told.mend


async def test_a_sop_that_is_a_step_includes_what_lies_beside_it(tmp_path: Path) -> None:
    write(tmp_path, DESK, **BITS)
    (tmp_path / "desk.yaml").rename(tmp_path / "inner.yaml")
    path = write(tmp_path, OUTER)
    desk = Scripted()
    assert check(path).ok
    assert (await run(path, model=desk, workspace=None)).ok
    assert TOLD in desk.said(desk.keys[-1])


async def test_the_text_is_a_part_of_the_sop_of_a_run(tmp_path: Path) -> None:
    """A change of it is told on a resume and runs its step anew under `from_run`, and nothing else."""
    path = write(tmp_path, DESK, **BITS)
    options: dict[str, Any] = {"who": "Jo", "workspace": tmp_path / "w"}
    await run(path, model=Scripted(), name="a", until="greet", **options)
    bit(tmp_path, "Be curt.")
    with pytest.raises(UsageError, match=r"templates\.bit\.md\.j2 changed"):
        await resume("a", workspace=tmp_path / "w", model=Scripted())
    write(tmp_path, DESK, **BITS)
    desk = Scripted()
    assert (await resume("a", workspace=tmp_path / "w", model=desk)).ok
    assert (desk.steps, TOLD in desk.said("write@1~0/turn.0")) == (["write"], True)
    bit(tmp_path, "Be curt.")
    desk = Scripted()
    assert (await run(path, model=desk, name="b", from_run="a", **options)).ok
    assert (desk.steps, "Be curt. Write." in desk.said("write@1~0/turn.0")) == (["write"], True)


def test_sop_prompt_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, DESK, **BITS)
    monkeypatch.chdir(tmp_path)
    assert command(["preview", "desk.yaml", "write", "--who", "Jo"]) == 0
    assert TOLD in capsys.readouterr().out


async def test_an_artifact_that_an_included_template_prints_stands_in_the_prompt_once(tmp_path: Path) -> None:
    path = write(tmp_path, DESK, bit_md_j2="So far: {{ first }}.")
    desk = Scripted(greet="Dear Jo")
    assert (await run(path, model=desk, who="Jo", workspace=None)).ok
    assert desk.said("write@1~0/turn.0").count("Dear Jo") == 1


def test_what_an_included_template_names_has_to_be_read(tmp_path: Path) -> None:
    (told,) = check(write(tmp_path, DESK, bit_md_j2="{{ letter }}")).errors
    assert (told.code, told.line) == ("not-read", 8)


@pytest.mark.parametrize("key", ["self: \"{% include 'bit.md.j2' %}\"", "memory_of: \"{% include 'bit.md.j2' %}\""])
def test_other_templates_of_a_step_include_nothing(tmp_path: Path, key: str) -> None:
    told = check(write(tmp_path, DESK.replace("makes: letter,", f"makes: letter, {key},"), **BITS)).errors
    assert [(one.code, "tasks, roles' prompts and `render`" in one.message) for one in told] == [("refused-feature", True)]
