"""Texts of servers, as they may be shown: what nobody sees is taken out, what is too long is cut."""

from __future__ import annotations

import unicodedata


def visible(text: str) -> str:
    """The text without letters that a person does not see and a model reads: control and format characters, Unicode tags."""
    if text.isprintable():
        return text
    return "".join(letter for letter in text if letter in "\n\t" or unicodedata.category(letter)[0] != "C")


def cut(text: str, most: int) -> str:
    """At most so many characters of it; what is cut is said."""
    return text if len(text) <= most else f"{text[:most]}\n… cut: {len(text) - most:,} more characters"
