"""pydantic's errors about the written form as problems: exact place, what is wrong, the choices, the mend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from metaflow_agents.errors import Problem, did_you_mean, nearest
from metaflow_agents.schema.artifact import Artifact, Graph, Rule
from metaflow_agents.schema.caps import Budget
from metaflow_agents.schema.case import AtMost, Case, Prompted
from metaflow_agents.schema.endpoint import EndpointLimits, EndpointModel, Price
from metaflow_agents.schema.role import Memory, Recall, Reflect, Role
from metaflow_agents.schema.sop import NOT_BUILT, SOP, Configuration, Defaults, Input, Progress
from metaflow_agents.schema.step import Check, Foreach, Review, Step, StuckSpec, ToolChoice
from metaflow_agents.schema.tools import ApiSpec, PolicySpec, ServerSpec, ToolSpec
from metaflow_agents.sop.migration_hints import FOREIGN
from metaflow_agents.sop.places import Path, Places

MODELS: dict[str, type[BaseModel]] = {
    "sop": SOP, "role": Role, "memory": Memory, "recall": Recall, "reflect": Reflect,
    "budget": Budget,
    "step": Step, "foreach": Foreach, "check": Check, "review": Review,
    "stuck": StuckSpec, "progress": Progress,
    "artifact": Artifact, "rule": Rule, "input": Input, "case": Case, "prompted": Prompted, "at_most": AtMost,
    "defaults": Defaults, "model": EndpointModel,
    "policy": PolicySpec, "tool": ToolSpec, "server": ServerSpec, "api": ApiSpec,
    "price": Price, "limits": EndpointLimits, "configuration": Configuration,
    "graph": Graph, "choice": ToolChoice,
}
_CALLED = {"sop": "a SOP", "case": "a test", "prompted": "`prompts`", "at_most": "`at_most`",
           "rule": "a rule", "memory": "`memory`", "recall": "`recall`", "reflect": "`reflect`",
           "budget": "`budget`", "foreach": "`foreach`",
           "check": "`check`", "review": "`review`", "stuck": "`stuck`", "progress": "`progress`",
           "defaults": "`defaults`", "artifact": "an artifact", "input": "an input",
           "price": "`price`",
           "limits": "`limits`", "policy": "`policy`", "server": "an MCP server", "api": "a service",
           "configuration": "your configuration", "graph": "`graph`", "choice": "`tools`"}
_NESTED = {"memory", "budget", "foreach", "check", "review", "stuck", "limits", "policy", "progress"}
_TOP = {"roles": "role", "steps": "step", "artifacts": "artifact", "inputs": "input", "tests": "case", "models": "model",
        "tools": "tool", "mcpServers": "server", "openapi": "api"}
_INNER = {("artifacts", "graph"): "graph", ("steps", "tools"): "choice", ("models", "price"): "price",
          ("tests", "at_most"): "at_most"}
_WANTED = {
    "string_type": "a text", "int_type": "a whole number", "int_from_float": "a whole number", "int_parsing": "a whole number",
    "float_type": "a number", "bool_type": "true or false", "dict_type": "a mapping", "mapping_type": "a mapping",
    "model_type": "a mapping", "model_attributes_type": "a mapping", "tuple_type": "a list", "list_type": "a list",
}
_CUSTOM = {
    "makes": ("bad-makes", "write `makes: NAME`, or `makes: {NAME: PATTERN}`"),
    "on_fail": ("bad-on-fail", "write `on_fail: skip`, or leave it out to stop"),
    "human": ("bad-human", "write `human: text`, `human: approve`, or `human: {choice: [yes, no]}`"),
    "strategy": ("strategy-parameter", "see the parameters of the strategy in the language reference"),
    "stuck": ("bad-stuck", "write `then: [hint, reflect, ask, stop]`, or some of them"),
    "show": ("bad-show", "write `show: {NAME: names}`, or `show: {NAME: [FIELD, …]}`"),
    "language": ("bad-language", "write `language: 1`, or leave it out"),
}
_BRANCHES = {"str", "constrained-str", "int", "float", "bool"}
_TEXTS = {"needs", "wants", "sees", "files", "constraints", "contains", "not_contains"}


def keys_of(kind: str) -> list[str]:
    """The keys that a part of the language knows, as they are written."""
    return [field.alias or name for name, field in MODELS[kind].model_fields.items()]


def kind_of(path: Path, top: str = "sop") -> str | None:
    """Which part of the language stands at a path: `step`, `role`, …; None where keys are free names. `top`: the file's own."""
    if not path:
        return top
    last = path[-1]
    if path[0] == "defaults":
        return kind_of((path[1], "", *path[2:])) if len(path) > 1 and path[1] in ("steps", "roles") else "defaults"
    if len(path) == 2:
        return _TOP.get(str(path[0]))
    if last in _NESTED and (len(path) == 1 or (len(path) == 3 and path[0] in ("steps", "roles"))):
        return str(last)
    if len(path) == 3 and (path[0], last) in _INNER:
        return _INNER[str(path[0]), str(last)]
    if last in ("recall", "reflect") and len(path) > 1 and path[-2] == "memory":
        return str(last)
    if len(path) == 4 and path[0] == "artifacts" and path[2] == "rules":
        return "rule"
    if len(path) == 4 and path[0] == "tests" and path[2] == "prompts":
        return "prompted"
    return None


