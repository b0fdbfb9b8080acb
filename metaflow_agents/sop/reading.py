"""YAML 1.2 text → plain data with the place of everything, hostile text refused.

Values are composed here from libyaml's parse events, without recursion, and nesting is counted on the events: libyaml's
own composer recurses and crashes the process on deep nesting. Types are those of the YAML 1.2 core schema
(https://yaml.org/spec/1.2.2/#103-core-schema), less what JSON can't hold (`.inf`, `.nan`): `no` and `on` are text,
there are no dates, no base 60, no merge keys and no tags.

Bounds, for any input: `MAX_BYTES` of text, `MAX_DEPTH` levels, `MAX_NODES` values after aliases are written out; more of each
where a caller allows it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import yaml

from metaflow_agents.errors import Problem, nearest
from metaflow_agents.sop import syntax
from metaflow_agents.sop.document import LINE, Document
from metaflow_agents.sop.position import PositionNode

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
MAX_NODES = 20_000
MAX_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """What is read at most. `any_key`: keys that look like numbers or booleans are taken for the text that they are."""

    size: int = MAX_BYTES
    depth: int = MAX_DEPTH
    nodes: int = MAX_NODES
    any_key: bool = False


USUAL = ReadingLimits()
FAST = hasattr(yaml, "CSafeLoader")
"""Whether libyaml parses; without it PyYAML's own parser does, some ten times slower."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)      # only its parser is used, never its constructor
_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_EXPRESSIONS = frozenset({"when", "in", "key", "after", "where", "accept", "only", "value", "priority", "success", "expect",
                          "assert"})
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_BAD_CHARACTER = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029\ufeff]")
_HIDING = re.compile("[\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\U000e0000-\U000e007f]")
"""Characters that turn round how a line is read, or are seen by models and not by people
(CVE-2021-42574, https://www.unicode.org/reports/tr36/#Bidirectional_Text_Spoofing).
"""
_DIRECTIVE = re.compile(r"\A(?:[ \t]*+(?:#[^\r\n]*+)?(?:\r\n|\n|\r))*+(?=%)")
_BLANK = re.compile(r"(?:[ \t\r\n]|(?<=[\s.])#[^\r\n]*+)*+")


def read_yaml(data: bytes, file: str, limits: ReadingLimits = USUAL) -> Document:
    """What a YAML file of one mapping says. Never raises for what stands in the file: see `Document.problems`."""
    text, refused = _decoded(data, file, limits.size)
    composing = _Composing(file, text, limits)
    if not refused:
        composing.run()
    root = None if composing.fatal else composing.root
    return Document(file, text, root, None if root is None else root.data, refused or composing.problems)


def _decoded(data: bytes, file: str, most: int) -> tuple[str, list[Problem]]:
    if len(data) > most:
        return "", [Problem("yaml-size", f"the file has {len(data):,} bytes; at most {most:,} are read",
                            "split it, or keep large texts in templates", file)]
    mend = "save the file as UTF-8 text"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "", [Problem("yaml-encoding", "the file is UTF-16", mend, file, 1, 1)]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[:error.start].decode("utf-8", "replace")
        line, column = _line_column(before, len(before))
        return "", [Problem("yaml-encoding", f"byte 0x{data[error.start]:02x} is not UTF-8", mend, file, line, column)]
    if bad := _BAD_CHARACTER.search(text):
        line, column = _line_column(text, bad.start())
        code = ord(bad[0])
        what = ("is a line break to some readers and none to others" if code in (0x85, 0x2028, 0x2029)
                else "may not stand in a YAML file")
        return text, [Problem("yaml-encoding", f"the character U+{code:04X} {what}",
                              f'remove it, or write "\\u{code:04x}" in a double-quoted text', file, line, column)]
    if hiding := _HIDING.search(text):
        line, column = _line_column(text, hiding.start())
        code = ord(hiding[0])
        written = f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
        return text, [Problem("yaml-encoding", f"the character U+{code:04X} is not seen, and may hide or turn round what is read",
                              f'remove it, or write "{written}" in a double-quoted text', file, line, column)]
    if directive := _DIRECTIVE.match(text):
        line, column = _line_column(text, directive.end())
        return text, [Problem("yaml-directive", "a `%` directive opens the file; it is read as YAML 1.2 without directives",
                              "remove the line", file, line, column)]
    return text, []


def _line_column(text: str, offset: int) -> tuple[int, int]:
    line, start = 1, 0
    for match in LINE.finditer(text, 0, offset):
        line, start = line + 1, match.end()
    return line, offset - start + 1


@dataclass(slots=True)
class _Open:
    """A collection whose end has not been met. `key` is the mapping's key that waits for its value."""

    node: PositionNode
    anchor: str | None
    key: PositionNode | None = None
    key_text: str = ""
    children: list[PositionNode] = field(default_factory=list)
    lost: bool = False              # the value of a refused key: composed for its problems, then dropped
    meant: str | None = None        # the text that was meant by `{{ … }}` without quotes


