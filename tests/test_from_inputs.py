"""What `sop run --from RUN` is given again: the inputs of RUN that nobody gives now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_desk import sop
from scripted import Scripted, events, write

from metaflow_agents import start
from metaflow_agents.errors import UsageError
from metaflow_agents.schema.event import Committed, RunOpened

LETTER = """
sop: letter
inputs:
  to: {type: string, description: Whom it is for}
  notes: {type: folder, optional: true}
  picture: {type: file, optional: true}
  tone: {type: string, default: kind}
  more: {type: [string], default: []}
roles: {clerk: {profile: writes}}
artifacts: {text: {}, said: {schema: any}}
steps:
  write: {role: clerk, needs: [to, tone], sees: [notes], makes: text}
  say:
    value: "[tone, more, (notes or []) | list, picture is not none]"
    needs: [tone, more]
    sees: [notes, picture]
    makes: said
outputs: [text, said]
"""


async def ran(path: Path, name: str, before: str | None = None, **inputs: Any) -> tuple[Any, list[str]]:
    model = Scripted(write="a letter")
    async with start(path, name=name, from_run=before, model=model, inputs=inputs, workspace=path.parent / "w") as going:
        return (await going.result()).outputs, model.steps


async def test_inputs_that_are_not_given_are_those_of_the_earlier_run(tmp_path: Path) -> None:
    path = write(tmp_path, LETTER)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.md").write_bytes(b"\xff\x00")
    (tmp_path / "it.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    first, _ = await ran(path, "one", to="Ann", tone="stern", notes=tmp_path / "notes", picture=tmp_path / "it.png")
    for gone in ("notes/a.md", "it.png"):
        (tmp_path / gone).unlink()              # what was given stands in the journal
    again, asked = await ran(path, "two", "one", more=["x"])
    assert again["said"] == ["stern", ["x"], *first["said"][2:]] and first["said"][2] == ["a.md"] and asked == []
    changed, asked = await ran(path, "three", "two", to="Bob")
    assert changed["said"] == again["said"] and asked == ["write"]
    opened = events(tmp_path / "w", "two", RunOpened)[0]
    assert opened.kept == {name: f"`{name}@1` of run `one`" for name in ("to", "notes", "picture", "tone")}
    labels = {one.artifact: one.untrusted for event in events(tmp_path / "w", "three", Committed)[:1] for one in event.versions}
    assert labels["notes"] and labels["picture"] and not labels["to"] and not labels["tone"]


async def test_what_a_run_had_by_default_is_the_default_of_today(tmp_path: Path) -> None:
    await ran(write(tmp_path, LETTER), "one", to="Ann")
    path = write(tmp_path, LETTER.replace("default: kind", "default: warm"))
    outputs, asked = await ran(path, "two", "one")
    assert outputs["said"][0] == "warm" and asked == ["write"]


async def test_an_input_of_another_type_is_told(tmp_path: Path) -> None:
    await ran(write(tmp_path, LETTER), "one", to="Ann", tone="stern")
    path = write(tmp_path, LETTER.replace("tone: {type: string, default: kind}", "tone: {type: integer, default: 1}"))
    with pytest.raises(UsageError, match=r"input `tone`: what `tone@1` of run `one` left does not fit its type"):
        await ran(path, "two", "one")
    path = write(tmp_path, LETTER.replace("tone", "manner"))
    outputs, _ = await ran(path, "three", "one")
    assert outputs["said"][0] == "kind"


@pytest.mark.one_in(8, always=False)
async def test_the_command_line_asks_for_nothing_that_the_earlier_run_was_given(tmp_path: Path) -> None:
    await ran(write(tmp_path, LETTER), "one", to="Ann")
    done = sop(tmp_path, "run", "desk.yaml", "--from", "one", "--workspace", "w", "--model", "dry", "--tone", "stern")
    assert done.returncode == 0, done.stderr
    none = sop(tmp_path, "run", "desk.yaml", "--workspace", "w", "--model", "dry")
    assert none.returncode == 2 and "missing required option of letter: `--to` (Whom it is for)" in none.stderr
    gone = sop(tmp_path, "run", "desk.yaml", "--from", "gone", "--workspace", "w", "--model", "dry")
    assert gone.returncode == 2 and "gone" in gone.stderr and "Traceback" not in gone.stderr


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize(("options", "more"), [
    (["--more", "a, b"], ["a, b"]), (["--more", "a", "--more", "[", "--more", "3"], None),
    (["--more", "a", "--more", "3"], ["a", "3"]),
    (["--more", '["a", "b"]', "--more", "c"], ["a", "b", "c"]), (["--more=-x"], ["-x"]), (["--more", "@list.json"], ["a", "b"]),
])
def test_a_list_of_texts_is_given_a_text_at_a_time(tmp_path: Path, options: list[str], more: list[str] | None) -> None:
    write(tmp_path, LETTER)
    (tmp_path / "list.json").write_text('["a", "b"]')
    done = sop(tmp_path, "run", "desk.yaml", "--to", "Ann", "--workspace", "w", "--model", "dry", "--name", "it", *options)
    if more is None:
        assert done.returncode == 2 and "input `more` wants JSON" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert json.loads(sop(tmp_path, "show", "it", "said", "--raw", "--workspace", "w").stdout)[1] == more
