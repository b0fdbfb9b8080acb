"""Stands in for a language model in the tests of `gorilla.yaml`: it writes what the first document that it is shown says, and
makes a name up from the question where it is shown none.
"""

from __future__ import annotations

import json
import re
from typing import Any

from metaflow_agents import ModelRequest

_SAMPLES: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def said(request: ModelRequest) -> str:
    """All that it is told but the system's message."""
    return "\n".join(str(one["content"]) for one in request.messages if one["role"] == "user")


def programmer(request: ModelRequest) -> str:
    """The call of the first document, with the numbers and quoted texts of the question, in their order; or one made up."""
    text = said(request)
    question = re.search(r"<question>\n(.*?)\n</question>", text, re.DOTALL)
    asked = question[1] if question else text
    document = _first_document(text)
    if document is None:
        return f"{'_'.join(re.findall(r'[a-z]+', asked.lower())[:4]) or 'answer'}()"
    numbers, texts = re.findall(r"\d+(?:\.\d+)?", asked), re.findall(r"'([^']*)'", asked)
    given = {name: _value(document["parameters"].get(name, {}), numbers, texts) for name in document["required"]}
    head, _, fixed = document["call"].removesuffix(")").partition("(")
    return f"{head}({', '.join([*filter(None, [fixed]), *(f'{name}={value!r}' for name, value in given.items())])})"


def _first_document(text: str) -> Any:
    for place in (found.start() for found in re.finditer(r'\{\s*"file"', text)):
        try:
            return json.JSONDecoder().raw_decode(text[place:])[0]
        except ValueError:
            continue
    return None


def _value(schema: Any, numbers: list[str], texts: list[str]) -> Any:
    kind = schema.get("type")
    if schema.get("enum"):
        return schema["enum"][0]
    if kind in ("integer", "number") and numbers:
        return int(float(numbers.pop(0))) if kind == "integer" else float(numbers.pop(0))
    return _SAMPLES.get(kind, texts.pop(0) if texts and kind == "string" else "text")


def hasty(request: ModelRequest) -> str:
    """Takes `value` for the name of the first argument, until it is told."""
    told = "is no parameter" in said(request)
    return programmer(request) if told else "units.convert(value=3)"
