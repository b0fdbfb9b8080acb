"""A SOP made ready once: read, checked, with its models and its sandbox; then run any number of times.

    prepared = prepare("letters.yaml", model=my_function)
    async with prepared:                        # connections to endpoints stay open between its runs
        results = await asyncio.gather(*(run(prepared, letter=text) for text in letters))

Whatever is the same for all runs of a SOP is decided here, and what `start`, `go_on`, `sop test`, previews and the MCP server do
before a run has its inputs, they do by this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from metaflow_agents.errors import UsageError
from metaflow_agents.journal.places import WORKSPACE, free_name
from metaflow_agents.models.limits import Limiters
from metaflow_agents.models.registry import Given, Models, Resolved
from metaflow_agents.modules import load_function
from metaflow_agents.runtime.caps import caps, refuse_unpriced
from metaflow_agents.runtime.compiled import Shared
from metaflow_agents.runtime.inputs import initial_versions
from metaflow_agents.runtime.plugins_used import used
from metaflow_agents.runtime.prepare import (
    answering,
    checked,
    folders_of,
    given_models,
    identity,
    inner_models,
    limits,
    refuse_unknown_step,
    resolved_models,
    sandbox_for,
    sources,
    sources_of,
    typed,
)
from metaflow_agents.runtime.toolsets import refuse_unset_secrets
from metaflow_agents.runtime.wiring import Options
from metaflow_agents.sandbox.port import Sandbox
from metaflow_agents.schema.endpoint import EndpointLimits
from metaflow_agents.schema.program import Program
from metaflow_agents.settings import Settings
from metaflow_agents.sop.functions import located
from metaflow_agents.sop.library import python_folders
from metaflow_agents.sop.load import LoadedSOP
from metaflow_agents.threads.collector import seldom_collected
from metaflow_agents.threads.watchdog import watched


@dataclass(frozen=True, slots=True)
class Choices:
    """Who does the work of all runs, and where. `late`: a secret or a sandbox that is not there stops a run where it is used."""

    model: Given | None = None
    models: Mapping[str, Given] = field(default_factory=dict)
    sandbox: str | None = None
    home: Path | None = WORKSPACE
    settings: Settings = field(default_factory=Settings)
    late: bool = False


@dataclass(frozen=True, slots=True)
class Before:
    """What a journal says of who answered: name → model, and OPENAI_BASE_URL as it was."""

    chosen: Mapping[str, Given] = field(default_factory=dict)
    base_url: str | None = None


@dataclass(frozen=True)
class Prepared:
    """A SOP that is ready to run, made by `prepare`; `run`, `run_sync` and `start` take it in place of a file.

    It is what the SOP's files, the configuration and the environment were when it was made: it notices nothing of later edits of
    them. Its runs are independent of each other and may go on side by side; they share its models, what was compiled of its
    templates and schemas, and, while it is entered with `async with`, the connections to its endpoints.
    """

    program: Program
    loaded: LoadedSOP | None                # None: of a run whose SOP's file is gone
    place: Path                             # the folder that the SOP's file lies in
    choices: Choices
    chosen: Mapping[str, Given]             # models that were given, by name
    folders: Sequence[Path]
    inner_folders: Mapping[str, Sequence[Path]]
    resolved: Mapping[str, Resolved]        # fingerprint of a SOP → its models
    sandbox: Sandbox
    shared: Shared = field(default_factory=Shared, repr=False, compare=False)
    _numbers: list[int] = field(default_factory=lambda: [1], repr=False, compare=False)      # the first that may be free
    _held: list[AsyncExitStack] = field(default_factory=list, repr=False, compare=False)

    async def __aenter__(self) -> Self:
        """Until it is left, what models own (connections) stays open, and what else each run would open and close again."""
        async with AsyncExitStack() as stack:
            stack.enter_context(seldom_collected())
            stack.enter_context(watched())
            for models in (self.models, *self.inner.values()):
                await stack.enter_async_context(models.open())
            self._held.append(stack.pop_all())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._held.pop().aclose()

    @property
    def models(self) -> Models:
        """Those of the SOP itself."""
        return self.resolved[self.program.fingerprint].models

    @cached_property
    def inner(self) -> dict[str, Models]:
        """Those of each SOP that is a step, by its fingerprint."""
        return inner_models(self.program, self.resolved)

    @cached_property
    def told(self) -> dict[str, Any]:
        """What a journal says of who answers."""
        return {**answering(self.program, self.resolved, self.chosen), "sandbox": self.sandbox.name, "image": self.sandbox.image}

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What a journal says of the SOP."""
        return identity(self._read)

    @cached_property
    def sources(self) -> dict[str, bytes]:
        """The compiled SOP and its files, by digest."""
        return sources_of(self._read)

    @cached_property
    def functions(self) -> dict[str, str]:
        """Where the Python lies that the SOP names."""
        return located(self._read)

    @cached_property
    def plugins(self) -> dict[str, str]:
        """What a journal says of installed packages: `GROUP/NAME` → `DISTRIBUTION VERSION`."""
        return used(self.program, self.resolved)

    @cached_property
    def initial(self) -> tuple[dict[str, str], dict[str, bytes]]:
        """Version 1 of what has an `initial`: artifact → digest, and digest → payload. Raises UsageError."""
        blobs: dict[str, bytes] = {}
        return initial_versions(self.program, blobs, partial(load_function, folders=self.folders)), blobs

    @cached_property
    def _limits(self) -> EndpointLimits:
        return limits(self.program.sop, self.choices.settings, self.models)

    def free_name(self) -> str:
        """A name that no run of the workspace has: the SOP's, with a number past those that this gave before."""
        name = free_name(self.choices.home, self.program.sop.sop, self._numbers[0])
        if self.choices.home is not None:
            self._numbers[0] = int(name.rpartition("-")[2]) + 1
        return name

    @property
    def _read(self) -> LoadedSOP:
        if self.loaded is None:
            raise UsageError(f"the file of {self.program.sop.sop} is gone: only the runs that it has go on")
        return self.loaded

    def capped(self, budget: Mapping[str, float | str] | None, until: str | None,
               before: Mapping[str, float] | None = None) -> dict[str, float]:
        """The caps that a budget sets. `before`: those of earlier sittings. Raises UsageError for what caps nothing, an `until`
        that is no step, and money where a model has no price.
        """
        refuse_unknown_step(self.program.sop, until)
        over = caps(budget, self.program)
        refuse_unpriced(self.program, lambda one: self.resolved[one.fingerprint].models, {**(before or {}), **over})
        return over

    def options(self, **more: Any) -> Options:
        """How a run of it is carried out; `more` are the fields of `Options` that are that run's own."""
        return Options(models=self.models, sandbox=self.sandbox, folders=self.folders, inner_folders=self.inner_folders,
                       limiters=Limiters(self._limits), home=self.place, settings=self.choices.settings, inner=self.inner,
                       shared=self.shared, **more)


