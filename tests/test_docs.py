"""The documents keep to the code: examples are checked and run, tables are regenerated, links lead somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from metaflow_agents import check
from metaflow_agents.agent import strategies
from metaflow_agents.api.sop_test import try_out
from metaflow_agents.schema.sop import NOT_BUILT
from metaflow_agents.schema.strategies import STRATEGIES
from metaflow_agents.sop.reading import read_yaml
from metaflow_agents.sop.shape_errors import MODELS, keys_of

TOP = Path(__file__).resolve().parent.parent
PAGES = [TOP / "README.md", TOP / "CONTRIBUTING.md", TOP / "CHANGELOG.md", *sorted((TOP / "docs").glob("**/*.md"))]
EXAMPLES = [TOP / "README.md", *sorted(path for path in (TOP / "docs").glob("**/*.md")
                                       if path.parent.name != "decisions" and path.name != "plugins.md")]
"""`plugins.md` is a package to be installed: `tests/test_plugins.py` builds it and runs its SOP."""
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INPUTS = {"--letters", "--idea", "--transcript", "--letter", "--title", "--question", "--documents", "--order", "--repo",
          "--issue", "--diff", "--feedback", "--unreadable"}
PATIENCE = 120                      # seconds for one program; it takes less than one
_FILE = re.compile(r"\A# file: (\S+)\n")


class Block(NamedTuple):
    """A fenced block of a page: what it is, what it says, and the file that its first line names."""

    language: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        named = _FILE.match(self.text)
        return named[1] if named else None


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        yield Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)


def name(path: Path) -> str:
    return path.relative_to(TOP).as_posix()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in; modules and strategies that an example made are forgotten afterwards."""
    (tmp_path / "pyproject.toml").touch()       # a project of its own: nothing of this one is found by accident
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(strategies, "_REGISTRY", dict(strategies._REGISTRY))
    monkeypatch.delitem(sys.modules, "desk", raising=False)         # other tests have one too
    before = set(sys.modules)
    yield tmp_path
    for module in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", None)):
            del sys.modules[module]


def lay_out(page: Path, folder: Path) -> None:
    for block in blocks(page):
        if block.file is not None:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, encoding="utf-8")


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """A program of a page that waits for what never comes is ended, wherever it waits."""
    def over(*_: object) -> None:
        raise TimeoutError(f"not done in {seconds} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", TOP / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.one_in(4)
@pytest.mark.parametrize("page", [page for page in EXAMPLES if any(b.language == "yaml" for b in blocks(page))], ids=name)
def test_every_procedure_passes_the_check(page: Path, project: Path) -> None:
    lay_out(page, project)
    checked = 0
    for block in blocks(page):
        file = block.file or ""
        if block.language != "yaml" or file.startswith("roles/") or file.endswith((".schema.yaml", "own.yaml")):     # names
            continue
        written = project / (file or f"line-{block.line}.yaml")
        written.write_text(block.text, encoding="utf-8")
        report = check(written)
        assert report.ok, f"{name(page)}:{block.line}\n" + "\n".join(map(str, report.errors))
        checked += 1
    assert checked


@pytest.mark.one_in(4)
@pytest.mark.parametrize("page", [page for page in EXAMPLES if any("\ntests:\n" in b.text for b in blocks(page))], ids=name)
async def test_the_tests_of_every_procedure_hold(page: Path, project: Path) -> None:
    lay_out(page, project)
    for block in blocks(page):
        if block.language == "yaml" and "\ntests:\n" in block.text:
            file = project / (block.file or f"line-{block.line}.yaml")
            file.write_text(block.text, encoding="utf-8")
            verdicts = [verdict async for verdict in try_out(file)]
            assert verdicts, f"{name(page)}:{block.line}: its tests were not run"
            for verdict in verdicts:
                assert verdict.ok, f"{name(page)}:{block.line}: {verdict.case}: {verdict.why}"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("page", [page for page in EXAMPLES if page.name != "README.md" and any(
    b.language == "python" and b.file is None for b in blocks(page))], ids=name)
def test_every_program_runs(page: Path, project: Path) -> None:
    """In the order of the page, in one folder; blocks that name a file are there from the start."""
    lay_out(page, project)
    programs = [block for block in blocks(page) if block.language == "python" and block.file is None]
    assert programs
    for block in programs:
        script = project / f"line_{block.line}.py"
        script.write_text(block.text, encoding="utf-8")
        with within(PATIENCE):
            runpy.run_path(os.fspath(script), run_name="__main__")


def test_the_readmes_program_is_the_one_that_the_python_page_runs() -> None:
    """It stands there without its surroundings: what it calls has to be what the examples call."""
    shown = "\n".join(block.text for block in blocks(TOP / "README.md") if block.language == "python")
    assert "from metaflow_agents import run\n" in shown
    assert 'result = await run("letters.yaml", letter=' in (TOP / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    assert 'result = await run("letters.yaml", letter=text, model=my_function)' in shown


def test_regenerating_changes_nothing() -> None:
    wanted = load_generator().wanted()
    stale = [name(path) for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    assert stale == [], "out of date: run `make docs`"


def test_every_table_is_used_and_every_marker_closed() -> None:
    generator = load_generator()
    texts = [page.read_text(encoding="utf-8") for page in generator.DOCUMENTS]
    used = {found for text in texts for found in re.findall(r"<!-- generated: ([a-z-]+)", text)}
    assert used == set(generator.TABLES)
    for page, text in zip(generator.DOCUMENTS, texts, strict=True):
        closed = re.findall(r"<!-- generated: [\w -]+ -->\n(.*?)<!-- end -->", _FENCE.sub("", text), re.DOTALL)
        opened = re.findall(r"^<!-- generated: [\w -]+ -->$", _FENCE.sub("", text), re.MULTILINE)
        assert len(closed) == len(opened) and all(closed), f"{name(page)}: an empty table, or one that is not closed"


def test_the_reference_has_every_key_built_or_not() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in sorted((TOP / "docs" / "reference").glob("*.md")))
    told = {kind for kind in MODELS if f"<!-- generated: keys {kind} -->" in text}
    assert set(MODELS) - told == {"defaults"}, "its two keys are told in a sentence"
    assert all(f"`defaults.{key}`" in text for key in keys_of("defaults"))
    assert all(f"`{key}`" in text for kind in NOT_BUILT for key in NOT_BUILT[kind])
    assert all(f"<!-- generated: parameters {name} -->" in text for name in STRATEGIES if name != "single")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        file, _, heading = link.partition("#")
        target = (page.parent / file) if file else page
        assert target.exists(), f"{name(page)}: {link}"
        if heading:
            assert heading in anchors(target), f"{name(page)}: {link}; there is: {', '.join(sorted(anchors(target)))}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_name_files_of_the_package_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:metaflow_agents|tests|docs|sops|roles|examples|benchmarks)/[\w./-]+)`", text))
    assert [path for path in sorted(named) if "NAME" not in path and not (TOP / path).exists()] == []


