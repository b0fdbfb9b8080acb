from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from metaflow_agents.sop.document import Document
from metaflow_agents.sop.reading import read_yaml


def read(text: str | bytes) -> Document:
    return read_yaml(text if isinstance(text, bytes) else text.encode(), "x.yaml")


def value(written: str) -> Any:
    document = read(f"a: {written}\n")
    assert document.problems == ()
    return document.data["a"]


@pytest.mark.parametrize(("written", "expected"), [
    ("no", "no"), ("yes", "yes"), ("on", "on"), ("off", "off"), ("y", "y"), ("N", "N"),
    ("true", True), ("True", True), ("TRUE", True), ("false", False), ("tRue", "tRue"),
    ("null", None), ("~", None), ("", None), ("Null", None), ("nULL", "nULL"),
    ("12", 12), ("-3", -3), ("+4", 4), ("010", 10), ("0o17", 15), ("0x1F", 31), ("0b11", "0b11"), ("1_000", "1_000"),
    ("190:20:30", "190:20:30"), ("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("-2.5E-1", -0.25), ("1.5M", "1.5M"),
    ("2024-01-01", "2024-01-01"), ("'12'", "12"), ('"true"', "true"), ('"a\\tb\\u00e9"', "a\tbé"),
    ("|\n  x\n  y\n", "x\ny\n"), (">\n  x\n  y\n", "x y\n"), ("=", "="), ("30m", "30m"), ("[]", []), ("{}", {}),
    ("[1, {b: no}]", [1, {"b": "no"}]), ("{b}", {"b": None}),
])
def test_types_are_those_of_yaml_1_2(written: str, expected: object) -> None:
    found = value(written)
    assert found == expected
    assert type(found) is type(expected)


def test_words_of_yaml_1_1_are_keys_too() -> None:
    assert read("on: 1\nno: 2\ny: 3\n").data == {"on": 1, "no": 2, "y": 3}


BAD = [
    ("a: 'x\nb: 1\n", "yaml-syntax", 1, 4, "never closed"),
    ('a: "x\n', "yaml-syntax", 1, 4, "never closed"),
    ("a: [1, {b: 2\n", "yaml-syntax", 1, 8, "never closed"),
    ("[", "yaml-syntax", 1, 1, "never closed"),
    ("a: 1\n\tb: 2\n", "yaml-syntax", 2, 1, "tab"),
    ("a: b: c\n", "yaml-syntax", 1, 5, "no key can begin"),
    ('a: "\\d"\n', "yaml-syntax", 1, 5, "escape"),
    ("a: 1\nfoo\nb: 2\n", "yaml-syntax", 3, 1, "without `:`"),
    ("a: **/*.py\n", "yaml-syntax", 1, 5, "anchor"),
    ("a: @x\n", "yaml-syntax", 1, 4, "can't begin with"),
    ("a: {when: a in [x, y], b: [}\n", "yaml-syntax", 1, 16, "braces is not closed"),
    ("a: - b\n", "yaml-syntax", 1, 4, "no list can begin"),
    ("a:\n  - b\n  c: 1\n", "yaml-syntax", 3, 3, "not an item"),
    ('a: "x" y\n', "yaml-syntax", 1, 8, "no key of the mapping"),
    ("a: |x\n  foo\n", "yaml-syntax", 1, 5, "behind `|`"),
    ("{a: 1} x\n", "yaml-syntax", 1, 8, "follows the end"),
    ("a: {{ x }}\n", "yaml-braces", 1, 5, "{{ }}"),
    ("a: {{ x }}/y\n", "yaml-braces", 1, 5, "{{ }}"),
    ("a: [1, {{ x }}]\n", "yaml-braces", 1, 9, "{{ }}"),
    ("a: 1\nb: 2\na: 3\n", "yaml-duplicate-key", 3, 1, "line 1, column 1"),
    ("1: x\n", "yaml-key", 1, 1, "a number"),
    ("true: x\n", "yaml-key", 1, 1, "true or false"),
    ("? [a]\n: x\n", "yaml-key", 1, 3, "can't be a key"),
    ("a: &k x\n*k : y\n", "yaml-key", 2, 1, "an alias"),
    ("a: {<<: {b: 1}}\n", "yaml-merge", 1, 5, "merge key"),
    ("a: !!python/object:os.system x\n", "yaml-tag", 1, 4, "refused"),
    ("a: !!str 1\n", "yaml-tag", 1, 4, "refused"),
    ("a: !x y\n", "yaml-tag", 1, 4, "refused"),
    ("a: ! y\n", "yaml-tag", 1, 4, "refused"),
    ("a: !x!y z\n", "yaml-tag", 1, 4, "refused"),
    ("a: 1\n---\nb: 2\n", "yaml-documents", 2, 1, "several documents"),
    ("a: 1\n...\n%TAG ! x\n", "yaml-documents", 3, 1, "several documents"),
    ("%YAML 1.1\n---\na: 1\n", "yaml-directive", 1, 1, "directive"),
    ("", "yaml-empty", 1, 1, "says nothing"),
    ("# only a comment\n", "yaml-empty", 1, 1, "says nothing"),
    ("- a\n", "yaml-top", 1, 1, "a list"),
    ("text\n", "yaml-top", 1, 1, "a text"),
    ("a: &x [*x]\n", "yaml-alias", 1, 8, "never end"),
    ("a: &name 1\nb: *nane\n", "yaml-alias", 2, 4, "no anchor"),
    ("a: .inf\n", "yaml-number", 1, 4, "not finite"),
    ("a: 1e999\n", "yaml-number", 1, 4, "not finite"),
    ("a: " + "9" * 50 + "\n", "yaml-number", 1, 4, "too long"),
    (b"\xff\xfea\x00", "yaml-encoding", 1, 1, "UTF-16"),
    (b"a: 1\nb: \xe9\n", "yaml-encoding", 2, 4, "0xe9"),
    (b"a: x\x00y\n", "yaml-encoding", 1, 5, "U+0000"),
    ("a: x\x07y\n", "yaml-encoding", 1, 5, "U+0007"),
    ("a: x\u2028y\n", "yaml-encoding", 1, 5, "line break to some"),
    ("a: " + "[" * 50 + "]" * 50, "yaml-depth", 1, 43, "levels deep"),
]


@pytest.mark.parametrize(("text", "code", "line", "column", "part"), BAD)
def test_what_is_wrong_is_told_once_at_its_place(text: str | bytes, code: str, line: int, column: int, part: str) -> None:
    problems = read(text).problems
    assert [(one.code, one.line, one.column) for one in problems] == [(code, line, column)]
    assert part in problems[0].message
    assert problems[0].mend
    assert problems[0].file == "x.yaml"


def test_size_is_refused_before_anything_is_read() -> None:
    assert [one.code for one in read(b"\xff" * ((1 << 20) + 1)).problems] == ["yaml-size"]


def test_all_problems_of_a_file_are_told_and_its_data_kept() -> None:
    document = read("a: !t 1\nb: {1: x}\na: 2\nc: 3\n")
    assert [one.code for one in document.problems] == ["yaml-tag", "yaml-key", "yaml-duplicate-key"]
    assert document.data == {"a": 1, "b": {"1": "x"}, "c": 3}


def test_the_nearest_anchor_is_named() -> None:
    assert "`*name`" in read("a: &name 1\nb: *nane\n").problems[0].mend


def test_aliases_stand_for_their_values() -> None:
    document = read("a: &x {k: [1, 2]}\nb: *x\n")
    assert document.problems == ()
    assert document.data["b"] == {"k": [1, 2]}
    assert document.at("b") == (2, 4)
    assert document.at("b", "k", 1) == (1, 15)


def test_a_byte_order_mark_shifts_nothing() -> None:
    assert read(b"\xef\xbb\xbfa: 1\n").at("a") == (1, 4)


TEXT = """\
sop: x   # the name
steps:
  write: {when: a == b, makes: [one, 'two']}
  read:
    run: "quo\\tted" # after
    text: |
      first line

        third {{ here }}
    folded: >-
      one two
      three
    plain: some words
      go on
    single: 'it''s so'
    twice: 'a''''b'
"""


def test_places_of_keys_and_values() -> None:
    document = read(TEXT)
    assert document.problems == ()
    assert document.at("sop") == (1, 6)
    assert document.key_at("steps", "write", "when") == (3, 11)
    assert document.at("steps", "write", "when") == (3, 17)
    assert document.at("steps", "write", "makes", 1) == (3, 38)
    assert document.key_at("steps", "write", "makes", 1) == (3, 38)
    assert document.at("steps", "gone", "deeper") == document.at("steps") == (3, 3)
    assert document.key_at("steps", "read", "nothing") == document.at("steps", "read") == (5, 5)
    assert document.has("steps", "read") and not document.has("steps", "reed")


@pytest.mark.parametrize(("key", "inner", "place"), [
    ("run", (1, 1), (5, 11)), ("run", (1, 4), (5, 14)), ("run", (1, 5), (5, 16)),
    ("text", (1, 1), (7, 7)), ("text", (1, 7), (7, 13)), ("text", (3, 3), (9, 9)), ("text", (3, 12), (9, 18)),
    ("folded", (1, 5), (11, 11)), ("folded", (1, 9), (12, 7)),
    ("plain", (1, 6), (13, 17)), ("plain", (1, 12), (14, 7)),
    ("twice", (1, 3), (16, 16)), ("twice", (1, 4), (16, 18)), ("single", (1, 4), (15, 18)), ("single", (1, 6), (15, 20)),
])
def test_a_place_inside_a_text_is_a_place_of_the_file(key: str, inner: tuple[int, int], place: tuple[int, int]) -> None:
    assert read(TEXT).inside(("steps", "read", key), *inner) == place


def test_inside_of_what_is_no_text_is_where_it_stands() -> None:
    document = read(TEXT)
    assert document.inside(("steps", "read"), 3, 3) == document.at("steps", "read")
    assert document.inside(("steps", "gone"), 3, 3) == document.at("steps")


def test_comments_and_flow_that_may_have_cut_an_expression() -> None:
    document = read("a: b #c d\ne: 'f' # g\nh: {when: f(a, b), i: \"x\", j: [k]}\nl: m\n")
    assert document.comment_after("a") == "c d"
    assert document.comment_after("e") is None
    assert document.comment_after("l") is None
    assert document.flow("h", "when") and document.flow("h", "j", 0)
    assert not document.flow("h", "i") and not document.flow("a") and not document.flow("h")
    assert document.bare("h", "b)") and not document.bare("h", "when") and not document.bare("a")
    assert not read("a: {b: }\n").bare("a", "b")


@given(st.binary(max_size=200))
@settings(max_examples=examples(300), deadline=None)
def test_random_bytes_give_problems_and_never_raise(data: bytes) -> None:
    document = read(data)
    assert document.data is not None or document.problems


PIECES = st.sampled_from([
    "a", "b: ", ": ", "- ", "\n", "\n  ", "\n    ", "[", "]", "{", "}", ", ", "'", '"', "|\n", ">\n", "#", " # x", "&a ", "*a ",
    "!t ", "? ", "<<: ", "---\n", "...\n", "%", "\t", "{{ x }}", "1", "true", "~", "\\", "é",
    "\u2028", "\r", "\x00", "@", "`", "0o7", ".inf"])


@given(st.lists(PIECES, max_size=40).map("".join))
@settings(max_examples=examples(600), deadline=None)
def test_random_yaml_like_text_gives_data_or_problems(text: str) -> None:
    document = read(text)
    assert document.data is not None or document.problems
    lines = len(text.splitlines()) + 1
    for problem in document.problems:
        assert problem.message and problem.mend
        assert 1 <= problem.line <= lines and problem.column >= 1
    json.dumps(document.data, allow_nan=False)


KEY = st.text("abcdefgh_", min_size=1, max_size=5)
SCALAR = st.one_of(st.integers(-99, 99), st.booleans(), st.none(), st.text("ab #:{}[],'\"é\\-", max_size=12))
VALUE: st.SearchStrategy[Any] = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3), max_leaves=12)
TREE = st.dictionaries(KEY, VALUE, min_size=1, max_size=4)


