from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from metaflow_agents.errors import AttemptFailed, UsageError
from metaflow_agents.models.port import ModelRequest, Reply
from metaflow_agents.models.python import PythonModel
from metaflow_agents.modules import load_function

REQUEST = ModelRequest(key="a@1~0/turn.0", role="r", step="a", model="m", messages=({"role": "user", "content": "x" * 400},))


class Answer(BaseModel):
    n: int


@pytest.mark.parametrize(("answer", "text", "value"), [
    ("text", "text", None), ({"a": 1}, None, {"a": 1}), ([1], None, [1]), (0, None, 0), (False, None, False), (1.5, None, 1.5),
    (Answer(n=1), None, {"n": 1}), (Reply(text="t"), "t", None), ("", "", None),
])
async def test_what_a_function_may_return(answer: Any, text: str | None, value: Any) -> None:
    async def asynchronous(_: ModelRequest) -> Any:
        return answer

    for function in (lambda _: answer, asynchronous):
        reply = await PythonModel("m", function).ask(REQUEST)
        assert (reply.text, reply.value) == (text, value)
        assert reply.tokens_in >= 100
    assert (await PythonModel("m", lambda _: "12345").ask(REQUEST)).tokens_out == 2


async def test_a_reply_that_tells_its_tokens_is_believed() -> None:
    told = Reply(text="x", tokens_in=7, tokens_out=0)
    assert await PythonModel("m", lambda _: told).ask(REQUEST) == told


@pytest.mark.parametrize("answer", [None, object(), b"x", {1: {2}}, float("nan"), Reply()])
async def test_anything_else_is_told(answer: Any) -> None:
    with pytest.raises(AttemptFailed, match="the model `m` returned"):
        await PythonModel("m", lambda _: answer).ask(REQUEST)


async def test_the_function_gets_the_request_and_its_error_goes_on() -> None:
    def function(request: ModelRequest) -> str:
        raise ValueError(request.key)

    with pytest.raises(ValueError, match=r"a@1~0/turn\.0"):
        await PythonModel("m", function).ask(REQUEST)


async def test_objects_and_partials_are_functions_too() -> None:
    class Asks:
        async def __call__(self, request: ModelRequest) -> str:
            return request.step

    assert (await PythonModel("m", Asks()).ask(REQUEST)).text == "a"
    assert (await PythonModel("m", lambda request: Asks()(request)).ask(REQUEST)).text == "a"


async def test_sixty_four_at_once() -> None:
    together = threading.Barrier(64, timeout=20)
    model = PythonModel("m", lambda _: str(together.wait()))
    replies = await asyncio.gather(*(model.ask(REQUEST) for _ in range(64)))
    assert len({reply.text for reply in replies}) == 64


async def test_a_cancelled_call_leaves_no_thread_working() -> None:
    ended, begun = threading.Event(), threading.Event()

    def function(_: ModelRequest) -> str:
        begun.set()
        time.sleep(0.2)
        ended.set()
        return "x"

    task = asyncio.create_task(PythonModel("m", function).ask(REQUEST))
    assert await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


# load_function

def test_a_file_and_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/leaf_room_beside.py").write_text("VALUE = 3\n")
    (tmp_path / "sub/model.py").write_text(
        "from __future__ import annotations\nimport dataclasses, leaf_room_beside\n"
        "@dataclasses.dataclass\nclass A:\n    x: int\n    @staticmethod\n    def f(r):\n        return leaf_room_beside.VALUE\n"
        "def answer(request):\n    return A(2).x\n")
    path = list(sys.path)
    answer = load_function("sub/model.py:answer", [tmp_path])
    assert answer(None) == 2
    assert load_function("sub/model.py:A.f", [tmp_path])(None) == 3
    assert load_function("sub/model.py:answer", [tmp_path]) is answer
    assert load_function(f"{tmp_path}/sub/model.py:answer", [tmp_path]) is answer
    assert sys.path == path
    (tmp_path / "sub/model.py").write_text("def answer(request):\n    return 'new'\n")
    assert load_function("sub/model.py:answer", [tmp_path])(None) == "new"


def test_a_module_of_the_sops_folder_and_its_namesake_elsewhere(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "leaf_room_functions.py").write_text(f"def f():\n    return '{name}'\n")
    one = load_function("leaf_room_functions:f", [tmp_path / "one"])
    two = load_function("leaf_room_functions:f", [tmp_path / "two"])
    assert (one(), two()) == ("one", "two")
    assert load_function("json:dumps", [tmp_path]) is sys.modules["json"].dumps


@pytest.mark.parametrize(("spec", "words"), [
    ("nothing", "names no function"), ("a:", "names no function"), (":f", "names no function"), ("a b:f", "not a module's name"),
    ("x.py:f g", "names no function"), ("nope.py:f", "there is no file `nope.py`: looked for"),
    ("nowhere_at_all.sub:f", "there is no module `nowhere_at_all.sub`"),
    ("bad.py:f", "bad.py:2: ZeroDivisionError: division by zero"),
    ("syntax.py:f", "syntax.py:1: SyntaxError"), ("good.py:answr", "did you mean `answer`"),
    ("good.py:VALUE", "is int, not a function"),
    ("needs.py:f", "needs.py:1: ModuleNotFoundError: No module named 'nowhere_at_all'"), ("json:dumpz", "did you mean `dump"),
])
def test_what_cannot_be_loaded_is_told_in_one_line(tmp_path: Path, spec: str, words: str) -> None:
    (tmp_path / "bad.py").write_text("x = 1\nx / 0\n")
    (tmp_path / "syntax.py").write_text("def (:\n")
    (tmp_path / "good.py").write_text("VALUE = 1\ndef answer(r): ...\n")
    (tmp_path / "needs.py").write_text("import nowhere_at_all\n")
    path = list(sys.path)
    with pytest.raises(UsageError) as told:
        load_function(spec, [tmp_path])
    assert words in str(told.value)
    assert "\n" not in str(told.value)
    assert sys.path == path
