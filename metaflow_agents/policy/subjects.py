"""What an action is about, read strictly into the form in which rules are matched against it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from metaflow_agents.errors import FetchRefused
from metaflow_agents.network import hosts
from metaflow_agents.network.hosts import NetworkPlace
from metaflow_agents.policy import commands, shell
from metaflow_agents.policy.action import Action
from metaflow_agents.policy.shell import Unclear, Words
from metaflow_agents.schema import paths

_PACKAGE = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[([A-Za-z0-9._,\s-]*)\])?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class RefusedSubject(ValueError):
    """An action that no rule can allow; the message says why."""


@dataclass(frozen=True, slots=True)
class PathSubject:
    """A file of the run's repository, `..` resolved; empty: the repository as a whole."""

    path: str


@dataclass(frozen=True, slots=True)
class CommandSubject:
    """A command: `words` are its own; `seen` all that it may start, `unclear` why that might not be all."""

    words: Words
    seen: tuple[Words, ...]
    unclear: str = ""


@dataclass(frozen=True, slots=True)
class PlaceSubject:
    """A URL or a host; `readings` are its path as this and that server might read it."""

    place: NetworkPlace
    readings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NameSubject:
    """A tool, a function or a role by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class PackageSubject:
    """A Python package, both names canonical."""

    name: str
    extras: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.name}[{','.join(sorted(self.extras))}]" if self.extras else self.name


Subject = PathSubject | CommandSubject | PlaceSubject | NameSubject | PackageSubject


@dataclass(frozen=True, slots=True)
class QuestionSubject:
    """An action, read. `parts`: what it starts besides itself, each of which has to be allowed too; `unclear`: why they are
    not known.
    """

    subject: Subject
    parts: tuple[CommandSubject, ...] = field(default=())
    unclear: str = ""


def read(action: Action) -> QuestionSubject:
    """The action as rules see it. Raises Refused."""
    match action.verb:
        case "read" | "write":
            return QuestionSubject(PathSubject(_path(action.target)))
        case "run":
            return _command(action)
        case "fetch":
            place = _place(action.target, tunnel=False)
            return QuestionSubject(PlaceSubject(place, _readings(place.path)))
        case "connect":
            return QuestionSubject(PlaceSubject(_place(action.target, tunnel=True)))
        case "install":
            return QuestionSubject(_package(action.target))
        case _:
            if _CONTROL.search(action.target):
                raise RefusedSubject("a control character stands in the name")
            return QuestionSubject(NameSubject(action.target))


def canonical(name: str) -> str:
    """A package's name, or an extra's, in the one spelling by which they are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _package(written: str) -> PackageSubject:
    found = _PACKAGE.fullmatch(written.strip())
    if found is None:
        raise RefusedSubject("it is no name of a package, such as `flask` or `flask[async]`")
    extras = (canonical(one) for one in (found[2] or "").split(","))
    return PackageSubject(canonical(found[1]), frozenset(extra for extra in extras if extra))


def _path(written: str) -> str:
    """The path with `.` and `..` resolved and without a slash behind it."""
    parts: list[str] = []
    for part in written.split("/") if not written.startswith("/") else ():
        if part == "..":
            if not parts:
                raise RefusedSubject("`..` leaves the run's repository")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    path = "/".join(parts)
    if path in ("", ".") and not written.startswith("/"):
        return ""
    if why := paths.refusal(path or written):
        raise RefusedSubject(why)
    return path


def _command(action: Action) -> QuestionSubject:
    words: Words = action.argv
    if not words:
        return _script(action.target)
    if not action.argv[0].strip():
        raise RefusedSubject("the command is empty")
    if any("\0" in word for word in action.argv):
        raise RefusedSubject("NUL stands in an argument")
    subject = _subject(words)
    try:
        return QuestionSubject(subject, tuple(_subject(part) for part in commands.starts(words)))
    except Unclear as error:
        return QuestionSubject(subject, unclear=str(error))


def _script(text: str) -> QuestionSubject:
    """A command of which there is only the line: it is read as a shell would."""
    if not text.strip() or "\0" in text:
        raise RefusedSubject("the command is empty" if not text.strip() else "NUL stands in it")
    try:
        found = shell.commands(text)
    except Unclear as error:
        return QuestionSubject(CommandSubject((None,), ((None,),), str(error)), unclear=str(error))
    if len(found) != 1 or None in found[0]:
        return QuestionSubject(
            CommandSubject((None,), ((None,),), "several commands in one line"), unclear="several commands in one line"
        )
    return _command(Action("run", text, tuple(word for word in found[0] if word is not None)))


def _subject(words: Words) -> CommandSubject:
    seen, unclear = commands.may_start(words)
    forms: dict[Words, None] = {}
    try:
        for form in (form for one in seen for form in commands.skipping_options(one)):
            forms[form] = None
    except Unclear as error:
        unclear = unclear or str(error)
    return CommandSubject(words, tuple(forms), unclear)


def _place(written: str, *, tunnel: bool) -> NetworkPlace:
    try:
        return hosts.parse_authority(written) if tunnel else hosts.parse(written)
    except FetchRefused as error:
        raise RefusedSubject(str(error)) from None


def _readings(path: str) -> tuple[str, ...]:
    """The path as it stands, and as servers read it that decode it (once more) and drop empty and dotted parts."""
    found = [path]
    for _ in range(5):
        decoded = unquote(found[-1])
        if decoded == found[-1]:
            break
        found.append(decoded)
    return tuple(dict.fromkeys(form for one in found for form in (one, _resolved(one))))


def _resolved(path: str) -> str:
    parts: list[str] = []
    for part in path.replace("\\", "/").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts) + ("/" if path.endswith("/") and parts else "")
