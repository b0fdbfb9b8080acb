"""Pictures of a page, as a browser drew them, for roles whose model takes pictures."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any


def photographs(sight: Mapping[str, Any]) -> dict[str, bytes]:
    """`photos/desk.png` and `photos/phone.png`, for those that were taken."""
    return {f"photos/{name}": b64decode(data) for name, data in sight["pictures"].items()}
