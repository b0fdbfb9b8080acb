from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metaflow_agents.agent.applying import apply_blocks
from metaflow_agents.agent.blocks import Block, parse_blocks, written_blocks
from metaflow_agents.code.edits import Edit
from metaflow_agents.errors import AnswerInvalid

ANSWER = """Here is what I did.
=== file: src/a.py ===
print(1)

=== end ===
Then:
=== edit: src/b.py ===
<<<<<<< SEARCH
two
=======
2
deux
>>>>>>> REPLACE

<<<<<<< SEARCH
four
=======
>>>>>>> REPLACE
=== end ===
=== rename: src/c.py -> src/d.py ===
=== delete: `src/e.py` ===
Done.
"""
CURRENT = {"src/b.py": "one\ntwo\nthree\nfour\n", "src/c.py": "c\n", "src/e.py": "e\n"}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_all_kinds(newline: str) -> None:
    blocks = parse_blocks(ANSWER.replace("\n", newline))
    assert [(block.kind, block.path, block.line) for block in blocks] == [
        ("file", "src/a.py", 2), ("edit", "src/b.py", 7), ("rename", "src/c.py", 20), ("delete", "src/e.py", 21)]
    assert blocks.remarks == "Here is what I did.\nThen:\nDone."
    assert [edit.line for edit in blocks[1].edits] == [8, 15]
    written, deleted = apply_blocks(blocks, CURRENT, ["src/**"])
    assert written == {"src/a.py": "print(1)\n\n", "src/b.py": "one\n2\ndeux\nthree\n", "src/d.py": "c\n"}
    assert deleted == ("src/c.py", "src/e.py")


def faults(answer: str) -> tuple[str, ...]:
    with pytest.raises(AnswerInvalid) as told:
        parse_blocks(answer)
    return told.value.faults


@pytest.mark.parametrize(("answer", "line", "words"), [
    ("=== file: a ===\ntext", 1, "left open at the end"),
    ("=== file: a ===\ntext\n=== file: b ===\nx\n=== end ===", 1, "not closed: `=== end ===` is missing before line 3"),
    ("=== create: a ===\nx\n=== end ===", 1, "no block is called `create`"),
    ("=== fille: a ===\nx\n=== end ===", 1, "did you mean `file`"),
    ("=== file: a ===\n=== end ===\n=== delete: a ===", 3, "stands in a block at line 1 already"),
    ("=== delete: b ===\n=== rename: a -> b ===", 2, "`b` stands in a block at line 1 already"),
    ("=== rename: a ===", 1, "names one path"),
    ("=== edit: a ===\n=== end ===", 1, "holds no edit"),
    ("=== edit: a ===\nhello\n=== end ===", 2, "`<<<<<<< SEARCH` is expected"),
    ("=== edit: a ===\n<<<<<<< SEARCH\nx\n>>>>>>> REPLACE\n=== end ===", 2, "no line `=======`"),
    ("=== edit: a ===\n\n<<<<<<< SEARCH\nx\n=======\n=== end ===", 3, "no line `>>>>>>> REPLACE`"),
    ("text\n=== end ===", 2, "closes no block"),
])
def test_faults_of_form_say_their_line(answer: str, line: int, words: str) -> None:
    (fault,) = faults(answer)
    assert fault.startswith(f"line {line}: ")
    assert words in fault


def test_no_block_at_all_is_a_fault() -> None:
    assert "no block" in faults("I could not do it.")[0]


def test_all_faults_at_once() -> None:
    told = faults("=== fil: a ===\nx\n=== end ===\n=== file: b ===\n=== end ===\n=== delete: b ===\n"
                  "=== edit: c ===\n=== end ===\n=== file: d ===")
    assert [fault.split(":")[0] for fault in told] == ["line 1", "line 7", "line 9", "line 6"]


