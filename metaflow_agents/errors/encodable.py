"""Text that UTF-8 can hold: the one place where halves of surrogate pairs become something that can be written.

Lone surrogates come from file names and environment variables of other encodings (PEP 383), from JSON escapes, and from
exceptions that quote either. Neither the journal, nor a file, nor an endpoint can take them.
"""

from __future__ import annotations

from typing import Any


def encodable(text: str) -> str:
    r"""The text, each lone surrogate written as its escape (`\udc80`). Never fails."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def all_encodable(value: Any) -> Any:
    """Plain data (mappings, lists, tuples, values) with every text of it `encodable`, keys included."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {all_encodable(key): all_encodable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [all_encodable(inner) for inner in value]
    return value


def words_of(error: BaseException, longest: int) -> str:
    """What an exception says, in one line of at most `longest` characters. Never fails, whatever its `__str__` does."""
    try:
        said = str(error)
        said = said if type(said) is str else str.__str__(said)
    except Exception as failure:
        return f"(its text can't be had: its __str__ raised {type(failure).__name__})"
    whole = encodable(" ".join(said[:2 * longest].split()))
    return whole if len(whole) <= longest and len(said) <= 2 * longest else f"{whole[:longest]}… ({len(said):,} characters)"
