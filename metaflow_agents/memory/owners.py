"""Who a memory belongs to, as it is written: `ROLE`, `ROLE[NAME]` for a character of it, `[NAME]` for what roles share."""

from __future__ import annotations

import re

from metaflow_agents.schema.scalars import NAME_PATTERN

LONGEST = 200                       # characters of a name, which may come from outside
_ROLE = re.compile(NAME_PATTERN)


def owned_by(name: str) -> str:
    """The owner of a memory that all roles share which give this name. No role and no character is called so."""
    return f"[{name}]"


def is_shared(owner: str) -> bool:
    """Whether roles share what this owner remembers."""
    return owner.startswith("[")


def is_owner(written: str) -> bool:
    """Whether an owner may be called so: each name stands as steps give it, on one line and without spaces around it."""
    role, bracket, rest = written.partition("[")
    if not bracket:
        return _ROLE.fullmatch(role) is not None
    name = rest.removesuffix("]")
    return ((not role or _ROLE.fullmatch(role) is not None) and rest.endswith("]") and 0 < len(name) <= LONGEST
            and name == " ".join(name.split()))
