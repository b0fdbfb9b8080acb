"""The arguments of a call → the request of an operation, each value in its place and unable to leave it.

Styles as OpenAPI has them (https://spec.openapis.org/oas/v3.1.1#style-values, after RFC 6570).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.network.client import FetchRequest
from metaflow_agents.tools.openapi_document import BODY, Operation, Parameter, is_form, is_json

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_HEADER = re.compile(r"[\x20-\x7e]*")
_DOTS = (".", "..")
_UNPACKED = 5                       # times that a value is percent-decoded in search of a path inside of it
_SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|"}


def request_of(operation: Operation, arguments: Mapping[str, Any], server: str) -> FetchRequest:
    """The request. The arguments fit the operation's schema. Raises AnswerInvalid for a value that would leave its place."""
    given = [(each, arguments[each.argument]) for each in operation.parameters
             if each.argument in arguments and arguments[each.argument] is not None]
    path = _path(operation, {each.name: (each, value) for each, value in given if each.where == "path"})
    pairs = [pair for each, value in given if each.where == "query" for pair in _pairs(each, value)]
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
    headers = {"Accept": "application/json, */*;q=0.5"}
    headers |= {each.name: _header(each, value) for each, value in given if each.where == "header"}
    cookies = [pair for each, value in given if each.where == "cookie" for pair in _pairs(each, value)]
    if cookies:
        headers["Cookie"] = "; ".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in cookies)
    body = None
    if operation.body and BODY in arguments:
        body = _body(operation.body, arguments[BODY])
        headers["Content-Type"] = "application/json" if "*" in operation.body else operation.body
    return FetchRequest(f"{server}{path}{'?' if query else ''}{query}", operation.method, headers, body)


# -- the path


def _path(operation: Operation, given: Mapping[str, tuple[Parameter, Any]]) -> str:
    def filled(found: re.Match[str]) -> str:
        if found[1] not in given:
            raise AnswerInvalid([f"`{found[1]}` has no value, and the path needs one"])
        return _in_path(*given[found[1]])

    segments = []
    for segment in operation.path.split("/"):
        made = re.sub(r"\{([^{}]*)\}", filled, segment)
        if made != segment and (not made or _leaves(made, _DOTS)):      # what is harmless alone may not be together: `.` and `.`
            raise AnswerInvalid([f"the values of `{segment}` make `{made}` of it, which is no place in the path"])
        segments.append(made)
    return "/".join(segments)


def _in_path(parameter: Parameter, value: Any) -> str:
    def safe(text: str) -> str:
        if _leaves(text, ("", *_DOTS)):
            shown = json.dumps(text)[:100]
            raise AnswerInvalid([f"`{parameter.argument}` is {shown}, which can't stand in a path: no `/`, `\\`, `..`, control "
                                 "character, nothing of it percent-encoded, and not empty"])
        return quote(text, safe="")

    parts = _parts(parameter, value, safe)
    if parameter.style == "label":
        return "." + ("." if parameter.explode else ",").join(parts)
    if parameter.style == "matrix":
        named = isinstance(value, dict) and parameter.explode
        if parameter.explode:
            return "".join(f";{part}" if named else f";{quote(parameter.name, safe='')}={part}" for part in parts)
        return f";{quote(parameter.name, safe='')}={','.join(parts)}"
    return ",".join(parts)


def _leaves(text: str, nowhere: tuple[str, ...]) -> bool:
    """Whether some server could read a segment of a path as more than one, or as none: what stands before a `;` is `nowhere`."""
    for _ in range(_UNPACKED):
        if "/" in text or "\\" in text or _CONTROL.search(text) or text.partition(";")[0].strip() in nowhere:
            return True
        decoded = unquote(text)
        if decoded == text:
            return False
        text = decoded
    return True


# -- styles


def _parts(parameter: Parameter, value: Any, written: Callable[[str], str] = str) -> list[str]:
    """A value as the parts that its style then joins: items, or keys and values."""
    if parameter.json:
        return [written(json.dumps(value, ensure_ascii=False))]
    if isinstance(value, list):
        return [written(_scalar(item)) for item in value]
    if isinstance(value, dict):
        pairs = [(written(name), written(_scalar(item))) for name, item in value.items()]
        if parameter.explode:
            return [f"{name}={item}" for name, item in pairs]
        return [part for pair in pairs for part in pair]
    return [written(_scalar(value))]


def _pairs(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    """A value of a query, a cookie or a form as names and values. An empty list has none."""
    if parameter.json or not isinstance(value, list | dict):
        return [(parameter.name, json.dumps(value, ensure_ascii=False) if parameter.json else _scalar(value))]
    if isinstance(value, dict):
        if parameter.style == "deepObject":
            return [pair for name, item in value.items() for pair in _deep(f"{parameter.name}[{name}]", item)]
        if parameter.explode:
            return [(name, _scalar(item)) for name, item in value.items()]
    elif parameter.explode:
        return [(parameter.name, _scalar(item)) for item in value]
    parts = _parts(Parameter(parameter.name, parameter.where, parameter.argument, parameter.style, False), value)
    return [(parameter.name, _SEPARATORS.get(parameter.style, ",").join(parts))] if parts else []


def _deep(name: str, value: Any) -> list[tuple[str, str]]:
    """`filter[by][0]`: what OpenAPI leaves open below the first level, as most servers read it."""
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in _deep(f"{name}[{key}]", item)]
    if isinstance(value, list):
        return [(name, _scalar(item)) for item in value]
    return [(name, _scalar(value))]


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


def _header(parameter: Parameter, value: Any) -> str:
    text = ",".join(_parts(parameter, value))
    if not _HEADER.fullmatch(text):
        raise AnswerInvalid([f"`{parameter.argument}` is {json.dumps(text)[:100]}, which can't stand in the header "
                             f"`{parameter.name}`: letters, digits and signs of ASCII, and no line breaks"])
    return text.strip()


# -- the body


def _body(media: str, value: Any) -> bytes:
    if is_json(media):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    if not is_form(media):
        return str(value).encode()
    if not isinstance(value, dict):
        raise AnswerInvalid([f"`{BODY}` is sent as a form: give an object of fields"])
    pairs = [(name, item) for name, written in value.items() if written is not None
             for item in (written if isinstance(written, list) else [written])]
    return "&".join(f"{quote(name, safe='')}={quote(_scalar(item), safe='')}" for name, item in pairs).encode()
