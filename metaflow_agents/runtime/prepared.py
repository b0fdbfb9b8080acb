"""A SOP made ready once by `prepare`: read, checked, with its models and its sandbox; then run any number of times.

    prepared = prepare("letters.yaml", model=my_function)
    async with prepared:                        # connections to endpoints stay open between its runs
        results = await asyncio.gather(*(run(prepared, letter=text) for text in letters))

Whatever is the same for all runs of a SOP is kept here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.journal.places import WORKSPACE, free_name
from metaflow_agents.models.registry import Given, Models, Resolved
from metaflow_agents.modules import load_function
from metaflow_agents.policy.package_patterns import PackagePattern
from metaflow_agents.policy.patterns import RuleWritten
from metaflow_agents.policy.screens import ScreenRule
from metaflow_agents.runtime.caps import caps, refuse_unpriced
from metaflow_agents.runtime.compiled import Shared
from metaflow_agents.runtime.inputs import initial_versions
from metaflow_agents.runtime.needs import Needs
from metaflow_agents.runtime.plugins_used import used
from metaflow_agents.runtime.wiring import Options
from metaflow_agents.sandbox.port import Sandbox
from metaflow_agents.schema.endpoint import EndpointLimits
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.program import Program
from metaflow_agents.settings import Settings
from metaflow_agents.sop.configuration import load_configuration
from metaflow_agents.sop.functions import located
from metaflow_agents.sop.load import LoadedSOP
from metaflow_agents.threads.collector import seldom_collected
from metaflow_agents.threads.watchdog import watched
from metaflow_agents.tools.secrets import Secrets


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
    folders: Mapping[str, Sequence[Path]]   # fingerprint of a SOP, also of one that is a step → the folders of its Python
    needs: Mapping[str, Needs]              # fingerprint → what it needs
    secrets: Mapping[str, Secrets]          # fingerprint → its secrets
    screens: Mapping[str, Sequence[ScreenRule]]     # fingerprint → what its policy screens by
    resolved: Mapping[str, Resolved]        # fingerprint → its models
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
        return {name: one.models for name, one in self.resolved.items() if name != self.program.fingerprint}

    @cached_property
    def told(self) -> dict[str, Any]:
        """What a journal says of who answers and where: the fields that `RunOpened` and `Resumed` share.

        Of a sub-SOP only what was given is kept: what it takes from the user's configuration is nothing for the SOP around it,
        which may write that name itself.
        """
        found = list(self.resolved.values())[::-1]
        chosen = {name: spec for one in found for name, spec in one.chosen.items() if name in self.chosen}
        return {"models": _told(self.program, self.resolved), "chosen": {**chosen, **found[-1].chosen},
                "base_url": next((one.base_url for one in found if one.base_url is not None), None),
                "sandbox": self.sandbox.name, "image": self.sandbox.image}

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What a journal says of the SOP: the fields that `RunOpened` and `Resumed` share."""
        loaded = self._read
        return {"sop": self.program.fingerprint, "compiled": digest(self.program.stored()), "entry": loaded.entry,
                "location": str((loaded.folder / Path(loaded.entry).name).resolve()),
                "sources": {shown: digest(text.encode()) for shown, text in loaded.sources.items()}}

    @cached_property
    def sources(self) -> dict[str, bytes]:
        """The compiled SOP and the texts of its files, by digest."""
        texts = [self.program.stored(), *(text.encode() for text in self._read.sources.values())]
        return {digest(data): data for data in texts}

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
        return initial_versions(self.program, blobs, self.load), blobs

    def load(self, name: str) -> Callable[..., Any]:
        """A function or a class that the SOP names. Raises UsageError."""
        return load_function(name, self.folders[self.program.fingerprint])

    @cached_property
    def _limits(self) -> EndpointLimits:
        """What the run's endpoints allow: each limit as the SOP says it, or else the user's configuration."""
        own = self.program.sop.limits or EndpointLimits()
        if not self.models.has_endpoints:
            return own
        configured = load_configuration(self.choices.settings.configuration).limits or EndpointLimits()
        return configured.model_copy(update=own.model_dump(exclude_none=True))

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
        if until is not None and until not in self.program.sop.steps:
            step = re.split(r"[@\[/]", until, maxsplit=1)[0]
            if step in self.program.sop.steps:
                raise UsageError(f"`--until {until}`: a run rests after a whole step of its own, and not after a round, an item "
                                 f"or a step of a sub-SOP; write `--until {step}`")
            raise UsageError(f"`--until {until}`: there is no such step; {did_you_mean(until, self.program.sop.steps)}")
        over = caps(budget, self.program)
        refuse_unpriced(self.program, self.needs, self.resolved, {**(before or {}), **over})
        return over

    def allowed(self, names: Sequence[str]) -> tuple[str, ...]:
        """What `--allow` names. Raises UsageError where it is no package, or nothing of the SOP installs any."""
        for name in names:
            try:
                if PackagePattern.read(name).literal is None:
                    raise UsageError(f"`--allow {name}` holds a wildcard: name each package, or write the rule into the "
                                     "SOP's `policy`")
            except RuleWritten as fault:
                raise UsageError(f"`--allow {name}`: {fault.message}; write `--allow flask`, or `--allow 'flask[async]'`"
                                 ) from None
        if names and not any(step.tool == "packages" for one in self.needs.values() for step in one.sop.steps.values()):
            raise UsageError(f"`--allow {names[0]}` lets a run install a package, and {self.program.sop.sop} installs none: it "
                             "has no step with `tool: packages`")
        return tuple(dict.fromkeys(names))

    def options(self, **more: Any) -> Options:
        """How a run of it is carried out; `more` are the fields of `Options` that are that run's own."""
        return Options(models=self.models, sandbox=self.sandbox, folders=self.folders, secrets=self.secrets, screens=self.screens,
                       limits=self._limits, home=self.place, settings=self.choices.settings, inner=self.inner,
                       shared=self.shared, **more)


def _told(program: Program, resolved: Mapping[str, Resolved]) -> dict[str, str]:
    """Name → model in words; of a sub-SOP `STEP/NAME`, where a name means another model there."""
    told = dict(resolved[program.fingerprint].told)
    inner = {f"{name}/{key}": model for name, step in program.sop.steps.items() if step.sop is not None
             for key, model in _told(program.sops[step.sop], resolved).items()}
    return {**told, **{place: model for place, model in inner.items() if told.get(place.rpartition("/")[2]) != model}}
