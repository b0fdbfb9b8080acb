"""What of installed packages a run uses: in its journal with distribution and version, asked for again by a resume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from metaflow_agents import plugins
from metaflow_agents.errors import UsageError
from metaflow_agents.models.registry import Resolved
from metaflow_agents.plugins import OURS, Plugin
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.tools import is_file
from metaflow_agents.sop.functions import functions_of


def used(program: Program, resolved: Mapping[str, Resolved]) -> dict[str, str]:
    """`GROUP/NAME` → `DISTRIBUTION VERSION`, of a SOP, of those in it and of their models. What this package adds itself is left
    out: its version stands in the journal anyway.
    """
    found = [plugin for one in program.all() for plugin in (*_of_sop(one.sop), *resolved[one.fingerprint].plugins)]
    return {plugin.key: plugin.maker for plugin in sorted(found, key=lambda plugin: plugin.key) if plugin.distribution != OURS}


def refuse_lost(run: str, recorded: Mapping[str, str]) -> None:
    """Raises UsageError, with the fix, where what a run uses is not installed any more, or comes from another package."""
    for key, maker in recorded.items():
        (group, _, name), (distribution, _, version) = key.partition("/"), maker.rpartition(" ")
        there = plugins.installed(group).get(name)
        if there is not None and there.distribution == distribution:
            continue
        now = "is not installed" if there is None else f"does not offer it here, but {there.maker} does"
        raise UsageError(f"run `{run}` uses `{name}` ({group}) of {maker}, which {now}: install {distribution} {version} again "
                         "from where you had it (the journal does not say where: a package of that name in an index may be "
                         f"somebody else's), then `sop resume {run}`")


def replaced(recorded: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """In words, which other versions of packages go on with a run: `acme-sop 1.3 in place of acme-sop 1.2`."""
    others = ((now[key], maker) for key, maker in recorded.items() if now.get(key, maker) != maker)
    return tuple(dict.fromkeys(f"{other} in place of {maker}" for other, maker in others))


def of_step(sop: SOP, step: Step) -> dict[str, str]:
    """The same of one step: of its type, its strategy and its tools. `--from` makes anew what another version made."""
    found = [] if step.use is None else [plugins.offered("executors", step.use, "type of step")]
    found += [one for name in step.strategy or {} if (one := plugins.installed("strategies").get(name)) is not None]
    sources = dict.fromkeys(tool.partition(".")[0] for tool in sop.tools_of(step)) if sop.tool_sources else ()
    found += [plugins.offered("tools", sop.tools[name].source or "", "source of tools") for name in sources
              if name in sop.tool_sources]
    return {plugin.key: plugin.maker for plugin in found if plugin.distribution != OURS}


def _of_sop(sop: SOP) -> Iterator[Plugin]:
    for group, names in _names(sop):
        yield from (plugins.installed(group)[name] for name in names if name in plugins.installed(group))


def _names(sop: SOP) -> Iterator[tuple[str, list[str]]]:
    """What a SOP names, by group; names of this package's own are among them."""
    yield "executors", [step.use for step in sop.steps.values() if step.use is not None]
    yield "strategies", [name for step in sop.steps.values() for name in step.strategy or {}]
    recalls = [role.memory.recall for role in sop.roles.values()]
    yield "memory_indexes", [one.index for one in recalls if one is not None and one.embedder is not None]
    yield "tools", [spec.source or "" for spec in sop.tool_sources.values()]
    yield "screens", [name for name in sop.screens if not is_file(name)]
    yield "functions", [above for spec in functions_of(sop) for above in _above(spec.rpartition(":")[0])]


def _above(module: str) -> Iterator[str]:
    """A module's name, and those of the packages above it."""
    parts = module.split(".")
    yield from (".".join(parts[:length]) for length in range(len(parts), 0, -1))
