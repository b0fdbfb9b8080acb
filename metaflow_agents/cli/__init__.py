"""The command line: calls the packages below it and the views, and decides nothing."""

from __future__ import annotations

from metaflow_agents.cli.entry_point import command, main

__all__ = ["command", "main"]
