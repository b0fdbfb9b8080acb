"""Which files of a program a role is shown: those that a failed use is most likely about, and those that each file of tests is
about, so that nobody need see all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import chain, count
from typing import Any

from metaflow_agents.code.map.ranking import ranked
from metaflow_agents.code.map.reading import KEPT
from metaflow_agents.kits.company.steps import is_page

SEEN = 24_000
"""Characters of modules that who writes one file of tests is shown; the first is shown whatever its size."""
FIXED = 30_000
"""Characters of files that who fixes a program is shown, of all together; the first is shown whatever its size."""
FOR_ONE_FILE = 70_000
"""Characters of a program that one file of tests is enough for; what it leaves unnoticed, small changes of the program show."""
MOST_FILES = 3
CODE = (".py", ".js", ".html")
NOT_TESTED = ("tests/", "docs/", "examples/")
NOT_RUN = (*NOT_TESTED, ".", "LICENSE", "CHANGELOG")
"""What no use of a program comes to; a README it does, as its words are tried."""


async def files_near(transcript: Mapping[str, Any], product: Mapping[str, str | bytes]) -> dict[str, list[str]]:
    """`shown`: paths in the order of the program, those that what the broken uses said names or is about; `others`: those for
    which there is no room, the likeliest first. Raises RunError where no worker starts.
    """
    texts = {path: text for path, text in product.items() if isinstance(text, str) and not path.startswith(NOT_RUN)}
    shown, others = _fitting(await _order(texts, "\n".join(one["why"] for one in transcript["broken"])), texts, FIXED)
    return {"shown": [path for path in texts if path in shown], "others": others}


def faulty_files(faults: Mapping[str, Any], tree: Mapping[str, str | bytes]) -> dict[str, list[str]]:
    """Of the files in which faults were found: those that are `shown` to who fixes them, and `others`, for which there
    is no room and whose turn comes when their tests are still red.
    """
    texts = {path: text for path, text in tree.items() if isinstance(text, str)}
    shown, others = _fitting([one["path"] for one in faults["program"] if one["path"] in texts], texts, FIXED)
    return {"shown": shown, "others": others}


async def plan_tests(repo: Mapping[str, str | bytes], wanted: str) -> dict[str, list[dict[str, Any]]]:
    """The `files` of tests that a program gets, one to three by its size, each with the `modules` that its writer is shown, first
    those that what is wanted is about and that others use, and the `others`. Raises RunError where no worker starts.
    """
    texts = {path: text for path, text in repo.items() if isinstance(text, str)}
    code = {path: text for path, text in texts.items() if path.endswith(CODE) and not path.startswith(NOT_TESTED)}
    left = await _order(code, wanted or texts.get("README.md", ""))
    number = max(1, min(MOST_FILES, math.ceil(sum(map(len, code.values())) / FOR_ONE_FILE)))
    files: list[dict[str, Any]] = []
    while (left and len(files) < number) or not files:
        shown, left = _fitting(left, code, SEEN)
        taken = {*repo, *(one["path"] for one in files)}
        name = next(name for name in _names(shown, is_page(repo)) if name not in taken)
        files.append({"path": name, "modules": [path for path in code if path in shown],
                      "others": [path for path in code if path not in shown]})
    return {"files": files}


async def _order(texts: Mapping[str, str], about: str) -> list[str]:
    """The paths, the likeliest to be about something first."""
    return [path for path, _ in ranked(await KEPT.read({path: text.encode() for path, text in texts.items()}), about)]


def _fitting(order: list[str], texts: Mapping[str, str], most: int) -> tuple[list[str], list[str]]:
    """What there is room for, in this order, and the rest. The first one fits."""
    shown, others = list[str](), list[str]()
    for path in order:
        fits = not shown or len(texts[path]) <= most
        most -= len(texts[path]) if fits else 0
        (shown if fits else others).append(path)
    return shown, others


def _names(modules: list[str], page: bool) -> Iterator[str]:
    """Names for a file of tests, by the module that it is most about."""
    parts = modules[0].rpartition(".")[0].split("/") if modules else ["program"]
    named = [part for part in parts if part not in ("src", "__init__", "index", "assets")]
    stem = re.sub(r"[^a-z0-9]+", "_", (named or ["program"])[-1].lower()).strip("_") or "program"
    for more in chain([""], (f"_{number}" for number in count(2))):
        yield f"tests/{stem}{more}.test.js" if page else f"tests/test_{stem}{more}.py"
