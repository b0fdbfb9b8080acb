"""Pictures of a page, as a browser drew them, for roles whose model takes pictures."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any


def photographs(sight: Mapping[str, Any] | None, probed: Mapping[str, Any] | None) -> dict[str, bytes]:
    """`photos/desk.png` and `photos/phone.png`, for those that were taken; of a server's further pages `photos/2.desk.png` and so
    on.
    """
    found = dict(sight["pictures"]) if sight else {}
    for number, one in enumerate(probed["sights"] if probed else (), 1):
        found |= {name if number == 1 else f"{number}.{name}": data for name, data in one["pictures"].items()
                  if number == 1 or name == "desk.png"}
    return {f"photos/{name}": b64decode(data) for name, data in found.items()}
