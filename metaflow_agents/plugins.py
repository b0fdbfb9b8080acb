"""The plugin door: what installed packages add to this one, found by their entry points.

A package adds a strategy, say, by one file and one line in its `pyproject.toml`:

    [project.entry-points."metaflow_agents.strategies"]
    ponder = "my_package.ponder:Ponder"

The parts of this package that are a trade of their own (`kits/`) come in by the same lines. Nothing is imported before its name
is used. Source: https://packaging.python.org/en/latest/specifications/entry-points/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any

from metaflow_agents.errors import UsageError, did_you_mean

PREFIX = "metaflow_agents."
OURS = "metaflow-agents"
GROUPS: Mapping[str, str] = {
    "strategies": "a subclass of `agent.strategies.Strategy`",
    "executors": "a subclass of `steps.executor.Executor`: a type of step, `use: NAME`",
    "models": "a function `(name, setting)` (`models.port.MakeModel`) that gives the model of `FORM:NAME`",
    "memory_indexes": "a class that fits `memory.indexes.port.VectorIndex`, made with its dimensions and the similarity",
    "commands": "a function with typer's annotations, or a `typer.Typer`: a command of `sop`",
    "tools": "a subclass of `tools.plugin_source.ToolSource`: a source that a SOP names under `tools`",
    "renderers": "a subclass of `views.renderer.Renderer`: `sop run --progress NAME`",
    "exports": "a function `(journals, *, untrusted)` that gives `lines`, JSON values, and `left_out`, a Counter of reasons",
    "checkups": "a function without parameters that gives a line of `sop doctor`: `ok`, `note` or `bad`, and a text",
    "functions": "a module, under the name by which SOPs call its functions",
    "screens": "a function without parameters that gives a `policy.screens.Screen`: what no text of a run may speak of",
}
"""What an entry point of each group names."""
NAMED_BY: Mapping[str, str] = {
    "strategies": "`strategy: NAME`", "executors": "a step: `use: NAME`, `with: {…}`", "models": "a model: `FORM:NAME`",
    "memory_indexes": "`recall: {embeddings: …, index: NAME}`", "commands": "`sop NAME`",
    "tools": "`tools: {SHOP: {source: NAME, with: {…}}}`, whose tools are `SHOP.TOOL`", "renderers": "`--progress NAME`",
    "exports": "`sop export --for NAME`", "checkups": "`sop doctor`", "functions": "`call: MODULE:FUNCTION`",
    "screens": "`policy: {screen: [NAME]}`"}
"""Where a person, or a SOP, names what is offered."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One thing that an installed package adds. `rivals`: other packages that offer the same under the same name."""

    group: str
    name: str
    value: str
    distribution: str
    version: str
    rivals: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`GROUP/NAME`, under which a run's journal has its maker."""
        return f"{self.group}/{self.name}"

    @property
    def maker(self) -> str:
        """The distribution and its version, as messages and journals have it."""
        return f"{self.distribution} {self.version}"

    def load(self) -> Any:
        """What the entry point names. Raises UsageError, which names the distribution, where it can't be imported."""
        if self.rivals:
            raise UsageError(f"several packages offer `{self.name}` ({self.group}): {', '.join((self.maker, *self.rivals))}; "
                             "uninstall all but one")
        try:
            return EntryPoint(self.name, self.value, PREFIX + self.group).load()
        except (Exception, SystemExit) as error:
            raise UsageError(f"`{self.name}` ({self.group}) of {self.maker} can't be loaded: {self.value}: "
                             f"{type(error).__name__}: {error}; fix or uninstall {self.distribution}") from error


@cache
def _points() -> Any:
    """Entry points of all groups and packages, read once: it takes as long for one group. Their type differs between Pythons."""
    return entry_points()


@cache
def installed(group: str) -> Mapping[str, Plugin]:
    """All that is installed of a group, by name; nothing of it is imported."""
    found: dict[str, Plugin] = {}
    for point in sorted(_points().select(group=PREFIX + group), key=lambda one: (one.name, one.value)):
        name, its_version = (point.dist.name, point.dist.version) if point.dist else ("?", "?")
        plugin = Plugin(group, point.name, point.value, name, its_version)
        there = found.setdefault(point.name, plugin)
        if (there.value, there.distribution) != (plugin.value, plugin.distribution):    # else the same, twice on the path
            found[point.name] = replace(there, rivals=(*there.rivals, plugin.maker))
    return found


def offered(group: str, name: str, what: str, own: Iterable[str] = ()) -> Plugin:
    """What is installed under a name. `what` it is, in words; `own` are the names that this package has itself.

    Raises UsageError, with all names that there are, where nothing is.
    """
    found = installed(group)
    if name not in found:
        raise UsageError(f"there is no {what} `{name}`: {choices(group, name, own)}")
    return found[name]


def choices(group: str, name: str, own: Iterable[str] = ()) -> str:
    """What somebody may have meant who wrote this name: the nearest, or all that there are."""
    there = list(dict.fromkeys((*own, *installed(group))))
    return did_you_mean(name, there) if there else f"no installed package offers any (entry points `{PREFIX}{group}`)"


def missing(extra: str, wanted: Mapping[str, tuple[int, int]]) -> str:
    """What of an extra of this package is not installed, with the fix; empty where all of it is. Nothing is imported.

    `wanted`: package → its first version that will do.
    """
    lacking = []
    for name, first in wanted.items():
        try:
            there = version(name)
        except PackageNotFoundError:
            lacking.append(f"{name} is not installed")
            continue
        if tuple(int(part) if part.isdigit() else 0 for part in there.split(".")[:2]) < first:
            lacking.append(f"{name} is {there}, and {'.'.join(map(str, first))} is needed")
    return f"{' and '.join(lacking)}: `pip install 'metaflow-agents[{extra}]'`" if lacking else ""
