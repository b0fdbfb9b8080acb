"""The command line: asks the rooms below and the views, and decides nothing."""

from __future__ import annotations

from metaflow_agents.cli.edge import command, main

__all__ = ["command", "main"]