@pytest.mark.parametrize(("path", "body", "text"), [
    ("a.py", "```python\nx = 1\n```", "x = 1\n"),
    ("a.py", "\n```\nx = 1\n```\n", "x = 1\n"),
    ("a.py", "~~~\nx\n~~~", "x\n"),
    ("a.md", "```markdown\n# T\n```bash\nls\n```\n```", "# T\n```bash\nls\n```\n"),
    ("a.md", "```bash\nls\n```", "```bash\nls\n```\n"),
    ("a.txt", "```\na\n```\nb\n```\nc\n```", "```\na\n```\nb\n```\nc\n```\n"),
    ("a.py", "```python\nx", "```python\nx\n"),
    ("a.py", "", "\n"),
])
def test_a_fence_around_the_inside_is_taken_off(path: str, body: str, text: str) -> None:
    (block,) = parse_blocks(f"=== file: {path} ===\n{body}\n=== end ===")
    assert block.text == text


def test_an_empty_file() -> None:
    (block,) = parse_blocks("=== file: a ===\n=== end ===")
    assert block.text == ""


def test_longer_signs_hold_text_that_has_blocks_itself() -> None:
    inner = "=== file: x ===\ny\n=== end ===\n"
    (block,) = parse_blocks(f"==== file: a ====\n{inner}==== end ====")
    assert block.text == inner


