"""Which model answers for whom, and the calls as the journal has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, write

from metaflow_agents import run
from metaflow_agents.errors import ModelMissing, UsageError
from metaflow_agents.models.port import ModelRequest, Reply
from metaflow_agents.schema.event import Reserved, RunOpened, Settled
from metaflow_agents.settings import Settings

TEXT = """
    sop: who
    inputs: {topic: string}
    MODELS
    roles: {ann: {profile: You write.ANN}, bob: {profile: You judge.BOB}}
    artifacts: {one: {}, two: {}}
    steps:
      first: {role: ann, needs: [topic], makes: one FIRST}
      second: {role: bob, needs: [one], makes: two}
"""
FILE = "def answer(request):\n    return 'NAME'\n"


def who(tmp_path: Path, models: str = "", ann: str = "", bob: str = "", first: str = "") -> Path:
    text = TEXT.replace("MODELS", f"models: {{{models}}}" if models else "").replace(" FIRST", first)
    text = text.replace("ANN", f", model: {ann}" if ann else "").replace("BOB", f", model: {bob}" if bob else "")
    return write(tmp_path, text, a_py=FILE.replace("NAME", "a"), b_py=FILE.replace("NAME", "b"), c_py=FILE.replace("NAME", "c"))


async def answers(path: Path, **options: Any) -> str:
    result = await run(path, **{"topic": "x", "workspace": None, "settings": Settings(), **options})
    return str(result["two"])


A, B, C = (f"python:{name}.py:answer" for name in "abc")


async def test_the_sop_names_its_models(tmp_path: Path) -> None:
    assert await answers(who(tmp_path, f"default: '{A}', strong: '{B}'", bob="strong")) == "b"
    assert await answers(who(tmp_path, f"default: '{A}', strong: '{B}'")) == "a"
    assert await answers(who(tmp_path, f"default: '{A}'", bob=f"'{C}'")) == "c"            # a model itself


async def test_a_step_names_its_model_before_its_role(tmp_path: Path) -> None:
    path = who(tmp_path, f"default: '{A}', strong: '{B}'", ann="strong", first=f", model: '{C}'")
    result = await run(path, topic="x", workspace=tmp_path, until="first")
    assert [event.model for event in events(tmp_path, result.name, Reserved)] == [C]


async def test_what_is_given_wins_over_what_is_written_over_the_environment(tmp_path: Path) -> None:
    path = who(tmp_path, f"default: '{A}', strong: '{B}'", bob="strong")
    assert await answers(path, models={"strong": C}) == "c"
    assert await answers(path, model=C) == "c"                                             # for everybody
    assert await answers(path, model=C, models={"strong": A}) == "a"
    plain = who(tmp_path)
    assert await answers(plain, settings=Settings(sop_model=B)) == "b"
    assert await answers(who(tmp_path, f"default: '{A}'"), settings=Settings(sop_model=B)) == "a"
    with pytest.raises(ModelMissing, match="no model is configured"):
        await answers(who(tmp_path))


async def test_the_journal_tells_who_was_asked(tmp_path: Path) -> None:
    path = who(tmp_path, f"default: '{A}', strong: '{B}'", bob="strong")
    result = await run(path, topic="x", workspace=tmp_path)
    (opened,) = events(tmp_path, result.name, RunOpened)
    assert opened.models == {"default": A, "strong": B}
    assert [(event.key, event.role, event.model) for event in events(tmp_path, result.name, Reserved)] == [
        ("first@1~0/turn.0", "ann", A), ("second@1~0/turn.0", "bob", B)]


async def test_every_call_is_reserved_before_and_settled_after(tmp_path: Path) -> None:
    async def model(request: ModelRequest) -> Reply:
        (reserved,) = [event for event in events(tmp_path, "who-1", Reserved) if event.key == request.key]
        assert reserved.tokens == request.worst_tokens and reserved.digest == request.digest
        return Reply(text="fine", tokens_in=11, tokens_out=3)

    result = await run(who(tmp_path), topic="x", model=model, workspace=tmp_path)
    assert result.ok, result.reason
    settled = events(tmp_path, "who-1", Settled)
    assert [(event.tokens_in, event.tokens_out, event.error) for event in settled] == [(11, 3, None)] * 2
    assert (result.calls, result.tokens) == (2, 28)


async def test_a_file_that_changed_is_loaded_anew(tmp_path: Path) -> None:
    path = who(tmp_path, f"default: '{A}'")
    assert await answers(path) == "a"
    (tmp_path / "a.py").write_text(FILE.replace("NAME", "anew"))
    assert await answers(path) == "anew"


@pytest.mark.parametrize(("model", "told"), [
    ("python:none.py:answer", "there is no file `none.py`"), ("python:a.py:anwser", "did you mean `answer`"),
    ("python:a.py", "names no function"), ("dyr", "is no model"),
])
async def test_a_model_that_cannot_be_had_is_told_before_anything_is_made(tmp_path: Path, model: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        await answers(who(tmp_path), model=model, workspace=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


async def test_a_prompt_carries_nothing_of_this_machine_or_moment(tmp_path: Path) -> None:
    one, two = Scripted(), Scripted()
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    await run(who(tmp_path / "x"), topic="t", model=one, workspace=tmp_path / "x", name="same")
    await run(who(tmp_path / "y"), topic="t", model=two, workspace=tmp_path / "y", name="same")
    assert [request.digest for request in one.requests] == [request.digest for request in two.requests]
    assert not any(str(tmp_path) in message["content"] for request in one.requests for message in request.messages)
