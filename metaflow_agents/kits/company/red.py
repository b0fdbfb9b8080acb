"""What a judge of red tests has to see of them: each file without the tests that pass, and the modules that these are about."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from metaflow_agents.kits.company.steps import cut
from metaflow_agents.schema.model import canonical, digest

SAID = 8_000
"""Characters of what red tests said that are shown, of all together."""
SOURCE = 16_000
"""Characters of files of tests that are shown, of all together."""
MODULES = 14_000
"""Characters of modules that are shown, of all together: with the rest, what a small model takes in. The first is shown whole."""
LEAST = 400
"""Characters that each of them gets, however many there are."""
_SCRIPT_TEST = re.compile(r"""(?:await )?(?:test|it)(?:\.\w{1,20})?\((["'`])([^"'`\n]{1,300})\1""")
_TEST = (ast.FunctionDef, ast.AsyncFunctionDef)


def red_tests(result: Mapping[str, Any], tree: Mapping[str, str | bytes], plan: Mapping[str, Any],
              faults: Mapping[str, Any] | None = None, red: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """`files`: each file with red tests, its `tests` with what they `said`, its `source`; `modules`: the paths that they are
    about, first those that a failure names, and `others` for which there is no room; `ids` of all red tests, and a digest of the
    `program`.

    Where no failure names a file, as nothing could be collected, each file of tests is shown. Nothing is shown where all has been
    judged: the program is what it was when `faults` were found, and what is red was `red` then and not the tests' fault.
    """
    failures = result["failures"]
    ids = [failure["id"] for failure in failures]
    program = digest(canonical({path: digest(text.encode() if isinstance(text, str) else text) for path, text in tree.items()
                                if not path.startswith("tests/")}))
    told = {"ids": ids, "program": program}
    if faults and red and ids and program == red["program"] and {*ids} <= {*red["ids"]}:
        corrected = {one["path"] for one in faults["tests"]}
        if not corrected & {name.partition("::")[0] for name in ids}:
            return {"files": [], "modules": [], "others": [], **told}
    by_file: dict[str, list[Mapping[str, Any]]] = {}
    for failure in failures:
        by_file.setdefault(failure["id"].partition("::")[0], []).append(failure)
    if not by_file.keys() & tree.keys():
        by_file |= {path: [] for path in tree if path.startswith("tests/")}
    room = max(SAID // max(len(failures), 1), LEAST), max(SOURCE // max(len(by_file), 1), LEAST)
    files = [{"path": path, "source": _excerpt(tree.get(path), path, found, room[1]),
              "tests": [{"id": one["id"], "said": cut(_said(one), room[0])} for one in found]} for path, found in by_file.items()]
    modules: list[str] = []
    others: list[str] = []
    left = MODULES
    for module in dict.fromkeys(_modules(failures, by_file, tree, plan)):
        left -= len(tree[module])
        (modules if left >= 0 or not modules else others).append(module)
    return {"files": files, "modules": modules, "others": others, **told}


def _modules(failures: Sequence[Mapping[str, Any]], by_file: Mapping[str, object], tree: Mapping[str, str | bytes],
             plan: Mapping[str, Any]) -> Iterator[str]:
    planned = [module for one in plan["files"] if one["path"] in by_file for module in one["modules"]]
    for path in (*(failure["place"].rpartition(":")[0] for failure in failures), *planned):
        if isinstance(tree.get(path), str) and not path.startswith("tests/"):
            yield path


def _said(failure: Mapping[str, Any]) -> str:
    said = ": ".join(part for part in (failure["exception"], failure["message"]) if part)
    return f"{said}\nat {failure['place']}" if failure["place"] else said


def _excerpt(text: str | bytes | None, path: str, failures: Sequence[Mapping[str, Any]], most: int) -> str:
    """The lines of a file of tests that its red tests may need: all but the tests that pass."""
    if not isinstance(text, str):
        return ""
    red = {failure["id"].removeprefix(f"{path}::") for failure in failures}
    if path.endswith(".js"):
        tests = list(_script_tests(text))
    else:
        red = {name.partition("[")[0] for name in red}
        try:
            tests = list(_tests(ast.parse(text).body))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return cut(text, most)
        if not red <= {name for name, _, _ in tests}:                   # the file itself is red: it could not be collected
            return cut(text, most)
    shown = "\n".join(_without(text, [(begin, end) for name, begin, end in tests if red and name not in red]))
    if len(shown) <= most:
        return shown.strip()
    lines = text.split("\n")
    wanted = "\n\n".join("\n".join(lines[begin - 1:end]) for name, begin, end in tests if name in red)
    others = "\n".join(_without(text, [(begin, end) for _, begin, end in tests])) if wanted else shown
    return f"{cut(others, max(most - len(wanted), LEAST))}\n\n{cut(wanted, most)}".rstrip()


def _script_tests(text: str) -> Iterator[tuple[str, int, int]]:
    """Each test of a script that stands at the left margin with its name, as a text, and ends there: from `test("name", …` to
    the line `});`. Those that a loop makes of a table are none of them.
    """
    name, begin = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if match := _SCRIPT_TEST.match(line):
            name, begin = match[2], number
        if (name and line.startswith("}")) or (match and line.rstrip().endswith(("});", "})"))):
            yield name, begin, number
            name = ""


def _tests(body: Sequence[ast.stmt], inside: str = "") -> Iterator[tuple[str, int, int]]:
    """Each test as its id names it, with its first and its last line."""
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _tests(node.body, f"{inside}{node.name}::")
        elif isinstance(node, _TEST) and node.name.startswith("test"):
            begin = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            yield f"{inside}{node.name}", begin, node.end_lineno or node.lineno


def _without(text: str, passes: Sequence[tuple[int, int]]) -> Iterator[str]:
    hidden = {line for begin, end in passes for line in range(begin, end + 1)}
    gap: list[str] = []                                                 # blank lines behind what is hidden
    skipped = False
    for number, line in enumerate(text.split("\n"), 1):
        if number in hidden:
            skipped, gap = True, []
        elif skipped and not line.strip():
            gap.append(line)
        else:
            if skipped:
                yield f"{line[:len(line) - len(line.lstrip())]}[… tests that pass …]"
                yield from gap
            skipped, gap = False, []
            yield line
    if skipped:
        yield "[… tests that pass …]"
