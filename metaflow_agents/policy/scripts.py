"""Code that stands in a command: the scripts of shells, which can be followed, and that of interpreters, which can't. Pure."""

from __future__ import annotations

import re

from metaflow_agents.policy import shell
from metaflow_agents.policy.shell import Unclear, Word, Words

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "fish", "csh", "tcsh"})
_FOREIGN_SHELLS = frozenset({"pwsh", "powershell", "cmd"})
_SHELL_STATE = frozenset({"alias", "hash", "enable", "bind", "complete", "compgen", "mapfile", "readarray", "fc"})
_FLAGS = frozenset({"--norc", "--noprofile", "--posix", "--login", "--noediting", "--restricted", "--verbose", "--debugger"})
_VALUES = frozenset({"--rcfile", "--init-file"})
_INFORMING = frozenset({"--version", "--help", "-V", "-VV", "-h"})
_INTERPRETERS: tuple[tuple[re.Pattern[str], str, str, str], ...] = (       # name; options with code, with a value, that end them
    (re.compile(r"(python|pypy)[\d.]*w?"), "c", "WX", "m"),
    (re.compile(r"perl[\d.]*"), "eE", "I", ""),
    (re.compile(r"ruby[\d.]*"), "e", "ICrE", ""),
    (re.compile(r"node(js)?|bun|deno"), "ep", "rC", ""),
    (re.compile(r"php[\d.]*"), "rBRE", "dcft", ""),
    (re.compile(r"lua(jit)?[\d.]*"), "e", "l", ""),
    (re.compile(r"r(script)?|julia|tclsh[\d.]*|ghci?|osascript"), "eE", "", ""),
)
_CODE_WORDS = ("--eval", "--print", "--import", "--command", "--run", "--code")
_AWK = re.compile(r"(g|m|n)?awk")


def refuse_code(name: str, words: Words) -> None:
    """Raises Unclear for code in a command that may start what nobody sees; `name` is the program's, in one case."""
    if name in _FOREIGN_SHELLS or name in _SHELL_STATE:
        raise Unclear(f"a command of {name}")
    if name == "git" and any(word is not None and word.casefold().startswith("alias.") for word in words[1:]):
        raise Unclear("an alias of git")
    if _AWK.fullmatch(name) and any(word is None or "system" in word or "|" in word for word in words[1:]):
        raise Unclear("code of awk that starts programs")
    for form, code, values, ending in _INTERPRETERS:
        if form.fullmatch(name):
            _interpreter(name, words[1:], code, values, ending)


def scripts(name: str, words: Words) -> list[Words]:
    """The commands of `sh -c SCRIPT` and `eval WORDS`; none for a script in a file. Raises Unclear."""
    if name == "eval":
        if None in words:
            raise Unclear("a text that only a shell could know")
        return shell.commands(" ".join(word for word in words[1:] if word is not None))
    given, at = False, 1
    while at < len(words) and (words[at] is None or (words[at] or "")[:1] in ("-", "+")):
        word = words[at]
        at += 1
        if word in ("--version", "--help"):
            return []
        if word == "--":
            break
        given = given or "c" in _letters(name, word)
        at += word in _VALUES or _letters(name, word).endswith(("o", "O"))
    script = words[at] if at < len(words) else None
    if script is None:
        raise Unclear(f"a script that {name} reads elsewhere")
    return shell.commands(script) if given else []


def _letters(name: str, option: Word) -> str:
    """The letters of a shell's short options; none for a long one. Raises Unclear where the script may lie elsewhere."""
    if option in _FLAGS or option in _VALUES:
        return ""
    letters = (option or "-")[1:]
    odd = not letters.isalpha() or "s" in letters or re.search("[oO].", letters) or (name == "fish" and "C" in letters)
    if option is None or odd:
        raise Unclear(f"a script that {name} reads elsewhere")
    return letters if option.startswith("-") else letters.replace("c", "")


def _interpreter(name: str, arguments: Words, code: str, values: str, ending: str) -> None:
    """Raises Unclear where code stands in the command itself, or is read from the input."""
    if len(arguments) == 1 and arguments[0] in (*_INFORMING, "-v"):
        return
    value = ""                          # "surely" or "maybe": whether the next word is the value of the option before it
    for at, word in enumerate(arguments):
        if word is None or word == "-" or word.startswith(_CODE_WORDS) or (at == 0 and word == "eval"):
            raise Unclear(f"code of {name} in the command")
        if word in _INFORMING:
            return
        if value == "surely" or (value == "maybe" and not word.startswith("-")):
            value = "" if value == "surely" else "taken"
        elif not word.startswith("-") or word == "--":
            return                      # a script: what follows is its own
        elif word.startswith("--"):
            value = "" if "=" in word else "maybe"
        else:
            ends, value = _cluster(name, word[1:], code, values, ending)
            if ends:
                return
    if value != "taken":
        raise Unclear(f"code that {name} reads from its input")


def _cluster(name: str, letters: str, code: str, values: str, ending: str) -> tuple[bool, str]:
    """Short options that are written as one: whether no more follow, and whether the next word is a value."""
    for place, letter in enumerate(letters):
        if letter in code:
            raise Unclear(f"code of {name} in the command")
        if letter in ending:
            return True, ""
        if letter in values:
            return False, "surely" if place + 1 == len(letters) else ""
    return False, ""
