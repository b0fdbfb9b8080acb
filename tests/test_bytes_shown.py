# ruff: noqa: E501  (SOPs stand here as people write them)
"""What is shown of a file that is no text: its name, type and size, to models, in tools and in views; never its bytes as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from bytes_files import lay, pdf, png, real
from scripted import Scripted, block, write
from typer.testing import CliRunner

from metaflow_agents import check, run
from metaflow_agents.api.sop_test import try_out
from metaflow_agents.cli.app import app
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall

PICTURE, PAPER = png(4, 4), pdf("paper")
FILES = {"a.txt": b"needle here\n", "img/logo.png": PICTURE, "paper.pdf": PAPER, "odd.txt": b"needle \xff"}
DESK = """
    sop: desk
    inputs: {things: {type: folder}, one: {type: file}}
    roles: {clerk: {profile: You look., tools: [read, list, search, edit, write]}}
    artifacts: {out: {files: "**"}}
    steps: {look: {role: clerk, needs: [things, one], makes: out}}
"""
SHOWN = f"[img/logo.png: image/png, {len(PICTURE)} bytes, no text]"


async def go(folder: Path, sop: str, answer: Any, **options: Any) -> tuple[Scripted, Any]:
    model = Scripted(look=answer)
    (folder / "one.png").write_bytes(PICTURE)
    result = await run(write(folder, sop), model=model, workspace=folder / "runs", sandbox="none", name="it",
                       things=lay(folder / "given", FILES), one=folder / "one.png", **options)
    assert result.ok, result.reason
    return model, result


def clean(text: str) -> bool:
    return "\ufffd" not in text and "IHDR" not in text and "endobj" not in text


async def test_a_prompt_shows_name_type_and_size(tmp_path: Path) -> None:
    model, _ = await go(tmp_path, DESK, block("b.txt", "done"))
    told = model.said("look@1~0/turn.0")
    assert SHOWN in told and "a.txt\n```\nneedle here" in told
    assert f"[paper.pdf: application/pdf, {len(PAPER):,} bytes, no text]" in told
    assert "[odd.txt: application/octet-stream, 8 bytes, no text]" in told
    assert f'<artifact name="one" kind="file">\n[one.png: image/png, {len(PICTURE)} bytes, no text]\n</artifact>' in told
    assert clean(told)


def tool(name: str, **given: Any) -> Any:
    """Calls a tool once, then writes a file."""
    def answer(request: ModelRequest) -> Any:
        if any(message["role"] == "tool" for message in request.messages):
            return block("b.txt", "done")
        return Reply(text="", calls=(ToolCall("a", name, given),))
    return answer


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "given", "told"), [
    ("read", {"path": "img/logo.png"}, f"`img/logo.png`: image/png, {len(PICTURE)} bytes: no text, so it can't be shown"),
    ("read", {"path": "a.txt"}, "needle here"),
    ("list", {}, f"a.txt (12)\nimg/logo.png ({len(PICTURE)}, image/png)\nodd.txt (8, application/octet-stream)\npaper.pdf ({len(PAPER)}, application/pdf)"),
    ("search", {"expression": "needle"}, f"a.txt:1: needle here\nnot searched, since they are no text: img/logo.png: image/png, {len(PICTURE)} bytes, odd.txt: "
                                         f"application/octet-stream, 8 bytes, paper.pdf: application/pdf, {len(PAPER)} bytes"),
    ("search", {"expression": "PNG"}, "`PNG` stands in none of 1 files\nnot searched, since they are no text: img/logo.png"),
    ("edit", {"path": "img/logo.png", "search": "PNG", "replace": "x"}, "no text, so it can't be shown"),
])
async def test_tools_say_what_it_is(tmp_path: Path, name: str, given: Mapping[str, Any], told: str) -> None:
    model, _ = await go(tmp_path, DESK, tool(name, **given))
    said = next(message["content"] for message in model.requests[-1].messages if message["role"] == "tool")
    assert told in said
    assert clean(said)


async def test_an_edit_of_a_file_that_is_no_text_is_told_and_others_can_be_moved(tmp_path: Path) -> None:
    sop = """
        sop: kept
        inputs: {things: {type: folder}, one: {type: file}}
        roles: {clerk: {profile: You mend.}}
        artifacts: {out: {files: "**"}}
        steps:
          take: {value: things, needs: [things, one], makes: out}
          look: {role: clerk, needs: [out], makes: out, rounds: 1}
    """
    edit = "=== edit: img/logo.png ===\n<<<<<<< SEARCH\nPNG\n=======\nx\n>>>>>>> REPLACE\n=== end ===\n"
    move = "=== rename: img/logo.png -> img/mark.png ===\n=== delete: odd.txt ===\n" + block("img/logo.txt", "moved")
    model, _ = await go(tmp_path, sop, [edit, move])
    assert f"`img/logo.png` can't be edited: it is {SHOWN}" in model.requests[1].messages[-1]["content"]
    made = {path.name: path.read_bytes() for path in (tmp_path / "runs" / "it").rglob("*.*") if path.is_file() and ".git" not in path.parts}
    assert made == {"a.txt": FILES["a.txt"], "mark.png": PICTURE, "paper.pdf": PAPER, "logo.txt": b"moved\n"}


@pytest.mark.one_in(4)
async def test_views_say_what_it_is(tmp_path: Path) -> None:
    sop = """
        sop: seen
        inputs: {things: {type: folder}, one: {type: file}}
        artifacts: {out: {files: ["*.txt", "*.pdf", "img/**"]}, mark: {file: mark.png}, marks: {each: {}}}
        steps:
          take: {value: things, needs: [things], makes: out}
          pick: {value: one, needs: [one], makes: mark}
          each: {value: one, needs: [one], foreach: {in: "['x']", as: name}, makes: marks}
    """
    _, result = await go(tmp_path, sop, None)
    assert result.outputs == {"out": {**FILES, "a.txt": "needle here\n"}, "mark": PICTURE, "marks": {"x": PICTURE}}

    def said(*arguments: str) -> str:
        done = CliRunner().invoke(app, [*arguments, "--workspace", str(tmp_path / "runs")])
        assert done.exit_code == 0, done.output
        assert clean(done.output)
        return done.output

    known = {"name": "one.png", "media_type": "image/png", "size": len(PICTURE), "sha256": sha256(PICTURE).hexdigest()}
    assert said("show", "it", "mark") == f"[one.png: image/png, {len(PICTURE)} bytes, no text]\nsha256 {known['sha256']}\n"
    assert f"=== img/logo.png ===\n{SHOWN}\nsha256 {known['sha256']}" in said("show", "it", "out")
    assert f"=== x ===\n[one.png: image/png, {len(PICTURE)} bytes" in said("show", "it", "marks")
    assert json.loads(said("show", "it", "mark", "--json")) == known
    shown = json.loads(said("show", "it", "out", "--json"))
    assert shown["img/logo.png"] == {**known, "name": "img/logo.png"} and shown["a.txt"] == "needle here\n"
    lay(tmp_path / "given", {"img/logo.png": PICTURE + b"\0"})
    await run(tmp_path / "desk.yaml", workspace=tmp_path / "runs", name="other", things=tmp_path / "given", one=tmp_path / "one.png")
    assert f"+[img/logo.png: image/png, {len(PICTURE) + 1} bytes, no text]" in said("diff", "it", "other")
    assert clean(said("show", "it")) and clean(said("log", "it", "--full"))


def test_check_knows_the_fields_of_a_file(tmp_path: Path) -> None:
    sop = """
        sop: fields
        inputs: {things: {type: folder}, one: {type: file}}
        artifacts: {out: {schema: any}}
        steps: {take: {value: "[one.size + 1, one.FIELD, things['a.png'].size]", needs: [things, one], makes: out}}
    """
    assert check(write(tmp_path, sop.replace("FIELD", "media_type"))).ok
    (wrong,) = check(write(tmp_path, sop.replace("FIELD", "mediatype"))).errors
    assert "media_type" in str(wrong)


def test_every_real_file_is_told_by_name_type_and_size(tmp_path: Path) -> None:
    from metaflow_agents.schema.binary import BinaryFile, content

    for name, data in real().items():
        held = content(data, name)
        assert isinstance(held, BinaryFile), name
        assert str(held) == f"[{name}: {held.media_type}, {len(data):,} bytes, no text]"


async def test_a_test_of_a_sop_tells_what_it_is(tmp_path: Path) -> None:
    sop = """
        sop: tried
        inputs: {one: {type: file}}
        artifacts: {mark: {file: mark.png}}
        steps: {pick: {value: one, needs: [one], makes: mark}}
        tests:
          right: {inputs: {one: one.png}, expect: "mark.media_type == 'image/png' and mark == run.inputs.one"}
          wrong: {inputs: {one: one.png}, expect: "mark.size == 0"}
    """
    (tmp_path / "one.png").write_bytes(PICTURE)
    right, wrong = [verdict async for verdict in try_out(write(tmp_path, sop))]
    assert right.ok, right.why
    assert not wrong.ok and json.loads(json.dumps(wrong.met))["mark"]["size"] == len(PICTURE)
