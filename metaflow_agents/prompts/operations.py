"""What operators, lookups and printing do with values: plain JSON semantics, bounded, the same everywhere."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2.environment import TemplateModule
from jinja2.runtime import LoopContext
from jinja2.utils import Namespace
from pydantic_core import PydanticSerializationError, to_json

from metaflow_agents.errors import ExpressionError, nearest
from metaflow_agents.prompts.limits import MAX_BITS, MAX_NESTING, MAX_TEXT, spend, spend_text
from metaflow_agents.prompts.values import MISSING, CollectionView, FilesView
from metaflow_agents.schema.binary import FIELDS, BinaryFile

_SIMPLE = frozenset({dict, list, bool, type(None)})
_WORD = 2**63
_NODES, _SMALL = 20_000, 2**20         # what is larger is written piece by piece, so that it can be stopped

LOOP_FIELDS = ("index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0",
               "previtem", "nextitem", "cycle", "changed")


def kind(value: object) -> str:
    """How messages call a value: `a list`, `text`, `a number` …"""
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "true or false"), (str, "text"), ((int, float), "a number"), ((list, tuple, range), "a list"),
        (BinaryFile, "a file that is no text"), (FilesView, "a set of files"), (CollectionView, "a collection"),
        (Mapping, "a mapping"), (type(None), "null"), (type(MISSING), "missing"),
        (Namespace, "a namespace"), (LoopContext, "the loop"), (TemplateModule, "an imported template"))
    return next((name for types, name in names if isinstance(value, types)), "a function")


def field(value: Any, name: str) -> Any:
    """`value.name`: an item of a mapping, MISSING where there is none. Raises ExpressionError on what has no fields."""
    if isinstance(value, dict):
        return value.get(name, MISSING)
    if value is MISSING or value is None:
        return MISSING
    if isinstance(value, Mapping):
        if name == "missing" and isinstance(value, FilesView | CollectionView):
            return value.missing
        return value[name] if name in value else MISSING
    if isinstance(value, BinaryFile):
        return getattr(value, name) if name in FIELDS else MISSING
    if isinstance(value, LoopContext) and name in LOOP_FIELDS:
        return getattr(value, name)
    if isinstance(value, Namespace):
        try:
            return Namespace.__getattribute__(value, name)
        except AttributeError:
            return MISSING
    if isinstance(value, TemplateModule):
        return MISSING if name.startswith("_") else value.__dict__.get(name, MISSING)
    mend = "take an item, or `map(attribute=…)`" if isinstance(value, list | tuple) else "only mappings have fields"
    raise ExpressionError(f"there is no `.{name}`: the value is {kind(value)}; fix: {mend}")


def item(value: Any, index: Any) -> Any:
    """`value[index]`: a field of a mapping or a place in a list or text; MISSING where there is none."""
    if value is MISSING or value is None or index is MISSING:
        return MISSING
    if isinstance(value, Mapping):
        if isinstance(index, str):
            return value[index] if index in value else MISSING
        raise ExpressionError(f"keys of {kind(value)} are texts, this one is {kind(index)}; fix: `| string`")
    if isinstance(value, list | tuple | str):
        if isinstance(index, int) and not isinstance(index, bool):
            return value[index] if -len(value) <= index < len(value) else MISSING
        if isinstance(index, str) and not isinstance(value, str):
            return field(value, index)
        raise ExpressionError(f"a place in {kind(value)} is a whole number, this one is {kind(index)}")
    if isinstance(index, str):
        return field(value, index)
    raise ExpressionError(f"{kind(value)} has no items")


def path(value: Any, attribute: Any) -> Any:
    """The value at a dotted path, as `map(attribute='a.b.0')` names it."""
    if isinstance(attribute, int):
        return item(value, attribute)
    if not isinstance(attribute, str):
        raise ExpressionError(f"an attribute is named by text, this is {kind(attribute)}")
    for part in attribute.split("."):
        value = item(value, int(part)) if part.isdecimal() and not isinstance(value, Mapping) else item(value, part)
    return value


def cut(value: Any, start: Any, stop: Any, step: Any) -> Any:
    """`value[start:stop:step]` of a list or a text."""
    if value is MISSING:
        return MISSING
    if not isinstance(value, list | tuple | str):
        raise ExpressionError(f"{kind(value)} can't be sliced; only lists and texts can")
    if step == 0 or not all(bound is None or type(bound) is int for bound in (start, stop, step)):
        raise ExpressionError("the bounds of a slice are whole numbers, and its step is not 0")
    spend(len(value))
    return value[start:stop:step]


def elements(value: Any) -> list[Any]:
    """What a loop or a list filter walks over: the items of a list, the keys of a mapping. Raises on scalars."""
    if isinstance(value, list):
        found = value
    elif value is MISSING:
        return []
    elif isinstance(value, Mapping | tuple | range):
        found = list(value)
    elif isinstance(value, str):
        raise ExpressionError("text is no list; fix: `| list` walks over characters, `| lines` over lines")
    else:
        raise ExpressionError(f"{kind(value)} is no list and can't be walked over")
    spend(len(found))
    return found


def equal(left: Any, right: Any) -> bool:
    """JSON's equality: true is not 1; tuples are lists."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, tuple):
        left = list(left)
    return bool(left == (list(right) if isinstance(right, tuple) else right))


