"""`call:` steps and `check: {call: …}`: a Python function, its parameters filled by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, validate_call
from pydantic_core import to_jsonable_python

from metaflow_agents.doers.acceptance import Acceptance
from metaflow_agents.doers.observed import Observations
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AttemptFailed, MetaflowError, raised
from metaflow_agents.models.python import THREADS, is_async
from metaflow_agents.prompts import MISSING, CollectionView, FilesView, render_args
from metaflow_agents.schema.sop import SOP
from metaflow_agents.threads import Threads


class Functions:
    """Calls the functions that a SOP names."""

    def __init__(self, sop: SOP, acceptance: Acceptance, observations: Observations,
                 load: Callable[[str], Callable[..., Any]]) -> None:
        self._sop, self._acceptance, self._observations, self._load = sop, acceptance, observations, load
        self._threads = Threads(THREADS, "python-function")

    async def work(self, activation: Activation) -> Work:
        """What the function of a `call:` step gave. Raises AttemptFailed where it raised, AnswerInvalid."""
        step = self._sop.steps[activation.key.step]
        spec = step.call or ""
        args = {} if step.args is None else render_args(step.args, activation.scope)
        value = await self._observations.once(
            f"{activation.key}/call", lambda: self._result(spec, {**plain_scope(activation.scope), **args}))
        return self._acceptance.accept(activation, value)

    async def check(self, spec: str, activation: Activation, made: Any, key: str) -> str | None:
        """What a `check` function says against what was made; None where it is content."""
        artifact = self._sop.steps[activation.key.step].makes.artifact
        scope = {**plain_scope(activation.scope), artifact: made}
        told = await self._observations.once(key, lambda: self._result(spec, scope))
        if told in (None, "", [], True):
            return None
        return "\n".join(map(str, told)) if isinstance(told, list) else str(told)

    async def _result(self, spec: str, scope: Mapping[str, Any]) -> Any:
        function = self._load(spec)
        arguments = _arguments(function, scope)
        checked = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)
        try:
            given = await (checked(**arguments) if is_async(function)
                           else self._threads.run(lambda: checked(**arguments)))
        except ValidationError as error:
            raise AttemptFailed(f"{spec} was called with what it does not take: {error}") from error
        except MetaflowError:
            raise
        except Exception as error:            # the user's function: whatever it raises is told as a failed attempt
            raise AttemptFailed(f"{spec} raised {raised(error)}") from error
        return to_jsonable_python(given.model_dump(mode="json") if isinstance(given, BaseModel) else given)


def plain_scope(scope: Mapping[str, Any]) -> dict[str, Any]:
    """A scope as plain Python data: files and collections are dictionaries, what is missing is None."""
    return {name: plain(value) for name, value in scope.items() if name != "history"}


def plain(value: Any) -> Any:
    """One value of a scope as plain Python data."""
    if value is MISSING:
        return None
    if isinstance(value, FilesView | CollectionView):
        return dict(value)
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return value


def _arguments(function: Callable[..., Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(scope)
    return {parameter.name: scope[parameter.name] for parameter in parameters if parameter.name in scope}
