"""Code as a page shows it: lines of `[class, text]` pairs, the classes those of Pygments' style sheets.

A lexer is regular expressions over a text that somebody else wrote, and some of them take long on texts made for it
(docs/decisions/0125): so a text has bounds, and what is not read within a moment stands there as it is.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from time import monotonic

LONGEST, LONGEST_LINE = 100_000, 1_000
"""Characters that are highlighted; a longer text, or one with a longer line, stands there plain."""
_SECONDS = 0.5
_ENDINGS = {
    ".py": "python", ".pyi": "python", ".json": "json", ".jsonl": "json", ".yaml": "yaml", ".yml": "yaml", ".js": "javascript",
    ".mjs": "javascript", ".ts": "typescript", ".tsx": "typescript", ".html": "html", ".htm": "html", ".xml": "xml",
    ".svg": "xml", ".css": "css", ".sh": "bash", ".bash": "bash", ".sql": "sql", ".go": "go", ".rs": "rust", ".java": "java",
    ".c": "c", ".h": "c", ".cpp": "cpp", ".cc": "cpp", ".hpp": "cpp", ".toml": "toml", ".diff": "diff", ".patch": "diff",
    ".md": "markdown"}
_ALIASES = {"py": "python", "python3": "python", "js": "javascript", "ts": "typescript", "sh": "bash", "shell": "bash",
            "console": "bash", "yml": "yaml", "rs": "rust", "c++": "cpp", "patch": "diff"}
_LANGUAGES = frozenset(_ENDINGS.values())
_PLAIN = {"t", "te", "w", ""}       # classes that no style colours

Lines = list[list[list[str]]]
"""A line is a list of `[class, text]`; the class is empty where nothing colours it."""


def language_of(path: str) -> str:
    """The language of a file of that name; empty where none is known."""
    return _ENDINGS.get(PurePosixPath(path).suffix.lower(), "")


def language_named(name: str) -> str:
    """The language that a code block of Markdown names; empty where it is not known."""
    word = name.strip().split(maxsplit=1)[0].lower() if name.strip() else ""
    word = _ALIASES.get(word, word)
    return word if word in _LANGUAGES else ""


def code_lines(cleaned: str, language: str) -> Lines:
    """A clean text (`texts.clean`) in lines. `language`: one that `language_of` or `language_named` gave; empty: plain."""
    lines = cleaned.removesuffix("\n").split("\n")
    if not language or len(cleaned) > LONGEST or any(len(line) > LONGEST_LINE for line in lines):
        return [_plain(line) for line in lines]
    return _highlighted(cleaned, language)


def _plain(line: str) -> list[list[str]]:
    return [["", line]] if line else []


def _highlighted(text: str, language: str) -> Lines:
    from pygments.lexers import get_lexer_by_name
    from pygments.token import STANDARD_TYPES, Token

    lines: Lines = [[]]
    read, until = 0, monotonic() + _SECONDS
    for at, kind, part in get_lexer_by_name(language, stripnl=False, ensurenl=False).get_tokens_unprocessed(text):
        if monotonic() > until:
            break
        while kind not in STANDARD_TYPES:
            kind = kind.parent or Token
        _put(lines, "" if STANDARD_TYPES[kind] in _PLAIN else STANDARD_TYPES[kind], part)
        read = at + len(part)
    _put(lines, "", text[read:])
    if not lines[-1] and text.endswith("\n"):
        lines.pop()
    return lines


def _put(lines: Lines, kind: str, part: str) -> None:
    """Adds a stretch of text, which may run over several lines, to the last line."""
    for number, piece in enumerate(part.split("\n")):
        if number:
            lines.append([])
        if not piece:
            continue
        if lines[-1] and lines[-1][-1][0] == kind:
            lines[-1][-1][1] += piece
        else:
            lines[-1].append([kind, piece])
