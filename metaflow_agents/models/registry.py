"""Which model answers for whom: names of the SOP and of the command line made into models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from metaflow_agents.errors import ModelMissing, UsageError
from metaflow_agents.models.dry import DryModel
from metaflow_agents.models.port import Model, ModelRequest
from metaflow_agents.models.python import PythonModel, load_function
from metaflow_agents.schema.sop import EndpointModel

Given = str | EndpointModel | Callable[[ModelRequest], Any] | Model
WAYS = ("ways to get one: `--model dry` walks the SOP free of charge; `--model python:FILE.py:function` asks a "
        "function of yours; SOP_MODEL or `models: {default: …}` in the SOP name one for good")
_NOT_BUILT = ("openai:", "replay:", "manual")


class Models:
    """The models of a run. `everybody` (from `--model M`) answers for every name that has no model of its own."""

    def __init__(self, named: Mapping[str, Model], everybody: Model | None = None) -> None:
        self._named, self._everybody = dict(named), everybody

    @property
    def dry(self) -> bool:
        """Whether the whole run is a dry one: commands, functions and checks are not executed."""
        return self._everybody is not None and all(model.name == "dry" for model in (self._everybody, *self._named.values()))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Those that own something (connections to an endpoint) keep it for as long as this is entered."""
        async with AsyncExitStack() as stack:
            everyone = [*self._named.values(), *([] if self._everybody is None else [self._everybody])]
            for model in {id(model): model for model in everyone}.values():
                if isinstance(model, AbstractAsyncContextManager):
                    await stack.enter_async_context(model)
            yield

    def of(self, name: str | None) -> Model:
        """The model for a name that a step or a role gives (None: the default). Raises ModelMissing."""
        found = self._named.get(name or "default") or self._everybody
        if found is None:
            raise ModelMissing(f"no model is configured{f' under the name {name}' if name else ''}; {WAYS}")
        return found


def resolve(used: Iterable[str | None], written: Mapping[str, str | EndpointModel], given: Mapping[str, Given],
            folders: Sequence[Path], fallback: str | None = None) -> tuple[Models, dict[str, str]]:
    """The models for the names that are used, and what the journal says of them (name → model).

    `written` are the SOP's `models`, `given` those of the command line (`*` answers for everybody who is not named there),
    `fallback` is SOP_MODEL. A name that stands nowhere is a model itself. Raises ModelMissing, or UsageError for one that
    can't be had.
    """
    if "*" in given:
        made = {name: _made(model, folders) for name, model in given.items()}
        return Models({name: model for name, model in made.items() if name != "*"}, made["*"]), \
            {name: model.name for name, model in made.items()}
    known: dict[str, Given] = {**({"default": fallback} if fallback else {}), **written, **given}
    named: dict[str, Model] = {}
    for name in dict.fromkeys(name or "default" for name in used):
        if name in known:
            named[name] = _made(known[name], folders)
        elif name != "default":
            named[name] = _made(name, folders)
    models = Models(named)
    for wanted in used:
        models.of(wanted)
    return models, {name: model.name for name, model in named.items()}


def _made(given: Given, folders: Sequence[Path]) -> Model:
    if isinstance(given, EndpointModel):
        raise ModelMissing(f"`{given.name}`: endpoints are not built in this version; {WAYS}")
    if not isinstance(given, str):
        if isinstance(given, Model):
            return given
        if not callable(given):
            raise UsageError(f"{given!r} is no model: give its name, or a function that gets the request")
        name = f"python:{getattr(given, '__module__', '?')}:{getattr(given, '__qualname__', type(given).__name__)}"
        return PythonModel(name, given)
    if given == "dry":
        return DryModel()
    if given.startswith("python:") and "<" in given:
        raise UsageError(f"the model was `{given}`, a function inside of a program, which only that program can give again: "
                         "`resume(…, model=function)`")
    if given.startswith("python:"):
        return PythonModel(given, load_function(given.removeprefix("python:"), folders))
    if given.startswith(_NOT_BUILT):
        raise ModelMissing(f"`{given}`: this kind of model is not built in this version; {WAYS}")
    raise UsageError(f"`{given}` is no model: write `dry`, `python:module:function` or `python:FILE.py:function`")
