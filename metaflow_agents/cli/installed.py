"""Commands of `sop` that installed packages add (entry points `metaflow_agents.commands`): imported when one is called."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from metaflow_agents.errors import MetaflowError, RunError, UsageError, raised
from metaflow_agents.plugins import OURS, Plugin, installed


class PluginCommands(TyperGroup):
    """Those of this package, and behind them those of installed ones. No package takes the name of one of ours."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, loaded. Raises UsageError, which names its package, where that can't be done."""
        own = super().get_command(ctx, cmd_name)
        plugin = installed("commands").get(cmd_name)
        return own if own is not None or plugin is None else _command(plugin)

    def list_commands(self, ctx: Any) -> list[str]:
        """All names."""
        return list(dict.fromkeys((*super().list_commands(ctx), *installed("commands"))))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Ours with what they do, and the others with the packages that they come from: nothing of these is imported for it."""
        added = {name: plugin for name, plugin in installed("commands").items() if name not in self.commands}
        ours = [name for name, plugin in added.items() if plugin.distribution == OURS and not plugin.rivals]
        own = [(name, command) for name in (*super().list_commands(ctx), *ours)
               if not (command := self.get_command(ctx, name)).hidden]
        with formatter.section("Commands"):
            width = formatter.width - 6 - max(len(name) for name, _ in own)
            formatter.write_dl([(name, command.get_short_help_str(width)) for name, command in own])
        others = [(name, plugin.maker) for name, plugin in added.items() if name not in ours]
        if others:
            with formatter.section("Commands of installed packages"):
                formatter.write_dl(others)


def _command(plugin: Plugin) -> Any:
    found = plugin.load()
    try:
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command(plugin.name)(found)
            found = alone
        command: Any = typer.main.get_command(found)
    except Exception as error:          # its parameters say nothing that typer knows
        raise UsageError(f"the command `{plugin.name}` of {plugin.maker} can't be read: {raised(error)}; fix or uninstall "
                         f"{plugin.distribution}") from error
    command.name = plugin.name
    if plugin.distribution == OURS:
        return command
    invoke = command.invoke

    def named(ctx: Any) -> Any:
        try:
            return invoke(ctx)
        except (MetaflowError, typer.TyperException, typer.Exit, typer.Abort):
            raise
        except Exception as error:      # somebody else's code
            raise RunError(f"`sop {plugin.name}` of {plugin.maker} failed: {raised(error)}") from error
    command.invoke = named
    return command
