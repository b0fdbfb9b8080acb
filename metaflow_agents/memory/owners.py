"""Who a memory belongs to, as it is written: `ROLE`, `ROLE[NAME]` for a character of it, `[NAME]` for what roles share."""

from __future__ import annotations


def owned_by(name: str) -> str:
    """The owner of a memory that all roles share which give this name. No role and no character is called so."""
    return f"[{name}]"


def is_shared(owner: str) -> bool:
    """Whether roles share what this owner remembers."""
    return owner.startswith("[")
