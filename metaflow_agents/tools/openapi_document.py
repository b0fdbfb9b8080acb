"""An OpenAPI description (3.0 and 3.1) → its operations, as far as they can be called from here.

References inside the description are followed, those that lead out of it are not. An operation that asks for what this client
can't do is not dropped in silence: it is listed with the reason. https://spec.openapis.org/oas/v3.1.1
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, cast
from urllib.parse import urljoin

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.schema.external_schema import pointed
from metaflow_agents.schema.tools import Effect

Where = Literal["path", "query", "header", "cookie"]
WHERE: tuple[Where, ...] = ("path", "query", "header", "cookie")
METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
STYLES: Mapping[Where, tuple[str, ...]] = {                 # the first is what holds where nothing is said
    "path": ("simple", "label", "matrix"), "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",), "cookie": ("form",)}
BODY = "body"
_UNSAID = frozenset({"accept", "content-type", "authorization"})     # the description's own words: such parameters are ignored
_CONNECTION = frozenset({"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect",
                         "keep-alive", "proxy-authorization"})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_REFERENCES = 20                    # one after the other
_LONGEST = 2_000                    # characters of a description


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that an operation takes. `argument`: what roles call it. `json`: it is written as JSON, whatever its style."""

    name: str
    where: Where
    argument: str
    style: str
    explode: bool
    json: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """What can be asked of a service. `id`: as the description has it, or `GET /pets`; `name`: what roles call it.

    `arguments`: the schema of a call as it is written, references and all. `body`: the media type of its body; empty: it has
    none. `answers`: status (`200`, `4XX`, `default`) → media type → schema as it is written; None where nothing is said of it.
    """

    id: str
    name: str
    method: str
    path: str
    description: str
    parameters: tuple[Parameter, ...]
    arguments: Mapping[str, Any]
    body: str
    answers: Mapping[str, Mapping[str, Any] | None] = field(repr=False)

    def matches(self, pattern: str) -> bool:
        """Whether a pattern of the SOP means it: by its id, its name, or `METHOD /path`."""
        return any(fnmatchcase(each, pattern) for each in (self.id, self.name, f"{self.method} {self.path}"))

    def effect_in(self, effects: Mapping[str, Effect]) -> Effect | None:
        """What the SOP's `effects` say of it: under its id or its name, else under the first pattern that means it."""
        meaning = (self.id, self.name, *(pattern for pattern in effects if self.matches(pattern)))
        return next((effects[each] for each in meaning if each in effects), None)


class _Unfit(Exception):
    """An operation asks for what can't be done."""


