"""What a command starts, as far as its own words say: the commands behind `env`, `timeout`, `sh -c` and their like. Pure.

Two questions, answered apart. *What may it start?* is for rules that deny or ask: every command that could be meant, and
more rather than less. *What does it start?* is for rules that allow: exactly the commands that are meant, and Unclear where
that can't be said.

What a program does by itself (a script in a file, a target of make, an editor's own commands) is in no command line: there
the sandbox holds, and no rule about commands can.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from posixpath import basename

from metaflow_agents.policy import shell
from metaflow_agents.policy.scripts import SHELLS, refuse_code, scripts
from metaflow_agents.policy.shell import Unclear, Word, Words
from metaflow_agents.schema.unicode_form import normalized

MOST = 200
"""Commands that are looked at behind one; what holds more is unclear."""
_NONE: frozenset[str] = frozenset()
_STARTERS: dict[str, tuple[frozenset[str], frozenset[str], int]] = {
    # program → its options with a value, those without, and how many arguments stand before the command
    "env": (frozenset({"-u", "--unset", "-C", "--chdir"}), frozenset({"-", "-i", "--ignore-environment", "-v", "--debug"}), 0),
    "timeout": (frozenset({"-k", "--kill-after", "-s", "--signal"}),
                frozenset({"--preserve-status", "--foreground", "-v", "--verbose"}), 1),
    "nice": (frozenset({"-n", "--adjustment"}), _NONE, 0),
    "ionice": (frozenset({"-c", "--class", "-n", "--classdata"}), frozenset({"-t", "--ignore"}), 0),
    "stdbuf": (frozenset({"-i", "--input", "-o", "--output", "-e", "--error"}), _NONE, 0),
    "time": (frozenset({"-f", "--format", "-o", "--output"}), frozenset({"-p", "-v", "-q", "-a"}), 0),
    "xargs": (frozenset({"-a", "--arg-file", "-d", "--delimiter", "-I", "-L", "-n", "--max-args", "-P", "--max-procs"}),
              frozenset({"-0", "--null", "-r", "--no-run-if-empty", "-t", "-x"}), 0),
    "exec": (frozenset({"-a"}), frozenset({"-c", "-l"}), 0),
    "setsid": (_NONE, frozenset({"-c", "-f", "-w", "--ctty", "--fork", "--wait"}), 0),
    "command": (_NONE, frozenset({"-p"}), 0),
    "nohup": (_NONE, _NONE, 0), "builtin": (_NONE, _NONE, 0), "busybox": (_NONE, _NONE, 0), "toybox": (_NONE, _NONE, 0),
}
_OTHER_STARTERS = frozenset({                                   # how they read their arguments is not followed
    "sudo", "doas", "su", "runuser", "chroot", "unshare", "nsenter", "setpriv", "capsh", "chrt", "taskset", "numactl",
    "prlimit", "flock", "strace", "ltrace", "gdb", "valgrind", "watch", "parallel", "entr", "script", "expect", "find", "fd",
    "fdfind", "ssh", "docker", "podman", "systemd-run", "bwrap", "setarch", "linux64", "linux32", "npx", "uv", "uvx",
    "poetry", "pipx", "pipenv", "hatch", "tox", "nox", "pdm", "direnv", "dotenv", "start-stop-daemon", "trap", "at", "batch",
    "rlwrap", "unbuffer", "dbus-run-session"})
_READ_WORDS = frozenset({"su", "runuser", "script", "watch", "flock", "parallel", "ssh", "trap", "entr", "git", "expect"})
"""Those that hand a single word to a shell."""
_GIT_STARTS = frozenset({"foreach", "run", "--exec", "-x"})
_LOADER = re.compile(r"ld(-linux.*|-musl.*|)?\.so(\..*)?|ld-.*\.so.*")
_SCRIPT = re.compile(r"[\s;&|]")
_SPACED = re.compile(r"[\s\x00-\x1f\x7f]")


def may_start(words: Words) -> tuple[list[Words], str]:
    """All that a command might start, itself first; and why that might not be all of it, else an empty text."""
    todo, found, unclear = [words], dict.fromkeys([words]), ""
    while todo:
        more: list[Words] = []
        try:
            for one in _may(todo.pop()):
                more.append(one)                        # one by one: what is found before it gets unclear counts
        except Unclear as error:
            unclear = unclear or str(error)
        fresh = [one for one in dict.fromkeys(more) if one not in found]
        if len(found) + len(fresh) > MOST:
            return list(found), f"it holds more than {MOST} commands"
        found.update(dict.fromkeys(fresh))
        todo += fresh
    return list(found), unclear


def starts(words: Words, depth: int = 20) -> list[Words]:
    """Exactly what a command starts besides itself, all the way down. Raises Unclear."""
    if depth == 0:
        raise Unclear("it nests too deep")
    inner = _exactly(words)
    return [*inner, *(deeper for one in inner for deeper in starts(one, depth - 1))]


def program(word: str) -> str:
    """A program's name as file systems may take it: its base name, in one case, without letters that nobody sees."""
    plain = "".join(char for char in normalized("NFKC", basename(word.strip())) if unicodedata.category(char) != "Cf")
    return plain.casefold().removesuffix(".exe")


