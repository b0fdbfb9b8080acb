"""What goes to the browser: JSON without secrets, and errors in the words of the command line."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from metaflow_agents.errors import JournalError, MetaflowError, RunBusy, SOPInvalid, SOPNotFound
from metaflow_agents.terminal import printing
from metaflow_agents.tools.secrets import every_text

_STATUS: tuple[tuple[type[MetaflowError], int], ...] = ((SOPNotFound, 404), (RunBusy, 409), (JournalError, 409))


def reply(value: Any, status: int = 200) -> Response:
    """JSON, in which secrets of all SOPs that were opened are masked, keys too."""
    return Response(as_json(value), status, media_type="application/json")


def as_json(value: Any) -> bytes:
    """The bytes of it; letters that hide stand there by their numbers."""
    masked = every_text(value, printing.redacted) if printing.redacts() else value
    return printing.HIDING.sub(_escaped, json.dumps(masked, ensure_ascii=False, separators=(",", ":"), allow_nan=False)).encode()


def _escaped(found: Any) -> str:
    return json.dumps(found[0])[1:-1]


def refusal(why: str, status: int = 400, **more: Any) -> Response:
    """An error, as the page shows it."""
    return reply({"error": why, **more}, status)


def refused(error: MetaflowError) -> Response:
    """An error of this package: 400 where what was asked has to change."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 400)
    if isinstance(error, SOPInvalid):
        return refusal(f"{error.what} has {len(error.problems)} errors: nothing was run", status,
                       problems=[problem.as_json() for problem in error.problems])
    return refusal(str(error), status)
