"""The house rules: floors, circles, and what may be imported or touched where."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import grimp
import networkx as nx
import pytest

import metaflow_agents

PACKAGE = Path(metaflow_agents.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
ONLY_IN = {                                  # external package → the rooms that may import it
    "openai": ("models",),
    "aiohttp": ("models", "network"),
    "h11": ("network/caller.py",),
    "idna": ("network/hosts.py",),
    "httpx2": ("models", "tools/mcp_http.py"),
    "yaml": ("sop", "documents/publishing/convert.py"),
    "networkx": ("sop/graph.py", "code/map/ranking.py"),
    "tree_sitter": ("code/map/parsing.py", "kits/company/scripts.py"),
    "genai_prices": ("models/prices.py",),
    "jinja2": ("prompts", "views"),
    "sqlite3": ("journal", "memory/store.py", "memory/lookups.py"),
    "numpy": ("memory",),
    "usearch": ("memory/indexes/hnsw.py",),
    "faiss": ("memory/indexes/faiss.py",),
    "typer": ("cli", "web/command.py"),
    "starlette": ("web",),
    "uvicorn": ("web/serving.py",),
    "rich": ("cli", "views"),
    "subprocess": ("sandbox", "workers/process.py", "web/launching.py", "documents/publishing/convert.py", "kits/company/probe"),
    "pypandoc": ("documents/publishing",),
    "typst": ("documents/publishing/convert.py",),
    "sandlock": ("sandbox/keeper.py",),
    "pypdf": ("documents",),
    "selectolax": ("documents", "kits/company/pages.py"),
    "json_repair": ("agent/repair_job.py",),
    "markdown_it": ("kits/research", "views/ui/markdown_tree.py"),
    "pygments": ("views/ui/code.py",),
    "dulwich": ("output/history",),
    "mcp": ("tools", "api/mcp_server.py"),
    "mcp_types": ("tools", "api/mcp_server.py"),
    "anyio": ("tools", "api/mcp_server.py"),
    "regex": ("tools/searching.py", "tools/arguments.py", "schema/checks.py"),
    "jsonschema": ("tools",),
    "unified_planning": ("kits/planning/worker.py",),
    "rdkit": ("kits/chemistry/molecules.py",),
    "docstring_parser": ("tools/functions.py",),
}


@cache
def parsed(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a module. Parsed once for all rules."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def imported(path: Path) -> list[tuple[str, int]]:
    """(top-level package, line) of every import of a module, those inside functions too."""
    found = []
    for node in parsed(path):
        if isinstance(node, ast.Import):
            found += [(name.name.partition(".")[0], node.lineno) for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append((node.module.partition(".")[0], node.lineno))
    return found


def test_floors_hold() -> None:
    done = subprocess.run([Path(sys.executable).with_name("lint-imports"), "--no-cache"], cwd=PACKAGE.parent,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_import_circles() -> None:
    """Typing-only imports count too."""
    graph = grimp.build_graph("metaflow_agents", exclude_type_checking_imports=False, cache_dir=None)
    arrows = nx.DiGraph((a, b) for a in graph.modules for b in graph.find_modules_directly_imported_by(a))
    circles = [sorted(component) for component in nx.strongly_connected_components(arrows) if len(component) > 1]
    # The package's own `__init__` names what it exports lazily; nothing below may import it back.
    assert circles == []


@pytest.mark.one_in(8, always=False)
def test_external_packages_stay_in_their_rooms() -> None:
    """One test: each worker that runs a part of it would parse every module."""
    found = {(package, room(path)) for path in MODULES for package, _ in imported(path) if package in ONLY_IN}
    assert {(package, where) for package, where in found if not where.startswith(ONLY_IN[package])} == set()
    assert set(ONLY_IN) == {package for package, _ in found}, "nothing imports these: do their rules still mean anything?"


JSON_READ_IN = {                             # module → why what it reads there is not foreign, or is read otherwise
    "texts/strict_json.py": "the strict reader itself",
    "schema/validation.py": "a schema that it wrote a line before",
    "sandbox/repl_worker.py": "inside of the sandbox, what this program sends it",
    "sandbox/contained.py": "inside of the sandbox, the arguments that this program gave it",
    "sandbox/keeper.py": "inside of the sandbox, the job that this program wrote into a file",
    "workers/serve.py": "in a worker, the arguments that this program sends it",
    "agent/recorded.py": "arguments that it wrote a line before, with secrets taken out",
    "agent/embedding.py": "requests and replies in this program's own journal",
    "kits/company/probe/serving.py": "in the probe, what `browse.py` prints, beside it",
    "cli/drive.py": "blobs of the run's own journal",
    "kits/training_data/lived.py": "blobs of journals, whose reader answers for what strangers wrote (`cli/strangers.py`)",
    "journal/delta.py": "one text as this program escaped it; the digest of what comes of it is checked",
    "memory/store.py": "a column that this program wrote, in its own file",
    "models/caller.py": "replies in this program's own journal",
    "models/recording.py": "blobs of journals; the file of a recording goes through the strict reader",
    "documents/publishing/convert.py": "inside of the sandbox, the job that this program wrote into a file",
    "api/preview.py": "a request in a journal in memory",
    "api/sop_test/lived.py": "requests in a journal in memory",
    "views/spans/content.py": "blobs of the run's own journal",
    "workers/process.py": "what a worker gives, bounded in length; what is no JSON is a refusal of what it parsed",
}


@pytest.mark.one_in(8)
def test_foreign_json_is_read_by_one_reader() -> None:
    """Nobody else calls what builds values from JSON; pydantic's own reading is for values of this package's models."""
    reads = {"loads", "load", "JSONDecoder", "raw_decode", "from_json"}
    found = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "json" and reads & {name.name for name in node.names}:
                found.add(room(path))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "json" \
                    and node.attr in reads:
                found.add(room(path))
    assert found == set(JSON_READ_IN)


def test_environment_is_read_in_settings_alone() -> None:
    found = {room(path) for path in MODULES for node in parsed(path)
             if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "putenv", "environb")}
    assert found == {"settings.py", "documents/publishing/convert.py", "sandbox/contained.py", "kits/company/probe/desk.py",
                     "kits/company/browse.py"}, (
        "scripts in the sandbox: one tells pandoc the time, two add to the PATH of their place, one has a home and a browser")


def test_nothing_foreign_is_evaluated() -> None:
    """What executes Python for roles is a script that runs in the sandbox alone, and that nothing imports."""
    forbidden = {"eval", "exec", "__import__"}
    inside = "sandbox/repl_worker.py"
    assert not [path for path in MODULES if "metaflow_agents.sandbox.repl_worker" in path.read_text()]
    found = [f"{room(path)}:{node.lineno}" for path in MODULES if room(path) != inside
             for node in parsed(path)
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in forbidden]
    assert found == []
    unsafe = {"pickle", "marshal", "shelve"}
    assert not [room(path) for path in MODULES if unsafe & {package for package, _ in imported(path)}]


def test_no_room_is_called_utils() -> None:
    assert not [path for path in MODULES if path.stem in ("utils", "util", "helpers", "misc", "common")]


def test_no_room_stands_empty() -> None:
    for folder in {path.parent for path in MODULES}:
        assert (any(path.name != "__init__.py" or "import" in path.read_text() for path in folder.glob("*.py"))
                or any(folder.glob("*/__init__.py"))), folder


HEAVY = ("openai", "aiohttp", "genai_prices", "pypdf", "selectolax", "json_repair", "markdown_it", "dulwich", "networkx", "rich",
         "jinja2", "mcp", "anyio", "jsonschema", "unified_planning", "yaml", "tree_sitter", "pydantic", "asyncio", "sqlite3")


def test_importing_the_package_is_light() -> None:
    code = f"import sys, metaflow_agents; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names() -> None:
    assert sorted(metaflow_agents.__all__) == dir(metaflow_agents)
    for name in metaflow_agents.__all__:
        assert getattr(metaflow_agents, name) is not None
    assert callable(metaflow_agents.run), "a module called `run` would hide the function"


PRINTS = {"metaflow_agents/terminal/printing.py", "metaflow_agents/cli/output.py"}
"""The one way out for text, and who hands it what a command says."""
INSIDE = {"metaflow_agents/sandbox/repl_worker.py", "metaflow_agents/sandbox/canary.py",
          "metaflow_agents/documents/publishing/convert.py", "metaflow_agents/kits/company/probe/__main__.py",
          "metaflow_agents/kits/company/browse.py"}
"""What these hold runs inside of the sandbox, where its output is read by its parent."""


@pytest.mark.one_in(8)
def test_text_has_one_way_out() -> None:
    """Nothing is printed but by `printing.write`: no `print`, no `sys.stdout.write`, no console of `rich` or `typer`."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE.parent))
        if name in PRINTS | INSIDE:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called in ("print", "typer.echo", "typer.secho", "pprint", "pprint.pprint", "warnings.warn") or re.fullmatch(
                        r"(sys\.(__)?std(out|err)(__)?(\.buffer)?\.(write|writelines)|.*console\.(print|log|out))", called):
                    found.append(f"{name}:{node.lineno}: {called}")
    assert found == []


