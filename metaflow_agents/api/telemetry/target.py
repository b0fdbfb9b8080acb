"""Where to export to, and how: the option `--otel`, and the variables that OpenTelemetry's specification names.

Source: https://opentelemetry.io/docs/specs/otel/protocol/exporter/,
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import overload
from urllib.parse import unquote, urlsplit

from metaflow_agents.errors import UsageError
from metaflow_agents.settings import Settings
from metaflow_agents.views.spans.content import LONGEST
from metaflow_agents.views.spans.span import Attributes

LOCAL = "http://localhost:4318"
"""Where a collector of this machine is, by default."""
_CONTENT = ("true", "span_only", "span_and_event")
_TRACES, _METRICS = "/v1/traces", "/v1/metrics"


@dataclass(frozen=True, slots=True)
class Signal:
    """Where one signal goes. Headers may hold keys, and stand in no error and no `repr`."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """A collector. `traces` and `metrics` are None where nothing of that kind is wanted. `timeout`, `delay` (between two
    requests) and `interval` (between two of metrics) are in seconds; `certificate` is a file of those that are trusted,
    `client` the files of this side's certificate and its key; `content`: what models were asked and said is exported too, texts
    up to `longest` characters. `resource` says whose telemetry it is.
    """

    traces: Signal | None
    metrics: Signal | None
    resource: Attributes = field(default_factory=dict)
    timeout: float = 10.0
    delay: float = 5.0
    interval: float = 60.0
    gzip: bool = False
    certificate: str | None = None
    client: tuple[str, str | None] | None = None
    content: bool = False
    longest: int = LONGEST

    @property
    def name(self) -> str:
        """By which notes know it: a digest of the address, which may be private."""
        url = self.traces.url if self.traces is not None else self.metrics.url if self.metrics is not None else ""
        return hashlib.sha256(url.encode()).hexdigest()[:16]

    @property
    def place(self) -> str:
        """Host and port, for messages."""
        signal = self.traces or self.metrics
        return "" if signal is None else urlsplit(signal.url).netloc.rpartition("@")[2]


@overload
def target_of(endpoint: str, settings: Settings, *, content: bool = False) -> Target: ...


@overload
def target_of(endpoint: None, settings: Settings, *, content: bool = False) -> Target | None: ...


def target_of(endpoint: str | None, settings: Settings, *, content: bool = False) -> Target | None:
    """What the option and the environment say; None where nothing is to be exported.

    `endpoint`: the address that `--otel` gives, "" for that of the variables, or the usual one; None: without the option.
    Raises UsageError for an address or a variable that makes no sense.
    """
    said = settings.otel
    if said.get("OTEL_SDK_DISABLED", "").lower() == "true" and endpoint is None:
        return None
    base = endpoint or said.get("OTEL_EXPORTER_OTLP_ENDPOINT") or (None if endpoint is None else LOCAL)
    traces = _signal(said, "TRACES", base, _TRACES, given=bool(endpoint))
    metrics = _signal(said, "METRICS", base, _METRICS, given=bool(endpoint))
    if traces is None and metrics is None:
        if endpoint is not None:
            raise UsageError("`--otel` exports nothing: OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER are `none`; unset one")
        return None
    protocol = said.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or said.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    if protocol != "http/protobuf":
        raise UsageError(f"OTEL_EXPORTER_OTLP_PROTOCOL is `{protocol}`, and only `http/protobuf` is spoken here: unset it, and "
                         "name the collector's HTTP port, most often 4318")
    certificate = said.get("OTEL_EXPORTER_OTLP_CERTIFICATE")
    client = said.get("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE")
    return Target(
        traces, metrics, _resource(said), timeout=_milliseconds(said, "OTEL_EXPORTER_OTLP_TIMEOUT", 10_000),
        delay=_milliseconds(said, "OTEL_BSP_SCHEDULE_DELAY", 5_000),
        interval=_milliseconds(said, "OTEL_METRIC_EXPORT_INTERVAL", 60_000),
        gzip=_compression(said), certificate=certificate,
        client=None if client is None else (client, said.get("OTEL_EXPORTER_OTLP_CLIENT_KEY")),
        content=content or said.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").lower() in _CONTENT,
        longest=_number(said, "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", LONGEST))


def _signal(said: Mapping[str, str], kind: str, base: str | None, path: str, *, given: bool) -> Signal | None:
    """One signal: its own variables count before those of both, and an address that was given before all of them."""
    if said.get(f"OTEL_{kind}_EXPORTER", "otlp").lower() == "none":
        return None
    own = None if given else said.get(f"OTEL_EXPORTER_OTLP_{kind}_ENDPOINT")
    if own is not None:
        url = _address(own, f"OTEL_EXPORTER_OTLP_{kind}_ENDPOINT")
    elif base is not None:
        url = _address(base, "--otel" if given else "OTEL_EXPORTER_OTLP_ENDPOINT")
        for usual in (_TRACES, _METRICS):
            url = url.removesuffix(usual)
        url += path
    else:
        return None
    headers = _pairs(said.get("OTEL_EXPORTER_OTLP_HEADERS", ""), "OTEL_EXPORTER_OTLP_HEADERS")
    headers |= _pairs(said.get(f"OTEL_EXPORTER_OTLP_{kind}_HEADERS", ""), f"OTEL_EXPORTER_OTLP_{kind}_HEADERS")
    return Signal(url, headers)


def _address(written: str, where: str) -> str:
    url = written.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine:
        raise UsageError(f"`{where} {written}`: this is no address of a collector; write like `{LOCAL}`, or "
                         "`https://HOST/api/public/otel`")
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError(f"`{where}`: the address of a collector has no user, query or fragment; a key goes into "
                         "OTEL_EXPORTER_OTLP_HEADERS, as in `Authorization=Basic%20…`")
    return url


def _pairs(written: str, where: str) -> dict[str, str]:
    """`a=1,b=2`, with percent-encoded values. Raises UsageError, which does not tell the values: they may be keys."""
    found: dict[str, str] = {}
    for place, part in enumerate((part for part in written.split(",") if part.strip()), 1):
        name, sign, value = part.partition("=")
        name, value = name.strip(), unquote(value.strip())
        if not sign or not name or not (name + value).isascii() or not (name + value).isprintable() or " " in name or ":" in name:
            raise UsageError(f"{where}: part {place} is not `NAME=VALUE` in plain letters; parts are separated by commas, and a "
                             "comma in a value is written `%2C`")
        found[name] = value
    return found


def _resource(said: Mapping[str, str]) -> Attributes:
    own = _pairs(said.get("OTEL_RESOURCE_ATTRIBUTES", ""), "OTEL_RESOURCE_ATTRIBUTES")
    name = said.get("OTEL_SERVICE_NAME") or own.get("service.name") or "metaflow-agents"
    return {"service.version": version("metaflow-agents"), **own, "service.name": name}


def _compression(said: Mapping[str, str]) -> bool:
    written = said.get("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    if written not in ("gzip", "none"):
        raise UsageError(f"OTEL_EXPORTER_OTLP_COMPRESSION is `{written}`: it is `gzip` or `none`")
    return written == "gzip"


def _number(said: Mapping[str, str], name: str, usual: int) -> int:
    written = said.get(name, str(usual))
    if not written.isdecimal() or not 0 < int(written) < 10**9:
        raise UsageError(f"{name} is `{written}`: it is a whole number above 0")
    return int(written)


def _milliseconds(said: Mapping[str, str], name: str, usual: int) -> float:
    return _number(said, name, usual) / 1000
