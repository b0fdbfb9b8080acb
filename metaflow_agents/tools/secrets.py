"""Secrets: named by the SOP, read from the environment, filled in where a tool is called, and redacted from all that it says."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from metaflow_agents.errors import NotHere, UsageError
from metaflow_agents.schema.sop import SOP
from metaflow_agents.settings import Settings
from metaflow_agents.terminal import printing

_NAMED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ESCAPE = re.compile("%[0-9A-F]{2}")
_SHORTEST = 4                       # characters: to redact shorter ones would redact words


def named(text: str) -> list[str]:
    """The secrets that a text names as `${NAME}`."""
    return _NAMED.findall(text)


def filled(text: str, value: Callable[[str], str]) -> str:
    """The text with each `${NAME}` replaced by what `value` gives for it."""
    return _NAMED.sub(lambda found: value(found[1]), text)


class Secrets:
    """The secrets that a SOP declares. `lookup` reads an environment variable; None where it is not set."""

    def __init__(self, names: Iterable[str], lookup: Callable[[str], str | None]) -> None:
        self._names, self._lookup = tuple(names), lookup
        self._pattern: re.Pattern[str] | None = None
        self._spelled: dict[str, str] = {}              # how a secret may be spelled → its name

    def value(self, name: str) -> str:
        """A secret. Raises UsageError where it is not declared, NotHere where it is not set."""
        if name not in self._names:
            raise UsageError(f"`{name}` is no secret of this SOP: declare it under `secrets`")
        found = self._lookup(name)
        if not found:
            raise NotHere(f"the secret `{name}` is not set: `export {name}=…` before the run")
        return found

    def filled(self, text: str) -> str:
        """The text with `${NAME}` replaced. Raises UsageError."""
        return filled(text, self.value)

    def missing(self) -> list[str]:
        """The declared ones that are not set."""
        return [name for name in self._names if not self._lookup(name)]

    def masked(self, text: str) -> str:
        """The text with `[secret NAME]` in place of each secret, also as URLs, JSON, HTML and Base64 spell it."""
        pattern = self._blots()
        return text if pattern is None else pattern.sub(self._blot, text)

    def masked_data(self, value: Any) -> Any:
        """The same of JSON data, its keys too."""
        return every_text(value, self.masked)

    def masked_bytes(self, data: bytes) -> bytes:
        """The same of a file."""
        pattern = self._blots()
        if pattern is None:
            return data
        text = data.decode("utf-8", "surrogateescape")
        return pattern.sub(self._blot, text).encode("utf-8", "surrogateescape")

    def _blot(self, found: re.Match[str]) -> str:
        return f"[secret {self._spelled[found[0]]}]"

    def _blots(self) -> re.Pattern[str] | None:
        if self._pattern is None:
            for name in self._names:
                value = self._lookup(name) or ""
                if len(value) >= _SHORTEST:
                    self._spelled |= dict.fromkeys(_spellings(value), name)
            if not self._spelled:
                return None
            longest_first = sorted(self._spelled, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        return self._pattern


def secrets_of(sop: SOP, settings: Settings) -> Secrets:
    """The secrets of a SOP, in the environment of this process, which prints none of them from now on."""
    found = Secrets(sop.secrets, settings.variable)
    if sop.secrets:
        printing.redact(tuple(sop.secrets), found.masked)
    return found


def every_text(value: Any, change: Callable[[str], str]) -> Any:
    """JSON data with each of its texts changed, keys too. Raises RecursionError for what nests without end."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): every_text(inner, change) for key, inner in value.items()}
    return [every_text(inner, change) for inner in value] if isinstance(value, list | tuple) else value


def _spellings(value: str) -> Iterable[str]:
    """As it is; as URLs and forms, JSON, HTML, hexadecimal and Base64 write it. Another disguise is none of them."""
    yield value
    for encoded in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield encoded
        yield _ESCAPE.sub(lambda found: found[0].lower(), encoded)
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield html.escape(value)
    yield html.escape(value, quote=False)
    data = value.encode()
    yield data.hex()
    yield data.hex().upper()
    for start in range(3):                              # inside of a longer Base64 text it may begin at any of three places
        coded = base64.b64encode(b"\0" * start + data).decode()
        whole = coded[-(-start * 8 // 6):] if start else coded
        kept = whole.rstrip("=")
        kept = kept[:len(kept) - (1 if (start + len(data)) % 3 else 0)]
        if len(kept) >= 8:
            yield kept
            yield kept.replace("+", "-").replace("/", "_")
