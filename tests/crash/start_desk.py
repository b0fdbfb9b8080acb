"""The model of `start.yaml`: what it is asked stands in a ledger, a line a call, before it answers."""

from __future__ import annotations

import os
from typing import Any


def answer(request: Any) -> str:
    with open(os.environ["SOP_TEST_LEDGER"], "a", encoding="utf-8") as ledger:
        ledger.write(f"{request.key}\n")
    told = [message["content"] for message in request.messages if "JOB " in message["content"]]
    if "/" in request.key:                                          # how important a memory is
        return '{"importance": 5}'
    return f"about {told[-1].split('JOB ', 1)[1].splitlines()[0]}"