SECURITY = (TOP / "docs" / "security.md").read_text(encoding="utf-8")
SHOWN_BY = re.findall(r"^\|.*\| `((?:pytest|sop) [^`]*)` \|$", SECURITY, re.MULTILINE)


def test_each_promise_of_security_has_a_command() -> None:
    promises = re.sub(r"(?s)### What each sandbox promises.*?(?=\n## )", "", SECURITY)        # which compares, row by row
    rows = [line for line in promises.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| promise "))]
    assert len(rows) == len(SHOWN_BY) > 30


@pytest.mark.parametrize("command", SHOWN_BY)
def test_what_shows_a_promise_exists(command: str) -> None:
    """A command of `sop` is looked at with those of the other pages."""
    program, *words = command.split()
    for word in words if program == "pytest" else ():
        file, _, test = word.partition("::")
        assert file.startswith("tests/") and (TOP / file).is_file(), word
        assert not test or re.search(rf"^(?:async )?def {test}\(", (TOP / file).read_text(encoding="utf-8"), re.MULTILINE), word


@pytest.mark.one_in(4)
@pytest.mark.parametrize("page", EXAMPLES, ids=name)
def test_commands_that_pages_show_exist(page: Path) -> None:
    """Each `sop …` line: the command exists, and so does each of its options (inputs of a SOP after `sop run` aside)."""
    commands = load_generator().command_tree()
    text = page.read_text(encoding="utf-8")
    written = [read_yaml(block.text.encode(), name(page)).data for block in blocks(page) if block.language == "yaml"]
    inputs = {f"--{given}" for sop in written if isinstance(sop, dict) for given in sop.get("inputs", {})}
    shown = [line for block in blocks(page) if block.language == "sh" for line in block.text.replace("\\\n", " ").splitlines()]
    shown += re.findall(r"`(sop [a-z]+[^`|]*)`", text)
    for line in shown:
        words = re.sub(r'"[^"]*"', "TEXT", line.partition("#")[0]).split()
        if words[:1] != ["sop"]:
            continue
        called = " ".join(words[1:3]) if " ".join(words[1:3]) in commands else words[1]
        assert called in commands, f"{name(page)}: `{line}`"
        known = {option for part in commands[called].params for option in part.opts}
        unknown = [word for word in words if word.startswith("--") and word not in known]
        assert set(unknown) <= (INPUTS | inputs if words[1] in ("run", "prompt", "preview") else set()), f"{name(page)}: `{line}`"