def skipping_options(words: Words) -> Iterator[Words]:
    """The words as they are, and without what may be the program's own options and their values: `git -C . push`.

    Raises Unclear, after these, where there are too many of them.
    """
    yield words
    for at in range(2, len(words)):
        if at > MOST:
            raise Unclear(f"it holds more than {MOST} options")
        if not _dashed(words[at - 1]) and not (at > 2 and _dashed(words[at - 2])):
            return
        yield (words[0], *words[at:])


def told(words: Words) -> str:
    """A command as people read it; what nobody knows as `…`."""
    return " ".join("…" if word is None else word for word in words)


def _dashed(word: Word) -> bool:
    return word is None or word.startswith("-")


def _may(words: Words) -> Iterator[Words]:
    first = words[0] if words else None
    if first is None:
        return
    if _SPACED.search(first.strip()):
        raise Unclear("a program's name with a space in it")
    name = program(first)
    if name.startswith("git-"):
        yield ("git", name.removeprefix("git-"), *words[1:])
    if _starter(name, words):
        if len(words) > MOST:
            raise Unclear(f"it holds more than {MOST} commands")
        filled = _filled(name, words)
        more: Words = (None,) if name in ("xargs", "parallel") else ()
        yield from ((*filled[at:], *more) for at in range(1, len(words)))
        yield from _read(name, words)
    if name in SHELLS or name == "eval":
        yield from scripts(name, words)
    _refuse_split(name, words)
    refuse_code(name, words)


def _read(name: str, words: Words) -> Iterator[Words]:
    """The commands of single words that are handed to a shell."""
    for word in words[1:] if name in _READ_WORDS else ():
        text = word.partition("=")[2] if word and word.startswith("--") else word
        yield from shell.commands(text) if text and _SCRIPT.search(text) else ()


def _starter(name: str, words: Words) -> bool:
    if name == "git":
        return any(word in _GIT_STARTS or (word or "").startswith("--exec=") for word in words[1:])
    return name in _STARTERS or name in _OTHER_STARTERS or _LOADER.fullmatch(name) is not None


def _filled(name: str, words: Words) -> Words:
    """The words, unknown where a program puts what it reads into their place: `{}`, or as `xargs -I` says."""
    marks = {"{}", *(("{",) if name == "parallel" else ())}
    for at, word in enumerate(words if name == "xargs" else ()):
        if word == "-I":
            marks.add(words[at + 1] or "" if at + 1 < len(words) else "")
        elif word is not None and (found := re.match(r"-[a-zA-Z0]*[iI]|--replace=?", word)):
            marks.add(word[found.end():] or "{}")
    return tuple(None if word is None or any(mark in word for mark in marks) else word for word in words)


def _refuse_split(name: str, words: Words) -> None:
    for word in words[1:] if name == "env" else ():
        if word is None or word.startswith("--s") or re.match(r"-[a-zA-Z0]*S", word):
            raise Unclear("a text that env splits")


def _exactly(words: Words) -> list[Words]:
    first = words[0] if words else None
    if first is None:
        raise Unclear("a program that only a shell could know")
    name = program(first)
    if name in SHELLS or name == "eval":
        return scripts(name, words)
    _refuse_split(name, words)
    if name in _STARTERS:
        return _behind(name, words)
    if _starter(name, words):
        raise Unclear(f"a command of {name}")
    return []                                                   # its own code is part of what the rule about it allows


def _behind(name: str, words: Words) -> list[Words]:
    """The one command behind a program of `_STARTERS`; none where there is none."""
    values, flags, before = _STARTERS[name]
    at = 1
    while at < len(words) and _dashed(words[at]):
        word = words[at] or ""
        at += 1
        if word == "--":
            break
        if word in values:
            at += 1
        elif not (word in flags or word.partition("=")[0] in values or (word[:2] in values and not word.startswith("--"))
                  or (name == "nice" and word[1:].isdecimal())):
            raise Unclear(f"an option of {name} that is not known here")
    while name == "env" and at < len(words) and "=" in (words[at] or ""):
        at += 1
    rest = _filled(name, words)[at + before:]
    if None in words[at:at + before]:
        raise Unclear("an argument that only a shell could know")
    return [(*rest, None) if name == "xargs" else rest] if rest else []
