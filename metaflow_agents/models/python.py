"""`python:module:function` and `python:FILE.py:function`: a Python function that answers in a model's place."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from metaflow_agents.errors import AttemptFailed, UsageError, did_you_mean
from metaflow_agents.models.calls import arguments_of, numbered
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall, estimated
from metaflow_agents.models.vectors import embedded
from metaflow_agents.schema.model import canonical
from metaflow_agents.threads import Threads, called

THREADS = 64
_IMPORTING = threading.RLock()      # `sys.path` and `sys.modules` belong to the whole process


class PythonModel:
    """A function as a model.

    It is given the `ModelRequest` and returns text, a value of the schema (dict, list, number or boolean, or a
    pydantic model), tool calls, or a `Reply`. Tool calls are a `ToolCall`, a list of them and of texts, or, where the request
    has tools, `{"calls": [{"name": …, "arguments": {…}}], "text": …}`; an id that is left empty is made. Where the request
    `embeds` it returns a list of numbers for each of its `texts`. A function that is not async runs in a thread, 64 at once; when
    its call is cancelled the await ends after the thread has. Tokens are estimated as bytes / 4 unless a `Reply` tells them.
    """

    def __init__(self, name: str, function: Callable[[ModelRequest], Any]) -> None:
        self._name, self._function = name, function
        self._threads = Threads(THREADS, "python-model")

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    async def ask(self, request: ModelRequest) -> Reply:
        """The function's answer. What the function raises goes on; AttemptFailed for an answer of another type."""
        reply = self._reply(await called(f"the model {self._name}", self._threads, self._function, request), request)
        return reply if reply.tokens else estimated(request, reply)

    def _reply(self, answer: Any, request: ModelRequest) -> Reply:
        if request.embeds and not isinstance(answer, Reply):
            try:
                return Reply(value=embedded(answer))
            except ValueError as error:
                told = f"the model `{self._name}` was asked to embed {len(request.messages)} texts: {error}"
                raise AttemptFailed(f"{told}; return a list of numbers for each of `request.texts` where `request.embeds`, or "
                                    "give the embedder its own model: `--model NAME=…`") from error
        if isinstance(answer, Reply):
            if answer.text is None and answer.value is None:
                raise AttemptFailed(f"the model `{self._name}` returned a Reply with neither text nor value")
            return replace(answer, calls=numbered(answer.calls, request.messages)) if answer.calls else answer
        calling = _calling(answer, request)
        if calling is not None:
            return self._calls(*calling, request)
        if isinstance(answer, str):
            return Reply(text=answer)
        if isinstance(answer, BaseModel):
            return Reply(value=answer.model_dump(mode="json"))
        if isinstance(answer, dict | list | tuple | int | float):
            try:
                canonical(answer)
            except (TypeError, ValueError) as error:
                raise AttemptFailed(f"the model `{self._name}` returned what is not JSON: {error}") from error
            return Reply(value=answer)
        raise AttemptFailed(f"the model `{self._name}` returned {type(answer).__name__}: return text, a JSON value, "
                       "a pydantic model, tool calls, or a Reply")

    def _calls(self, text: str, calls: Sequence[Any], request: ModelRequest) -> Reply:
        """The reply that calls tools. Raises AttemptFailed for what is no call."""
        found: list[ToolCall] = []
        for call in calls:
            if isinstance(call, Mapping) and isinstance(call.get("name"), str) and set(call) <= {"id", "name", "arguments"}:
                call = ToolCall(call.get("id", ""), call["name"], call.get("arguments", {}))
            if not isinstance(call, ToolCall) or not isinstance(call.id, str) or not isinstance(call.arguments, Mapping | str):
                raise AttemptFailed(f"the model `{self._name}` returned a call that is none: {call!r:.200}; write ToolCall(id, "
                                    'name, arguments), or {"name": …, "arguments": {…}}')
            found.append(replace(call, arguments=arguments_of(call.arguments) if call.arguments != "" else ""))
        return Reply(text=text, calls=numbered(found, request.messages))


