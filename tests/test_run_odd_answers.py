"""No answer wedges a run: whatever a model, a function, a command or a person gives is taken, or is a failed attempt."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, write

from metaflow_agents import RunResult, run
from metaflow_agents.api.run import go_on
from metaflow_agents.models.port import Reply
from metaflow_agents.schema.event import Failed

ROLE = """
    sop: odd
    inputs: {letter: string}
    roles: {clerk: {profile: You count.}}
    artifacts: {count: {schema: SCHEMA}, trouble: {}}
    steps:
      guess: {role: clerk, needs: [letter], makes: count, on_fail: {makes: trouble}}
    outputs: []
    success: "true"
"""
HUGE = 10**400
HALF = "\udc80"
BRACKETS = "[" * 200_000 + "]" * 200_000
CYCLE: list[Any] = []
CYCLE.append(CYCLE)
NUMBERS = ("number", "integer", *(
    f"{{$schema: 'https://json-schema.org/draft/2020-12/schema', type: {one}}}" for one in (
        "number, minimum: 0", "integer, maximum: 5", "number, multipleOf: 0.5", "integer, multipleOf: 3")))


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Unsaid:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


async def odd(tmp_path: Path, answer: Any, schema: str = "number") -> tuple[RunResult, str]:
    """How the run ended in which a role answers so, and what the failed attempt says."""
    sop = write(tmp_path, ROLE.replace("SCHEMA", schema))
    result = await asyncio.wait_for(run(sop, model=Scripted(guess=answer), workspace=tmp_path, name="odd",
                                        inputs={"letter": "x"}), 60)
    failed = events(tmp_path, "odd", Failed)
    return result, failed[-1].error if failed else ""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("schema", [*NUMBERS, "{a: number}", "[number]"])
async def test_an_integer_of_400_digits_is_a_failed_attempt(tmp_path: Path, schema: str) -> None:
    answer = {"{a: number}": f'{{"a": {HUGE}}}', "[number]": f"[{HUGE}]"}.get(schema, str(HUGE))
    result, error = await odd(tmp_path, answer, schema)
    assert (result.outcome, "larger than any double" in error) == ("success", True), (result.reason, error[:300])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("schema", NUMBERS)
@pytest.mark.parametrize("value", [HUGE, -HUGE, 10**5000, float("inf"), float("nan")], ids=["huge", "low", "5000", "inf", "nan"])
async def test_so_it_is_where_a_function_answers_with_the_number_itself(tmp_path: Path, schema: str, value: Any) -> None:
    result, error = await odd(tmp_path, Reply(value=value), schema)
    assert result.outcome == "success" and error, (result.reason, error[:300])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999", "-1e999", "9" * 400, "1" * 1_000_000, f'"{HALF}"', '"\\ud800"',
                                  BRACKETS, "[" * 200_000, '{"a": 1, "a": 2}', "true", "", "\x00", '{"\\udc00": 1}'],
                         ids=lambda text: ascii(text[:12]))
async def test_a_text_that_is_no_number_is_a_failed_attempt(tmp_path: Path, text: str) -> None:
    result, error = await odd(tmp_path, text)
    assert result.outcome == "success" and error, (result.reason, error[:300])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("raised", [
    ValueError(HALF), UnicodeEncodeError("utf-8", HALF, 0, 1, "half"), Silent(), RuntimeError("x" * 10_000_000), KeyError(HALF),
    OverflowError(10**400), RecursionError("deep"), MemoryError(), ExceptionGroup("two", [ValueError(HALF), KeyError("k")]),
    StopIteration("over"), OSError(2, "gone", "file" + HALF), asyncio.CancelledError("by nobody"), TimeoutError(), SystemExit(3),
    BaseException("base"),
], ids=lambda error: type(error).__name__)
async def test_whatever_a_model_raises_is_a_failed_attempt(tmp_path: Path, raised: BaseException) -> None:
    def answer(_: Any) -> Any:
        raise raised

    result, error = await odd(tmp_path, answer)
    assert result.outcome == "success", result.reason
    assert type(raised).__name__ in error and len(error) < 10_000 and error.isprintable(), ascii(error[:200])
    error.encode()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("given", [{1, 2}, b"\xff", object(), Unsaid(), CYCLE, {"a": float("nan")}, {HALF: 1}, [HALF], {1: 2},
                                   Reply(text=HALF), Reply(text="3", tokens_in=-1), Reply(text="3", tokens_in=HUGE, tokens_out=1),
                                   Reply(value=CYCLE), Reply(value={"a": {1}}), (each for each in [1])],
                         ids=lambda given: type(given).__name__)
async def test_whatever_a_model_gives_that_is_no_answer_is_a_failed_attempt(tmp_path: Path, given: Any) -> None:
    result, error = await odd(tmp_path, lambda _: given)
    assert result.outcome == "success" and error, (result.reason, ascii(error[:300]))


CALLS = """
    sop: odd
    inputs: {letter: string}
    artifacts: {count: {schema: SCHEMA}, trouble: {}}
    steps: {guess: {DOES, needs: [letter], makes: count, on_fail: {makes: trouble}}}
    outputs: []
    success: "true"
