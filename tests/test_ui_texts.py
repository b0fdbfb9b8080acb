"""What others wrote, on its way to a page: text, code and Markdown that act nowhere, hide nothing, and hold no secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples
from ui_desk import texts

from metaflow_agents.terminal import printing
from metaflow_agents.views.ui.code import LONGEST, LONGEST_LINE, code_lines, language_named, language_of
from metaflow_agents.views.ui.markdown_tree import LINES, TAGS, markdown_tree
from metaflow_agents.views.ui.tables import csv_table, table_of
from metaflow_agents.views.ui.texts import bounded, clean, line, text

SECRET = "s3cr*t-of-acme"
HOSTILE = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg onload=alert(1)>", "</script><!--", "<!-- --!>",
    "<style>*{}</style>", "[a](javascript:alert(1))", "[a](JAVASCRIPT:alert(1))", "[a](data:text/html,<b>)", "[a](vbscript:x)",
    "[a](//evil.example/x)", "[a](file:///etc/passwd)", "![a](https://evil.example/x.png)", "<https://ok.example/>",
    "<javascript:alert(1)>", "&lt;script&gt;", "&#106;avascript:alert(1)", "[a](&#106;avascript:alert(1))",
    "[a](java\nscript:alert(1))", "[a][b]\n\n[b]: javascript:alert(1)", "```js\"><script>\nx\n```", "`<b>`", "# <b>x</b>",
    "|<b>|c|\n|-|-|\n|<i>|d|", "- [ ] <input>", "<a href=x>y</a>", "$$x$$", "x{onclick=1}"]


def nodes(tree: Any) -> list[dict[str, Any]]:
    found = []
    for one in tree:
        if isinstance(one, dict):
            found += [one, *nodes(one.get("children", []))]
    return found


@pytest.mark.parametrize("written", HOSTILE)
def test_markdown_is_a_tree_of_known_elements_that_lead_nowhere_bad(written: str) -> None:
    tree = markdown_tree(f"before {written} after\n\n{written}\n")
    assert tree is not None
    for node in nodes(tree):
        assert node["tag"] in TAGS and set(node) <= {"tag", "children", "href", "lines", "language", "align", "start"}
        assert node.get("href", "https://").lower().startswith(("http://", "https://", "mailto:"))


@given(st.text(alphabet=st.sampled_from(list("<>[]()!#*_`|-&;:/\n \\\"'ajs~=+.0123456789\x1b\u202e{}")), max_size=200))
@settings(max_examples=examples(200), deadline=None)
def test_any_text_is_markdown_of_known_elements_and_loses_no_word(written: str) -> None:
    tree = markdown_tree(written)
    assert tree is not None
    for node in nodes(tree):
        assert node["tag"] in TAGS and node.get("href", "https://").lower().startswith(("http://", "https://", "mailto:"))
    assert not any(printing.HIDING.search(one) for one in texts(tree))
    assert {letter for letter in written if letter in "ajs"} <= {letter for one in texts(tree) for letter in one}


def test_markdown_says_what_it_should() -> None:
    tree = markdown_tree("# A\n\nb *c* [d](https://e/)\n\n3. f\n4. g\n\n|h|\n|:-:|\n|i|\n\n```py\nx = 1\n```\n\n[j](k.md)\n")
    assert tree is not None
    assert [node["tag"] for node in tree if isinstance(node, dict)] == ["h1", "p", "ol", "table", "pre", "p"]
    assert tree[0] == {"tag": "h1", "children": ["A"]}
    assert tree[1]["children"] == [                                                             # type: ignore[index]
        "b ", {"tag": "em", "children": ["c"]}, " ", {"tag": "a", "children": ["d"], "href": "https://e/"}]
    assert tree[2]["start"] == 3                                                                # type: ignore[index]
    assert {node["align"] for node in nodes(tree) if node["tag"] in ("th", "td")} == {"center"}
    assert tree[4]["language"] == "python" and ["o", "="] in tree[4]["lines"][0]                # type: ignore[index]
    assert " (k.md)" in [*texts(tree)], "a page of nowhere is no link, and its address is told"


def test_long_markdown_is_no_tree_and_a_long_paragraph_is_text() -> None:
    assert markdown_tree("a\n" * (LINES + 1)) is None
    tree = markdown_tree("[" * 50_000)
    assert tree == [{"tag": "p", "children": ["[" * 50_000]}], "reading it would take a minute"


def test_what_hides_or_acts_is_shown() -> None:
    assert clean("a\x1b[31mb\r\nc\u202ed\u200b\x00") == "a␛[31mb\nc\ufffdd\ufffd␀"
    assert line("a\n\tb\x07  c") == "a b␇ c" and line("x" * 500).endswith("…") and len(line("x" * 500)) == 200
    for shown in (code_lines(clean("a = '\x1b]0;x\x07'\n"), "python"), markdown_tree("&#27;[2J &#x202e;x `\x1b`")):
        assert not any(printing.HIDING.search(one) for one in texts(shown))


@pytest.fixture
def masked() -> Any:
    printing.redact("test", lambda written: written.replace(SECRET, "[secret ACME]"))
    yield
    printing._redactors.pop("test")


def test_a_secret_is_masked_before_a_text_is_cut_or_taken_apart(masked: None) -> None:
    written = "x" * 19_995 + SECRET
    assert "s3c" not in text(written)["text"] and text(written)["cut"] == len(clean(written))
    assert "s3c" not in json.dumps(code_lines(clean(f"key = '{SECRET}'"), "python"))
    assert "s3c" not in json.dumps(markdown_tree(f"a {SECRET} *b* {SECRET}")), "between its parts there is an emphasis"
    assert "s3c" not in json.dumps(bounded({SECRET: [SECRET]})) and "s3c" not in line(f"a\n{SECRET}")
    assert "s3c" not in json.dumps(csv_table(f"a,b\n{SECRET},2\n")) and "s3c" not in json.dumps(table_of([{SECRET: SECRET}]))


@pytest.mark.parametrize(("written", "language"), [
    ("def f(a):\n    return '''x\ny'''\n", "python"), ('{"a": [1, null]}', "json"), ("a: b # c\n- d", "yaml"),
    ("<b>x</b>\n", "html"), ("\n\n\n", "python"), ("", "python"), ("x", "rust"), ("\\", "bash"), ("'", "sql"),
    ("no end of line", "go")])
def test_code_keeps_every_letter_and_every_line(written: str, language: str) -> None:
    lines = code_lines(written, language)
    assert "\n".join("".join(part for _, part in pairs) for pairs in lines) == written.removesuffix("\n")
    assert all(kind.isalnum() or kind == "" for pairs in lines for kind, _ in pairs)


@given(st.text(max_size=300), st.sampled_from(["python", "json", "yaml", "html", "css", "bash", "diff", "markdown"]))
@settings(max_examples=examples(150), deadline=None)
def test_any_text_is_code_that_loses_nothing(written: str, language: str) -> None:
    cleaned = clean(written)
    lines = code_lines(cleaned, language)
    assert "\n".join("".join(part for _, part in pairs) for pairs in lines) == cleaned.removesuffix("\n")


@pytest.mark.one_in(4)
def test_what_lexers_would_choke_on_stands_plain() -> None:
    for written in ("a=" * LONGEST, "x" * (LONGEST_LINE + 1), "f(\n" * LONGEST):
        assert all(kind == "" for pairs in code_lines(written, "python") for kind, _ in pairs)
    assert language_of("a.ini") == "", "its lexer takes a minute for one line made for it"
    assert language_named("py title=x") == "python" and language_named("<script>") == language_named("") == ""


def test_data_is_bounded_in_depth_width_and_length() -> None:
    deep: Any = "end"
    for _ in range(500):
        deep = [deep]
    for value in (deep, {"x" * 1_000_000: 1}, list(range(100_000)), {str(number): "y" * 10_000 for number in range(1_000)},
                  [[[0] * 400] * 400] * 400, "z" * 30_000):
        found, cut = bounded(value)
        assert cut and len(json.dumps(found)) < 6_000_000
    assert bounded({"a": [1, None, True, 2.5, 1 << 60]}) == ({"a": [1, None, True, 2.5, str(1 << 60)]}, False)


def test_tables_are_of_flat_records_and_of_csv_files() -> None:
    assert table_of([{"a": 1, "b": "x"}, {"b": None, "c": True}]) == {
        "columns": ["a", "b", "c"], "total": 2, "rows": [["1", "x", ""], ["", "", "true"]]}
    assert table_of({"one": {"a": 1}, "two": {"a": 2}}) == {
        "columns": ["", "a"], "total": 2, "rows": [["one", "1"], ["two", "2"]]}
    for none in ([], {}, [1], [{}], [{"a": [1]}], [{"a": "x\ny"}], {"a": 1}, "text", [{str(n): 1 for n in range(100)}]):
        assert table_of(none) is None
    assert csv_table('a,b\n1,"x, y"\n2\n') == {"columns": ["a", "b"], "total": 2, "rows": [["1", "x, y"], ["2", ""]]}
    for no_table in ("", "a\nb\n", "just words, and\nmore words, and, more\n", 'a,b\n"1,2\n', "x" * 3_000_000):
        assert csv_table(no_table) is None
    many = csv_table("a,b\n" + "1,2\n" * 5_000)
    assert many is not None and len(many["rows"]) == 500 and many["total"] == 5_000