class _Stop(Exception):
    """A problem after which nothing more can be composed."""


class _Composing:
    """Events → nodes and data, one pass, no recursion."""

    def __init__(self, file: str, text: str, limits: ReadingLimits) -> None:
        self.file, self.text, self.limits = file, text, limits
        self.problems: list[Problem] = []
        self.root: PositionNode | None = None
        self.fatal = False
        self._stack: list[_Open] = []
        self._anchors: dict[str, PositionNode | None] = {}       # None: still open, so an alias to it would be recursive
        self._nodes = 0
        self._flow = 0

    def run(self) -> None:
        loader = _LOADER(self.text)
        try:
            while True:
                event = loader.get_event()
                if isinstance(event, yaml.DocumentEndEvent):
                    self._rest(event)
                    break
                if isinstance(event, yaml.StreamEndEvent) or event is None:
                    break
                self._event(event)
            self._top()
        except _Stop:
            self.fatal = True
        except yaml.YAMLError as error:
            self.fatal = True
            told = syntax.told(error, self.text, self.file)
            if not any(known.code == told.code and known.line == told.line for known in self.problems):
                self.problems.append(told)
        finally:
            loader.dispose()

    def _told(self, code: str, message: str, mend: str, mark: Any) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(code, message, mend, self.file, mark.line + 1, mark.column + 1))

    def _stop(self, code: str, message: str, mend: str, mark: Any) -> _Stop:
        self._told(code, message, mend, mark)
        return _Stop()

    def _top(self) -> None:
        if self.fatal:
            return
        if self.root is None or (self.root.kind == "scalar" and self.root.data is None and self.root.plain):
            self.problems.append(Problem("yaml-empty", "the file says nothing", "write the keys of the file, such as `sop: NAME`",
                                         self.file, 1, 1))
            self.fatal = True
        elif self.root.kind != "mapping":
            what = "a list" if self.root.kind == "sequence" else "a text or number"
            self.problems.append(Problem("yaml-top", f"the file is {what}; it must be a mapping",
                                         "begin with `key: value` lines, such as `sop: NAME`",
                                         self.file, self.root.line, self.root.column))
            self.fatal = True

    def _rest(self, event: Any) -> None:
        """What follows the first document is looked at as text, so that its directives cost nothing."""
        start = event.end_mark.index if event.explicit else event.start_mark.index
        blank = _BLANK.match(self.text, start)
        end = blank.end() if blank else start
        if end < len(self.text):
            line, column = _line_column(self.text, end)
            self.fatal = self.root is None or self.root.kind != "mapping"
            if self.text.startswith("---", end) or event.explicit:
                self.problems.append(Problem("yaml-documents", "the file holds several documents; one is read",
                                             "keep one document a file", self.file, line, column))
            else:
                self.problems.append(Problem("yaml-syntax", "text follows the end of the document",
                                             "put the value in quotes, or remove the text", self.file, line, column))

    def _event(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._count(event, 1)
            self._refuse_tag(event)
            node = PositionNode("scalar", event.start_mark, event.end_mark, flow=self._flow > 0,
                        style=event.style or "", value=event.value)
            node.data = self._resolved(event)
            self._add(node, event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close(event)

    def _count(self, event: Any, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > self.limits.nodes:
            many = nodes > 1
            written_out = " once its aliases are written out" if many else ""
            raise self._stop("yaml-alias" if many else "yaml-size",
                       f"the file holds more than {self.limits.nodes:,} values{written_out}",
                       "write the values out once, without aliases of aliases" if many else "split the file", event.start_mark)

    def _deep(self, event: Any, levels: int) -> None:
        if levels > self.limits.depth:
            raise self._stop("yaml-depth", f"the file nests more than {self.limits.depth} levels deep",
                             "flatten it, or split the file", event.start_mark)

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None:
            self._told("yaml-tag", f"the tag `{_short(event.tag)}` is refused; values have the types they look like",
                       "remove the tag; for text use quotes", event.start_mark)

    def _alias(self, event: Any) -> None:
        name = event.anchor
        if name not in self._anchors:
            close = nearest(name, self._anchors)
            self._told("yaml-alias", f"the alias `*{_short(name)}` names no anchor above it",
                       f"did you mean `*{close}`?" if close else f"for text that begins with `*` use quotes: '*{_short(name)}'",
                       event.start_mark)
            target = PositionNode("scalar", event.start_mark, event.end_mark, flow=True, style="'", value="")
        else:
            known = self._anchors[name]
            if known is None:
                raise self._stop("yaml-alias", f"the alias `*{_short(name)}` stands inside its own anchor: it would never end",
                           "write the inner value out", event.start_mark)
            target = known
        self._count(event, target.size)
        self._deep(event, len(self._stack) + target.height)
        node = PositionNode("alias", event.start_mark, event.end_mark, flow=self._flow > 0)
        node.target, node.data, node.size = target, target.data, target.size
        node.height = target.height
        self._add(node, None)

    def _open(self, event: Any) -> None:
        self._count(event, 1)
        self._refuse_tag(event)
        self._deep(event, len(self._stack) + 1)
        mapping = isinstance(event, yaml.MappingStartEvent)
        node = PositionNode("mapping" if mapping else "sequence", event.start_mark, event.end_mark, flow=bool(event.flow_style))
        node.data = {} if mapping else []
        if event.anchor:
            self._anchors[event.anchor] = None
        self._stack.append(_Open(node, event.anchor))
        self._flow += bool(event.flow_style)

    def _close(self, event: Any) -> None:
        opened = self._stack.pop()
        self._flow -= opened.node.flow
        opened.node.end = event.end_mark.index
        if opened.meant is not None:
            opened.node.data = opened.meant
        self._add(opened.node, opened.anchor)

    def _add(self, node: PositionNode, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = node
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        parent.node.size += node.size
        parent.node.height = max(parent.node.height, node.height + 1)
        if parent.node.kind == "sequence":
            parent.node.items.append(node)
            parent.node.data.append(node.data)
        elif parent.key is None:
            parent.key, parent.key_text, parent.lost = node, *self._key(node, parent.node)
        else:
            if not parent.lost:
                parent.node.pairs[parent.key_text] = (parent.key, node)
                parent.node.data[parent.key_text] = node.data
            parent.key = None

    def _key(self, key: PositionNode, mapping: PositionNode) -> tuple[str, bool]:
        """The text of a key, and whether it is refused altogether."""
        mark = _At(key.line - 1, key.column - 1)
        if key.kind != "scalar":
            braces = key.kind == "mapping" and key.flow and self.text[max(0, key.start - 1):key.start + 1] == "{{"
            if braces:
                self._braces(key, mark)
            else:
                what = "an alias" if key.kind == "alias" else "a list or mapping"
                self._told("yaml-key", f"{what} can't be a key; keys are text", "write the key as text", mark)
            return "", True
        if key.plain and key.value == "<<":
            self._told("yaml-merge", "the merge key `<<` is not part of YAML 1.2",
                       "write the keys out, or use `defaults:` for what all steps or roles share", mark)
            return "", True
        if not isinstance(key.data, str) and not (self.limits.any_key and key.value):
            shown = _short(key.value)
            self._told("yaml-key", f"the key `{shown}` is {_kind(key.data)}; keys are text" if shown else "a key is empty",
                       f'put it in quotes: "{shown}"' if shown else "write its name before the `:`", mark)
        if key.value in mapping.pairs:
            first = mapping.pairs[key.value][0]
            self._told("yaml-duplicate-key", f"the key `{_short(key.value)}` is duplicated, first in line {first.line}, "
                       f"column {first.column}", "remove one, or give it another name", mark)
            return "", True
        return key.value, False

    def _braces(self, inner: PositionNode, mark: Any) -> None:
        """`when: {{ x }}`: told, and read on as what was meant."""
        written = self.text[inner.start + 1:inner.end - 1].strip()
        outer = self._stack[-2] if len(self._stack) > 1 else None
        name = "" if outer is None or outer.key is None else outer.key_text
        self._stack[-1].meant = written if name in _EXPRESSIONS else f"{{{{ {written} }}}}"
        self._told("yaml-braces", "`{{ }}` at the start of an unquoted value is a mapping to YAML",
                   f"write `{name}: {_short(written)}`: `{name}` is an expression, which takes no braces" if name in _EXPRESSIONS
                   else f'put the whole value in quotes: "{{{{ {_short(written)} }}}}"', mark)

    def _resolved(self, event: yaml.ScalarEvent) -> Any:
        """The value of a scalar by the core schema of YAML 1.2."""
        text = event.value
        if event.style or len(text) > 5000:
            return text
        if _NULL.fullmatch(text):
            return None
        if _BOOL.fullmatch(text):
            return text[0] in "tT"
        if _BASED.fullmatch(text) or (_INT.fullmatch(text) and len(text) <= 40):
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        if _SPECIAL.fullmatch(text) or (_FLOAT.fullmatch(text) and (_INT.fullmatch(text) or not isfinite(float(text)))):
            self._told("yaml-number", f"the number `{_short(text)}` is not finite, or too long to be kept exactly",
                       "write a smaller number, or quote it as text", event.start_mark)
            return 0
        return float(text) if _FLOAT.fullmatch(text) else text


@dataclass(frozen=True, slots=True)
class _At:
    """A place in the form of PyYAML's marks: counted from 0."""

    line: int
    column: int


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _kind(value: object) -> str:
    if value is None:
        return "empty"
    return "true or false" if isinstance(value, bool) else "a number"
