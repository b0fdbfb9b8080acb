"""`/api/session`: the token of the address that the command printed, for a session in a cookie."""

from __future__ import annotations

from starlette.responses import Response

from metaflow_agents.web.asked import Asked, post
from metaflow_agents.web.replies import refusal


def session(asked: Asked) -> Response:
    """Begins a session. The token works once."""
    begun = asked.site.sessions.begin(asked.text("token"))
    if begun is None:
        return refusal("this token is used up, or none of this server's: open the address that `sop ui` printed last", 401)
    answer = Response(status_code=204)
    answer.set_cookie(asked.site.cookie, begun, httponly=True, samesite="strict", path="/")
    return answer


routes = [post("/api/session", session)]
