"""`/frame`: an artifact that is HTML, as a document that can do nothing: no script, no request, no form, an origin of its own."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from metaflow_agents.errors import UsageError
from metaflow_agents.schema.binary import BinaryFile
from metaflow_agents.terminal import printing
from metaflow_agents.web.asked import Asked, get

POLICY = ("sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; "
          "form-action 'none'; frame-ancestors 'self'")
_LARGEST = 8 << 20                  # characters


def frame(asked: Asked) -> Response:
    """One version of an artifact, or a file of it (`path`), for an `<iframe sandbox>` of the page."""
    name, path = asked.text("name"), asked.text("path", "")
    with asked.run() as found:
        run, values = found.told.outline, found.told.values
        digest = run.payload(name, asked.number("version", run.version(name)))
        if digest is None:
            raise UsageError(f"run `{found.name}` has no such version of `{name}`")
        value = values.plain(digest)
    if path:
        value = value.get(path) if isinstance(value, dict) else None
    if isinstance(value, BinaryFile) or not isinstance(value, str):
        raise UsageError(f"{f'`{path}` of ' if path else ''}`{name}` is no text that could be shown as a page")
    return Response(printing.redacted(value[:_LARGEST]).encode("utf-8", "replace"), media_type="text/html",
                    headers={"Content-Security-Policy": POLICY, "X-Frame-Options": "SAMEORIGIN", "Cache-Control": "no-store"})


routes: list[Route] = [get("/frame", frame)]