MOST_PARAMETERS = 8
OPTIONS = {"api/run.py:start", "api/run.py:go_on", "cli/making.py:export", "cli/people.py:answer", "cli/running.py:run",
           "cli/running.py:resume"}
"""What people choose by name, one parameter an option: of the public API and of the command line."""


def test_nothing_takes_too_many_parameters() -> None:
    """Of functions and constructors as they are written; fields of values (dataclasses, models) are named where they are made."""
    def count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        return len([one for one in given if one.arg not in ("self", "cls")])

    found = {f"{room(path)}:{node.name}" for path in MODULES for node in parsed(path)
             if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and count(node) > MOST_PARAMETERS}
    assert found == OPTIONS, "bundle what belongs together into a value; `journal/run_context.py` has what all parts need"


WRITTEN = re.compile(r"from (metaflow_agents[\w.]*) import (\w+(?:, *\w+)*)")
MADE_UP = {"metaflow_agents.sums"}            # modules of packages that a test makes


def test_code_that_stands_in_texts_imports_what_is_there() -> None:
    """In tests that start processes, in CI and in documents: where something has moved, no type checker says so."""
    top = Path(__file__).parent.parent
    places = [*top.glob("tests/*.py"), *top.glob("examples/**/*.py"), *top.glob("examples/**/*.md"), *top.glob("docs/**/*.md"),
              *top.glob("*.md"), *top.glob(".ci/*"), top / "Makefile"]
    wrong = []
    for place in (place for place in places if place.is_file()):
        for module, names in WRITTEN.findall(place.read_text(encoding="utf-8")):
            for name in () if module in MADE_UP else re.split(", *", names):
                if not hasattr(importlib.import_module(module), name) and not find_spec(f"{module}.{name}"):
                    wrong.append(f"{place.relative_to(top)}: from {module} import {name}")
    assert wrong == []
