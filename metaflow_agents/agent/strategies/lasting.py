"""What of an observation is the same where the same is done again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_PASSING = re.compile(r"\b\d+(\.\d+)? ?(s|ms|seconds?|milliseconds?)\b|\b0x[0-9a-f]+\b", re.IGNORECASE)


def lasting(told: Any) -> Any:
    """A text, or the texts of any JSON value, without what is another one each time: times, and addresses in memory."""
    if isinstance(told, str):
        return _PASSING.sub("", told)
    if isinstance(told, Mapping):
        return {key: lasting(one) for key, one in told.items()}
    return [lasting(one) for one in told] if isinstance(told, Sequence) else told
