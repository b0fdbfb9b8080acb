"""What roles remember beyond a run: `sop memory show`, `search` and `forget`."""

from __future__ import annotations

from typing import Any

from metaflow_agents.cli.memories import opened
from metaflow_agents.errors import UsageError
from metaflow_agents.memory.store import StoredMemory
from metaflow_agents.views.ui.texts import line, text
from metaflow_agents.web.asked import Asked, get, post

_ROWS = 50                          # memories of an answer
_SHOWN = 4_000                      # characters of one
_KEYS = 1_000                       # that are forgotten at once


def memories(asked: Asked) -> dict[str, Any]:
    """Those of a role, the newest first; with `q` those that hold a word of it, the most relevant first."""
    role, written = asked.text("role", "") or None, asked.text("q", "")
    offset, limit = asked.number("offset", 0, 100_000), min(asked.number("limit", _ROWS), _ROWS)
    with opened(asked.site.workspace) as store:
        if store is None:
            return {"roles": [], "rows": [], "total": 0, "more": False}
        owners = store.owners()
        if written.strip():
            found = [one for one, _ in store.search(written, role=role, limit=offset + limit + 1)]
        else:
            found = store.listed(role=role, limit=offset + limit + 1)[::-1]
        total = sum(count for owner, count in owners.items() if role is None or owner == role or owner.startswith(f"{role}["))
    return {"roles": [{"role": owner, "count": count} for owner, count in owners.items()],
            "rows": [_told(one) for one in found[offset:offset + limit]], "total": None if written.strip() else total,
            "more": len(found) > offset + limit}


def _told(one: StoredMemory) -> dict[str, Any]:
    return {**one.as_json(), "text": text(one.text, most=_SHOWN), "untrusted": line(one.untrusted)}


def forget(asked: Asked) -> dict[str, Any]:
    """Delete memories for good: those of `keys`, or all of a `role`. Journals of runs keep what was said in them."""
    keys, role = asked.body.get("keys"), asked.body.get("role")
    if (keys is None) == (role is None):
        raise UsageError("say what to forget: `keys`, or a `role`")
    if keys is not None and not (isinstance(keys, list) and 0 < len(keys) <= _KEYS and all(isinstance(key, str) for key in keys)):
        raise UsageError(f"`keys` is a list of keys of memories, {_KEYS:,} at most")
    if role is not None and not (isinstance(role, str) and role):
        raise UsageError("`role` is the name of a role")
    with opened(asked.site.workspace) as store:
        if keys is not None:
            known = {} if store is None else store.numbers(keys)
            unknown = next((key for key in keys if key not in known), None)
            if unknown is not None:
                raise UsageError(f"no memory has the key {line(unknown)!r}")
        return {"forgotten": 0 if store is None else store.forget(keys=keys, role=role)}


routes = [get("/api/memory", memories), post("/api/memory/forget", forget)]
