"""Python functions that a SOP declares, as tools: the signature is the schema, the docstring the description.

Such a function is its author's own: it runs in this process, outside of the sandbox, and what it gives is trusted as the SOP is.
One that brings text from outside belongs behind an MCP server or an OpenAPI service, whose results are not trusted.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from docstring_parser import ParseError, parse
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from metaflow_agents.errors import AnswerInvalid, AttemptFailed, UsageError, did_you_mean, raised
from metaflow_agents.policy.action import Action
from metaflow_agents.schema.external_schema import widened
from metaflow_agents.schema.model import canonical
from metaflow_agents.schema.tools import Effect, ToolSpec
from metaflow_agents.threads.blocking import Threads, called
from metaflow_agents.tools.files import not_writable
from metaflow_agents.tools.port import Setting, Situation, ToolResult
from metaflow_agents.tools.run_files import RunFiles

Load = Callable[[str], Callable[..., Any]]
"""`package.module:function` → the function. Raises UsageError."""

THREADS = 16
LONGEST = 1_000_000                 # characters of a result
_Parameters = Mapping[str, inspect.Parameter]


class FunctionTool:
    """A tool that calls a Python function; one that is not async runs in a thread.

    The parameters that the SOP fills with secrets are no part of the schema, nor is one of the type `RunFiles`, which is filled
    with the files of the activation. What the function raises is an error result, told with its place. A text is the result as
    it is, all else as JSON.
    """

    def __init__(self, name: str, spec: ToolSpec, setting: Setting, load: Load) -> None:
        """Imports the function: a run makes its tools when it starts, a check never.

        Raises UsageError, naming the tool: nothing to import, a signature that is no schema, a secret without a parameter.
        """
        self._name, self._spec, self._setting = name, spec, setting
        self._function = load(spec.python or "")
        self._threads = Threads(THREADS, f"tool-{name}")
        parameters = self._signature()
        self._secret = {parameter: parameters[parameter] for parameter in spec.secrets}
        self._files = next((one for one in parameters.values() if one.annotation is RunFiles), None)
        self._fields = [_Field(f"p{number}", parameter) for number, parameter in enumerate(parameters.values())
                        if parameter.name not in spec.secrets and parameter is not self._files]
        self._arguments = self._model()
        told = _told(inspect.getdoc(self._function) or "")
        self._description = spec.description or told.text or f"The function `{spec.python}`."
        self._schema = _described(self._written(), told.parameters)

    @property
    def name(self) -> str:
        """As the SOP calls it."""
        return self._name

    @property
    def description(self) -> str:
        """The SOP's words, else the docstring without its list of parameters."""
        return self._description

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments, closed: no other names are taken."""
        return self._schema

    @property
    def on_files(self) -> bool:
        """Whether it acts on the files of its activation: such calls go one after the other."""
        return self._files is not None

    def effect(self, arguments: Mapping[str, Any]) -> Effect:
        """As the SOP says; `once` where it says nothing."""
        return self._spec.effect or "once"

    def action(self, arguments: Mapping[str, Any]) -> Action:
        """`call(NAME)`."""
        return Action("call", self._name)

    async def call(self, arguments: Mapping[str, Any], situation: Situation) -> ToolResult:
        """What the function gives. Raises UsageError where a secret is not set."""
        secrets = {name: self._setting.secret(secret) for name, secret in self._spec.secrets.items()}
        try:
            given = self._arguments.model_validate_json(json.dumps(dict(arguments)))
        except (ValidationError, ValueError) as error:
            return self._failed(f"`{self._name}` does not take these arguments: {_faults(error)}")
        except Exception as error:          # a validator of somebody else's type: whatever it raises is told
            return self._failed(f"`{self._name}` does not take these arguments: {raised(error)}")
        files = RunFiles({} if self._files is None else situation.files)
        listed, named = self._bound(given, secrets, files)
        try:
            value = await called(f"the tool `{self._name}`", self._threads, self._function, *listed, **named)
        except AttemptFailed as error:
            return self._failed(str(error))
        except Exception as error:          # somebody else's code: whatever it raises is told to the role
            return self._failed(raised(error))
        try:
            text = self._setting.masked(_text(value))
        except (ValueError, TypeError, RecursionError) as error:
            why = self._setting.masked(" ".join(str(error).split()))
            return self._failed(f"`{self._name}` gave what is not JSON: {why[:500]}")
        refused = await _refused(files, situation)
        if refused:
            return self._failed(f"`{self._name}` did nothing: {refused}")
        return ToolResult(_cut(text), lacks=f"it is longer than {LONGEST:,} characters" if len(text) > LONGEST else "",
                          written=files.written, deleted=files.deleted)

    def _failed(self, said: str) -> ToolResult:
        return ToolResult(self._setting.masked(_encodable(said)), error=True)

    def _signature(self) -> _Parameters:
        try:
            found = inspect.signature(self._function, eval_str=True).parameters
        except Exception as error:          # names in annotations are looked up, and may lead anywhere
            raise self._unfit(f"its signature can't be read: {' '.join(str(error).split())}") from error
        for parameter in found.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise self._unfit(f"its parameter `{parameter}` has no name that a role could fill: name each one, with its type")
        for name in self._spec.secrets:
            if name not in found:
                raise self._unfit(f"it has no parameter `{name}` for a secret: {did_you_mean(name, found)}")
        return found

    def _model(self) -> type[BaseModel]:
        try:
            fields: dict[str, Any] = {field.name: field.declared() for field in self._fields}
            return create_model(self._name, __config__=ConfigDict(extra="forbid"), **fields)
        except (PydanticUserError, TypeError, ValueError, NameError) as error:
            raise self._unfit(f"its parameters can't be a schema: {str(error).strip().partition(chr(10))[0]}") from error

    def _written(self) -> dict[str, Any]:
        try:
            return widened(self._arguments.model_json_schema())
        except (PydanticUserError, TypeError, ValueError, RecursionError) as error:
            raise self._unfit(f"its parameters can't be a schema: {str(error).strip().partition(chr(10))[0]}") from error

    def _unfit(self, why: str) -> UsageError:
        return UsageError(f"the tool `{self._name}`: `{self._spec.python}` can't be used: {why}")

    def _bound(self, given: BaseModel, secrets: Mapping[str, str], files: RunFiles) -> tuple[list[Any], dict[str, Any]]:
        """The arguments in their places. What a role did not give is left to the function's own default."""
        values = {field.parameter.name: getattr(given, field.name) for field in self._fields
                  if field.name in given.model_fields_set or field.always}
        for name, value in secrets.items():
            values[name] = SecretStr(value) if self._secret[name].annotation is SecretStr else value
        filled = list(self._secret.values())
        if self._files is not None:
            values[self._files.name] = files
            filled.append(self._files)
        listed = []
        parameters = (*(field.parameter for field in self._fields), *filled)
        first = [each for each in parameters if each.kind is each.POSITIONAL_ONLY]
        order = list(inspect.signature(self._function).parameters)
        for parameter in sorted(first, key=lambda each: order.index(each.name)):
            listed.append(values.pop(parameter.name, parameter.default))
        return listed, values


