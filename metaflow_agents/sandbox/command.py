"""Commands as people write them: text split into arguments without a shell, `parse:` read, pytest told where to report.

Text is split before anything is rendered, by the quoting rules of POSIX shells and no others. What only a shell would
understand is refused, with the way to say it; `{{ … }}` and `{% … %}` stand as they are, spaces and quotes included.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Literal

from metaflow_agents.schema import paths

Parse = Literal["json", "junit"]

_OPERATOR = re.compile(r"&&|\|\||>>|<<|[|&;<>`]|\$\(")
_VARIABLE = re.compile(r"\$(?:\{\w|[A-Za-z_])")
_CLOSING = {"{{": "}}", "{%": "%}"}
_LONGEST_TEMPLATE = 2000            # characters, in which quotes are heeded
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SHELL = 'there is no shell: write `[bash, -c, "…"]` to have one'


class CommandWritten(ValueError):
    """A command that can't be split. `offset` counts characters of the written text from 0."""

    def __init__(self, code: str, message: str, mend: str, offset: int = 0) -> None:
        self.code, self.message, self.mend, self.offset = code, message, mend, offset
        super().__init__(f"{message}; {mend}" if mend else message)


def parse_argv(written: str | Sequence[str]) -> tuple[str, ...]:
    """The arguments of a command, each still to be rendered. A list is taken as it is.

    Raises CommandWritten: `shell-operator`, `shell-newline`, `shell-variable`, `shell-glob`, `shell-assignment`,
    `shell-cd`, `shell-home`, `unbalanced-quote`, `empty-command`.
    """
    if not isinstance(written, str):
        arguments = tuple(written)
        if not arguments or not arguments[0].strip():
            raise CommandWritten("empty-command", "the command is empty", "name a program, like `python -m pytest -q`")
        return arguments
    words = _Splitter(written.rstrip()).words()
    if not words or not words[0][0]:
        raise CommandWritten("empty-command", "the command is empty", "name a program, like `python -m pytest -q`")
    _refuse_shell_words(written, words)
    return tuple(word for word, _ in words)


def _refuse_shell_words(written: str, words: list[tuple[str, int]]) -> None:
    first, offset = words[0]
    if written.startswith(first, offset) and _ASSIGNMENT.match(first):
        raise CommandWritten("shell-assignment", f"`{first}` would set a variable in a shell",
                             f"{_SHELL}, or `[env, {first}, …]`", offset)
    if first in ("cd", "export", "source", "set", "."):
        raise CommandWritten("shell-cd", f"`{first}` is a shell's own command: a command runs at the root of the run's "
                             "repository", f"name paths from there; {_SHELL}", offset)


