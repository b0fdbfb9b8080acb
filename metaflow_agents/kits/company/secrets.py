"""Secrets that stand in a repository: keys by their form, and values that are called a secret and look like one."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping

_KEYS = re.compile(
    r"-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[oprsu]_[A-Za-z0-9]{36}\b|\bgithub_pat_\w{40}|"
    r"\bsk-[A-Za-z0-9_-]{24}|\bxox[abprs]-[A-Za-z0-9-]{10}|\bAIza[\w-]{35}|\bglpat-[\w-]{20}\b|"
    r"\beyJ[\w-]{10,300}\.eyJ[\w-]{10,300}\.[\w-]{10}")
_CALLED = re.compile(r"""(?i)(?:secret|passw(?:or)?d|token|api_?key)[\w.-]{0,40}["']?\s{0,3}[:=]\s{0,3}["']"""
                     r"""([^\s"']{12,200})["']""")
_STANDS_FOR = re.compile(r"(?i)example|your|change|dummy|placeholder|secret|password|token|xxx|\$\{|\{\{|<|%\(|/")
_ALPHABET = re.compile(r"(?i)abcdef|mnpqrs|12345|23456")
_BITS = 3.0
"""Bits of a character: words have less, keys made by chance more."""


def secret_faults(texts: Mapping[str, str]) -> Iterator[str]:
    """What each file holds that nobody may read, with its line; the value itself is not told."""
    for path, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            keys = [found[0] for found in _KEYS.finditer(line[:2_000]) if "EXAMPLE" not in found[0]]
            called = [found[1] for found in _CALLED.finditer(line[:2_000]) if _by_chance(found[1])]
            if keys or called:
                yield (f"`{path}`, line {number}: a secret stands there, and whoever has the repository has it; read it from the "
                       "environment or make it at the first start")


def _by_chance(value: str) -> bool:
    """Whether a value looks as if nobody had thought of it: no words in a row, and no alphabet."""
    if all(re.fullmatch(r"[a-z]+|v?\d{1,4}", part) for part in re.split(r"[_.:-]", value)) or _ALPHABET.search(value):
        return False
    if _STANDS_FOR.search(value) or not re.search(r"\d", value) or not re.search(r"[A-Za-z]", value):
        return False
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts) >= _BITS
