"""Searching texts for a regular expression that a model wrote: it may backtrack for ever, and is given up after a while."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from metaflow_agents.schema.binary import described, text_in
from metaflow_agents.threads.blocking import Threads

_SECONDS = 10.0
_LONGEST = 400                      # characters of a line that are shown
_COUNTS = re.compile(r"\{\s*(\d+)")   # how often a part has to stand there; where such parts nest, they multiply
_REPEATED = 100_000                 # `(?:a{1000}){1000}` is a program of a million parts, and making it can't be stopped
THREADS = 4                         # searches at once; the rest waits


@dataclass(frozen=True, slots=True)
class SearchHit:
    """Lines that match: (path, number, text), of `total` in all, in `files` files; `binary`: name, type and size of those that
    are no text, in which nothing was looked for.
    """

    lines: list[tuple[str, int, str]]
    total: int
    files: int
    binary: tuple[str, ...] = ()


async def search(
    threads: Threads, expression: str, files: Mapping[str, bytes], *, ignore_case: bool, most: int
) -> SearchHit | str:
    """What matches in the files that are text; or in words why there is no answer: bad syntax, or it took too long.

    `threads`: where it is done; who owns them ends them.
    """
    if prod(max(1, int(count)) for count in _COUNTS.findall(expression)) > _REPEATED:
        return f"`{expression}` repeats its parts more than {_REPEATED:,} times: write a simpler one"
    import regex  # which can be stopped, and lets other threads go on

    try:
        wanted = regex.compile(expression, regex.IGNORECASE if ignore_case else 0)
    except (regex.error, RecursionError, OverflowError) as error:
        return f"`{expression}` is no regular expression: {error}"
    return await threads.run(partial(_searched, wanted, dict(files), most))


def _searched(wanted: Any, files: Mapping[str, bytes], most: int) -> SearchHit | str:
    until, total, texts = time.monotonic() + _SECONDS, 0, 0
    found: list[tuple[str, int, str]] = []
    binary: list[str] = []
    for path, data in files.items():
        text = text_in(data)
        if text is None:
            binary.append(described(path, data))
            continue
        texts += 1
        for number, line in enumerate(text.splitlines(), 1):
            try:
                hit = wanted.search(line, concurrent=True, timeout=max(0.001, until - time.monotonic()))
            except TimeoutError:
                return f"the search took longer than {_SECONDS:g} seconds: the expression backtracks; write a simpler one"
            if hit:
                total += 1
                if len(found) < most:
                    found.append((path, number, line[:_LONGEST]))
    return SearchHit(found, total, texts, tuple(binary))
