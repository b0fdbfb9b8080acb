# ruff: noqa: E501  (SOPs stand here as people write them)
"""Pictures go as pictures to models that take them: on the wire, in the journal, in recordings, in tokens; bounded."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from bytes_files import gif, lay, png
from hypothesis import given
from hypothesis import strategies as st
from openai_server import OpenAIServer
from scripted import Scripted, write
from typer.testing import CliRunner

from metaflow_agents import check, resume, run
from metaflow_agents.cli.app import app
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.endpoint import endpoint_model
from metaflow_agents.models.port import ModelRequest, Reply, estimated
from metaflow_agents.models.text_form import forms, in_text
from metaflow_agents.schema.binary import BinaryFile, content
from metaflow_agents.schema.endpoint import EndpointModel
from metaflow_agents.schema.event import Reserved
from metaflow_agents.schema.payload import pack, unpack
from metaflow_agents.schema.pictures import MAX_BYTES, MAX_SIDE, MOST, sendable, size, worst_tokens

LOGO, DOT = png(30, 20, 6, 5), gif()
DESK = """
    sop: desk
    inputs: {things: {type: folder}, one: {type: file}}
    models: {default: {name: eyes, endpoint: "URL", max_tokens: 300, accepts: MODEL}}
    roles: {clerk: {profile: You look., accepts: ROLE}}
    artifacts: {out: {}}
    steps: {look: {role: clerk, needs: [things, one], makes: out}}
