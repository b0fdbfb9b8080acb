"""Edits of the step graph: what a step reads, steps added and taken out, who does a step, and whom a role asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.schema.step import DOERS, READS, Doer
from metaflow_agents.sop.document import LINE
from metaflow_agents.sop.editing.draft import BY_HAND, Draft
from metaflow_agents.sop.editing.references import references
from metaflow_agents.sop.editing.renaming import Left, line_of, refuse_name
from metaflow_agents.sop.places import Path

Reading = Literal["needs", "wants", "sees"]
_BEFORE_READS: Mapping[str, tuple[str, ...]] = {"needs": DOERS, "wants": (*DOERS, "needs"), "sees": (*DOERS, "needs", "wants")}
"""Behind which keys of a step a new list stands."""


def connect(draft: Draft, step: str, artifact: str, kind: Reading) -> None:
    """Lets a step read an artifact or an input: under `kind` alone, where it read it otherwise before."""
    _step(draft, step)
    known = [*_names(draft, "artifacts"), *_names(draft, "inputs")]
    if artifact not in known:
        raise UsageError(f"there is no artifact or input `{artifact}`: {did_you_mean(artifact, known)}")
    for other in READS:
        if other == kind and artifact in _entries(draft, step, other):
            raise UsageError(f"`{step}` has `{artifact}` among its `{kind}` already")
    for other in READS:
        if other != kind:
            _take_out(draft, step, artifact, other)
    _own_list(draft, step, kind, [*_entries(draft, step, kind), artifact])


def disconnect(draft: Draft, step: str, artifact: str, kind: Reading | None = None) -> list[Left]:
    """Lets a step read an artifact, and all its parts, no longer; what `show` says of it goes too. What of the step's texts still
    names it is told.
    """
    _step(draft, step)
    found = [one for one in READS if kind in (None, one) and _reads(draft, step, artifact, one)]
    if not found:
        raise UsageError(f"`{step}` does not read `{artifact}`{f' under `{kind}`' if kind else ''}; it reads: "
                         + (", ".join(entry for one in READS for entry in _entries(draft, step, one)) or "nothing"))
    for one in found:
        _take_out(draft, step, artifact, one)
    if not any(_reads(draft, step, artifact, one) for one in READS):
        shown = draft.value("steps", step, "show")
        if isinstance(shown, dict) and artifact in shown:
            draft.drop(("steps", step, "show", artifact) if len(shown) > 1 else ("steps", step, "show"))
    why = f"`{step}` still names `{artifact}` here, and does not read it any more"
    return [Left(draft.file, line_of(draft.document, one), why) for one in references(draft.document, "data", artifact)
            if one.path[:2] == ("steps", step) and one.path[2] not in (*READS, "makes", "on_fail")]


def add_step(draft: Draft, name: str, step: Mapping[str, Any], *, after: str | None = None) -> None:
    """A new step behind another one (by default as the last), and the artifact that it makes, as text, where there is none."""
    refuse_name(draft.data, name)
    makes = step.get("makes")
    if not isinstance(makes, str) or makes == name:
        raise UsageError(f"a step makes an artifact of another name than its own: `makes: {name}_text`")
    if after is not None:
        _step(draft, after)
    if makes not in _names(draft, "artifacts"):
        refuse_name(draft.data, makes)
        _put_in(draft, "artifacts", makes, {}, before="steps")
    role = step.get("role")
    if isinstance(role, str):
        _declare(draft, role)
    draft.put(("steps",), name, dict(step), after=(after,) if after else (),
              blank=_spaced(draft, [("steps", other) for other in _names(draft, "steps")]))


def remove_step(draft: Draft, name: str) -> list[Left]:
    """A step taken out. What names it, and what it alone made, is told."""
    step = _step(draft, name)
    if len(_names(draft, "steps")) == 1:
        raise UsageError(f"`{name}` is the only step; a SOP has at least one")
    draft.drop(("steps", name))
    left = [Left(draft.file, line_of(draft.document, one), f"the step `{name}` is named here") for one in
            references(draft.document, "step", name)]
    made = step.get("makes")
    artifact = made if isinstance(made, str) else next(iter(made), "") if isinstance(made, dict) else ""
    others = [other for other, one in (draft.value("steps") or {}).items()
              if isinstance(one, dict) and (one.get("makes") == artifact or artifact in (one.get("makes") or ()))]
    if artifact and not others:
        why = f"`{artifact}` is named here, which `{name}` alone made"
        left += [Left(draft.file, line_of(draft.document, one), why) for one in references(draft.document, "data", artifact)]
    return left


def set_role(draft: Draft, step: str, role: str) -> None:
    """Lets another role do a step. A role that the SOP does not name yet is added under `roles`."""
    written = _step(draft, step)
    doer: Doer | None = next((one for one in DOERS if one in written), None)
    if doer not in (None, "role"):
        raise UsageError(f"`{step}` has `{doer}`, and a step is done by one of {', '.join(DOERS)}; {BY_HAND}")
    if written.get("role") == role:
        raise UsageError(f"the role `{role}` does `{step}` already")
    _declare(draft, role)
    if doer is None:
        draft.put(("steps", step), "role", role)
    else:
        draft.set(("steps", step, "role"), role)


def set_model(draft: Draft, role: str, model: str | None) -> None:
    """The model that a role asks; with None that of its file, of `defaults`, or everybody's."""
    if role not in _names(draft, "roles"):
        raise UsageError(f"there is no role `{role}` under `roles`: {did_you_mean(role, _names(draft, 'roles'))}")
    written = draft.value("roles", role)
    own = isinstance(written, dict) and "model" in written
    if model is None:
        if not own:
            raise UsageError(f"the role `{role}` has no `model` here")
        draft.drop(("roles", role, "model"))
    elif own:
        draft.set(("roles", role, "model"), model)
    else:
        draft.put(("roles", role), "model", model)


