"""`call:` steps and `check: {call: …}`: a Python function, its parameters filled by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args, get_origin

from pydantic import ConfigDict, ValidationError, validate_call
from pydantic.errors import PydanticUserError
from pydantic_core import to_jsonable_python

from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AttemptFailed, raised
from metaflow_agents.models.python import THREADS
from metaflow_agents.prompts import MISSING, CollectionView, FilesView, render_args
from metaflow_agents.schema.binary import BinaryFile, Content, data_of, loaded, unloaded
from metaflow_agents.schema.model import canonical
from metaflow_agents.schema.payload import Data, held
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.trust import joined
from metaflow_agents.steps.effects import Effects
from metaflow_agents.steps.repeats import arguments_told
from metaflow_agents.steps.side_effects import Observations
from metaflow_agents.steps.validation import Acceptance
from metaflow_agents.threads.blocking import Threads, called

_BYTES = "annotate the parameter `bytes`, `dict[str, bytes]` or `dict[str, str | bytes]`"


class Functions:
    """Calls the functions that a SOP names."""

    def __init__(self, sop: SOP, acceptance: Acceptance, observations: Observations, effects: Effects,
                 load: Callable[[str], Callable[..., Any]]) -> None:
        self._sop, self._acceptance, self._observations, self._load = sop, acceptance, observations, load
        self._effects = effects
        self._threads = Threads(THREADS, "python-function")

    async def work(self, activation: Activation) -> Work:
        """What the function of a `call:` step gave. Raises AttemptFailed where it raised, AnswerInvalid."""
        step = self._sop.steps[activation.key.step]
        spec = step.call or ""
        args = {} if step.args is None else render_args(step.args, activation.scope)
        key, scope = f"{activation.key}/call", {**activation.scope, **args}
        label = ""
        if step.effect == "once":
            value, label = await self._effects.once(key, f"call({spec})", arguments_told(self._given(spec, scope)[1]),
                                                    lambda: self._result(spec, scope), self._acceptance.gives(activation))
        else:
            value = await self._observations.once(key, lambda: self._result(spec, scope))
        work = self._acceptance.accept(activation, value)
        return replace(work, untrusted=joined(activation.untrusted, self.hears(spec, activation), label))

    def hears(self, spec: str, activation: Activation) -> str:
        """The label of what a function is given besides what its step reads: one that asks for `run` sees all inputs."""
        if not activation.inputs:
            return ""
        try:
            parameters = inspect.signature(_function(self._load(spec))).parameters.values()
        except ValueError:                      # of a built-in function nobody knows what it asks for
            return activation.inputs
        sees_run = any(parameter.name == "run" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        return activation.inputs if sees_run else ""

    async def check(self, spec: str, activation: Activation, made: Any, key: str) -> str | None:
        """What a `check` function says against what was made; None where it is content."""
        artifact = self._sop.steps[activation.key.step].makes.artifact
        scope = {**activation.scope, artifact: made}
        told = await self._observations.once(key, lambda: self._result(spec, scope))
        if told in (None, "", []) or told is True:
            return None
        if told is False:
            return f"{spec} says that it is not right"
        return "\n".join(map(str, told)) if isinstance(told, list) else str(told)

    def _given(self, spec: str, scope: Mapping[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
        """A function and its arguments. Raises AttemptFailed where its signature can't be read."""
        function = _function(self._load(spec))
        try:
            return function, _arguments(function, scope)
        except (NameError, AttributeError, TypeError, ValueError) as error:
            raise _unreadable(spec, error) from error

    async def _result(self, spec: str, scope: Mapping[str, Any]) -> Any:
        function, arguments = self._given(spec, scope)
        try:
            checked = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)
        except (NameError, AttributeError, TypeError, ValueError, PydanticUserError) as error:
            raise _unreadable(spec, error) from error
        try:
            given = await called(spec, self._threads, checked, **arguments)
        except AttemptFailed:
            raise
        except Exception as error:            # the user's function: whatever it raises is told as a failed attempt
            if isinstance(error, ValidationError) and not _inside(function, error):
                raise AttemptFailed(f"{spec} does not take what it is given: {_told(error, scope)}") from error
            raise AttemptFailed(f"{spec} raised {raised(error)}") from error
        return as_json(spec, given)


def _unreadable(spec: str, error: Exception) -> AttemptFailed:
    return AttemptFailed(f"the signature of {spec} can't be read: {error}".partition("\n")[0])


def plain(value: Any) -> Any:
    """One value of a scope as plain Python data."""
    if value is MISSING:
        return None
    if isinstance(value, FilesView | CollectionView):
        return dict(value)
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return value


def _function(found: Callable[..., Any]) -> Callable[..., Any]:
    """What can be looked at like a function: of an object that is called, its `__call__`."""
    plain_one = inspect.isroutine(found) or isinstance(found, type | partial)
    return found if plain_one else found.__call__  # type: ignore[operator]


def _arguments(function: Callable[..., Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    """The scope as plain data, as far as the function has parameters for it; files as bytes where it asks for bytes, or where
    they are no text.
    """
    parameters = inspect.signature(function, eval_str=True).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    found = {}
    for name, value in scope.items():
        if name != "history" and (takes_any or name in parameters):
            wanted = parameters[name].annotation if name in parameters else None
            found[name] = _argument(value, wanted)
    return found


def _argument(value: Any, wanted: Any) -> Any:
    if isinstance(value, FilesView) and _bytes_wanted(wanted):
        return value.as_bytes()
    return data_of(value) if isinstance(value, Content) and wanted is bytes else loaded(plain(value))


def _bytes_wanted(annotation: Any) -> bool:
    """Whether a parameter is declared as path → bytes: `Mapping[str, bytes]`, `dict[str, bytes]`."""
    return get_origin(annotation) in (dict, Mapping) and get_args(annotation) == (str, bytes)


def _inside(function: Callable[..., Any], error: BaseException) -> bool:
    """Whether the function itself was under way when it was raised, and not the check of its arguments."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is code:
            return True
        trace = trace.tb_next
    return False


def _told(error: ValidationError, scope: Mapping[str, Any]) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"`{'.'.join(map(str, one['loc']))}`: "
                     f"{_no_text(one['loc'], scope) if one['type'] == 'string_unicode' else one['msg']}" for one in faults)


def _no_text(where: tuple[int | str, ...], scope: Mapping[str, Any]) -> str:
    """What is said of a file that is no text, by its name where it is known."""
    value: Any = scope.get(str(where[0])) if where else None
    for part in where[1:]:
        value = value[part] if isinstance(value, Mapping) and part in value else None
    named = f" ({value.name or 'no name'}, {value.media_type})" if isinstance(value, BinaryFile) else ""
    return f"it is a file that is no text{named}; {_BYTES}"


def as_json(spec: str, given: Any) -> Any:
    """What a function gave: JSON, what a file holds, or path → what files hold. Raises AttemptFailed for all else."""
    try:
        value = unloaded(given)
        if isinstance(held(value)[0], Data):
            value = to_jsonable_python(value)
            canonical(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise AttemptFailed(f"{spec} gave what is not JSON: {' '.join(str(error).split())}") from error
    return value