"""
FUNCTIONS = '''
    import asyncio, sys
    HALF = "\\udc80"
    class Silent(Exception):
        def __str__(self): raise RuntimeError("no words")
    class Unsaid:
        def __repr__(self): raise RuntimeError("no repr")
    class Own(BaseException): pass
    def half(letter): raise ValueError(HALF)
    def silent(letter): raise Silent
    def leaves(letter): exit()
    def system_exit(letter): raise SystemExit(3)
    def interrupt(letter): raise KeyboardInterrupt
    def own(letter): raise Own("mine")
    def closes(letter): raise GeneratorExit
    def group(letter): raise ExceptionGroup("two", [ValueError(HALF), KeyError("k")])
    def base_group(letter): raise BaseExceptionGroup("two", [Own("mine")])
    def huge(letter): return 10**400
    def many_digits(letter): return 10**5000
    def not_a_number(letter): return float("nan")
    def endless(letter): return float("inf")
    def a_set(letter): return {1, HALF}
    def a_generator(letter):
        yield {1: {2}}
    def unsaid(letter): return Unsaid()
    def cycle(letter):
        found = []
        found.append(found)
        return found
    def deep(letter):
        found = []
        for _ in range(100_000): found = [found]
        return found
    def half_text(letter): return HALF
    def half_key(letter): return {HALF: 1}
    def bytes_(letter): return b"\\xff"
    def coroutine_in_list(letter):
        async def nobody(): pass
        one = nobody()
        one.close()
        return [one]
    async def cancels(letter): raise asyncio.CancelledError
    async def own_later(letter): raise Own("mine")
    def exits_inside(letter): sys.exit("text " + HALF)
'''
NAMES = [line.split("def ")[1].split("(")[0] for line in FUNCTIONS.splitlines() if line.strip().startswith(("def ", "async def "))
         and "(letter)" in line]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", NAMES)
async def test_whatever_a_function_of_a_step_does_is_a_failed_attempt(tmp_path: Path, name: str) -> None:
    sop = write(tmp_path, CALLS.replace("SCHEMA", "number").replace("DOES", f'call: "odd:{name}"'), odd_py=FUNCTIONS)
    result = await asyncio.wait_for(run(sop, workspace=tmp_path, name="odd", inputs={"letter": "x"}), 60)
    failed = events(tmp_path, "odd", Failed)
    assert result.outcome == "success" and failed, result.reason
    assert len(failed[-1].error) < 10_000


COMMAND = "import sys; sys.stdout.buffer.write(bytes.fromhex('HEX')); open('out.json', 'wb').write(bytes.fromhex('HEX'))"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("made", [b"NaN", b"1e999", b"9" * 400, b'"\\ud800"', b"\xff\xfe", b"[" * 20_000, b'{"a":1,"a":2}',
                                  b'"\xed\xa0\x80"', b"[1e400]"], ids=lambda made: ascii(made[:8]))
async def test_what_a_command_writes_as_json_is_a_failed_attempt(tmp_path: Path, made: bytes) -> None:
    (tmp_path / "made.json").write_bytes(made)
    command = ["python", "-c", f"import shutil; shutil.copy({str(tmp_path / 'made.json')!r}, 'out.json')"]
    sop = write(tmp_path, CALLS.replace("SCHEMA", "{a: number}").replace(
        "DOES", f"run: {json.dumps(command)}, parse: json out.json"))
    result = await asyncio.wait_for(run(sop, workspace=tmp_path, name="odd", inputs={"letter": "x"}, sandbox="none"), 60)
    failed = events(tmp_path, "odd", Failed)
    assert result.outcome == "success" and failed and "out.json is not JSON" in failed[-1].error, (result.reason, failed)


@pytest.mark.parametrize("value", ["letter | int * 1.5", "2.0 ** (letter | int)", "[letter | int] | sum * 0.5",
                                   "('%.2f' % (letter | int)) | float", "(letter | int) / 3", "letter | float"])
async def test_numbers_of_an_expression_beyond_doubles_are_a_failed_attempt(tmp_path: Path, value: str) -> None:
    sop = write(tmp_path, CALLS.replace("SCHEMA", "number").replace("DOES", f"value: {json.dumps(value)}"))
    result = await asyncio.wait_for(run(sop, workspace=tmp_path, name="odd", inputs={"letter": str(HUGE)}), 60)
    assert result.outcome == "success" and events(tmp_path, "odd", Failed), result.reason


async def test_a_run_that_stopped_for_it_is_gone_on_with(tmp_path: Path) -> None:
    sop = write(tmp_path, ROLE.replace("SCHEMA", "number").replace(", on_fail: {makes: trouble}", "").replace(
        ", trouble: {}", ""))
    result = await run(sop, model=Scripted(guess=str(HUGE)), workspace=tmp_path, name="odd", inputs={"letter": "x"})
    assert (result.outcome, result.exit_status) == ("stopped", 1)
    async with go_on("odd", workspace=tmp_path, model=Scripted(guess="3")) as going:
        assert (await going.result()).outcome == "success"