async def _refused(files: RunFiles, situation: Situation) -> str:
    """Why what a function did to the files can't stand; empty where it can."""
    for path in (*files.written, *files.deleted):
        why = not_writable(path, situation)
        if why:
            return why
        try:
            await situation.granted(Action("write", path))
        except AnswerInvalid as error:
            return "; ".join(error.faults)
    return ""


@dataclass(frozen=True)
class _Field:
    """A parameter under a name that no model of pydantic's objects to; its own name is the alias."""

    name: str
    parameter: inspect.Parameter

    @property
    def always(self) -> bool:
        """Whether its default is pydantic's `Field(…)`, which the function itself can't be left alone with."""
        return isinstance(self.parameter.default, FieldInfo)

    def declared(self) -> tuple[Any, Any]:
        """Annotation and field, as `create_model` takes them."""
        parameter = self.parameter
        annotation: Any = Any if parameter.annotation is parameter.empty else parameter.annotation
        if self.always:
            return Annotated[annotation, parameter.default], Field(alias=parameter.name)
        if parameter.default is parameter.empty:
            return annotation, Field(alias=parameter.name)
        if _is_json(parameter.default):
            return annotation, Field(parameter.default, alias=parameter.name)
        return annotation, Field(default_factory=lambda: parameter.default, alias=parameter.name)      # not shown in the schema


@dataclass(frozen=True)
class _Told:
    """What a docstring says."""

    text: str
    parameters: Mapping[str, str]


def _told(docstring: str) -> _Told:
    try:
        found = parse(docstring)
    except (ParseError, ValueError, IndexError):        # no docstring of a known style
        return _Told(docstring.strip(), {})
    parameters = {each.arg_name: " ".join((each.description or "").split()) for each in found.params}
    gives = f"Gives: {' '.join(found.returns.description.split())}" if found.returns and found.returns.description else ""
    text = "\n\n".join(part.strip() for part in (found.description or "", gives) if part.strip())
    return _Told(text, {name: said for name, said in parameters.items() if said})


def _described(schema: dict[str, Any], told: Mapping[str, str]) -> dict[str, Any]:
    """The schema with the docstring's words where the signature has none of its own."""
    properties = {name: part if "description" in part or name not in told else {**part, "description": told[name]}
                  for name, part in schema["properties"].items()}
    return {**schema, "properties": properties}


def _faults(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return " ".join(str(error).split())
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"`{'.'.join(map(str, fault['loc']))}`: {fault['msg']}" for fault in faults)


def _text(value: Any) -> str:
    """What a role is told. Raises ValueError or TypeError for what is not JSON."""
    if isinstance(value, str):
        return _encodable(value)
    plain = to_jsonable_python(value)
    canonical(plain)                        # refuses NaN and the like
    return _encodable(json.dumps(plain, ensure_ascii=False))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[cut: {len(text) - LONGEST:,} more characters]"


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _is_json(value: Any) -> bool:
    try:
        canonical(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