def unknown_key(kind: str, path: Path, places: Places) -> Problem:
    """The problem of a key that the language does not know at this place, or does not build yet."""
    key = str(path[-1])
    spot = places.at(path, key=True)
    called = _CALLED.get(kind, f"a {kind}")
    if reason := NOT_BUILT.get(kind, {}).get(key):
        return Problem("not-built", f"`{key}` of {called} is not built in this version: {reason}", "remove it", *spot)
    if places.bare(path):
        return Problem("yaml-cut", f"YAML cut a value at the comma before `{key}`",
                       "put the whole value in quotes: inside `{…}` a comma ends it", *spot)
    keys = keys_of(kind)
    close = nearest(key, keys)
    foreign = FOREIGN.get(kind, {}).get(key)
    if foreign is not None:
        origin, mend = foreign
        return Problem("foreign-key", f"`{key}` is a key of {origin}; {called} has no such key", mend, *spot)
    owners = [other for other in ("step", "role", "artifact", "sop", "foreach", "check", "review") if key in keys_of(other)]
    mend = did_you_mean(key, keys, limit=30)
    if close is None and owners:
        mend = f"`{key}` is a key of {' and of '.join(_CALLED.get(one, f'a {one}') for one in owners)}; {mend}"
    elif kind == "artifact":
        mend = f"{mend}; the fields of its value stand under `schema`"
    return Problem("unknown-key", f"{called} has no key `{key}`", mend, *spot)


@dataclass(frozen=True, slots=True)
class _Error:
    """One of pydantic's errors with the path that is really written; `union` where branches of a union were tried."""

    kind: str
    path: Path
    extra: str | None
    union: bool
    value: Any
    context: dict[str, Any]
    message: str


def problems_of(errors: list[Any], data: Any, places: Places, prefix: Path = (), top: str = "sop") -> Iterator[Problem]:
    """Problems for the errors that pydantic found in `data`, which stands at `prefix` of the file that `top` names."""
    found = [_located(error, data) for error in errors]
    deeper = {one.path[:length] for one in found if one.union for length in range(len(one.path))}
    wanted: dict[Path, list[str]] = {}
    for one in found:
        if one.union and one.kind in _WANTED:
            wanted.setdefault(one.path, []).append(_WANTED[one.kind])
    told: set[Path] = set()
    for one in found:
        if one.union and (one.path in deeper or one.path in told):
            continue
        if one.union:
            told.add(one.path)
        yield _problem(one, prefix, places, wanted.get(one.path, []), top)


def _located(error: Any, data: Any) -> _Error:
    path: list[str | int] = []
    extra, union, here = None, False, data
    loc = error["loc"]
    for index, part in enumerate(loc):
        last = index == len(loc) - 1
        if isinstance(here, dict) and part in here:
            here = here[part]
            path.append(part)
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
            path.append(part)
        elif last and error["type"] == "missing":
            extra = str(part)
        elif part == "[key]":
            extra = "[key]"
        else:
            union = union or (isinstance(part, str) and ("[" in part or part in _BRANCHES))
    return _Error(error["type"], tuple(path), extra, union, error["input"], error.get("ctx", {}), error["msg"])


def _problem(error: _Error, prefix: Path, places: Places, wanted: list[str], top: str) -> Problem:
    path = prefix + error.path
    name = str(next((part for part in reversed(path) if isinstance(part, str)), "sop"))
    if error.kind == "extra_forbidden":
        return unknown_key(kind_of(path[:-1], top) or top, path, places)
    if error.kind == "missing":
        return _missing(error, path, places)
    if error.extra == "[key]" or (error.kind == "string_pattern_mismatch" and "A-Za-z_" in str(error.context.get("pattern"))):
        return Problem("bad-name", f"`{_short(error.value)}` is no name",
                       "a name has letters, digits and `_`, and does not begin with a digit",
                       *places.at(path, key=error.extra == "[key]"))
    if error.kind == "quantity":
        what, _, mend = error.message.partition(": ")
        return Problem("bad-quantity", f"`{name}`: {what}", mend, *places.at(path))
    if error.kind in _CUSTOM:
        code, mend = _CUSTOM[error.kind]
        return Problem(code, error.message, mend, *places.at(path))
    return _bounds(error, path, name, wanted, places)