def _ordered(compare: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
    return bool(compare(orderable(left), orderable(right))) if _comparable(left, right) else False


def _comparable(left: Any, right: Any) -> bool:
    for types in ((int, float), str, (list, tuple)):
        if isinstance(left, types) and isinstance(right, types) and bool not in (type(left), type(right)):
            return True
    raise ExpressionError(f"{kind(left)} and {kind(right)} have no order")


def orderable(value: Any) -> Any:
    """The value itself where it has an order. Raises ExpressionError for what is missing, null, a mapping …"""
    if isinstance(value, bool) or not isinstance(value, int | float | str | list | tuple):
        hint = "; fix: guard it, or give it `| default(…)`" if value is MISSING else ""
        raise ExpressionError(f"what is missing can't be ordered{hint}" if value is MISSING else f"{kind(value)} has no order")
    return value


def contains(container: Any, value: Any) -> bool:
    """`value in container`: an item of a list, a key of a mapping, a part of a text."""
    if container is MISSING or value is MISSING or container is None:
        return False
    if isinstance(container, str):
        if not isinstance(value, str):
            raise ExpressionError(f"{kind(value)} can't be searched in text")
        return value in container
    if isinstance(container, Mapping):
        return isinstance(value, str) and value in container
    if isinstance(container, list | tuple | range):
        spend(len(container))
        return any(equal(value, other) for other in container)
    raise ExpressionError(f"`in` searches a list, a mapping or a text, this is {kind(container)}")


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": equal,
    "ne": lambda left, right: not equal(left, right),
    "lt": lambda left, right: _ordered(operator.lt, left, right),
    "lteq": lambda left, right: _ordered(operator.le, left, right),
    "gt": lambda left, right: _ordered(operator.gt, left, right),
    "gteq": lambda left, right: _ordered(operator.ge, left, right),
    "in": lambda left, right: contains(right, left),
    "notin": lambda left, right: not contains(right, left),
}


