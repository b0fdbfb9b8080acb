"""Which model answers for whom: names of the SOP, of the user's file and of the command line made into models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metaflow_agents.errors import ModelMissing, UsageError, raised
from metaflow_agents.models import ways
from metaflow_agents.models.dry import DryModel
from metaflow_agents.models.port import Model, ModelRequest, ModelSetting, identity, traits
from metaflow_agents.models.pricing import Flat
from metaflow_agents.models.python import PythonModel
from metaflow_agents.modules import load_function, sources_of
from metaflow_agents.plugins import Plugin
from metaflow_agents.schema.endpoint import PYTHON, EndpointModel, Price, faults, url_fault
from metaflow_agents.schema.model import fingerprint
from metaflow_agents.schema.role import model_for_role
from metaflow_agents.settings import Settings

Spec = str | EndpointModel
Given = Spec | Callable[[ModelRequest], Any] | Model
OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """All that says which models there are.

    `given` are those of the command line: for a name, for a role (`model_for_role`), or for everybody who is not named there
    (`*`); `written` the SOP's `models`;
    SOP_MODEL in `settings` is the default where neither names one, and last `configured()` gives the user's own, which is
    asked only when a name stands nowhere else. `base_url` is what OPENAI_BASE_URL was before a resume, for where it is not
    set now. Functions and recordings are looked for in `folders`, recorded runs in `home`. In a sub-SOP `given_folders` and
    `given_written` are those of the SOP that the command line speaks of: what it names is looked for there.
    `demo`: the SOP has a recording.
    """

    given: Mapping[str, Given] = field(default_factory=dict)
    written: Mapping[str, Spec] = field(default_factory=dict)
    configured: Callable[[], Mapping[str, Spec]] = dict
    settings: Settings = field(default_factory=Settings)
    base_url: str | None = None
    folders: Sequence[Path] = ()
    given_folders: Sequence[Path] | None = None
    given_written: Mapping[str, Spec] = field(default_factory=dict)
    home: Path | None = None
    demo: bool = False

    def places(self, name: str) -> Sequence[Path]:
        """Where the model of a name is looked for: what the command line says, from the SOP that it is said to."""
        return self.folders if name not in self.given or self.given_folders is None else self.given_folders


class Models:
    """The models of a run. `everybody` (from `--model M`) answers for every name that has no model of its own."""

    def __init__(self, named: Mapping[str, Model], everybody: Model | None = None) -> None:
        self._named, self._everybody = dict(named), everybody

    @property
    def dry(self) -> bool:
        """Whether the whole run is a dry one: commands, functions and checks are not executed."""
        return self._everybody is not None and all(model.name == "dry" for model in (self._everybody, *self._named.values()))

    @property
    def at_terminal(self) -> bool:
        """Whether one of them asks the person at this terminal, who can't look at a board then."""
        return any(getattr(model, "at_terminal", False) for model in (self._everybody, *self._named.values()))

    @property
    def has_endpoints(self) -> bool:
        """Whether any of them is asked over the wire."""
        everyone = (*self._named.values(), *([] if self._everybody is None else [self._everybody]))
        return any(traits(model).endpoint is not None for model in everyone)

    @property
    def identities(self) -> str:
        """Equal where the same models answer to the same names."""
        everyone = {**self._named, **({} if self._everybody is None else {"*": self._everybody})}
        return fingerprint({name: identity(model) for name, model in sorted(everyone.items())})

    @property
    def code(self) -> dict[str, str]:
        """The files of all of them that are Python, each with its digest."""
        everyone = (*self._named.values(), *([] if self._everybody is None else [self._everybody]))
        return {file: digest for model in everyone for file, digest in traits(model).code.items()}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Those that own something (connections to an endpoint) keep it for as long as this is entered."""
        async with AsyncExitStack() as stack:
            everyone = [*self._named.values(), *([] if self._everybody is None else [self._everybody])]
            for model in {id(model): model for model in everyone}.values():
                if isinstance(model, AbstractAsyncContextManager):
                    await stack.enter_async_context(model)
            yield

    def of(self, name: str | None, role: str = "") -> Model:
        """The model for a name that a step or a role gives; None: the one that was given for this role, or the default.

        Raises ModelMissing.
        """
        names = [name, model_for_role(role)] if name else [model_for_role(role), "default"]
        found = next((self._named[one] for one in names if one in self._named), self._everybody)
        if found is None:
            raise ModelMissing(f"no model is configured{f' under the name `{name}`' if name else ''}")
        return found


@dataclass(frozen=True, slots=True)
class Resolved:
    """The models, and what the journal says of them: name → model in words, and what a resume needs to have them again."""

    models: Models
    told: Mapping[str, str]
    chosen: Mapping[str, Spec]
    base_url: str | None = None
    plugins: tuple[Plugin, ...] = ()            # those that made some of them


def resolve(asked: Iterable[tuple[str, str | None]], sources: Sources, embedders: Iterable[str] = ()) -> Resolved:
    """The models for who asks: a role, and the name that its step or itself gives (None: what was given for the role, or else
    the default). A name that stands nowhere is a model itself.

    `embedders` are names of models that embed: where everybody is answered for by an endpoint or a person, they stay what they
    are. Raises ModelMissing where there is none, UsageError for one that can't be had. Nothing is asked, and nothing made.
    """
    making = _Making(sources)
    used = [model_for_role(role) if name is None and model_for_role(role) in sources.given else name or "default"
            for role, name in asked]
    if "*" in sources.given:
        wanted: dict[str, Given] = {name: making.given(given) for name, given in sources.given.items()}
        chosen = {name: making.kept(given) for name, given in sources.given.items()}
        if _answers_in_words(wanted["*"]):
            own, theirs = _wanted([name for name in embedders if name not in wanted], sources, making)
            wanted, chosen = {**wanted, **own}, {**chosen, **theirs}
    else:
        wanted, chosen = _wanted([*used, *embedders], sources, making)
    for name in embedders:
        if _is_manual(wanted.get(name)):
            raise UsageError(f"`{name}` embeds texts, which a person can't: name a model with an endpoint, `--model "
                             f"{name}=openai:NAME`")
    made = {name: making.made(given, sources.places(name)) for name, given in wanted.items()}
    everybody = made.get("*")
    models = Models({name: model for name, model in made.items() if name != "*"}, everybody)
    told = {name: making.told(wanted[name], model) for name, model in made.items()}
    return Resolved(models, told, {name: _recorded(given, told[name]) for name, given in chosen.items()}, making.asked_base_url,
                    tuple(making.plugins))


def _wanted(used: Iterable[str], sources: Sources, making: _Making) -> tuple[dict[str, Given], dict[str, Given]]:
    """Name → what it is; and of these, what the SOP does not say itself."""
    wanted: dict[str, Given] = {}
    chosen: dict[str, Given] = {}
    for name in dict.fromkeys(used):
        if name in sources.given:
            wanted[name], chosen[name] = making.given(sources.given[name]), making.kept(sources.given[name])
        elif name in sources.written:
            wanted[name] = making.found(sources.written[name], sources.written)
        elif name == "default" and sources.settings.sop_model:
            default = sources.settings.sop_model
            wanted[name], chosen[name] = making.found(default, sources.written), making.kept(default)
        elif name == "default" or not ways.is_form(name):
            wanted[name] = chosen[name] = making.configured(name)
        else:
            wanted[name] = name
    return wanted, chosen


def _answers_in_words(given: Given) -> bool:
    """Whether it is a model behind an endpoint, or a person: neither embeds what others ask for."""
    if isinstance(given, EndpointModel):
        return given.python is None
    return (isinstance(given, str) and given.startswith("openai:")) or _is_manual(given)


def _is_manual(given: Given | None) -> bool:
    return isinstance(given, str) and given.partition(":")[0] == "manual"


def _recorded(given: Given, told: str) -> Spec:
    return given if isinstance(given, str | EndpointModel) else told


class _Making:
    """Makes each model once, also where several names mean the same."""

    def __init__(self, sources: Sources) -> None:
        self._sources, self._settings = sources, sources.settings
        self._made: dict[str, Model] = {}
        self.plugins: list[Plugin] = []
        self.asked_base_url: str | None = None          # that of OPENAI_BASE_URL, where a model depends on it

    def given(self, given: Given) -> Given:
        """What the command line means, which speaks of the SOP that it names."""
        return self.found(given, {**self._sources.written, **self._sources.given_written})

    def found(self, given: Given, names: Mapping[str, Spec]) -> Given:
        """What a model's text means: one of these names, one of the user's file, or the model itself."""
        if not isinstance(given, str) or ways.is_form(given):
            return given
        if given in names:
            return names[given]
        configured = self._sources.configured()
        if given in configured:
            return configured[given]
        raise UsageError(f"`{given}` is no model: {ways.mend(given, [*names, *configured])}")

    def kept(self, given: Given) -> Given:
        """What a resume is told: a name of the SOP as the name, so that the SOP's own word is taken again."""
        names = self._sources.given_written or self._sources.written
        return given if isinstance(given, str) and given in names else self.given(given)

    def configured(self, name: str) -> Given:
        """The user's own model of a name that nobody else knows. Raises ModelMissing, UsageError."""
        known = self._sources.configured()
        if name in known:
            return known[name]
        if name == "default":
            raise ModelMissing(ways.none_configured(self._settings, demo=self._sources.demo))
        raise UsageError(f"`{name}` is no model: {ways.mend(name, [*self._sources.written, *known])}")

    def made(self, given: Given, folders: Sequence[Path]) -> Model:
        """The model; functions and recordings lie in `folders`. Raises UsageError, ModelMissing."""
        if not isinstance(given, str | EndpointModel):
            return _own(given)
        key = f"{given} in {folders}"
        if key not in self._made:
            self._made[key] = self._of_text(given, folders) if isinstance(given, str) else \
                self._endpoint(given) if given.python is None else self._function(given.python, folders, given.price)
        return self._made[key]

    def told(self, given: Given, model: Model) -> str:
        """A model in words: `openai:qwen3 at http://localhost:8000/v1`."""
        if isinstance(given, str) and given.startswith("openai:"):
            given = EndpointModel(name=given.removeprefix("openai:"))
        if not isinstance(given, EndpointModel) or given.python is not None:
            return model.name
        url = given.endpoint or self._base_url
        return f"openai:{given.name}" + (f" at {url}" if url and url.rstrip("/") != OPENAI else "")

    def _of_text(self, text: str, folders: Sequence[Path]) -> Model:
        form, _, rest = text.partition(":")
        plugin = ways.plugin_of(text)
        if plugin is not None:
            return self._of_package(plugin, rest, folders)
        match form:
            case "dry":
                return DryModel()
            case "python" if "<" in rest:
                raise UsageError(f"the model was `{text}`, a function inside of a program, which only that program can give "
                                 "again: `resume(…, model=function)`")
            case "python":
                return self._function(rest, folders)
            case "openai":
                return self._endpoint(EndpointModel(name=rest))
            case "manual":
                from metaflow_agents.models.manual import manual_model

                return manual_model(rest)
        return self._replay(rest, folders)

    def _of_package(self, plugin: Plugin, name: str, folders: Sequence[Path]) -> Model:
        """A model that an installed package makes. Raises UsageError, which names the package, and ModelMissing."""
        self.plugins.append(plugin)
        text, make = f"{plugin.name}:{name}", plugin.load()
        try:
            made = make(name, ModelSetting(self._settings.variable, tuple(folders)))
        except (UsageError, ModelMissing):
            raise
        except Exception as error:          # somebody else's code
            raise UsageError(f"the model `{text}` of {plugin.maker} can't be made: {raised(error)}") from error
        if isinstance(made, Model):
            return made
        if not callable(made):
            raise UsageError(f"the model `{text}` of {plugin.maker} is {type(made).__name__}, and neither a model nor a "
                             f"function; fix or uninstall {plugin.distribution}")
        return PythonModel(text, made)

    @staticmethod
    def _function(target: str, folders: Sequence[Path], price: Price | None = None) -> Model:
        return PythonModel(f"{PYTHON}{target}", load_function(target, folders), lambda: sources_of(target, folders).files,
                           None if price is None else Flat.of(price))

    def _replay(self, rest: str, folders: Sequence[Path]) -> Model:
        from metaflow_agents.models.replay import replay_model

        recording, comma, other = rest.partition(",")
        return replay_model(recording, self.made(self.given(other), folders) if comma else None, folders, self._sources.home)

    @property
    def _base_url(self) -> str | None:
        """OPENAI_BASE_URL, now or when the run began. Raises UsageError where it is none."""
        url = self._settings.openai_base_url or self._sources.base_url
        if url is not None and (fault := url_fault(url)) is not None:
            raise UsageError(f"OPENAI_BASE_URL: {fault[0]}: {fault[1]}")
        return url

    def _endpoint(self, spec: EndpointModel) -> Model:
        for fault in faults(spec):
            raise UsageError(f"the model `{spec.name}`: {'.'.join(fault.at)}: {fault.message}: {fault.mend}")
        if spec.endpoint is None:
            self.asked_base_url = self._base_url
        key = self._key(spec)

        from metaflow_agents.models.endpoint import endpoint_model

        return endpoint_model(spec, key, spec.endpoint or self._base_url)

    def _key(self, spec: EndpointModel) -> str | None:
        """The key of an endpoint. OPENAI_API_KEY goes to OpenAI and to OPENAI_BASE_URL alone, never where a SOP alone points."""
        if spec.key is not None:
            found = self._settings.variable(spec.key)
            if found is None:
                raise ModelMissing(f"the model `{spec.name}` takes its key from the environment variable {spec.key}, "
                                   f"which is not set: `export {spec.key}=…`")
            return found
        trusted = {url.rstrip("/") for url in (OPENAI, self._base_url) if url}
        if spec.endpoint is not None and spec.endpoint.rstrip("/") not in trusted:
            return None
        if self._settings.openai_api_key is None and (spec.endpoint or self._base_url or OPENAI).rstrip("/") == OPENAI:
            raise ModelMissing(f"the model `{spec.name}` is asked at {OPENAI}, and OPENAI_API_KEY is not set: `export "
                               "OPENAI_API_KEY=…`; for another endpoint set OPENAI_BASE_URL=http://…/v1, or write its `endpoint` "
                               "under `models`")
        return self._settings.openai_api_key


def _own(given: Callable[[ModelRequest], Any] | Model) -> Model:
    """A model, or a function, that a program gives."""
    if isinstance(given, Model):
        return given
    if not callable(given):
        raise UsageError(f"{given!r} is no model: give its name, or a function that gets the request")
    name = f"python:{getattr(given, '__module__', '?')}:{getattr(given, '__qualname__', type(given).__name__)}"
    return PythonModel(name, given)