def _declare(draft: Draft, role: str) -> None:
    if role in _names(draft, "roles"):
        return
    refuse_name(draft.data, role)
    _put_in(draft, "roles", role, {}, before="steps")


def _put_in(draft: Draft, part: str, name: str, value: Any, *, before: str) -> None:
    """A name under a part of the SOP, which is added before another part where there is none."""
    if draft.value(part) is not None:
        draft.put((part,), name, value)
        return
    keys = list(draft.data)
    ahead = keys[:keys.index(before)] if before in keys else keys
    if part in keys:                                        # `artifacts:` with nothing in it
        draft.put((part,), name, value)
    else:
        draft.put((), part, {name: value}, after=tuple(ahead), blank=_spaced(draft, [(key,) for key in keys]))


def _own_list(draft: Draft, step: str, kind: str, entries: list[str]) -> None:
    """A list of a step with one more entry; a list that `defaults` say is written out."""
    path = ("steps", step, kind)
    if draft.value(*path) is not None:
        draft.append(path, entries[-1])
    elif kind in (draft.value("steps", step) or {}):
        draft.append(path, entries[-1])
    else:
        draft.put(("steps", step), kind, entries, after=_BEFORE_READS[kind])


def _take_out(draft: Draft, step: str, artifact: str, kind: str) -> None:
    path = ("steps", step, kind)
    entries = _entries(draft, step, kind)
    rest = [entry for entry in entries if _artifact(entry) != artifact]
    if len(rest) == len(entries):
        return
    own = draft.value(*path) is not None
    default = draft.value("defaults", "steps", kind) is not None
    if not own:                                             # it stands in `defaults`: the step gets a list of its own
        draft.put(("steps", step), kind, rest, after=_BEFORE_READS[kind])
    elif not rest and not default:
        draft.drop(path)
    elif isinstance(draft.value(*path), str):
        draft.empty(path)
    else:
        listed = draft.value(*path)
        for index, entry in reversed(list(enumerate(listed))):
            if isinstance(entry, str) and _artifact(entry) == artifact:
                draft.drop_item((*path, index))


def _step(draft: Draft, name: str) -> Mapping[str, Any]:
    step = draft.value("steps", name)
    if step is None:
        raise UsageError(f"there is no step `{name}`: {did_you_mean(name, _names(draft, 'steps'))}")
    if not isinstance(step, dict):
        raise UsageError(f"`{name}` is no mapping; {BY_HAND}")
    return step


def _entries(draft: Draft, step: str, kind: str) -> list[str]:
    written = draft.value("steps", step, kind)
    if written is None:
        written = draft.value("defaults", "steps", kind)
    found = [written] if isinstance(written, str) else written if isinstance(written, list) else []
    return [entry for entry in found if isinstance(entry, str)]


def _reads(draft: Draft, step: str, artifact: str, kind: str) -> bool:
    return any(_artifact(entry) == artifact for entry in _entries(draft, step, kind))


def _artifact(entry: str) -> str:
    return entry.partition(".")[0]


def _names(draft: Draft, part: str) -> list[str]:
    written = draft.value(part)
    return list(written) if isinstance(written, dict) else []


def _spaced(draft: Draft, places: Sequence[Path]) -> bool:
    """Whether an empty line stands between the last two of some keys."""
    key = draft.document.key_node(*places[-1]) if len(places) > 1 else None
    if key is None:
        return False
    above = [line for line in LINE.split(draft.text[:key.start])[:-1] if not line.strip().startswith("#")]
    return bool(above) and not above[-1].strip()