def is_number(value: Any) -> bool:
    """A number and not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def bounded(number: Any) -> Any:
    """A finite number of sane size. Raises ExpressionError otherwise."""
    if isinstance(number, int) and number.bit_length() > MAX_BITS:
        raise ExpressionError(f"the number has more than {MAX_BITS} bits")
    if isinstance(number, complex) or (isinstance(number, float) and not math.isfinite(number)):
        raise ExpressionError("the result is no finite number")
    return number


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
    "**": operator.pow}


def calculate(symbol: str, left: Any, right: Any) -> Any:
    """A binary operator on numbers; `+` on two texts or two lists, `*` repeats a text or a list, `%` formats a text."""
    spend(1)
    if is_number(left) and is_number(right):
        too_big = (symbol == "**" and isinstance(left, int) and isinstance(right, int)
                   and abs(left) > 1 and abs(left).bit_length() * right > MAX_BITS)
        if too_big:
            raise ExpressionError(f"the number has more than {MAX_BITS} bits")
        try:
            return bounded(_ARITHMETIC[symbol](left, right))
        except ZeroDivisionError:
            raise ExpressionError("division by zero") from None
        except OverflowError:
            raise ExpressionError("the result is too large for a number") from None
    if symbol == "*" and isinstance(left, int) and isinstance(right, str | list):
        left, right = right, left
    if symbol == "*" and isinstance(left, str | list) and is_number(right) and isinstance(right, int):
        return _repeated(left, right)
    if symbol == "+" and isinstance(left, str) and isinstance(right, str):
        spend_text(len(left) + len(right))
        return left + right
    if symbol == "+" and isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return made([*left, *right])
    if symbol == "%" and isinstance(left, str):
        return formatted(left, tuple(right) if isinstance(right, list | tuple) else (right,))
    mend = "; fix: `~` joins as text" if symbol == "+" and (isinstance(left, str) or isinstance(right, str)) else ""
    if MISSING in (left, right):
        mend = "; fix: give what is missing a `| default(…)`"
    raise ExpressionError(f"`{symbol}` can't take {kind(left)} and {kind(right)}{mend}")


def _repeated(value: Any, times: int) -> Any:
    times = max(times, 0)
    if isinstance(value, str):
        spend_text(len(value) * times)
        return value * times
    spend(len(value) * times)
    return made(value * times)


def sign(symbol: str, value: Any) -> Any:
    """Unary plus and minus."""
    if not is_number(value):
        raise ExpressionError(f"`{symbol}` can't take {kind(value)}")
    return -value if symbol == "-" else value


def weigh(value: Any) -> bool:
    """Count the nodes of a plain value, shared parts as often as they stand in it: nothing can be blown up by sharing.

    Gives whether it is small, and of texts, whole numbers, true, false, null, lists and mappings only.
    """
    stack, nodes, characters, simple = [value], 1, 0, True
    while stack:
        current = stack.pop()
        if isinstance(current, dict):
            spend(len(current))
            nodes += len(current)
            stack.extend(current.values())
            for key in current:
                characters += len(key) if type(key) is str else _SMALL + 1
        elif isinstance(current, list | tuple):
            spend(len(current))
            nodes += len(current)
            stack.extend(current)
        elif type(current) is str:
            characters += len(current)
            continue
        elif type(current) is int:
            simple = simple and -_WORD <= current < _WORD
            continue
        simple = simple and type(current) in _SIMPLE
    spend(1)
    return simple and nodes <= _NODES and characters <= _SMALL


def made(value: Any) -> Any:
    """A list or mapping that an expression built, weighed."""
    weigh(value)
    return value


def plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON data: tuples and ranges become lists, views mappings; files that are no text stay what they are.

    Raises ExpressionError on what is no data.

    `depth` counts the lists and mappings around it: the bound is the same on every Python, whose own bounds differ.
    """
    if depth > MAX_NESTING:
        raise ExpressionError(f"the value is nested more than {MAX_NESTING} deep")
    if value is None or isinstance(value, bool | str | BinaryFile):
        return value
    if isinstance(value, int | float):
        return bounded(value)
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise ExpressionError("the keys of a mapping are texts")
        return {key: plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(inner, depth + 1) for inner in value]
    if isinstance(value, FilesView | CollectionView):
        return {key: plain(inner, depth + 1) for key, inner in value.items()}
    if value is MISSING:
        raise ExpressionError("a part of the value is missing; fix: `| default(…)`")
    raise ExpressionError(f"{kind(value)} is no value; fix: call it, or leave it out")


