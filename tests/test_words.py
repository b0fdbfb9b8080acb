"""Words that no help text, message, docstring of a public name or page holds: this field has others for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import metaflow_agents
from metaflow_agents.cli.app import app

TOP = Path(__file__).resolve().parent.parent
WORDS = {  # the word → what to write
    "mend:": "fix:", "mending": "fixing", "mended": "fixed", "mends": "fixes", "doer": "step type", "doers": "step types",
    "all that can be known": "validate statically", "goes on with a run": "resumes a run", "gone on with": "resumed",
    "goes on where it was": "resumes where it left off", "ended without": "finished without success",
    "where runs lie": "run directory", "take over every": "reuse", "nobody to ask": "missing required option",
    "there is nobody": "nobody is …", "check is content": "check passed", "is content": "passed",
    "still refuses it": "rejected by its reviewer", "parted by": "separated by", "for ever": "forever", "blotted": "redacted",
    "comes back to mind": "recall", "stands twice": "is duplicated", "stand twice": "are duplicated",
    "in this walk": "in this dry run", "if a person allows": "needs approval", "minutes of a run": "event log",
    "who said what": "event log", "--reask": "--retry-changed-prompts", "--staged": "--dry-tools", "--given": "--stub",
    "sop prompt": "sop preview", "laid down": "added", "lays down": "adds", "rooms": "packages", "floors": "layers",
    "says nobody": "has no …", "as ever": "as before", "in vain": "without success", "hears of": "gets … reported",
    "hear of": "get … reported", "dearest": "most expensive", "is dear": "is expensive", "goes round": "repeats",
    "go round": "repeat", "it came to": "…", "twice over": "twice", "at the edge": "at the entry point", "thereof": "of it",
    "therein": "in it", "of old": "of earlier versions", "dwell": "be", "lies in wait": "waits",
    "what nobody foresaw": "unexpected error", "is born": "is created"}


def held(text: str) -> set[str]:
    return {word for word in WORDS if re.search(rf"(?<![\w-]){re.escape(word)}(?!\w)", text, re.IGNORECASE)}


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Texts of a module that somebody may read: constants that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bodies = (body for node in ast.walk(tree) if isinstance(body := getattr(node, "body", None), list))
    silent = {id(statement.value) for body in bodies for statement in body if isinstance(statement, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value and id(node) not in silent:
            yield node.lineno, node.value


def test_the_list_is_long_enough_and_finds_what_it_names() -> None:
    assert len(WORDS) >= 40 and held("the minutes of a run, MEND: it, reask") == {"minutes of a run", "mend:"}


@pytest.mark.one_in(12, always=False)
def test_no_message_of_the_core_holds_one() -> None:
    found = [f"{path.relative_to(TOP)}:{line}: {held(text)}" for path in (TOP / "metaflow_agents").rglob("*.py")
             for line, text in messages(path) if held(text) and "kits/" not in str(path) and path.name != "renamed.py"]
    assert not found, found


@pytest.mark.parametrize("page", sorted([TOP / "README.md", TOP / "CONTRIBUTING.md", *(TOP / "docs").glob("**/*.md")]),
                         ids=lambda page: str(page.relative_to(TOP)))
def test_no_page_holds_one(page: Path) -> None:
    if page.parent.name != "decisions" and page.name != "decisions.md":     # these are kept as they were written
        prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert held(prose) == set()


def test_no_help_and_no_docstring_of_a_public_name_holds_one() -> None:
    def helps(command: object, name: str) -> Iterator[tuple[str, str]]:
        yield name, str(getattr(command, "help", ""))
        yield from ((name, str(getattr(param, "help", ""))) for param in getattr(command, "params", []))
        for inner, one in getattr(command, "commands", {}).items():
            yield from helps(one, f"{name} {inner}")

    texts = [*helps(typer.main.get_command(app), "sop"),
             *((name, getattr(metaflow_agents, name).__doc__ or "") for name in metaflow_agents.__all__)]
    assert {name: held(text) for name, text in texts if held(text)} == {}
