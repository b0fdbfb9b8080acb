"""The one base of all written and recorded values: frozen, and closed against unknown keys."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value that refuses keys it does not know."""

    # Built when it is first used: most processes use few of them, and what stands inside of another is built with that.
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, ser_json_inf_nan="constants", defer_build=True)


def _told(value: Any) -> Any:
    """What a fingerprint covers of a value that is no JSON but tells itself as such (`schema/binary.py`)."""
    told = getattr(value, "told", None)
    if told is None:
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    return told()


_ENCODER: dict[str, Any] = {"sort_keys": True, "separators": (",", ":"), "ensure_ascii": False, "allow_nan": False}
_ENCODE = json.JSONEncoder(**_ENCODER).encode
_ENCODE_ORDERED = json.JSONEncoder(**{**_ENCODER, "sort_keys": False}).encode
_ENCODE_TOLD = json.JSONEncoder(**_ENCODER, default=_told).encode


def as_ordered(data: Any) -> bytes:
    """JSON with its keys in the order that they have, and no spaces. Shape: any JSON value."""
    return _ENCODE_ORDERED(data).encode()


def canonical(data: Any) -> bytes:
    """JSON with sorted keys and no spaces: equal values have equal bytes. Shape: any JSON value."""
    return _ENCODE(data).encode()


def digest(data: bytes) -> str:
    """SHA-256 of a payload, in hex: the name under which the journal stores it once."""
    return hashlib.sha256(data).hexdigest()


def fingerprint(data: Any) -> str:
    """The first 128 bits of the digest of a value, JSON with files in it: enough to tell whether two inputs are equal."""
    return digest(_ENCODE_TOLD(data).encode())[:32]
