"""What was done in an activation under way, for those who look at it from outside: a role that judges the run, a person who is
asked, the role itself where it thinks about being stuck.

It comes from the journal alone: the last thoughts, each with its actions, their arguments and what they gave, and the files
that were written. Which of it a prompt shows is no longer the same at another time, so that whoever asks notes it down.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from metaflow_agents.journal.state import RunState, Slot
from metaflow_agents.journal.values import Values
from metaflow_agents.models.port import Reply
from metaflow_agents.prompts import from_package
from metaflow_agents.schema.keys import LOOK
from metaflow_agents.schema.model import as_ordered
from metaflow_agents.schema.payload import Patch
from metaflow_agents.schema.trust import joined
from metaflow_agents.texts.cutting import in_middle

RECENT = 8                          # messages of a role that are shown, the latest
_SAID, _ARGUMENTS, _RESULT = 600, 300, 400      # characters of each
_FILES, _TASK, _MADE = 50, 4000, 1500
_BESIDE = ("/importance", "/summary", "/reflect")       # calls that are no part of the work


def doings(values: Values, slot: Slot, prefix: str) -> dict[str, Any]:
    """What was done below a key, as `told` shows it: `earlier` (messages that are not shown), `turns`, `files`, `more` (files
    that are not named), and `untrusted`, where what tools said came from.
    """
    replies = [(key, call.reply) for key, call in slot.calls.items()
               if call.reply is not None and key.startswith(f"{prefix}/") and not _beside(key)]
    acts = [act.done for key, act in slot.acts.items() if key.startswith(f"{prefix}/") and act.done is not None]
    files = dict[str, int]()
    for done in acts:
        patch = None if done.patch is None else values.payload(done.patch)
        if isinstance(patch, Patch):
            files = {path: size for path, size in files.items() if path not in patch.deleted}
            files |= {path: len(values.data(blob)) for path, blob in patch.written.items()}
    return {"earlier": max(len(replies) - RECENT, 0), "turns": [_turn(values, slot, *one) for one in replies[-RECENT:]],
            "files": dict(list(files.items())[:_FILES]), "more": max(len(files) - _FILES, 0),
            "untrusted": joined(*(done.untrusted for done in acts))}


def under_way(values: Values, state: RunState, above: str = "") -> Iterator[dict[str, Any]]:
    """The same of each activation that is under way, with its `key`, those of sub-SOPs behind the one that they are in."""
    for firing in state.active.values():
        for item, slot in firing.slots.items() if firing.step != LOOK else ():
            key = f"{firing.key}[{item}]" if item is not None else firing.key
            if item in firing.done:
                continue
            if slot.inner is not None:
                yield from under_way(values, slot.inner, f"{above}{key}/")
            elif slot.calls:
                yield {"key": f"{above}{key}", **doings(values, slot, f"{key}~{slot.attempts}")}


def told(found: Mapping[str, Any], task: str = "", made: str = "", spent: str = "") -> str:
    """What was done, in words for a prompt or a person. `task`: what is to be done and from what, for those who do not know it;
    `made`: what the step made in its last round; `spent`: a line on what the run took.
    """
    return from_package("doings", {**found, "task": in_middle(task.strip(), _TASK), "made": in_middle(made.strip(), _MADE),
                                   "spent": spent}).strip()


def _beside(key: str) -> bool:
    return any(part in key for part in _BESIDE) or key.rpartition("/")[2].startswith("embed.")


def _turn(values: Values, slot: Slot, key: str, reply: str) -> dict[str, Any]:
    said = Reply.read(json.loads(values.text(reply)))
    return {"said": in_middle(said.said.strip(), _SAID),
            "actions": [_action(values, slot, f"{key}/tool.{place}", call.name, call.arguments)
                        for place, call in enumerate(said.calls)]}


def _action(values: Values, slot: Slot, key: str, name: str, arguments: Any) -> dict[str, Any]:
    act = slot.acts.get(key)
    done = None if act is None else act.done
    written = arguments if isinstance(arguments, str) else as_ordered(dict(arguments)).decode()
    return {"tool": name, "arguments": in_middle(written, _ARGUMENTS),
            "gave": None if done is None else in_middle(str(values.plain(done.payload)).strip(), _RESULT)}