def _calling(answer: Any, request: ModelRequest) -> tuple[str, Sequence[Any]] | None:
    """The text and the calls of an answer that calls tools; None for one that does not.

    A mapping does so only where tools were offered, and where the schema asks for no `calls` itself.
    """
    if isinstance(answer, ToolCall):
        return "", [answer]
    if isinstance(answer, list | tuple) and any(isinstance(part, ToolCall) for part in answer):
        texts = [part for part in answer if isinstance(part, str)]
        return "\n\n".join(texts), [part for part in answer if not isinstance(part, str)]
    asked = (request.schema or {}).get("properties", {})
    if isinstance(answer, dict) and request.tools and "calls" not in asked and isinstance(answer.get("calls"), list) \
            and set(answer) <= {"calls", "text"} and answer["calls"]:
        return str(answer.get("text") or ""), answer["calls"]
    return None


def load_function(spec: str, folders: Sequence[Path]) -> Callable[..., Any]:
    """The function that `module:function` or `FILE.py:function` names.

    A module is looked for in `folders` first (the SOP's), which are on the import path for the import only; a file
    is looked for in them and loaded under a name of its own, once while its text stays the same. Raises UsageError,
    in one line: no such module or file, an error at import with its place, no such function, not callable.
    """
    where, _, name = spec.rpartition(":")
    if not where or not name or not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"`{spec}` names no function: write `package.module:function` or `FILE.py:function`")
    with _IMPORTING, _on_path(folders):
        module = _from_file(where, folders) if where.endswith(".py") else _from_module(where, folders)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = [each for each in vars(found) if not each.startswith("_") and callable(getattr(found, each))]
            raise UsageError(f"`{where}` has no `{name}`: {did_you_mean(part, public)}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"`{spec}` is {type(found).__name__}, not a function")
    function: Callable[..., Any] = found
    return function


@contextmanager
def _on_path(folders: Sequence[Path]) -> Iterator[None]:
    added = [str(folder.resolve()) for folder in folders]
    sys.path[:0] = added
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for folder in added:
            sys.path.remove(folder)


def _from_module(name: str, folders: Sequence[Path]) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"`{name}` is not a module's name: write `package.module:function` or `FILE.py:function`")
    _forget_namesake(name.partition(".")[0], folders)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            looked = ", ".join(f"`{folder}`" for folder in folders)
            raise UsageError(f"there is no module `{name}`: looked in {looked + ' and ' if looked else ''}"
                             "what is installed") from error
        raise _import_failed(name, error) from error
    except Exception as error:
        raise _import_failed(name, error) from error


def _forget_namesake(top: str, folders: Sequence[Path]) -> None:
    """Let go of a module of the same name that came from another SOP's folder."""
    spec = PathFinder.find_spec(top, [str(folder.resolve()) for folder in folders])
    known = sys.modules.get(top)
    if spec is None or known is None or spec.origin is None or getattr(known, "__file__", None) in (None, spec.origin):
        return
    for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
        del sys.modules[name]


def _from_file(written: str, folders: Sequence[Path]) -> ModuleType:
    places = [folder / written for folder in folders] or [Path(written)]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise UsageError(f"there is no file `{written}`: looked for {', '.join(f'`{place}`' for place in places)}")
    path = path.resolve()
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"can't read `{path}`: {error.strerror}") from error
    name = "_sop_file_" + hashlib.sha256(str(path).encode() + b"\0" + text).hexdigest()[:32]
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"`{path}` can't be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module              # before it runs: what it defines looks its module up here
    try:
        with _on_path([path.parent]):
            spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _import_failed(written, error) from error
    return module


def _import_failed(what: str, error: BaseException) -> UsageError:
    """One line with the innermost place outside of the import machinery."""
    place = ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}: "
    else:
        trace = error.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if not file.startswith("<frozen") and file not in (__file__, importlib.__file__):
                place = f"{file}:{trace.tb_lineno}: "
            trace = trace.tb_next
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    reason = " ".join(f"{type(error).__name__}: {said}".split())
    return UsageError(f"can't import `{what}`: {place}{reason}")
