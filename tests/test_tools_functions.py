"""Functions that a SOP declares: their signatures become schemas, their docstrings descriptions, their errors results."""

from __future__ import annotations

import asyncio
import datetime
import enum
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import jsonschema
import pytest
from pydantic import AfterValidator, BaseModel, Field, SecretStr

from metaflow_agents.errors import UsageError
from metaflow_agents.modules import load_function
from metaflow_agents.policy.action import Action
from metaflow_agents.schema.tools import ToolSpec
from metaflow_agents.sop.check import check
from metaflow_agents.tools.functions import LONGEST, FunctionTool
from metaflow_agents.tools.port import Setting, Situation, Tool, ToolResult

SECRETS = {"KEY": "planted-canary-1"}
NOWHERE = cast(Situation, None)


def setting(folder: Path = Path()) -> Setting:
    def secret(name: str) -> str:
        if name not in SECRETS:
            raise UsageError(f"the secret `{name}` is not set")
        return SECRETS[name]

    def masked(text: str) -> str:
        return text.replace(SECRETS["KEY"], "[secret]")

    return Setting(folder, secret, {}, masked)


def tool(function: Callable[..., Any], **spec: Any) -> FunctionTool:
    return FunctionTool("convert", ToolSpec(python="units:convert", **spec), setting(), lambda _: function)


async def result(function: Callable[..., Any], arguments: dict[str, Any] | None = None, **spec: Any) -> ToolResult:
    made = tool(function, **spec)
    jsonschema.Draft202012Validator.check_schema(made.parameters)
    return await made.call(arguments or {}, NOWHERE)


class Unit(enum.Enum):
    METRE = "m"
    FOOT = "ft"


@dataclass
class Span:
    low: float
    high: float = 10.0


class Place(BaseModel):
    """Where it is."""

    name: str
    near: list[Place] = []


def every(amount: float, unit: Unit, mode: Literal["exact", "rough"] = "exact", *, span: Span | None = None, place: Place,
          tags: tuple[str, ...] = (), pair: tuple[int, str] = (1, "a"), day: datetime.date = datetime.date(2024, 1, 1),
          times: Annotated[int, Field(ge=1, le=9, description="how often")] = 1, schema: dict[str, int] | None = None,
          model_config: bool = False, anything=None) -> Any:  # type: ignore[no-untyped-def]
    return [amount, unit.name, mode, type(span).__name__, place.near[0].name, tags, pair, day.isoformat(), times, schema,
            anything]


async def test_a_signature_is_a_schema_and_its_types_arrive() -> None:
    schema = tool(every).parameters
    assert schema["required"] == ["amount", "unit", "place"] and schema["additionalProperties"] is False
    properties = schema["properties"]
    assert properties["mode"] == {"type": "string", "enum": ["exact", "rough"], "default": "exact"}
    assert properties["times"] == {"type": "integer", "minimum": 1, "maximum": 9, "default": 1, "description": "how often"}
    assert properties["day"] == {"type": "string", "format": "date"}
    assert properties["pair"]["minItems"] == properties["pair"]["maxItems"] == 2
    assert schema["$defs"]["Place"]["properties"]["near"]["items"] == {"$ref": "#/$defs/Place"}
    assert properties["anything"] == {"default": None}
    given = {"amount": 3, "unit": "ft", "span": {"low": 1}, "place": {"name": "here", "near": [{"name": "there"}]},
             "tags": ["x"], "pair": [2, "b"], "day": "2025-02-03", "schema": {"a": 1}, "anything": {"deep": [1]}}
    jsonschema.Draft202012Validator(schema).validate(given)
    told = await result(every, given)
    assert told == ToolResult(
        '[3.0, "FOOT", "exact", "Span", "there", ["x"], [2, "b"], "2025-02-03", 1, {"a": 1}, {"deep": [1]}]'
    )
    assert told.untrusted == ""


GOOGLE = """Convert an amount.

    At today's rate.

    Args:
        amount: How much,
            in coins.
        to (str): The currency.

    Returns:
        What it is worth.
    """
NUMPY = """Convert an amount.

    At today's rate.

    Parameters
    ----------
    amount : float
        How much,
        in coins.
    to : str
        The currency.

    Returns
    -------
    float
        What it is worth.
    """
