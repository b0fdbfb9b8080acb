"""The two tiers of the tests: what runs on every change, and all of it (`SOP_TESTS=all`, `make test-all`).

On every change, what is marked `slow` stays out, of what is marked `one_in(4)` a fourth takes part, and random tests take a tenth
of their examples: others each time, by a seed that is printed at the end of the run and can be given (`SOP_TESTS_SEED=4711`).
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

T = TypeVar("T")
CHOICE = os.environ.get("SOP_TESTS", "")
ALL = CHOICE == "all"
SEED = int(os.environ.setdefault("SOP_TESTS_SEED", str(random.randrange(1 << 32))))      # of all workers, by their environment


def table(path: Path) -> Any:
    """The YAML of a table of tests, read by libyaml: each worker reads all of them when it collects."""
    return yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def examples(whole: int) -> int:
    """How many of so many examples a random test takes in this tier."""
    return whole if ALL else max(whole // 10, 1)


def some(whole: Sequence[T], part: int = 10) -> list[T]:
    """All of these, in the full tier; else every `part`-th, from another one on with each seed."""
    return list(whole) if ALL else list(whole)[SEED % part::part]


def once(name: str, make: Callable[[], T]) -> T:
    """What `make` gives, which has to be JSON: worked out by one of the workers, while the others wait for it."""
    made = Path(os.environ["SOP_TESTS_HOME"]) / f"once-{name}.json"
    with open(made.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            made.write_text(json.dumps(make()), encoding="utf-8")
        found: T = json.loads(made.read_text(encoding="utf-8"))
        return found


def takes_part(test: str, part: int, always: bool = True) -> bool:
    """Whether it is the turn of this test, which is marked `one_in(part)`. What a mutation relies on always takes part, unless it
    takes many seconds and is marked `one_in(part, always=False)`: then it does where mutations are carried out.
    """
    named = named_by_a_mutation(test) if always else "SOP_TESTS_MUTATED" in os.environ
    return (zlib.crc32(test.encode()) + SEED) % part == 0 or named


def named_by_a_mutation(test: str) -> bool:
    """Whether `tests/mutations` names this test id, or its function for all parameters."""
    functions, by_case, text = _mutations()
    function = test.partition("[")[0]
    return function in functions or (function in by_case and test in text)


@cache
def _mutations() -> tuple[frozenset[str], frozenset[str], str]:
    """The functions that the mutations name, those of which they name cases, and the lines of these."""
    files = (Path(__file__).parent / "mutations").glob("*.yaml")
    lines = "\n".join(path.read_text(encoding="utf-8") for path in files).splitlines()
    text = "\n".join(line for line in lines if "::" in line)
    return (frozenset(re.findall(r"[\w/.-]+\.py::\w+(?![\w\[])", text)),
            frozenset(re.findall(r"([\w/.-]+\.py::\w+)\[", text)), text)


def chance(what: str) -> random.Random:
    """A source of chance for this use, which follows the seed."""
    return random.Random(f"{SEED} {what}")