def prepare(sop: str | Path, *, model: Given | None = None, models: Mapping[str, Given] | None = None,
            sandbox: str | None = None, workspace: Path | str | None = WORKSPACE, settings: Settings | None = None) -> Prepared:
    """Reads and checks a SOP, finds its models and its sandbox, and refuses what can't run, once for any number of runs.

    The options are those of `start` of the same names. What is prepared notices nothing of later edits of the SOP's files.
    Raises SOPInvalid, SOPNotFound, UsageError, ModelMissing; nothing is made.
    """
    settings = settings or Settings.read()
    home = None if workspace is None else Path(workspace)
    return ready(checked(sop, settings), Choices(model, models or {}, sandbox, home, settings))


def ready(loaded: LoadedSOP, choices: Choices) -> Prepared:
    """The same for a SOP that was read and checked. Raises UsageError, ModelMissing."""
    return joined(loaded.program, loaded.folder, folders_of(loaded), choices, loaded=loaded)


def joined(program: Program, place: Path, inner_folders: Mapping[str, Sequence[Path]], choices: Choices, *,
           loaded: LoadedSOP | None = None, before: Before | None = None) -> Prepared:
    """A compiled SOP with its models and its sandbox. `place` is the folder of its file, `before` what an earlier sitting had.

    Raises UsageError, ModelMissing.
    """
    folders, settings, before = python_folders(place), choices.settings, before or Before()
    given = typed(given_models(program, choices.model, choices.models), folders)
    chosen = {**(before.chosen if choices.model is None else {}), **given}
    resolved = resolved_models(program, lambda one: sources(
        one.sop, chosen, settings, inner_folders.get(one.fingerprint, folders), choices.home, before.base_url, given=folders,
        named=program.sop.models))
    dry = resolved[program.fingerprint].models.dry
    confining = sandbox_for(program, choices.sandbox, settings, dry=dry, late=choices.late)
    for one in program.all():
        refuse_unset_secrets(one.sop, settings, dry=dry or choices.late)
    return Prepared(program, loaded, place, choices, chosen, folders, inner_folders, resolved, confining)
