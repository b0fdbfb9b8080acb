"""A turn in words: what happened and what was answered, without what a prompt writes around it."""

from __future__ import annotations

import re

_ITEM = re.compile(r"\A# Your item\n\nYou work on this one only: .*? Others work on the other items\.\n\n", re.DOTALL)
_TASK = re.compile(r"^# Your task\n\n", re.MULTILINE)


def observed(asked: str) -> str:
    """What a role was asked, without the headings and the standing words of its prompt (`activation.md.j2`): the item as far as
    it was shown, and the task.
    """
    return _TASK.sub("", _ITEM.sub("", asked), count=1).strip()


def worded(asked: str, answered: str) -> str:
    """A turn as it is remembered."""
    return f"{observed(asked)}\n\nAnswered:\n{answered.strip()}"