def _indented(value: Any, indent: int) -> str | None:
    """JSON over several lines by pydantic's writer, tens of times as fast as Python's: for what both write alike."""
    try:
        return to_json(value, indent=indent).decode()
    except (PydanticSerializationError, ValueError):          # half a surrogate pair, or nesting beyond it
        return None


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON text in the order of insertion, without escapes for HTML or other scripts."""
    simple = weigh(value)
    if indent is not None and not 0 <= indent <= 16:
        raise ExpressionError("an indent of JSON lies between 0 and 16")
    if simple and indent and (text := _indented(value, indent)) is not None:
        spend_text(len(text))
        return text
    data = plain(value)
    pieces, size = [], 0
    for piece in json.JSONEncoder(ensure_ascii=False, indent=indent, allow_nan=False, default=BinaryFile.told).iterencode(data):
        size += len(piece)
        if size > MAX_TEXT:
            break
        pieces.append(piece)
    spend_text(size)
    return "".join(pieces)


def fence(text: str) -> str:
    """A code fence longer than any that stands in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    return "`" * (longest + 1)


def files_as_text(files: FilesView) -> str:
    """Files as blocks: a line with the path, then the text between fences; of one that is no text its name, type and size."""
    blocks = []
    for name, text in files.items():
        if isinstance(text, BinaryFile):
            blocks.append(f"{text}\n")
            spend_text(len(blocks[-1]))
            continue
        marks = fence(text)
        blocks.append(f"{name}\n{marks}\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{marks}\n")
        spend_text(len(blocks[-1]))
    return "\n".join(blocks)


def unprintable(which: str = "") -> ExpressionError:
    """What is told where something missing would be printed; `which` says what it is, where that is known."""
    return ExpressionError(f"{which}what is missing can't be printed; "
                           "fix: guard it with `{% if … %}`, or give it `| default(…)`")


def as_text(value: Any) -> str:
    """How a value prints: text as it is, files as blocks, everything else as JSON."""
    if isinstance(value, str):
        return value
    if value is MISSING:
        raise unprintable()
    if isinstance(value, FilesView):
        return files_as_text(value)
    if isinstance(value, BinaryFile):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(plain(value))
    return as_json(value)


_FORMAT = re.compile(
    r"%(?:\((?P<name>\w+)\))?(?P<flags>[-+ #0]*)(?P<width>\d{0,6})(?:\.(?P<precision>\d{0,6}))?(?P<type>.)", re.S)


def formatted(template: str, args: tuple[Any, ...], named: Mapping[str, Any] | None = None) -> str:
    """Printf formatting of texts and numbers. Raises ExpressionError where directives and values do not fit."""
    rest = iter(args)

    def replaced(match: re.Match[str]) -> str:
        letter = match["type"]
        if letter == "%":
            return "%"
        if int(match["width"] or 0) > 10_000 or int(match["precision"] or 0) > 1_000:
            raise ExpressionError("the width of a format is at most 10000, its precision at most 1000")
        if match["name"]:
            value = (named or {}).get(match["name"], MISSING)
        else:
            value = next(rest, MISSING)
        if value is MISSING:
            raise ExpressionError(f"`{match[0]}` has no value")
        precision = "" if match["precision"] is None else f".{match['precision']}"
        directive = f"%{match['flags']}{match['width']}{precision}{letter}"
        if letter in "sd" or letter in "ioxXeEfFgG":
            if letter != "s" and not is_number(value):
                raise ExpressionError(f"`{match[0]}` takes a number, not {kind(value)}")
            text: str = directive % (as_text(value) if letter == "s" else value)
            spend_text(len(text))
            return text
        raise ExpressionError(f"`{match[0]}` is no format; there is %s, %d, %i, %x, %X, %o, %e, %f, %g")

    text = _FORMAT.sub(replaced, template)
    spend_text(len(text))
    return text


def no_such(what: str, name: str, choices: Mapping[str, Any] | tuple[str, ...]) -> str:
    """`there is no filter `x`; did you mean `y`?`."""
    close = nearest(name, choices)
    return f"there is no {what} `{name}`" + (f"; did you mean `{close}`?" if close else "")