class Writer:
    """Writes a tree as block YAML with quoted texts, and notes where each value begins."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.places: dict[tuple[str | int, ...], tuple[int, int]] = {}

    def write(self, tree: Any, path: tuple[str | int, ...], indent: int) -> None:
        for part, inner in tree.items() if isinstance(tree, dict) else enumerate(tree):
            head = " " * indent + (f"{part}:" if isinstance(part, str) else "-")
            if isinstance(inner, dict | list) and inner:
                self.lines.append(head)
                self.places[(*path, part)] = (len(self.lines) + 1, indent + 3)
                self.write(inner, (*path, part), indent + 2)
            else:
                self.lines.append(f"{head} {json.dumps(inner, ensure_ascii=False)}")
                self.places[(*path, part)] = (len(self.lines), len(head) + 2)


@given(TREE)
@settings(max_examples=examples(200), deadline=None)
def test_every_value_of_a_random_document_stands_where_it_was_written(tree: dict[str, Any]) -> None:
    writer = Writer()
    writer.write(tree, (), 0)
    document = read("\n".join(writer.lines) + "\n")
    assert document.problems == ()
    assert document.data == tree
    for path, place in writer.places.items():
        assert document.at(*path) == place


WORDS = st.text("abc{}.,é()", min_size=1, max_size=6).filter(str.strip)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4), st.sampled_from(["|", "'", '"']), st.data())
@settings(max_examples=examples(200), deadline=None)
def test_every_word_of_a_random_text_is_found_in_the_file(words: list[list[str]], style: str, data: st.DataObject) -> None:
    lines = [" ".join(line) for line in words]
    if style == "|":
        text = "a: |\n" + "".join(f"    {line}\n" for line in lines)
    else:
        text = f"a: {style}{' '.join(lines)}{style}\n"
        lines = [" ".join(lines)]
    document = read(text)
    assert document.problems == ()
    line = data.draw(st.integers(0, len(lines) - 1))
    column = data.draw(st.sampled_from([index for index, sign in enumerate(lines[line]) if sign != " "]))
    found_line, found_column = document.inside(("a",), line + 1, column + 1)
    assert (found_line, found_column) == ((line + 2, column + 5) if style == "|" else (1, column + 5))
