"""A script of a shell, taken apart into the commands that it starts. Pure; nothing is expanded.

The grammar is that of POSIX shells (IEEE 1003.1, Shell Command Language 2) with what bash adds, read for one purpose: to
know which programs with which arguments a script may start. An argument that only the shell could know (a variable, a
pattern of file names, braces) is None, which stands for any number of any arguments. What could start a program in a way
that is not followed here (a command inside a word, a function, a here-document) makes the whole unclear, and is never
passed over.
"""

from __future__ import annotations

import re

Word = str | None
"""An argument; None where only running could tell it, and then it may be several or none."""
Words = tuple[Word, ...]

LONGEST = 100_000
MOST = 500
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=", re.DOTALL)
_NAMED = re.compile(r"\w|[{@*#?$!-]")
_BRACES = re.compile(r"\{[^{}]*?(,|\.\.)", re.DOTALL)
_FILE_NUMBER = re.compile(r"[0-9]+|\{\w+\}")
_REDIRECTION = re.compile(r"<<<?-?|[<>]\(|>>|>\||[<>]&|<>|[<>]")
_LEADING = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!", "{", "fi", "done", "esac", "}"})
_LISTS = frozenset({"for", "select"})
_NOT_FOLLOWED = {"case": "`case`", "function": "a function", "coproc": "`coproc`"}


class Unclear(ValueError):
    """Which programs it starts can't be known without running it; the message says what stands in the way."""


def commands(script: str) -> list[Words]:
    """The commands of a script, in order, each as its words; variables set in front of one are said as `env` would.

    Raises Unclear.
    """
    if len(script) > LONGEST:
        raise Unclear(f"a script of more than {LONGEST} letters")
    found = (_command(words) for words in _Reader(script).commands())
    return [words for words in found if words]


def _command(words: list[Word]) -> Words:
    """The program that a simple command starts and its arguments; empty where it starts none."""
    at = 0
    while at < len(words) and words[at] in _LEADING:
        at += 1
    if at < len(words) and words[at] in _LISTS:
        return ()
    if at < len(words) and (what := _NOT_FOLLOWED.get(words[at] or "")):
        raise Unclear(f"{what} of a shell")
    start = at
    while at < len(words) and _ASSIGNMENT.match(words[at] or ""):
        at += 1
    if at == len(words):
        return ()
    return ("env", *words[start:]) if at > start else tuple(words[at:])


class _Reader:
    """One walk over the text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.found: list[list[Word]] = []
        self.words: list[Word] = []
        self.word: list[str] | None = None              # the letters of the word in hand, None between words
        self._bare: list[str] = []                      # those of them that are not quoted
        self.unknown = False
        self.target = False                             # the next word is the file of a redirection

    def commands(self) -> list[list[Word]]:
        while self.at < len(self.text):
            self._one(self.text[self.at])
        self._end_command()
        return self.found

    def _one(self, char: str) -> None:
        if char in " \t":
            self._end_word()
            self.at += 1
        elif char in "<>" or self.text.startswith("&>", self.at):
            self._redirection()
        elif char in "\n;&|)":
            self._end_command()
            self.at += 1
        elif char == "(":
            if self.word is not None or self.words:
                raise Unclear("a function or a list of a shell")
            self.at += 1
        elif char == "#" and self.word is None:
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        else:
            self._letter(char)

    def _letter(self, char: str) -> None:
        self.word = [] if self.word is None else self.word
        if char == "'":
            end = self._close("'", self.at + 1)
            self.word.append(self.text[self.at + 1:end])
            self.at = end + 1
        elif char == '"':
            self._double()
        elif char == "\\":
            if self.at + 1 == len(self.text):
                raise Unclear("a backslash with nothing behind it")
            if self.text[self.at + 1] != "\n":
                self.word.append(self.text[self.at + 1])
            elif not self.word and not self._bare:
                self.word = None                        # the line goes on, and no word has begun
            self.at += 2
        elif char in "$`":
            self._expansion(quoted=False)
        else:
            self.word.append(char)
            self._bare.append(char)
            self.at += 1

    def _double(self) -> None:
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            char = self.text[self.at]
            if char in "$`":
                self._expansion(quoted=True)
            elif char == "\\" and self.text[self.at + 1:self.at + 2] in ('"', "\\", "$", "`", "\n"):
                self._take(self.text[self.at + 1].replace("\n", ""))
                self.at += 2
            else:
                self._take(char)
                self.at += 1
        self._close('"', self.at)
        self.at += 1

    def _take(self, text: str) -> None:
        if self.word is not None:
            self.word.append(text)

    def _expansion(self, *, quoted: bool) -> None:
        """A `$` or a backtick: a variable makes the word unknown, a command inside of it the whole unclear."""
        after = self.text[self.at + 1:self.at + 2]
        if self.text[self.at] == "`" or after == "(":
            raise Unclear("a command inside a word")
        if after in ("'", '"') and not quoted:
            raise Unclear("letters of a shell's own spelling")
        if not _NAMED.match(after):
            self._take("$")
            self.at += 1
            return
        self.unknown = True
        if after != "{":
            self.at += 2
            return
        end = self._close("}", self.at)
        inner = self.text[self.at + 2:end]
        if any(sign in inner for sign in ("`", "$(", "{", "'", '"', "\\", "<(", ">(")):
            raise Unclear("a command inside a word")
        self.at = end + 1

    def _close(self, quote: str, start: int) -> int:
        end = self.text.find(quote, start)
        if end < 0:
            raise Unclear(f"a {quote} that is not closed")
        return end

    def _redirection(self) -> None:
        if self.text.startswith("&", self.at):
            raise Unclear("`&>`, which shells read in two ways")
        if self.word is not None and self._bare == self.word and _FILE_NUMBER.fullmatch("".join(self._bare)):
            self.word, self._bare = None, []            # the number of the file that is redirected
        self._end_word()
        operator = _REDIRECTION.match(self.text, self.at)
        if operator is None or operator[0].startswith("<<") or operator[0].endswith("("):
            raise Unclear("text or a command that a shell hands over")
        self.at, self.target = operator.end(), True

    def _end_word(self) -> None:
        if self.word is None:
            return
        bare = "".join(self._bare)
        globbed = "*" in bare or "?" in bare or ("[" in bare and "]" in bare)
        known = not (self.unknown or globbed or _BRACES.search(bare))
        if not self.target:
            self.words.append("".join(self.word) if known else None)
        self.word, self._bare, self.unknown, self.target = None, [], False, False

    def _end_command(self) -> None:
        self._end_word()
        if self.words:
            self.found.append(self.words)
        if len(self.found) > MOST:
            raise Unclear(f"a script of more than {MOST} commands")
        self.words, self.target = [], False