class _Splitter:
    """One walk over the text: (argument, where it starts), in order."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def words(self) -> list[tuple[str, int]]:
        found = []
        while self._skip_spaces():
            start = self.at
            found.append((self._word(), start))
        return found

    def _skip_spaces(self) -> bool:
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        return self.at < len(self.text)

    def _word(self) -> str:
        start, word = self.at, ""
        while self.at < len(self.text) and self.text[self.at] not in " \t":
            char = self.text[self.at]
            template = self._template()
            if template:
                word += template
            elif char == "'":
                word += self._single()
            elif char == '"':
                word += self._double()
            elif char == "\\":
                word += self._escaped()
            else:
                self._refuse(start)
                word += char
                self.at += 1
        return word

    def _template(self) -> str:
        closing = _CLOSING.get(self.text[self.at:self.at + 2])
        if closing is None or self.text.rfind(closing) < self.at + 2:
            return ""
        begun, self.at = self.at, self._template_end(closing)
        return self.text[begun:self.at]

    def _template_end(self, closing: str) -> int:
        """Behind the first `}}` that stands in no quotes, else behind the first one."""
        at, last = self.at + 2, min(len(self.text), self.at + _LONGEST_TEMPLATE)
        while at < last:
            if self.text.startswith(closing, at):
                return at + 2
            quoted = self.text.find(self.text[at], at + 1, last) if self.text[at] in "\"'" else -1
            at = max(at, quoted) + 1
        return self.text.find(closing, self.at + 2) + 2

    def _single(self) -> str:
        start, inner = self.at, ""
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != "'":
            inner += self._template() or self._take()
        return self._closed(start, inner)

    def _double(self) -> str:
        start, inner = self.at, ""
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            if self.text[self.at] == "\\" and self.text[self.at + 1:self.at + 2] in ('"', "\\"):
                self.at += 1
                inner += self._take()
            else:
                inner += self._template() or self._take()
        return self._closed(start, inner)

    def _closed(self, start: int, inner: str) -> str:
        if self.at >= len(self.text):
            raise CommandWritten("unbalanced-quote", f"the quote {self.text[start]} is not closed",
                                 "close it, or write a list of arguments", start)
        self.at += 1
        return inner

    def _escaped(self) -> str:
        if self.text[self.at + 1:self.at + 2] in ("", "\n", "\r"):
            raise CommandWritten("shell-newline", "a command is one line",
                                 f"join the lines (YAML's `>-` does), or write a list of arguments; {_SHELL}", self.at)
        self.at += 1
        return self._take()

    def _take(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def _refuse(self, start: int) -> None:
        """Raises for what only a shell would understand at this place, outside quotes."""
        char = self.text[self.at]
        operator = _OPERATOR.match(self.text, self.at)
        if operator:
            raise CommandWritten("shell-operator", f"`{operator[0]}` is a shell operator", f"{_SHELL}; or quote it", self.at)
        if char in "\r\n":
            raise CommandWritten("shell-newline", "a command is one line",
                                 f"join the lines (YAML's `>-` does), or write a list of arguments; {_SHELL}", self.at)
        variable = _VARIABLE.match(self.text, self.at)
        if variable:
            raise CommandWritten("shell-variable", "a variable of a shell is not expanded", f"{_SHELL}; or quote it", self.at)
        if char == "*":
            raise CommandWritten("shell-glob", "`*` is not expanded to file names",
                                 f"quote it for the program to see it; {_SHELL}", self.at)
        if char == "~" and self.at == start and self.text[self.at + 1:self.at + 2] in ("", "/", " "):
            raise CommandWritten("shell-home", "`~` is not expanded", "name paths from the root of the run's repository", self.at)


def parse_parse(written: str) -> tuple[Parse, str | None]:
    """`json FILE`, `junit` or `junit FILE` as (kind, file or None). Raises ValueError with the choices."""
    kind, _, file = written.strip().partition(" ")
    file = file.strip()
    if kind not in ("json", "junit") or (kind == "json" and not file):
        raise ValueError(f"`parse: {written}` is unknown: write `json FILE`, `junit`, or `junit FILE`")
    why = paths.refusal(file) if file else None
    if why:
        raise ValueError(f"`parse: {written}` names a file that is refused: {why}")
    return ("json", file) if kind == "json" else ("junit", file or None)


def pytest_at(argv: Sequence[str]) -> int | None:
    """Where in the arguments the name pytest stands, or None where it isn't pytest that runs."""
    program = PurePosixPath(argv[0]).name if argv else ""
    if program in ("pytest", "py.test"):
        return 0
    if not re.fullmatch(r"python[\d.]*", program):
        return None
    for at, argument in enumerate(argv[1:], 1):
        if argument == "-m":
            return at + 1 if argv[at + 1:at + 2] in (("pytest",), ["pytest"]) else None
        if argument == "-mpytest":
            return at
        if not argument.startswith("-"):
            return None                         # a script: what follows are its own arguments
    return None


def is_pytest(argv: Sequence[str]) -> bool:
    """Whether the command runs pytest: `pytest …`, `python -m pytest …`."""
    return pytest_at(argv) is not None


def with_junit_file(argv: Sequence[str], file: str) -> tuple[str, ...]:
    """The pytest command, told to write its results to `file` and to leave no cache behind.

    The family `xunit1` is asked for because it alone says in which file a test stands. Raises ValueError where it is
    not pytest that runs.
    """
    at = pytest_at(argv)
    if at is None:
        raise ValueError(f"`{' '.join(argv)}` does not run pytest: name the file, `parse: junit FILE`")
    rest: list[str] = []
    arguments = iter(argv[at + 1:])
    for argument in arguments:
        if argument in ("--junitxml", "--junit-xml"):
            next(arguments, None)               # its file: another one is asked for here
        elif not argument.startswith(("--junitxml=", "--junit-xml=")):
            rest.append(argument)
    return (*argv[:at + 1], f"--junitxml={file}", "-o", "junit_family=xunit1", "-p", "no:cacheprovider", *rest)
