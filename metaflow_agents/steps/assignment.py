"""Who does an activation, with which model and which tools, where an expression of its step says so.

So a plan that is made at run time names for each of its tasks a role, a model and tools; always among those that the SOP
declares, so that it never widens what may be done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from metaflow_agents.errors import AttemptFailed, did_you_mean
from metaflow_agents.memory.owners import LONGEST, owned_by
from metaflow_agents.prompts import MISSING, evaluate, render
from metaflow_agents.prompts.names import free_names
from metaflow_agents.schema.scalars import NAME_PATTERN
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step, ToolChoice

_NAME = re.compile(NAME_PATTERN)


def role_for(sop: SOP, step: Step, scope: Mapping[str, Any]) -> str:
    """Who works: the step's role, or the one that its expression names. Raises AttemptFailed."""
    written = step.role or ""
    if _NAME.fullmatch(written):
        return written
    name = evaluate(written, scope)
    if not isinstance(name, str) or name not in sop.roles:
        there = did_you_mean("" if name is MISSING else str(name), sop.roles)
        raise AttemptFailed(f"`role: {written}` gave {_shown(name)}, which is no role: {there}")
    return name


def mind_for(step: Step, role: str, scope: Mapping[str, Any]) -> str:
    """Whose memory works: the role's own, with `self` that of one of its characters, as `ROLE[NAME]`, and with `memory_of` one
    that roles share, as `[NAME]`. Raises AttemptFailed.
    """
    if step.memory_of is not None:
        shared = " ".join(render(step.memory_of, scope).split())
        if not shared or len(shared) > LONGEST:
            wrong = f"a name of {len(shared):,} characters; it has {LONGEST} at most" if shared else "no name"
            raise AttemptFailed(f"`memory_of: {step.memory_of}` gave {wrong}: say whose memory this is, as `customer 4711`")
        return owned_by(shared)
    if step.self_ is None:
        return role
    name = " ".join(render(step.self_, scope).split())
    if not name:
        raise AttemptFailed(f"`self: {step.self_}` gave no name: say whose memory this is")
    return f"{role}[{name}]"


def model_for(sop: SOP, step: Step, role: str, scope: Mapping[str, Any]) -> str | None:
    """The name of the model that is asked: what the step says, else what the role says; None: the default.

    An expression names one of those that the SOP declares; where it gives nothing, it is the role's. Raises AttemptFailed.
    """
    if step.model_expression is None:
        return step.model or sop.roles[role].model
    name = evaluate(step.model_expression, scope)
    if name is MISSING or name is None:
        return sop.roles[role].model
    if not isinstance(name, str) or name not in sop.models:
        raise AttemptFailed(f"`model: {step.model_expression}` gave {_shown(name)}, which is no model of this SOP: "
                            f"{did_you_mean(str(name), sop.models)}")
    return name


def tools_for(sop: SOP, step: Step, role: str, scope: Mapping[str, Any]) -> tuple[str, ...]:
    """The tools that a role may use, as they are written. An expression picks of those that the role has; where it gives
    nothing, they are all of them. Raises AttemptFailed where it names another one.
    """
    allowed = sop.tools_of(step, role)
    if not isinstance(step.tools, ToolChoice):
        return allowed
    written, found = step.tools.only, evaluate(step.tools.only, scope)
    if found is MISSING or found is None:
        return allowed
    if not isinstance(found, list | tuple) or not all(isinstance(tool, str) for tool in found):
        raise AttemptFailed(f"`tools: {{only: {written}}}` gave {_shown(found)}, and not a list of tools")
    for tool in found:
        if not _held(tool, allowed):
            there = did_you_mean(tool, allowed, limit=20) if allowed else "it has none"
            raise AttemptFailed(f"`tools: {{only: {written}}}` gave {tool!r}, which the role `{role}` does not have: {there}")
    return tuple(dict.fromkeys(found))


def faults_of(sop: SOP, step: Step, scope: Mapping[str, Any], known: frozenset[str]) -> list[str]:
    """What is wrong with whom an item names, as far as that follows from the names that are `known`."""
    if step.role is None or not _follows(step.role, known):
        return []
    try:
        role = role_for(sop, step, scope)
    except AttemptFailed as error:
        return [str(error)]
    faults = []
    for text, choose in ((step.model_expression, model_for),
                         (step.tools.only if isinstance(step.tools, ToolChoice) else None, tools_for)):
        if text is not None and _follows(text, known):
            try:
                choose(sop, step, role, scope)
            except AttemptFailed as error:
                faults.append(str(error))
    return faults


def _follows(text: str, known: frozenset[str]) -> bool:
    return bool(_NAME.fullmatch(text)) or free_names(text) <= known


def _held(tool: str, allowed: tuple[str, ...]) -> bool:
    """Whether a tool is one of these: by its name, by its server's, or by a pattern of theirs. A pattern is none of them
    unless it stands there word for word, since it could reach further.
    """
    if tool in allowed:
        return True
    return not any(sign in tool for sign in "*?[") and any(
        fnmatchcase(tool, one) or one == tool.partition(".")[0] for one in allowed)


def _shown(value: Any) -> str:
    return "nothing" if value is MISSING else repr(value)
