"""A product made a repository, by code: what was wanted, what stands beside a program, and the report of what was tried."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from metaflow_agents.kits.changes import make_patch
from metaflow_agents.kits.company.inspection import LINTED, NOT_LINTED, TYPED
from metaflow_agents.kits.company.known import marked_known
from metaflow_agents.kits.company.review import REVIEW, remarks
from metaflow_agents.kits.company.steps import is_page
from metaflow_agents.kits.python_package.packaging import Packaging
from metaflow_agents.packages.pyproject import PYPROJECT

_EXTRA = '\n[project.optional-dependencies]\ntest = ["pytest>=8"]\n'
_LINTED = """
[tool.ruff]
target-version = "py311"
line-length = 140

[tool.ruff.lint]
select = [{select}]
ignore = [{ignore}]

[tool.ruff.lint.per-file-ignores]
"tests/**" = ["S"]
"""
_TYPED = """
[tool.ty.rules]
all = "ignore"
{rules}
"""
_TESTS = "\n## Tests\n\n    pip install '.[test]'\n    pytest\n"
_TESTS_OF_A_PAGE = "\n## Tests\n\n    node --test tests/*.test.js      # node 22 or newer; nothing to install\n"
_NAMED_TEST = re.compile(r"""\b(?:test|it)\(\s*(["'`])((?:(?!\1)[^\\\n]|\\.){1,200})\1""")
REPORT = "docs/report.md"
KEY = "tests/README.md"
_ID = re.compile(r"\bR[1-9][0-9]?\b")


def wanted(built: Mapping[str, Any]) -> str:
    """What a tester has to know who did not write the product: its user, its requirements by id, what must not happen."""
    brief = built["brief"]
    said = built.get("answer", {"text": ""})["text"].strip()
    assumed = [f"- {one['question']} {one['assumption']}" for one in brief["open"]]
    return "\n".join([brief["summary"], "", brief["user"], "",
                      *(f"{one['id']} ({one['priority']}): {one['text']}" for one in brief["requirements"]),
                      "", "Must never happen:", *(f"- {one}" for one in brief["never"]),
                      *(["", "Assumed:", *assumed] if assumed else []),
                      *(["", "Asked about that, its person said, which counts more:", said] if said else [])])


def repository_files(built: Mapping[str, Any]) -> dict[str, str]:
    """The product with its samples and without its review, and what a repository has besides: a changelog, an extra for its
    tests, the rules of ruff and ty by which it was read. A rule that it breaks is left out of them.
    """
    files: dict[str, str] = {path: text for path, text in {**built["samples"], **built["product"]}.items() if path != REVIEW}
    brief = built["brief"]
    files.setdefault("CHANGELOG.md", f"# Changelog\n\n## 0.1.0\n\n- The first version. {brief['summary']}\n")
    if PYPROJECT in files:
        told = Packaging(files)
        added = [_EXTRA] if "optional-dependencies" not in told.project else []
        open_rules = {one.split(": ")[1] for one in built["transcript"]["remarks"]}
        if "ruff" not in told.table("tool"):
            ignored = [*NOT_LINTED, *sorted(one for one in open_rules if one not in TYPED)]
            added.append(_LINTED.format(select=_quoted(LINTED), ignore=_quoted(ignored)))
        if "ty" not in told.table("tool"):
            added.append(_TYPED.format(rules="\n".join(f'{one} = "error"' for one in TYPED if one not in open_rules)))
        files[PYPROJECT] = files[PYPROJECT].rstrip("\n") + "\n" + "".join(added)
    return files


def _quoted(rules: Sequence[str]) -> str:
    return ", ".join(f'"{one}"' for one in rules)


def put_back(product: Mapping[str, Any], draft: Mapping[str, str]) -> dict[str, str | None]:
    """A product as its draft was: files that came later go."""
    return {**_gone(product, draft), **draft}


def _gone(before: Mapping[str, Any] | None, after: Mapping[str, str]) -> dict[str, str | None]:
    """What there was and is no more, as a step that makes files deletes it."""
    return dict.fromkeys(path for path in before or () if path not in after)


def program_with_tests(verified: Mapping[str, Any], built: Mapping[str, Any], program: Mapping[str, Any] | None = None
                   ) -> dict[str, str | None]:
    """The program with its tests, those that stay red marked as known, with a report of what was tried, what the ids in its tests
    mean, and in its README how to run them. What `program` had and is no more goes.
    """
    tree = verified["tree"]
    command, how = ("node --test", _TESTS_OF_A_PAGE) if is_page(tree) else ("pytest", _TESTS)
    readme = tree.get("README.md")
    added = {"README.md": readme.rstrip("\n") + "\n" + how} if readme and command not in readme else {}
    tests = {path: text for path, text in tree.items() if path.startswith("tests/")}
    known = marked_known(tests, verified["outcome"]["red"], verified["outcome"]["wrong"])
    told = {KEY: _key(built["brief"]["requirements"], {**tests, **known}), REPORT: report(built, verified, known)}
    return {**_gone(program, tree), **tree, **known, **added, **told}


def program_without_tests(untested: Mapping[str, Any], built: Mapping[str, Any]) -> dict[str, str]:
    """The report of a program whose tests nobody could write."""
    return {REPORT: report(built, None, untested=untested["error"])}


def changed_program(changed: Mapping[str, Any], program: Mapping[str, Any], built: Mapping[str, Any] | None,
                    verified: Mapping[str, Any] | None, feedback: Sequence[str], outcomes: Sequence[Mapping[str, Any]]
                    ) -> dict[str, str | None]:
    """The program after a change that is done, as the files that are new in it (None: it goes); what was `built` here gets a
    report of all changes (`outcomes`).
    """
    done = changed["difference"] if changed["outcome"]["done"] else {"written": {}, "removed": []}
    files = {**dict.fromkeys(done["removed"]), **done["written"]}
    return files | ({REPORT: report(built, verified, {**program, **files}, feedback, outcomes)} if built else {})


def patch(repo: Mapping[str, bytes], program: Mapping[str, bytes]) -> str:
    """What leads from a repository that was given to the program, for `git apply`."""
    return make_patch(repo, program)


def report(built: Mapping[str, Any], verified: Mapping[str, Any] | None, program: Mapping[str, Any] | None = None,
           feedback: Sequence[str] = (), outcomes: Sequence[Mapping[str, Any]] = (), untested: str = "") -> str:
    """What was tried and what came of it, in Markdown, by the typed values alone.

    `feedback`: what a person said of it afterwards; `outcomes`: of each, in its order, whether it is `done`, and `why`.
    """
    tests = {path: text for path, text in (program or {}).items()
             if path.startswith("tests/") and path != KEY and isinstance(text, str)}
    told = [*_of_use(built["transcript"], [one["id"] for one in built["uses"]["uses"]]),
            *_of_review(remarks(built["product"])),
            *(_of_tests(tests, built["brief"]["requirements"], verified["outcome"]) if verified else
              ["## Tests", "", f"None ({' '.join(untested.split())[:300]}): nothing but its use shows that the program works.",
               ""]),
            *_of_feedback(feedback, outcomes),
            *_of_assumptions(built["brief"]["open"])]
    return "\n".join(["# What was tried, and what came of it", "", *told]).rstrip("\n") + "\n"


def _key(requirements: Sequence[Mapping[str, Any]], tests: Mapping[str, str]) -> str:
    """What the ids mean by which tests say what they show; an id that no test names is left out: it need not be built."""
    named = {name for text in tests.values() for name in _ID.findall(text)}
    return "\n".join(["# What the tests show", "", "Each test names what it shows by one of these ids.", "",
                      *(f"- {one['id']} ({one['priority']}): {one['text']}" for one in requirements
                        if one["id"] in named)]) + "\n"


def _of_use(transcript: Mapping[str, Any], uses: Sequence[str]) -> Iterator[str]:
    broken = {one["id"]: one["why"].splitlines() for one in transcript["broken"]}
    mistaken = transcript["mistaken"]
    yield from ("## Use", "", f"It was installed and used by {len(uses)} texts of commands, each in an empty folder: "
                f"{len({*uses} - {*broken, *mistaken})} ended as they have to.", "")
    if mistaken:
        yield from (f"Not counted, as their reader says that they ask for what nobody promised: {_names(mistaken)}.", "")
    for use, why in broken.items():
        first = next((line for line in why if line.startswith("It ")), why[0])
        yield from (f"- `{use}` did not: {first}" if use in uses else f"- Tried by code: {first}", "")


def _of_review(found: Sequence[str]) -> Iterator[str]:
    if found:
        yield from ("## Review", "", "Who took over the first draft minded this, and changed the files that are named:", "",
                    *(f"- {' '.join(one.split())}" for one in found), "")


def _of_tests(tests: Mapping[str, str], requirements: Sequence[Mapping[str, Any]], outcome: Mapping[str, Any]) -> Iterator[str]:
    yield from ("## Tests", "", f"By somebody else than the author of the program, in {len(tests)} files. "
                + ("All pass." if outcome["green"] else "Not all pass."), "")
    yield from (f"Small changes of the program were made one by one: {outcome['noticed']} of {outcome['tried']} turned a test "
                "red.", "")
    if outcome.get("red"):
        yield from (f"Marked as known, since they are red (`xfail` of pytest, `todo` of node): {_names(outcome['red'])}.", "")
    for one in outcome["wrong"]:
        yield f"- `{one['path']}` is wrong: {one['what']} Shown by `{one['test']}`."
    shown = _shown(tests)
    yield from ("", "| requirement | | tests that show it |", "| --- | --- | --- |")
    for one in requirements:
        named = shown.get(one["id"], [])
        listed = _names(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
        yield f"| {one['id']}: {_cell(one['text'])} | {one['priority']} | {listed or 'none names it'} |"
    yield ""


def _shown(tests: Mapping[str, str]) -> dict[str, list[str]]:
    """Requirement → the tests whose docstring, or of a script whose name, names it, in the order of the files."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, text in sorted(tests.items()):
        for told in _NAMED_TEST.finditer(text) if path.endswith(".test.js") else ():
            for name in dict.fromkeys(_ID.findall(told[2])):
                found[name].append(f"{path.removeprefix('tests/')}::{told[2]}")
        if not path.endswith(".py"):
            continue
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                for name in dict.fromkeys(_ID.findall(ast.get_docstring(node) or "")):
                    found[name].append(f"{path.removeprefix('tests/')}::{node.name}")
    return found


def _of_feedback(feedback: Sequence[str], outcomes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if outcomes:
        yield from ("## Changed afterwards", "", "All tests pass after each change that is done; no other change stays.", "")
        yield from (f"- {' '.join(said.split())}: " + ("done" if one["done"] else f"not done, as {one['why']}")
                    for said, one in zip(feedback, outcomes, strict=False))
        yield ""


def _of_assumptions(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if found:
        yield from ("## Assumed, and to be confirmed", "", *(f"- {one['question']} {one['assumption']}" for one in found))


def _names(found: Sequence[str]) -> str:
    return ", ".join(f"`{one}`" for one in found)


def _cell(text: str) -> str:
    """A text within a cell of a table."""
    return " ".join(text.replace("|", "\\|").split())
