"""Texts that repeat what parsers stumble over cost time in proportion to their length: see `benchmarks/pumped.py`.

One size, at which what is linear takes milliseconds and what is quadratic takes very long; each pair in a process of its own.
"""

from __future__ import annotations

import random

import pytest

from benchmarks.pumped import PUMPS, _parsers, seconds

SIZE, LIMIT, TRIED = 30_000, 10.0, 30
# Found to grow with the square of their input, or worse, and mended: these are tried always.
FOUND = [
    ("blocks", "'=== x: ' and spaces"), ("blocks", "unknown blocks"), ("marks of quotations", "'“' again"),
    ("marks of quotations", "'`' again"), ("marks of quotations", "'„' again"), ("marks of quotations", "'‘' again"),
    ("one form of a text", repr("\u0301\u0316") + " again"), ("one form of a text", "'_' again"),
    ("passages", repr("\u0301\u0316") + " again"),
    ("an edit that fits nowhere", "lines"), ("an edit of a text by its lines", "lines"),
    ("an edit of a text by its lines", "a long edit"),
    ("an answer gone on with", "half periods"),
    ("what an endpoint says", "'<title>' again"), ("what an endpoint says", "'<' again"),
    ("how long to wait", "'9' again"), ("a command", "'{{' again"), ("a script", "'{' again"), ("a rule", "'a ' and spaces"),
    ("did you mean a long one", "'a' again"), ("a document's headings", "'# ' and spaces"), ("a difference", "lines"),
]


@pytest.mark.slow
def test_no_parser_grows_faster_than_its_input() -> None:
    seed = random.randrange(1 << 32)
    parsers = _parsers()
    every = [(name, pump) for name in parsers for pump in PUMPS]
    slow = [(name, pump) for name, pump in [*FOUND, *random.Random(seed).sample(every, TRIED)]
            if seconds(parsers[name], PUMPS[pump], SIZE, LIMIT) >= LIMIT]
    assert not slow, f"seed {seed}"
