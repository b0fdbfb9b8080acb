"""The scalars of the language as fields of its models: names, quantities, expressions, texts that may be lists."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from metaflow_agents.schema import quantity

NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"


def _told(parse: Any) -> Any:
    def validate(written: object) -> Any:
        try:
            return parse(written)
        except ValueError as error:
            raise PydanticCustomError("quantity", "{told}", {"told": str(error)}) from None
    return validate


def _listed(written: object) -> object:
    return [written] if isinstance(written, str) else written


def _with_text(accepts: tuple[str, ...]) -> tuple[str, ...]:
    if "text" not in accepts:
        raise PydanticCustomError("accepts", "every model takes text: write [text, image]")
    return accepts


def _expression(written: object) -> object:
    """An expression may be written as the YAML scalar that it is: `when: true`, `priority: 3`."""
    if isinstance(written, bool):
        return "true" if written else "false"
    return str(written) if isinstance(written, int | float) else written


Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Seconds = Annotated[float, BeforeValidator(_told(quantity.seconds))]
Count = Annotated[int, BeforeValidator(_told(quantity.count))]
Calls = Annotated[int, BeforeValidator(_told(quantity.calls))]
Dollars = Annotated[float, BeforeValidator(_told(quantity.dollars))]
Window = Annotated[tuple[int, str], BeforeValidator(_told(quantity.window))]
Expression = Annotated[str, BeforeValidator(_expression), Field(min_length=1)]
Template = Annotated[str, Field(min_length=1)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Accepts = Annotated[tuple[Literal["text", "image"], ...], BeforeValidator(_listed), AfterValidator(_with_text)]
