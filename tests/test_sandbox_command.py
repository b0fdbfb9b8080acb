from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.sandbox.command import CommandWritten, is_pytest, parse_argv, parse_parse, with_junit_file


@pytest.mark.parametrize(("written", "argv"), [
    ("python -m py_compile {{ file.path }}", ("python", "-m", "py_compile", "{{ file.path }}")),
    ("a 'b c' \"d e\" f\\ g", ("a", "b c", "d e", "f g")),
    ("echo x{{ a | join(' ') }}y", ("echo", "x{{ a | join(' ') }}y")),
    ("echo {{ '}}' }} {% if a > 1 %}b{% endif %}", ("echo", "{{ '}}' }}", "{% if a > 1 %}b{% endif %}")),
    ('echo "{{ d["k"] }} z"', ("echo", '{{ d["k"] }} z')),
    ("echo 'a | b' \"*\" \\*", ("echo", "a | b", "*", "*")),
    ("pytest tests/test_a.py::test_x[1]\n", ("pytest", "tests/test_a.py::test_x[1]")),
    ("echo '' a=b c~ ~x", ("echo", "", "a=b", "c~", "~x")),
])
def test_text_is_split_and_templates_stay_whole(written: str, argv: tuple[str, ...]) -> None:
    assert parse_argv(written) == argv


def test_a_list_is_taken_as_it_is() -> None:
    assert parse_argv(["bash", "-c", "a | b > c"]) == ("bash", "-c", "a | b > c")


@pytest.mark.parametrize(("written", "code", "at"), [
    ("a | b", "shell-operator", "|"), ("a && b", "shell-operator", "&&"), ("a || b", "shell-operator", "||"),
    ("a; b", "shell-operator", ";"), ("a > f", "shell-operator", ">"), ("a <f", "shell-operator", "<"),
    ("a & ", "shell-operator", "&"),
    ("a `b`", "shell-operator", "`"), ("a $(b)", "shell-operator", "$("), ("a ${B}", "shell-variable", "${"),
    ("a $HOME", "shell-variable", "$HOME"), ("a\nb", "shell-newline", "\n"), ("a \\\nb", "shell-newline", "\\"),
    ("a 'b", "unbalanced-quote", "'"), ('a "b', "unbalanced-quote", '"'), ("ls *.py", "shell-glob", "*"),
    ("FOO=1 make", "shell-assignment", "FOO"), ("cd src", "shell-cd", "cd"), ("ls ~/x", "shell-home", "~"),
    ("", "empty-command", ""), ("  ", "empty-command", ""), ("''", "empty-command", ""),
    ("a {{ b }} | c", "shell-operator", "| c"),
])
def test_what_only_a_shell_understands_is_refused_at_its_place(written: str, code: str, at: str) -> None:
    with pytest.raises(CommandWritten) as told:
        parse_argv(written)
    assert told.value.code == code
    assert written[told.value.offset:].startswith(at)
    assert told.value.mend


@pytest.mark.parametrize("written", [[], [""]])
def test_an_empty_list_is_refused(written: list[str]) -> None:
    with pytest.raises(CommandWritten):
        parse_argv(written)


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5))
def test_quoted_words_come_back(words: list[str]) -> None:
    written = shlex.join(words)
    first = words[0]
    if "{{" in written or "{%" in written or not first or first in ("cd", "export", "source", "set", ".") or "=" in first:
        return
    assert parse_argv(written) == tuple(shlex.split(written)) == tuple(words)


@given(st.text("ab \t'\"\\=.-", max_size=12))
def test_it_splits_as_posix_shells_do(written: str) -> None:
    try:
        expected: tuple[str, ...] | None = tuple(shlex.split(written.rstrip()))
    except ValueError:
        expected = None
    try:
        got: tuple[str, ...] | None = parse_argv(written)
    except CommandWritten as error:
        got = None
        if error.code in ("shell-assignment", "empty-command", "shell-cd"):
            return
    assert got == expected


def test_parse() -> None:
    assert parse_parse("json out/a.json") == ("json", "out/a.json")
    assert parse_parse("junit") == ("junit", None)
    assert parse_parse("junit r.xml") == ("junit", "r.xml")


@pytest.mark.parametrize("written", ["json", "xml a", "", "junit ../x", "json /tmp/x"])
def test_parse_refused(written: str) -> None:
    with pytest.raises(ValueError, match="parse: "):
        parse_parse(written)


@pytest.mark.parametrize(("argv", "expected"), [
    ("pytest", True), ("python -m pytest -q", True), ("python3.11 -X dev -m pytest", False), ("python3 -q -m pytest", True),
    ("/usr/bin/pytest x", True), ("python pytest.py", False), ("python run.py -m pytest", False), ("echo pytest", False),
    ("python -m unittest pytest", False), ("python -mpytest", True),
])
def test_is_pytest(argv: str, expected: bool) -> None:
    assert is_pytest(argv.split()) is expected


def test_pytest_is_told_where_to_report() -> None:
    told = with_junit_file("python -m pytest -q --junitxml a.xml --junit-xml=b.xml -- tests".split(), "out.xml")
    assert told[:4] == ("python", "-m", "pytest", "--junitxml=out.xml")
    assert told[-3:] == ("-q", "--", "tests")
    assert "a.xml" not in told
    assert "no:cacheprovider" in told
    with pytest.raises(ValueError, match="does not run pytest"):
        with_junit_file(["make"], "x")
