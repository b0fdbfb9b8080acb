"""Options and commands that were renamed: the old name still works, and the command says once what it is called now."""

from __future__ import annotations

import sys
from functools import cache

from metaflow_agents.cli.output import say

OPTIONS = {"reask": "retry-changed-prompts", "staged": "dry-tools", "given": "stub"}
COMMANDS = {"prompt": "preview"}


def renamed(word: str) -> str:
    """The name of today of an option (without its dashes) or a command; any other word as it is."""
    if word in OPTIONS:
        _say(f"--{word}", f"--{OPTIONS[word]}")
        return OPTIONS[word]
    if word in COMMANDS:
        _say(f"sop {word}", f"sop {COMMANDS[word]}")
        return COMMANDS[word]
    return word


@cache
def _say(old: str, new: str) -> None:
    say([f"`{old}` is now called `{new}`; the old name will go"], sys.stderr)
