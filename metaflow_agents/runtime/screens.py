"""The screens that a SOP's policy names, made ready before its run begins: without one of them no run begins."""

from __future__ import annotations

from metaflow_agents import plugins
from metaflow_agents.errors import NotHere, UsageError, raised
from metaflow_agents.policy.screens import Screen, ScreenRule, Terms
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.tools import is_file


def screens_of(program: Program) -> dict[str, tuple[ScreenRule, ...]]:
    """Fingerprint of a SOP, and of each in it → its screens. Raises NotHere, UsageError where one can't be had."""
    return {one.fingerprint: tuple(ScreenRule(name, "the SOP" if one is program else f"the SOP {one.sop.sop}", _screen(name, one))
                                   for name in one.sop.screens) for one in program.all()}


def _screen(name: str, program: Program) -> Screen:
    if is_file(name):
        if name not in program.screens:
            raise UsageError(f"policy.screen: the SOP was read without the file `{name}`: write it beside the SOP")
        return Terms(program.screens[name])
    plugin = plugins.offered("screens", name, "screen")
    make = plugin.load()
    try:
        made: Screen = make()
    except UsageError as error:
        raise NotHere(f"policy.screen: the screen `{name}` can't run, so the run does not begin: {error}") from error
    except Exception as error:      # the maker is somebody else's code
        raise NotHere(f"policy.screen: the screen `{name}` of {plugin.maker} can't run, so the run does not begin: "
                      f"{raised(error)}; fix or reinstall {plugin.distribution}, or remove `{name}` from `screen`") from error
    if not callable(getattr(made, "find", None)):
        raise NotHere(f"policy.screen: `{name}` of {plugin.maker} gives no screen (it has no `find`); fix {plugin.distribution}")
    return made
