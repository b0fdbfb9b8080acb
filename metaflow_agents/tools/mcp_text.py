"""Texts of servers, as they may be shown: what nobody sees is taken out, what is too long is cut, secrets are masked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping

_SHORTEST = 4                       # characters of a secret that is looked for: less stands in half the words there are
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def visible(text: str) -> str:
    """The text without letters that a person does not see and a model reads: control and format characters, Unicode tags."""
    if text.isprintable():
        return text
    return "".join(letter for letter in text if letter in "\n\t" or unicodedata.category(letter)[0] != "C")


def cut(text: str, most: int) -> str:
    """At most so many characters of it; what is cut is said."""
    return text if len(text) <= most else f"{text[:most]}\n… cut: {len(text) - most:,} more characters"


class Filling:
    """Fills `${NAME}` with secrets, and masks in every text the values that it has filled in."""

    def __init__(self, secret: Callable[[str], str]) -> None:
        self._secret = secret
        self._known: dict[str, str] = {}

    def filled(self, written: Mapping[str, str]) -> dict[str, str]:
        """The mapping with the values of the secrets that it names. Raises UsageError where one is not set."""
        return {name: _REFERENCE.sub(self._value, text) for name, text in written.items()}

    def masked(self, text: str) -> str:
        """The text with `[secret NAME]` in place of each value."""
        for value, name in sorted(self._known.items(), key=lambda pair: -len(pair[0])):
            text = text.replace(value, f"[secret {name}]")
        return text

    def _value(self, found: re.Match[str]) -> str:
        value = self._secret(found[1])
        if len(value) >= _SHORTEST:
            self._known[value] = found[1]
        return value