"""
BOTH = "[text, image]"


def desk(folder: Path, url: str = "http://127.0.0.1:9", model: str = BOTH, role: str = BOTH) -> Path:
    lay(folder / "given", {"img/logo.png": LOGO, "dot.gif": DOT, "a.txt": b"text", "fake.png": LOGO[:30]})
    (folder / "one.png").write_bytes(LOGO)
    return write(folder, DESK.replace("URL", url).replace("MODEL", model).replace("ROLE", role))


async def go(folder: Path, sop: Path, **options: Any) -> Any:
    return await run(sop, workspace=folder / "runs", **{"name": "it", "things": folder / "given", "one": folder / "one.png", **options})


def url_of(data: bytes, type_: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{type_};base64,{base64.b64encode(data).decode()}"}}


@pytest.mark.one_in(4)
async def test_the_endpoint_gets_the_pictures_as_parts(tmp_path: Path) -> None:
    async with OpenAIServer(lambda asked: "seen") as server:
        result = await go(tmp_path, desk(tmp_path, server.url))
        assert result.ok, result.reason
        (bill,) = server.bills
        text, *parts = bill.request["messages"][-1]["content"]
        assert text["type"] == "text" and "[img/logo.png: image/png" in text["text"] and "[fake.png: image/png, 30 bytes" in text["text"]
        assert parts == [{"type": "text", "text": "dot.gif:"}, url_of(DOT, "image/gif"),
                         {"type": "text", "text": "img/logo.png:"}, url_of(LOGO, "image/png")]
    with Journal.read(tmp_path / "runs" / ".journals" / "it.db") as journal:
        (asked,) = [event for _, event in journal.events(Reserved)]
        stored = journal.blob(asked.request)
    assert base64.b64encode(LOGO)[:40] not in stored            # the bytes stand in the journal once, as what the input is
    assert asked.tokens >= 300 + worst_tokens({"width": 30, "height": 20}) + worst_tokens({"width": 1, "height": 1})
    replayed = await go(tmp_path, desk(tmp_path), model="replay:it", name="second")
    assert replayed.ok and replayed.outputs == {"out": "seen"} and replayed.tokens == result.tokens


def test_people_are_told_which_pictures_are_sent(tmp_path: Path) -> None:
    sop = desk(tmp_path)
    shown = CliRunner().invoke(app, ["preview", str(sop), "look", "--things", str(tmp_path / "given"), "--one", str(tmp_path / "one.png")])
    assert "[sent as a picture: img/logo.png, 30 by 20 pixels]" in shown.output, shown.output
    asyncio.run(go(tmp_path, sop, model=Scripted()))
    said = CliRunner().invoke(app, ["log", "it", "--full", "--workspace", str(tmp_path / "runs")])
    assert "[sent as a picture: dot.gif, 1 by 1 pixels]" in said.output


async def test_an_item_that_is_a_picture_is_sent_alone(tmp_path: Path) -> None:
    sop = desk(tmp_path)
    sop.write_text(sop.read_text().replace("artifacts: {out: {}}", "artifacts: {out: {each: {}}}").replace(
        "makes: out}", "makes: out, foreach: {in: things | items, as: pair, key: \"pair[0]\"}}"))
    model = Scripted()
    result = await go(tmp_path, sop, model=model)
    assert result.ok, result.reason
    assert {request.key: [image["name"] for image in request.images] for request in model.requests} == {
        "look@1[dot.gif]~0/turn.0": ["dot.gif"], "look@1[img/logo.png]~0/turn.0": ["img/logo.png"],
        "look@1[a.txt]~0/turn.0": ["dot.gif", "img/logo.png"], "look@1[fake.png]~0/turn.0": ["dot.gif", "img/logo.png"]}


async def test_a_resume_knows_the_call_again(tmp_path: Path) -> None:
    model = Scripted(look=["seen"])
    sop = desk(tmp_path)
    first = await go(tmp_path, sop, model=model, until="look")
    assert [image["name"] for image in model.requests[0].images] == ["dot.gif", "img/logo.png"]
    assert first.ok or (await resume("it", workspace=tmp_path / "runs", model=model)).ok
    assert len(model.requests) == 1


@pytest.mark.parametrize(("model", "role"), [("[text]", BOTH), (BOTH, "[text]")])
async def test_who_takes_none_is_shown_name_type_and_size(tmp_path: Path, model: str, role: str) -> None:
    """A role that sends none; and, where somebody names another model for the run, one that takes none."""
    async with OpenAIServer(lambda asked: "read") as server:
        sop = desk(tmp_path, server.url, BOTH, role)
        named = {} if model == BOTH else {"model": endpoint_model(EndpointModel(name="blind", endpoint=server.url), None, None)}
        result = await go(tmp_path, sop, **named)
        assert result.ok, result.reason
        (bill,) = server.bills
        said = bill.request["messages"][-1]["content"]
        assert isinstance(said, str) and f"[img/logo.png: image/png, {len(LOGO):,} bytes, no text]" in said
    replayed = await go(tmp_path, sop, model="replay:it", name="second")
    assert replayed.ok, replayed.reason


def test_check_refuses_pictures_for_a_model_that_takes_text(tmp_path: Path) -> None:
    def codes(sop: Path) -> list[str]:
        return [problem.code for problem in check(sop).errors]

    assert codes(desk(tmp_path)) == [] and codes(desk(tmp_path, model="[text]", role="[text]")) == []
    assert codes(desk(tmp_path, model="[text]")) == ["image-model"]
    text = DESK.replace("ROLE", BOTH)
    declared = text[text.index("    models:"):text.index("    roles:")]
    for models, wrong in (('    models: {default: "openai:x"}\n', ["image-model"]), ("    models: {default: dry}\n", []), ("", [])):
        assert codes(write(tmp_path, text.replace(declared, models))) == wrong


def test_what_is_sent_is_bounded() -> None:
    def files(*data: bytes) -> list[BinaryFile]:
        return [held for number, one in enumerate(data) if isinstance(held := content(one, f"{number}.png"), BinaryFile)]

    assert len(sendable(files(*(png(2, 2, 2, seed) for seed in range(MOST + 5))))) == MOST
    assert len(sendable(files(LOGO, LOGO))) == 1
    assert sendable(files(png(MAX_SIDE + 1, 1, 0))) == () and len(sendable(files(png(MAX_SIDE, 1, 0)))) == 1
    large = png(1, 1)[:-12] + b"\0" * MAX_BYTES + png(1, 1)[-12:]
    assert sendable(files(large)) == () and size(large, "image/png") == (1, 1)


JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\0" + b"\0" * 9 + b"\xff\xc0\x00\x11\x08\x00\x07\x00\x09\x03" + b"\0" * 9
WEBP = b"RIFF\x1a\0\0\0WEBP"


@pytest.mark.parametrize(("data", "type_", "wanted"), [
    (png(3, 4), "image/png", (3, 4)), (gif(), "image/gif", (1, 1)), (JPEG, "image/jpeg", (9, 7)),
    (WEBP + b"VP8X\x0a\0\0\0\0\0\0\0\x04\0\0\x05\0\0", "image/webp", (5, 6)),
    (WEBP + b"VP8L\x05\0\0\0\x2f" + (4 | 5 << 14).to_bytes(4, "little"), "image/webp", (5, 6)),
    (WEBP + b"VP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a\x05\0\x06\0", "image/webp", (5, 6)),
    (png(3, 4)[:-1], "image/png", None), (b"%PDF-", "application/pdf", None), (b"\xff\xd8\xff", "image/jpeg", None)])
def test_sizes_are_read_strictly(data: bytes, type_: str, wanted: Any) -> None:
    assert size(data, type_) == wanted


@given(st.sampled_from([png(3, 4)[:12], gif()[:6], b"\xff\xd8\xff", WEBP + b"VP8X", WEBP + b"VP8L", WEBP + b"VP8 "]), st.binary(max_size=60))
def test_hostile_pictures_raise_nothing(begin: bytes, rest: bytes) -> None:
    for type_ in ("image/png", "image/gif", "image/jpeg", "image/webp"):
        found = size(begin + rest, type_)
        assert found is None or all(0 < side <= MAX_SIDE for side in found)


def test_tokens_of_pictures_are_estimated_and_reserved() -> None:
    plain = ModelRequest(key="k", role="r", step="s", model="m", messages=({"role": "user", "content": "x"},))
    picture = {"name": "a", "media_type": "image/png", "size": 9, "sha256": "0", "width": 1400, "height": 700}
    seen = ModelRequest(key="k", role="r", step="s", model="m", messages=({"role": "user", "content": "x", "images": [picture]},))
    assert worst_tokens(picture) == 2833 + 3 * 2 * 5667                         # 1400 x 700: three tiles by two
    assert worst_tokens({"width": 4200, "height": 4200}) == 300 * 300 + 256      # cut into patches of 14 pixels
    assert worst_tokens({"width": 1, "height": 1}) == 2833 + 5667
    assert seen.worst_tokens - plain.worst_tokens >= worst_tokens(picture)
    more = estimated(seen, Reply(text="y")).tokens_in - estimated(plain, Reply(text="y")).tokens_in
    assert 1400 * 700 / 750 <= more <= 1.2 * 1400 * 700 / 750 + 60


def test_a_model_that_is_told_of_tools_in_text_gets_the_pictures_too() -> None:
    picture = {"name": "a", "media_type": "image/png", "size": 9, "sha256": "0", "width": 1, "height": 1}
    asked = ModelRequest(key="k", role="r", step="s", model="m", tools=({"name": "read", "parameters": {}},),
                         messages=({"role": "user", "content": "x", "images": [picture]},))
    assert in_text(asked).images == (picture,) and in_text(asked).tools == ()
    assert [len(form.images) for form in forms(asked)] == [1, 1, 0, 0]


def test_old_payloads_are_read_and_written_as_before() -> None:
    for stored in (b'{"kind":"data","value":"x"}', b'{"files":{"a":"0"},"kind":"files","missing":[],"patterns":[]}'):
        assert pack(unpack(stored)) == stored