class Description:
    """A description, read. `service`: the name in the SOP, for what is told. Raises UsageError for what is no description."""

    def __init__(self, service: str, document: Any) -> None:
        self._service, self.document = service, document
        version = str(document.get("openapi", "")) if isinstance(document, Mapping) else ""
        if not re.match(r"3\.[01](\.|$)", version):
            old = f"Swagger {_get(document, 'swagger')}" if _get(document, "swagger") else "no OpenAPI description"
            said = f"OpenAPI {version}" if version else old
            raise self.refusal(f"this is {said}", "OpenAPI 3.0 and 3.1 are read: convert it, or name another file")
        self.operations: list[Operation] = []
        self.left_out: dict[str, str] = {}
        """Operations that can't be called from here: id → why."""
        paths = _get(document, "paths") or {}
        if not isinstance(paths, Mapping):
            raise self.refusal("its `paths` are no mapping", "mend the description")
        for path, item in paths.items():
            self._path(str(path), item)

    def chosen(self, patterns: tuple[str, ...]) -> list[Operation]:
        """The operations that patterns of the SOP mean, in the description's order. Raises UsageError for one that means none."""
        for pattern in patterns:
            if not any(each.matches(pattern) for each in self.operations):
                unfit = [why for id_, why in self.left_out.items() if fnmatchcase(id_, pattern)]
                there = did_you_mean(pattern, [each.id for each in self.operations])
                mend = f"it can't be called from here: {unfit[0]}" if unfit else there
                raise self.refusal(f"`{pattern}` names no operation", mend)
        return [each for each in self.operations if any(each.matches(pattern) for pattern in patterns)]

    def server(self, written: str | None) -> str:
        """The base URL without its last `/`: the SOP's, else the description's first server. Raises UsageError."""
        if written is not None:
            return written.rstrip("/")
        first = _first(_get(self.document, "servers"))
        variables = _get(first, "variables")
        defaults = {name: _get(each, "default") for name, each in variables.items()} if isinstance(variables, Mapping) else {}
        found = _PLACEHOLDER.sub(lambda name: str(defaults.get(name[1], name[0])), str(_get(first, "url") or ""))
        if not re.match(r"https?://[^/{}]", found):
            raise self.refusal(f"its first server is `{found}`" if found else "it names no server",
                               f"write `server: https://…` under `openapi: {{{self._service}: …}}`")
        return found.rstrip("/")

    def refusal(self, what: str, mend: str) -> UsageError:
        """An error about this service."""
        return UsageError(f"the API `{self._service}`: {what}: {mend}")

    # -- paths

    def _path(self, path: str, item: Any) -> None:
        try:
            item = self._mapping(item)
        except _Unfit as unfit:
            self.left_out[path] = str(unfit)
            return
        for method in METHODS:
            said = _get(item.get(method), "operationId")
            id_ = said if isinstance(said, str) and said else f"{method.upper()} {path}"
            try:
                if method in item:
                    self.operations.append(self._operation(id_, method, path, item, self._mapping(item[method])))
            except _Unfit as unfit:
                self.left_out[id_] = str(unfit)

    def _operation(self, id_: str, method: str, path: str, item: Mapping[str, Any], written: Mapping[str, Any]) -> Operation:
        if not path.startswith("/"):
            raise _Unfit(f"its path `{path}` does not begin with `/`")
        self._one_server(item, written)
        listed = {(each["name"], each["in"]): each for source in (item, written) for each in self._parameters(source)}
        body_type, body = self._body(written)
        parameters, properties, required = self._taken(path, list(listed.values()), bool(body_type))
        if body_type:
            properties[BODY] = body["schema"]
            required += [BODY] if body["required"] else []
        schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        return Operation(id_, self._named(id_), method.upper(), path, _described(written, method, path), parameters, schema,
                         body_type, self._answers(written))

    def _named(self, id_: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", id_).strip("_") or "operation"
        plain = plain if id_ == plain or " " not in id_ else plain.lower()
        taken = {each.name for each in self.operations}
        number, name = 2, plain
        while name in taken:
            number, name = number + 1, f"{plain}_{number}"
        return name

    def _one_server(self, item: Mapping[str, Any], written: Mapping[str, Any]) -> None:
        """Keys go to one origin, which the SOP's author knows of; an operation may not have another."""
        own = _get(_first(written.get("servers") or item.get("servers")), "url")
        base = str(_get(_first(_get(self.document, "servers")), "url") or "")
        try:
            same = own is None or urljoin(f"{base}/", str(own)).rstrip("/") == base.rstrip("/")
        except ValueError:
            same = False
        if not same:
            raise _Unfit(f"it has a server of its own, `{own}`")

    # -- what it takes

    def _parameters(self, source: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        listed = source.get("parameters", [])
        if not isinstance(listed, list):
            raise _Unfit("its `parameters` are no list")
        for written in listed:
            each = self._mapping(written)
            if not isinstance(each.get("name"), str) or each.get("in") not in WHERE:
                raise _Unfit(f"a parameter has no `name`, or an `in` that is none of {', '.join(WHERE)}")
            yield each

    def _taken(self, path: str, listed: list[Mapping[str, Any]], body: bool
               ) -> tuple[tuple[Parameter, ...], dict[str, Any], list[str]]:
        """The parameters, and properties and required ones of the arguments' schema."""
        listed = [each for each in listed if self._sendable(each)]
        placeholders = _PLACEHOLDER.findall(path)
        declared = {each["name"] for each in listed if each["in"] == "path"}
        for name in placeholders:
            if name not in declared:
                raise _Unfit(f"its path has `{{{name}}}`, which is no parameter of it")
        plain = [_argument(each["name"]) for each in listed]
        taken: list[Parameter] = []
        properties: dict[str, Any] = {}
        required = []
        for each, short in zip(listed, plain, strict=True):
            clash = plain.count(short) > 1 or (body and short == BODY)
            argument = f"{each['in']}_{short}" if clash else short
            while argument in properties:
                argument += "_"
            parameter, schema = self._parameter(each, argument)
            taken.append(parameter)
            properties[argument] = schema
            required += [argument] if each.get("required") is True or each["in"] == "path" else []
        return tuple(taken), properties, required

    def _sendable(self, written: Mapping[str, Any]) -> bool:
        name, where = written["name"], written["in"]
        if where == "header" and name.lower() in _UNSAID:
            return False
        if where in ("header", "cookie") and (not _TOKEN.fullmatch(name) or (where == "header" and name.lower() in _CONNECTION)):
            if written.get("required") is True:
                raise _Unfit(f"it takes the {where} `{name}`, which can't be set")
            return False
        return True

    def _parameter(self, written: Mapping[str, Any], argument: str) -> tuple[Parameter, Any]:
        where = cast(Where, written["in"])
        content = written.get("content")
        style = written.get("style", STYLES[where][0])
        if isinstance(content, Mapping) and content:
            media, inner = next(iter(content.items()))
            if not is_json(str(media)):
                raise _Unfit(f"it takes `{written['name']}` as `{media}`")
            schema: Any = _get(inner, "schema")
        else:
            schema = written.get("schema")
            if style not in STYLES[where]:
                raise _Unfit(f"it takes `{written['name']}` in the style `{style}`")
        explode = written.get("explode", style in ("form", "deepObject"))
        told = "\n".join(part for part in (written.get("description"), "deprecated" if written.get("deprecated") is True else "")
                         if isinstance(part, str) and part)
        schema = {**(schema if isinstance(schema, Mapping) else {}), **({"description": _cut(told)} if told else {})}
        return Parameter(written["name"], where, argument, str(style), explode is True, bool(content)), schema

    def _body(self, written: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        body = self._followed(written.get("requestBody"))
        content = _get(body, "content")
        if not isinstance(body, Mapping) or not isinstance(content, Mapping) or not content:
            return "", {}
        media = next((each for takes in (is_json, is_form, is_text) for each in content if takes(str(each))), None)
        if media is None:
            if body.get("required") is True:
                raise _Unfit(f"it takes its body as {' or '.join(f'`{each}`' for each in content)}")
            return "", {}
        schema = _get(content[media], "schema")
        schema = dict(schema) if isinstance(schema, Mapping) else {}
        if is_text(str(media)):
            schema = {"type": "string"}
        if isinstance(body.get("description"), str):
            schema = {**schema, "description": _cut(body["description"])}
        return str(media), {"schema": schema, "required": body.get("required") is True}

    def _answers(self, written: Mapping[str, Any]) -> dict[str, Mapping[str, Any] | None]:
        found: dict[str, Mapping[str, Any] | None] = {}
        responses = written.get("responses")
        for status, answer in responses.items() if isinstance(responses, Mapping) else ():
            content = _get(self._followed(answer), "content")
            found[str(status).upper() if status != "default" else "default"] = {
                str(media).partition(";")[0].strip().lower(): _get(inner, "schema") for media, inner in content.items()
            } if isinstance(content, Mapping) and content else None
        return found

    # -- reading

    def _mapping(self, written: Any) -> Mapping[str, Any]:
        """What is written, or what a reference there stands for."""
        found = self._followed(written)
        if not isinstance(found, Mapping):
            raise _Unfit("the description has no mapping where one belongs")
        return found

    def _followed(self, written: Any) -> Any:
        for _ in range(_REFERENCES):
            if not isinstance(written, Mapping) or "$ref" not in written:
                return written
            reference = written["$ref"]
            written = pointed(self.document, reference)
            if written is None:
                raise _Unfit(f"the reference `{reference}` leads nowhere inside of the description, and nothing is fetched")
        raise _Unfit("its references lead in a circle")


def _get(written: Any, key: str) -> Any:
    return written.get(key) if isinstance(written, Mapping) else None


def _first(listed: Any) -> Any:
    return listed[0] if isinstance(listed, list) and listed else None


def is_json(media: str) -> bool:
    """Whether a media type is JSON: `application/json`, `application/problem+json`, `*/*`."""
    plain = media.partition(";")[0].strip().lower()
    return plain in ("application/json", "text/json", "*/*", "application/*") or plain.endswith("+json")


def is_form(media: str) -> bool:
    """Whether a media type is that of an HTML form."""
    return media.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded"


def is_text(media: str) -> bool:
    """Whether a media type is text that is no JSON."""
    return media.strip().lower().startswith("text/") and not is_json(media)


def _argument(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_") or "value"


def _described(written: Mapping[str, Any], method: str, path: str) -> str:
    said = [written.get("summary"), written.get("description"), f"{method.upper()} {path}"]
    if written.get("deprecated") is True:
        said.insert(0, "Deprecated.")
    return _cut("\n\n".join(dict.fromkeys(part.strip() for part in said if isinstance(part, str) and part.strip())))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… [cut: {len(text) - _LONGEST:,} more characters]"
