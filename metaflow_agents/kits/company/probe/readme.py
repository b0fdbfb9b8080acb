"""A README as who follows it reads it: its commands with what is shown below them, its Python, addresses, routes and statuses."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(r"^(\s*)(```+|~~~+)\s*([\w+-]*)")
_SHELLS = {"", "console", "sh", "bash", "shell", "zsh", "fish", "text", "plaintext", "terminal", "session", "shell-session",
           "shellsession", "bash-session", "sh-session", "powershell", "bat", "cmd"}
_PYTHONS = ("python", "py", "pycon", "python3")
_PROMPT = re.compile(r"(?:\(\S{1,30}\) ?)?[$%] ")
SPANS = 5
"""Commands in the midst of lines that are tried."""
_HELPERS = {"cd", "mkdir", "cp", "cat", "echo", "printf", "touch", "export"}
"""What a session does between the program's own commands, and what these may depend on."""
_FILTERS = {"head", "tail", "sort", "uniq", "grep", "wc", "cut", "tr", "sed", "awk", "tee", "xargs",
            "true", "sleep", "time", "env"}
_STARTERS = {"uvicorn", "gunicorn", "hypercorn", "flask", "streamlit", "waitress-serve", "python", "python3"}
_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]*(\.[a-z0-9]+)?")
_UNSAID = re.compile(r"<[A-Za-z][\w .-]*>|\.\.\.|…|\[[-A-Za-z]|\w\|[\w-]|YYYY")
_JOINTS = {"|", "||", "&&", ";"}
_URL = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\]|0\.0\.0\.0):(\d{2,5})(/[^\s`'\"<>)\]*|#]*)?")
_ROUTE = re.compile(r"\b(GET|HEAD|POST|PUT|PATCH|DELETE)`?\s+`?(/[\w./-]*(?:\?[\w=&%.-]+)?)(?![\w/{<:.$*…\[(-])")
_STATUS = re.compile(r"(?<![\w.:/])([1-5]\d\d)(?!\w|[.:/]\w)")
_DEMANDED = re.compile(r"[`\s|:→=>-]{0,20}(?:(?:gives|returns|answers)\s{1,9})?([2-4]\d\d)\b")
_WHERE_IT_DEPENDS = {304, 401, 403, 429}


class Command(NamedTuple):
    """A command: its line, its text, and the lines that are shown below it."""

    line: int
    text: str
    shown: tuple[str, ...]


class ReadmeRoute(NamedTuple):
    """A method and a path that a line names, the status that it demands right behind them, and all that it names."""

    line: int
    method: str
    path: str
    demanded: int | None
    named: frozenset[int]

    @property
    def is_example(self) -> bool:
        """Whether a part of the path stands for any: there need not be one of that name."""
        return any(re.fullmatch(r"\d+|[A-Z_]+", part) for part in self.path.partition("?")[0].split("/"))


class Readme:
    """One README.md; empty where there is none."""

    def __init__(self, root: Path, names: frozenset[str]) -> None:
        path = root / "README.md"
        self.lines = path.read_text("utf-8", "replace").splitlines()[:5_000] if path.is_file() else []
        self.text = "\n".join(self.lines)
        self._names = names
        self.statuses = {int(number) for line in self.lines if re.search(r"(?i)exit|status|return code", line)
                         for number in re.findall(r"(?<![\w.])(\d{1,3})(?![\w.])", line)}

    def commands(self) -> list[list[Command]]:
        """The commands of each block that has one of the program."""
        found = [_session(first, lines, self._names) for first, language, lines in self._blocks() if language in _SHELLS]
        return [block for block in found if any(self.is_ours(one.text) for one in block)]

    def spans(self) -> list[Command]:
        """The program's commands in the midst of lines: how it is started may stand nowhere else."""
        found = {span: number for number, line in enumerate(self.lines, 1) for span in re.findall(r"`([^`]{2,200})`", line)}
        return [Command(number, span, ()) for span, number in found.items() if self.is_ours(span)][:SPANS]

    def is_ours(self, text: str) -> bool:
        """Whether a command starts the program, by its name, as a module, or by a server that is given its name."""
        told = words(text)
        for at, head in _heads(told):
            named = [one.partition(":")[0].partition(".")[0] for one in told[at + 1:at + 5]]
            if head in self._names or (head in _STARTERS and self._names & set(named)):
                return True
        return False

    def is_left_out(self, command: Command, where: Path) -> bool:
        """Whether a command is for somebody to fill in, or of other programs."""
        told = words(command.text)
        heads = [head for _, head in _heads(told)]
        if _UNSAID.search(command.text) or set(heads) - self._names - _HELPERS - _FILTERS - _STARTERS:
            return True
        if not self.is_ours(command.text):
            absent = told[0] == "cd" and len(told) > 1 and not os.path.isdir(where / told[1])       # most often the repository
            return heads[:1] == [] or heads[0] not in _HELPERS or absent
        shown = " ".join(command.shown)
        parts = [part for one in told[1:] if not os.path.exists(where / one) for part in re.split(r"[=:]", one)]
        return any(_CAPITALS.fullmatch(part) and part not in shown for part in parts)

    def python(self) -> Iterator[tuple[int, str]]:
        """(line, text) of each block of Python; of a session, what is typed in, but for what raises as it is shown to."""
        for line, language, lines in self._blocks():
            if language in _PYTHONS:
                text = "\n".join(lines) + "\n"
                try:
                    examples = doctest.DocTestParser().get_examples(text)
                except ValueError:
                    examples = []
                yield line, "".join(one.source for one in examples if not one.exc_msg) if examples else text

    @staticmethod
    def addresses(text: str) -> list[tuple[str, int, str]]:
        """(host, port, path) of the addresses on this machine that a text names."""
        return [(found[1], int(found[2]), (found[3] or "/").rstrip(".,;")) for found in _URL.finditer(text)]

    def routes(self) -> Iterator[ReadmeRoute]:
        """The routes that it names, without those whose path has a part to fill in."""
        for number, line in enumerate(self.lines, 1):
            found = [*_ROUTE.finditer(line)]
            for one, end in zip(found, [*(later.start() for later in found[1:]), len(line)], strict=False):
                behind = line[one.end():end]
                status = _DEMANDED.match(behind)
                demanded = int(status[1]) if status and int(status[1]) not in _WHERE_IT_DEPENDS else None
                yield ReadmeRoute(number, one[1], one[2].rstrip("."), demanded, frozenset(map(int, _STATUS.findall(behind))))

    def _blocks(self) -> Iterator[tuple[int, str, list[str]]]:
        """(number of the first line, language, lines) of each block of code, fenced or indented."""
        lines, at = self.lines, 0
        while at < len(lines):
            fence = _FENCE.match(lines[at])
            if fence:
                end = next((n for n in range(at + 1, len(lines)) if lines[n].strip().startswith(fence[2])), len(lines))
                yield at + 2, fence[3].lower(), textwrap.dedent("\n".join(lines[at + 1:end])).split("\n")
                at = end + 1
            elif lines[at].startswith(("    ", "\t")) and (at == 0 or not lines[at - 1].strip()):
                end = next((n for n in range(at, len(lines)) if lines[n].strip() and not lines[n].startswith(("    ", "\t"))),
                           len(lines))
                yield at + 1, "", textwrap.dedent("\n".join(lines[at:end])).split("\n")
                at = end
            else:
                at += 1


def words(text: str) -> list[str]:
    """The words of a command."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _heads(told: list[str]) -> list[tuple[int, str]]:
    """(place, name) of each program that a command starts: what stands first, and behind `|`, `&&`, `;` and `NAME=value`."""
    found, first = [], True
    for at, one in enumerate(told):
        if first and not re.match(r"\w+=", one):
            found.append((at, one))
            first = False
        first = first or one in _JOINTS or one.endswith(";")
    return found


def _session(first: int, lines: list[str], names: frozenset[str]) -> list[Command]:
    """What is typed in a block: what stands behind a prompt, or where there is none, the lines that begin like a command."""
    prompted = any(_PROMPT.match(line) for line in lines)
    told: list[tuple[int, str, list[str]]] = []
    at = 0
    while at < len(lines):
        begun, line = at, lines[at]
        at += 1
        if _PROMPT.match(line) if prompted else _starts(line, names):
            text = _PROMPT.sub("", line, count=1) if prompted else line
            while text.endswith("\\") and at < len(lines):
                text = f"{text[:-1].rstrip()} {lines[at].removeprefix('> ').strip()}"
                at += 1
            document = re.search(r"<<-?\s*['\"]?(\w+)['\"]?", text)
            while at < len(lines) and (lines[at].startswith("> ") if prompted else document):
                ended = document is not None and lines[at].removeprefix("> ").strip() == document[1]
                text += "\n" + (lines[at].removeprefix("> ") if prompted else lines[at])
                at += 1
                if ended:
                    break
            told.append((first + begun, text, []))
        elif told:
            told[-1][2].append(line)
    return [Command(number, _plain(text), tuple(one.strip() for one in shown if one.strip())) for number, text, shown in told]


def _plain(text: str) -> str:
    """A command without the words that stand behind it, apart by three spaces and more, and without a `&` at its end."""
    found = re.match(r"""(?:"[^"\n]*"|'[^'\n]*'|\\.|[^\s"'\\]|\s{1,2}(?=\S))+""", text.strip()) if "\n" not in text else None
    plain = found[0].strip() if found else text.strip()
    plain = plain[:-1].rstrip() if plain.endswith("&") and not plain.endswith("&&") else plain
    return re.sub(r"^py ", "python ", plain)


def _starts(line: str, names: frozenset[str]) -> bool:
    """Whether a line without a prompt is a command."""
    told = words(line)
    if not told or line != line.lstrip():
        return False
    heads = [head for _, head in _heads(told)]
    return heads[:1] != [] and (heads[0] in _HELPERS or bool(names & set(heads)) or (
        heads[0] in _STARTERS and any(one.partition(":")[0].partition(".")[0] in names for one in told[1:5])))
