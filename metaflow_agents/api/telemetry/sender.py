"""One request to a collector, by OTLP over HTTP. Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp"""

from __future__ import annotations

import gzip
import http.client
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Literal

from metaflow_agents.api.telemetry import wire
from metaflow_agents.api.telemetry.target import Signal, Target

_LATER = frozenset({408, 429, 502, 503, 504})
_MOST_ANSWER = 64 * 1024
_MOST_TOLD = 200


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a request: it was `taken`; it may be sent again `later`; or it is `refused`, now and again. `why`: in words,
    of what was taken what was left out.
    """

    outcome: Literal["taken", "later", "refused"]
    why: str = ""
    status: int = 0


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the keys in the headers are for the host that was named."""

    def redirect_request(self, *_: Any) -> None:
        """None: the answer itself is an error."""
        return


class Sender:
    """Sends to one collector. Certificates are read when it is made: raises OSError, `ssl.SSLError` is one."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._opener = urllib.request.OpenerDirector()          # with as little as it takes: the usual one reads certificates
        for handler in (urllib.request.ProxyHandler(), urllib.request.HTTPHandler(), urllib.request.HTTPDefaultErrorHandler(),
                        urllib.request.HTTPErrorProcessor(), urllib.request.UnknownHandler(), _Stay()):
            self._opener.add_handler(handler)
        if any(signal is not None and signal.url.startswith("https:") for signal in (target.traces, target.metrics)):
            context = ssl.create_default_context(cafile=target.certificate)
            if target.client is not None:
                context.load_cert_chain(*target.client)
            self._opener.add_handler(urllib.request.HTTPSHandler(context=context))

    def send(self, signal: Signal, body: bytes, timeout: float) -> Sent:
        """One request, within `timeout` seconds of silence. Raises nothing that has to do with the network."""
        headers = {"Content-Type": "application/x-protobuf", "User-Agent": "metaflow-agents", **signal.headers}
        if self._target.gzip:
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        request = urllib.request.Request(signal.url, data=body, headers=headers, method="POST")
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                return _taken(answer.read(_MOST_ANSWER))
        except urllib.error.HTTPError as error:
            with error:
                why = f"it answers {error.code} {error.reason}".rstrip()
            return Sent("later" if error.code in _LATER else "refused", why, error.code)
        except (OSError, http.client.HTTPException) as error:       # URLError is an OSError
            return Sent("later", _line(getattr(error, "reason", None) or error))


def _taken(answer: bytes) -> Sent:
    try:
        count, why = wire.refused(answer)
    except ValueError:                          # some answer with JSON, or a page: it was taken all the same
        return Sent("taken")
    return Sent("taken", f"it leaves out {count:,}: {_line(why)}" if count else "")


def _line(told: object) -> str:
    return " ".join(str(told).split())[:_MOST_TOLD] or type(told).__name__