SPHINX = """Convert an amount.

    At today's rate.

    :param amount: How much,
        in coins.
    :param to: The currency.
    :returns: What it is worth.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_docstrings_describe(docstring: str) -> None:
    def convert(amount: float, to: str, times: Annotated[int, Field(description="its own")] = 1) -> float:
        return amount

    convert.__doc__ = docstring
    made = tool(convert)
    assert made.description == "Convert an amount.\n\nAt today's rate.\n\nGives: What it is worth."
    told = {name: part.get("description") for name, part in made.parameters["properties"].items()}
    assert told == {"amount": "How much, in coins.", "to": "The currency.", "times": "its own"}
    assert tool(convert, description="Mine.").description == "Mine."


def test_no_docstring_or_an_odd_one() -> None:
    assert tool(lambda: 1).description == "The function `units:convert`."

    def odd() -> None:
        """Args: : :param\n\n:param"""

    assert tool(odd).description


async def test_secrets_are_filled_in_and_no_part_of_what_roles_see() -> None:
    def fetch_it(query: str, /, key: str, safe: SecretStr, *, fails: bool = False) -> str:
        if fails:
            raise ValueError(f"401 for {key}")
        return f"{query} with {key} and {safe.get_secret_value() == key}"

    spec: dict[str, Any] = {"secrets": {"key": "KEY", "safe": "KEY"}}
    made = tool(fetch_it, **spec)
    assert list(made.parameters["properties"]) == ["query", "fails"]
    assert await result(fetch_it, {"query": "q"}, **spec) == ToolResult("q with [secret] and True")
    failed = await result(fetch_it, {"query": "q", "fails": True}, **spec)
    assert failed.error and failed.text.startswith("ValueError: 401 for [secret] (test_tools_functions.py:")
    with pytest.raises(UsageError, match="has no parameter `kee` for a secret: did you mean `key`"):
        tool(fetch_it, secrets={"kee": "KEY"})
    with pytest.raises(UsageError, match="`OTHER` is not set"):
        await result(fetch_it, {"query": "q"}, secrets={"key": "OTHER", "safe": "KEY"})


async def test_a_role_can_not_fill_in_a_secrets_parameter() -> None:
    def spend(key: str) -> str:
        return key

    made = await result(spend, {"key": "mine"}, secrets={"key": "KEY"})
    assert made.error and "`key`: Extra inputs" in made.text


def raising(error: BaseException) -> Callable[[], None]:
    def inner() -> None:
        raise error
    return inner


@pytest.mark.parametrize(("error", "said"), [
    (ValueError("no\nsuch unit"), "ValueError: no such unit (test_tools_functions.py:"),
    (KeyError("x"), "KeyError: 'x' ("), (SystemExit(3), "the tool `convert` raised SystemExit: 3 ("),
    (StopIteration(1), "the tool `convert` raised StopIteration: 1 ("),
    (asyncio.CancelledError(), "the tool `convert` raised CancelledError"), (ValueError("\ud800"), "ValueError: \\ud800"),
])
async def test_what_it_raises_is_told_to_the_role(error: BaseException, said: str) -> None:
    async def asynchronous() -> None:
        raising(error)()

    told = await result(raising(error))
    assert told.error and told.text.startswith(said)
    if not isinstance(error, StopIteration):            # in a coroutine Python itself makes a RuntimeError of it
        assert (await result(asynchronous)).text.startswith(said)


def boom(value: str) -> str:
    raise RuntimeError(f"no {value}")


async def test_arguments_that_do_not_fit_its_types_are_told_too() -> None:
    def takes(day: datetime.date, odd: Annotated[str, AfterValidator(boom)] = "x") -> str:
        return "ran"

    assert "`day`: " in (await result(takes, {"day": "tomorrow"})).text
    assert "RuntimeError: no y" in (await result(takes, {"day": "2024-01-01", "odd": "y"})).text
    assert await result(takes, {"day": "2024-01-01"}) == ToolResult("ran")


@pytest.mark.parametrize(("value", "text"), [
    ("as it is\n", "as it is\n"), (None, "null"), ({"a": (1, 2)}, '{"a": [1, 2]}'),
    (Place(name="é"), '{"name": "é", "near": []}'),
    (Span(1), '{"low": 1, "high": 10.0}'), (datetime.date(2024, 1, 2), '"2024-01-02"'), ("\ud800", "\\ud800"),
    ("x" * (LONGEST + 7), "x" * LONGEST + "\n[cut: 7 more characters]"),
])
async def test_results(value: Any, text: str) -> None:
    assert await result(lambda: value) == ToolResult(text)


@pytest.mark.parametrize("value", [object(), float("nan"), {1: {object()}}])
async def test_a_result_that_is_no_json_is_an_error(value: Any) -> None:
    told = await result(lambda: value)
    assert told.error and "`convert` gave what is not JSON" in told.text


async def test_defaults_are_the_functions_own() -> None:
    marker = object()

    def held(a: int, b: int = 2, /, c: object = marker, d: Annotated[int, Field(gt=0)] = 4, *,
             e: int = Field(5, description="five")) -> str:
        return f"{a} {b} {c is marker} {d} {e}"

    schema = tool(partial(held, 1)).parameters
    assert list(schema["properties"]) == ["b", "c", "d", "e"] and schema["required"] == []
    assert schema["properties"]["e"] == {"type": "integer", "default": 5, "description": "five"}
    assert await result(partial(held, 1), {}) == ToolResult("1 2 True 4 5")
    assert await result(held, {"a": 1, "d": 7}) == ToolResult("1 2 True 7 5")


@pytest.mark.parametrize(("function", "said"), [
    (lambda *rest: 1, r"its parameter `\*rest` has no name that a role could fill"),
    (lambda **rest: 1, r"its parameter `\*\*rest` has no name"),
])
def test_signatures_that_are_no_schema(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(UsageError, match=f"the tool `convert`: `units:convert` can't be used: {said}"):
        tool(function)


def test_types_that_are_no_schema() -> None:
    def opaque(value: threading.Thread) -> None: ...
    def unknown(value: Nothing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def callback(value: Callable[[], int]) -> None: ...

    for function in (opaque, unknown, callback):
        with pytest.raises(UsageError, match="can't be used: its"):
            tool(function)


async def test_plain_functions_run_in_threads_and_side_by_side() -> None:
    meet = threading.Barrier(2, timeout=20)

    def waits() -> bool:
        meet.wait()
        return threading.current_thread() is not threading.main_thread()

    made = tool(waits)
    both = await asyncio.gather(made.call({}, NOWHERE), made.call({}, NOWHERE))
    assert both == [ToolResult("true"), ToolResult("true")]


def test_what_a_call_is_for_policy_and_journal() -> None:
    made: Tool = tool(lambda: 1)
    assert made.action({}) == Action("call", "convert") and made.action({}).acting
    assert made.effect({}) == "once" and tool(lambda: 1, effect="none").effect({}) == "none"


SOP = """
sop: converts
inputs: {amount: number}
roles: {clerk: {goal: converts, tools: [convert]}}
tools: {convert: {python: "apis_planted_module:convert"}}
artifacts: {answer: {}}
steps:
  work: {role: clerk, needs: [amount], makes: answer}
"""


def test_nothing_is_imported_when_a_sop_is_checked(tmp_path: Path) -> None:
    (tmp_path / "apis_planted_module.py").write_text("def convert(x: int) -> int: ...\nopen('imported', 'w')\n")
    (tmp_path / "converts.yaml").write_text(SOP)
    check(tmp_path / "converts.yaml")
    assert "apis_planted_module" not in sys.modules and not (tmp_path / "imported").exists()


async def test_it_is_imported_from_the_sops_folder_and_an_error_names_the_tool(tmp_path: Path) -> None:
    (tmp_path / "apis_units.py").write_text("def convert(x: int) -> int:\n    return 2 * x\n")
    load = partial(load_function, folders=[tmp_path])
    made = FunctionTool("convert", ToolSpec(python="apis_units:convert"), setting(tmp_path), load)
    assert await made.call({"x": 4}, NOWHERE) == ToolResult("8")
    with pytest.raises(UsageError, match="has no `conver`: did you mean `convert`"):
        FunctionTool("convert", ToolSpec(python="apis_units:conver"), setting(tmp_path), load)
