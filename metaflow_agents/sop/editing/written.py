"""Values as YAML text: plain where the reader of this package takes the text for itself, in double quotes otherwise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from metaflow_agents.sop.reading import read_yaml


def in_flow(value: Any) -> str:
    """A value in one line, as it may stand inside `[…]` and `{…}`."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key, flow=True)}: {in_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, str):
        return scalar(value, flow=True)
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(in_flow, value)) + "]"
    return json.dumps(value)


def in_block(key: str, value: Any, indent: int, line_break: str) -> str:
    """A key and its value in lines of their own; a mapping with its keys below it, a text of several lines as it reads."""
    lead = " " * indent + scalar(key, flow=False) + ":"
    if isinstance(value, Mapping) and value:
        return lead + line_break + "".join(in_block(str(name), inner, indent + 2, line_break) for name, inner in value.items())
    if isinstance(value, str) and (literal := _literal(value, indent + 2, line_break)) is not None:
        return f"{lead} {literal}{line_break}"
    return f"{lead} {scalar(value, flow=False) if isinstance(value, str) else in_flow(value)}{line_break}"


def scalar(text: str, *, flow: bool) -> str:
    """A text that is read as itself. `flow`: inside `[…]` or `{…}`, where more has to be quoted."""
    return text if _reads_as(text, text, flow=flow) else _quoted(text)


def is_plain(text: str) -> bool:
    """Whether a text can stand without quotes wherever a name can: `yes` can, `null` and `TRUE` mean something else."""
    return _reads_as(text, text, flow=False) and _reads_as(text, text, flow=True)


def _reads_as(written: str, value: str, *, flow: bool) -> bool:
    read = read_yaml((f"k: [{written}]\n" if flow else f"k: {written}\n").encode("utf-8", "surrogatepass"), "")
    return not read.problems and bool(read.data == {"k": [value] if flow else value})


def _quoted(text: str) -> str:
    """In double quotes; what is not seen is escaped, since the reader refuses it as it is."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" if ord(one) < 0x10000 else f"\\U{ord(one):08x}"
                   for one in quoted)


def _literal(text: str, indent: int, line_break: str) -> str | None:
    """A text of several lines behind `|`; None where it has one line, or would not be read as it is."""
    if "\n" not in text.strip("\n") or text != text.strip("\n") + "\n" * text.endswith("\n") or text[:1] in (" ", "\t"):
        return None
    lines = text.removesuffix("\n").split("\n")
    if any(not one.isprintable() and one != "\t" for line in lines for one in line):
        return None
    body = line_break.join(" " * indent + line if line.strip() else line for line in lines)
    return f"|{'' if text.endswith(chr(10)) else '-'}{line_break}{body}"