def _bounds(error: _Error, path: Path, name: str, wanted: list[str], places: Places) -> Problem:
    if error.kind in ("greater_than_equal", "less_than_equal", "greater_than", "less_than"):
        bound = error.context.get("ge", error.context.get("le", error.context.get("gt", error.context.get("lt"))))
        side = "at least" if error.kind.startswith("greater") else "at most"
        return Problem("out-of-range", f"`{name}` is {_short(error.value)}; it must be {side} {bound}",
                       f"write a number of {side} {bound}", *places.at(path))
    if error.kind in ("string_too_short", "too_short"):
        return Problem("empty-value", f"`{name}` is empty", "write a value, or remove the key", *places.at(path))
    if error.kind == "too_long":
        return Problem("too-many", f"`{name}` holds {error.context.get('actual_length', 'several')} entries; "
                       f"at most {error.context.get('max_length')}", "keep one", *places.at(path))
    if error.kind == "literal_error":
        choices = re.findall(r"'([^']*)'", str(error.context.get("expected")))
        return Problem("wrong-type", f"`{name}` can't be {described(error.value)}", did_you_mean(str(error.value), choices),
                       *places.at(path))
    return _wrong_type(error, path, name, wanted, places)


def _missing(error: _Error, path: Path, places: Places) -> Problem:
    kind = kind_of(path) or "sop"
    what = {"name": "`name: NAME`, as the endpoint calls the model", "out": "`out: DOLLARS`", "makes": "`makes: ARTIFACT`",
            "sop": "`sop: NAME`", "steps": "`steps:` with at least one step",
            "in": f"`in: {'DOLLARS' if kind == 'price' else 'EXPRESSION'}`", "assert": "`assert: EXPRESSION`",
            "spec": "`spec: FILE`, its OpenAPI description", "key": "`key: FIELD`, which names a node",
            "edges": "`edges: FIELD`, which lists the keys of those that come first", "only": "`only: EXPRESSION`"}
    mend = what.get(str(error.extra), f"`{error.extra}: …`")
    owner = f"the step `{path[1]}`" if kind == "step" and len(path) == 2 else _CALLED.get(kind, f"a {kind}")
    return Problem("missing-key", f"{owner} needs the key `{error.extra}`", f"add {mend}", *places.at(path, key=True))


def _wrong_type(error: _Error, path: Path, name: str, wanted: list[str], places: Places) -> Problem:
    expected = " or ".join(dict.fromkeys(wanted)) or _WANTED.get(error.kind)
    expected = "a text or a list of texts" if expected == "a list" and name in _TEXTS else expected
    if expected is None:
        return Problem("wrong-type", f"`{name}`: {error.message}", "write it as the language reference says", *places.at(path))
    return Problem("wrong-type", f"`{name}` has to be {expected}, and is {described(error.value)}",
                   _type_mend(path, name, expected, error.value), *places.at(path))


_WORKED_OUT = re.compile(r"[A-Za-z_{]|\d\s*[*/+-]\s*\d")


def _type_mend(path: Path, name: str, expected: str, value: Any) -> str:
    if name == "foreach" and isinstance(value, str):
        return f"write `foreach: {{in: {_short(value)}}}`"
    if len(path) == 2 and path[0] == "models":
        return "write a text such as `openai:NAME`, or a mapping: `{endpoint: …, name: …}`"
    if name == "models" and isinstance(value, list):
        return ("`models` names language models, as in `models: {default: dry}`; steps stand under `steps`, "
                "what they make under `artifacts`")
    if name in ("needs", "wants", "sees") and isinstance(value, dict):
        return f"write a list of artifacts: `{name}: [a, b]`"
    if value is None and expected == "a mapping" and len(path) == 2:
        return f"write `{name}: {{}}`"
    if isinstance(value, list) and expected == "a mapping":
        return "write `name: …` lines instead of `- ` items"
    if "a text" in expected and isinstance(value, bool | int | float):
        return f'put it in quotes: "{_plain(value)}"'
    if expected == "a list":
        return f"write `{name}: [{value}]`" if isinstance(value, str) else f"write `{name}: [a, b]`"
    if expected in ("a whole number", "a number") and isinstance(value, str):
        return _number_fix(name, expected, value)
    if isinstance(value, dict) and "a text" in expected and any(not isinstance(one, str | int) for one in value.values()):
        return "put a text that begins with `{` in quotes"
    return f"write {expected}"


def _number_fix(name: str, expected: str, text: str) -> str:
    if text.strip().lstrip("-").isdigit():
        return f"remove the quotes: {text}"
    if name == "rounds":
        return ("write the most firings that there may ever be, as a number: it bounds the loop before a run; "
                f"`when` ends it earlier, as in `when: round <= {_short(text)}`")
    return f"write {expected}" + (": no expression is worked out here, since it is known before a run" if _WORKED_OUT.search(text)
                                  else "")


def described(value: Any) -> str:
    """A value in a few words, for messages."""
    if value is None:
        return "empty"
    if isinstance(value, bool | int | float):
        return f"`{_plain(value)}`"
    if isinstance(value, str):
        return f"the text `{_short(value)}`"
    return "a list" if isinstance(value, list | tuple) else "a mapping"


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _short(value: Any) -> str:
    text = _plain(value)
    return text if len(text) <= 60 else text[:59] + "…"