@given(st.lists(st.text(st.characters(exclude_characters="\n\r=`~", exclude_categories=["Cs"])), max_size=6))
def test_any_text_comes_through(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    (block,) = parse_blocks(f"=== file: a ===\n{text}=== end ===\n")
    assert block.text == text


def apply_faults(answer: str, current: dict[str, str], patterns: list[str]) -> tuple[str, ...]:
    with pytest.raises(AnswerInvalid) as told:
        apply_blocks(parse_blocks(answer), current, patterns)
    return told.value.faults


def edit(search: str, replace: str = "x\n", path: str = "a") -> str:
    return f"=== edit: {path} ===\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n=== end ===\n"


def test_an_edit_must_match_once() -> None:
    text = "def f():\n    return 1\n\ndef g():\n    return 1\n"
    (fault,) = apply_faults(edit("    return 1\n"), {"a": text}, ["*"])
    assert "stands 2 times in the file, at its lines 2, 5" in fault
    (fault,) = apply_faults(edit("def g():\n    return 2\n"), {"a": text}, ["*"])
    assert fault.startswith("line 2: `a`: SEARCH is not in the file; nearest, at its line 4:\ndef g():\n    return 1")
    (fault,) = apply_faults(edit("zzzzzz\n"), {"a": text}, ["*"])
    assert "nothing there is like it" in fault
    (fault,) = apply_faults(edit("\n"), {"a": text}, ["*"])
    assert "SEARCH holds no text" in fault


def test_edits_see_those_before_them_and_keep_line_ends() -> None:
    answer = parse_blocks("=== edit: a ===\n<<<<<<< SEARCH\none\n=======\ntwo\n>>>>>>> REPLACE\n"
                          "<<<<<<< SEARCH\ntwo\n=======\nthree\n>>>>>>> REPLACE\n=== end ===")
    assert apply_blocks(answer, {"a": "one\r\nx\r\n"}, ["a"])[0] == {"a": "three\r\nx\r\n"}
    assert apply_blocks(answer, {"a": "one"}, ["a"])[0] == {"a": "three"}
    assert apply_blocks(parse_blocks(edit("old\n")), {"a": "older\nold\n"}, ["a"])[0] == {"a": "older\nx\n"}


@pytest.mark.parametrize("answer", [
    edit("one\n", "two\n") + edit("two\n", "three\n"),
    edit("one\n", "two\n") + "and then\n" + edit("two\n", "three\n") + edit("one\n", "two\n"),
    edit("one\n", "three\n") + edit("one\n", "three\n"),
    edit("one\n", "two\n") + "=== file: b ===\nn\n=== end ===\n" * 2 + edit("two\n", "three\n"),
])
def test_edits_of_a_file_in_several_blocks_are_taken_as_one_and_what_is_said_once_more_counts_once(answer: str) -> None:
    blocks = parse_blocks(answer)
    assert [block.path for block in blocks] in (["a"], ["a", "b"])
    assert apply_blocks(blocks, {"a": "one\n"}, ["*"])[0]["a"] == "three\n"


def test_paths_are_held_to_the_patterns_all_at_once() -> None:
    answer = ("=== file: ../x ===\n=== end ===\n=== file: b/c ===\n=== end ===\n=== delete: a/none ===\n"
              "=== rename: a/one -> a/two ===\n=== rename: a/three -> c ===\n" + edit("x\n", path="a/tow"))
    told = apply_faults(answer, {"a/one": "1\n", "a/two": "2\n", "a/three": "3\n"}, ["a/**"])
    assert len(told) == 6
    for part, fault in zip(
        ["`../x` is refused", "`b/c` is outside of what this step makes: `a/**`", "no file `a/none` to delete",
         "`a/two` is there already", "`c` is outside", "did you mean `a/two`"], told, strict=True):
        assert part in fault


def test_a_file_is_no_folder() -> None:
    assert "folder of `a/b`" in apply_faults("=== file: a/b ===\n=== end ===", {"a": ""}, ["**"])[0]
    written, deleted = apply_blocks(parse_blocks("=== file: a/b ===\n=== end ===\n=== delete: a ==="), {"a": ""}, ["**"])
    assert (written, deleted) == ({"a/b": ""}, ("a",))


def test_the_page_on_answers_with_files_shows_the_markers_that_are_read() -> None:
    page = (Path(__file__).parent.parent / "docs" / "reference" / "answers.md").read_text(encoding="utf-8")
    shown = page.partition("## Answers with files")[2].partition("```text\n")[2].partition("\n```")[0]
    edit = Edit(("lines as they are, found exactly once",), ("what stands there instead",), 5)
    assert [(block.kind, block.path, block.edits, block.target) for block in parse_blocks(shown)] == [
        ("file", "src/a.py", (), ""), ("edit", "src/b.py", (edit,), ""), ("rename", "src/old.py", (), "src/new.py"),
        ("delete", "src/c.py", (), "")]


NAMED = st.sampled_from(["a.py", "b.md", "src/c.txt"])
SOME_LINES = st.lists(st.sampled_from([
    "x", "", "=== end ===", "=== file: q ===", "==== end ====", "```", "```python", "<<<< x", "  y"]), max_size=5)
EDITS = st.lists(st.builds(Edit, SOME_LINES.map(tuple), SOME_LINES.map(tuple), st.just(0)), min_size=1, max_size=3)
BLOCK = st.one_of(
    st.builds(lambda path, lines: Block("file", path, 0, text="".join(f"{line}\n" for line in lines)), NAMED, SOME_LINES),
    st.builds(lambda path, edits: Block("edit", path, 0, edits=tuple(edits)), NAMED, EDITS),
    st.builds(lambda kind, path: Block(kind, path, 0), st.sampled_from(["delete", "undo"]), NAMED),
    st.builds(lambda path: Block("rename", path, 0, target="new/d.py"), NAMED))


@example([Block("file", "a.py", 0, text="```\n```\n")])
@example([Block("file", "b.md", 0, text="```markdown\n````\n```\n")])
@given(st.lists(BLOCK, min_size=1, max_size=3, unique_by=lambda block: block.path))
def test_blocks_that_are_written_are_read_as_they_were(blocks: list[Block]) -> None:
    if [block.kind for block in blocks].count("rename") > 1:
        return
    read = parse_blocks(written_blocks(blocks))
    assert [(one.kind, one.path, one.text, one.target, [(edit.search, edit.replace) for edit in one.edits]) for one in read] == [
        (one.kind, one.path, one.text, one.target, [(edit.search, edit.replace) for edit in one.edits]) for one in blocks]
