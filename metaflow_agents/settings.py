"""The environment, read once into a frozen value; nothing else in the package looks at environment variables.

Raises nothing: what is not set is None, and those who need it say so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_PASSED_ON = ("PATH", "HOME", "LANG", "TERM")
_CONTAINERS = ("PATH", "HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DOCKER_HOST", "DOCKER_CONTEXT",
               "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "CONTAINER_HOST", "TMPDIR")


_PIP = ("PATH", "HOME", "LANG", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_CACHE_HOME", "NETRC", "PIP_CONFIG_FILE",
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_TRUSTED_HOST", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_PROXY",
        "PIP_CONSTRAINT", "PIP_CACHE_DIR", "PIP_NO_CACHE_DIR", "PIP_TIMEOUT", "PIP_DEFAULT_TIMEOUT", "PIP_RETRIES", "PIP_PRE",
        "PIP_UPLOADED_PRIOR_TO", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
        "http_proxy", "https_proxy", "no_proxy", "all_proxy",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_OTEL = ("OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
         "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
         "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
         "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_TIMEOUT",
         "OTEL_EXPORTER_OTLP_COMPRESSION", "OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
         "OTEL_EXPORTER_OTLP_CLIENT_KEY", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_METRIC_EXPORT_INTERVAL",
         "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says.

    `sop_model` is SOP_MODEL; `container` is SOP_CONTAINER, the program that carries containers out, `container_image` is
    SOP_CONTAINER_IMAGE, and `container_environment` what that program gets; `command_environment` is
    what commands of `run:` get of the user's environment;
    `pip_environment` is what pip gets: where the index is and how it is reached; `cache` the folder of what can be made again;
    `otel` are OpenTelemetry's own variables, which `api/telemetry/target.py` reads.
    `no_color` follows https://no-color.org: set and not empty. `configuration` is the user's own file, there or not,
    and `state` the folder of what is kept between runs outside of workspaces
    (https://specifications.freedesktop.org/basedir-spec/latest/). Keys of endpoints are left out of `repr` and comparisons.
    """

    sop_model: str | None = None
    openai_api_key: str | None = field(default=None, repr=False)
    openai_base_url: str | None = None
    no_color: bool = False
    container: str | None = None
    container_image: str | None = None
    container_environment: Mapping[str, str] = field(default_factory=dict)
    command_environment: Mapping[str, str] = field(default_factory=dict)
    pip_environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    otel: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache: Path | None = None
    configuration: Path | None = None
    state: Path | None = None
    _variables: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def heads(self) -> Path | None:
        """The folder of the heads of audits; None where there is no home."""
        return None if self.state is None else self.state / "audit"

    def variable(self, name: str) -> str | None:
        """A variable that a SOP names as the one that holds a key; None where it is not set, or empty."""
        return self._variables.get(name) or None

    @property
    def packages(self) -> Path | None:
        """The folder of the environments of packages; None where there is no home."""
        return None if self.cache is None else self.cache / "packages"

    @property
    def consents(self) -> Path | None:
        """The folder of what was allowed to run without a sandbox; None where there is no home."""
        return None if self.state is None else self.state / "unconfined"

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """The settings of this process, or of the given mapping (name → value). Empty variables count as not set."""
        env = os.environ if environment is None else environment
        path = {"PATH": _absolute(env["PATH"])} if env.get("PATH") else {}
        return cls(
            sop_model=env.get("SOP_MODEL") or None,
            openai_api_key=env.get("OPENAI_API_KEY") or None,
            openai_base_url=env.get("OPENAI_BASE_URL") or None,
            no_color=bool(env.get("NO_COLOR")),
            container=env.get("SOP_CONTAINER") or None,
            container_image=env.get("SOP_CONTAINER_IMAGE") or None,
            container_environment={name: env[name] for name in _CONTAINERS if env.get(name)} | path,
            command_environment={name: env[name] for name in _PASSED_ON if env.get(name)} | path,
            pip_environment={name: env[name] for name in _PIP if env.get(name)} | path,
            otel={name: env[name] for name in _OTEL if env.get(name)},
            cache=_below(env, "XDG_CACHE_HOME", ".cache"),
            configuration=_below(env, "XDG_CONFIG_HOME", ".config", "config.yaml"),
            state=_below(env, "XDG_STATE_HOME", ".local/state"),
            _variables=dict(env),
        )


def leave_current_directory() -> None:
    """Takes the current directory out of `sys.path` and PATH of this process, for a program that is about to work in a folder of
    somebody else's. Python puts it there for `python -m` and for an empty or a `.` entry of PYTHONPATH.
    """
    here = os.path.realpath(os.curdir)
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep) if "PYTHONPATH" in os.environ else []
    named = any(os.path.isabs(entry) and os.path.realpath(entry) == here for entry in entries)
    unnamed = any(entry in ("", os.curdir) for entry in entries) and not named
    first = sys.path[:1] if not sys.flags.safe_path and os.path.realpath((sys.path or ["/"])[0]) == here else []
    sys.path[:] = [entry for at, entry in enumerate(sys.path) if entry not in ("", os.curdir)
                   and not (at == 0 and first) and not (unnamed and os.path.realpath(entry) == here)]
    if os.environ.get("PATH"):
        os.environ["PATH"] = _absolute(os.environ["PATH"])


def _absolute(path: str) -> str:
    """A search path without the entries that mean the current directory, or a folder in it."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry))


def _below(env: Mapping[str, str], variable: str, usual: str, *rest: str) -> Path | None:
    """The `sop` folder (or a file in it) below a base folder, such as `~/.config`; a relative folder counts as not set."""
    folder = env.get(variable) or ""
    if not folder.startswith("/"):
        home = env.get("HOME") or ""
        if not home.startswith("/"):
            return None
        folder = f"{home}/{usual}"
    return Path(folder, "sop", *rest)
