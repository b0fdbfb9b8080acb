"""Answers that are carried out one after another: what fits is taken, and the next one says only what changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_blocks import edit

from metaflow_agents.agent.applying import (
    BESIDE,
    SHOWN_AGAIN,
    Answered,
    PartTaken,
    apply_answers,
    apply_blocks,
    following,
    shown_again,
    told_blocks,
    without,
    written_answers,
)
from metaflow_agents.agent.blocks import Block, parse_blocks, read_blocks
from metaflow_agents.schema.binary import Content

FILES = {"a": "one\ntwo\n", "b": "1\n2\n", "c": "x\n"}


def new(path: str, text: str = "n\n") -> str:
    return f"=== file: {path} ===\n{text}=== end ===\n"


def answered(*answers: str) -> Answered:
    taken: Answered = ()
    for answer in answers:
        taken = following(taken, parse_blocks(answer))
    return taken


def made(*answers: str) -> dict[str, str]:
    """The files after the answers."""
    written, deleted = apply_answers(answered(*answers), FILES, ["**"])
    return {path: str(text) for path, text in {**FILES, **written}.items() if path not in deleted}


def test_of_a_file_that_is_said_in_two_ways_nothing_is_taken_and_of_the_others_all() -> None:
    answer = ("=== file: b ===\nn\n=== end ===\n" + edit("one\n") + "=== file: a ===\ntwo\n=== end ===\n" + edit("1\n", path="c"))
    blocks, faults = read_blocks(answer)
    with pytest.raises(PartTaken) as told:
        apply_blocks(blocks, {"a": "one\n", "c": "1\n"}, ["*"], faults)
    assert [[block.path for block in blocks] for blocks in told.value.kept] == [["b", "c"]]
    (fault,) = told.value.faults
    assert fault.startswith("line 11: `a` stands in a block at line 4 already")


@pytest.mark.parametrize(("answers", "changed"), [
    ([edit("one\n", "1\n"), edit("1\n", "I\n")], {"a": "I\ntwo\n"}),
    ([new("n", "x = 1\n"), edit("x = 1\n", "x = 2\n", "n")], {"n": "x = 2\n"}),
    ([new("a", "new\n"), edit("new\n", "newer\n")], {"a": "newer\n"}),
    ([new("n", "x = 1\n") + edit("x = 1\n", "x = 2\n", "n")], {"n": "x = 2\n"}),
    ([new("a", "new\n") + edit("x\n", "1\n", "c") + edit("new\n", "newer\n")], {"a": "newer\n", "c": "1\n"}),
    ([edit("one\n", "1\n"), new("a", "new\n")], {"a": "new\n"}),
    ([new("n"), "=== rename: n -> m ===\n", edit("n\n", "m\n", "m")], {"m": "m\n"}),
    (["=== rename: a -> d ===\n", new("a", "other\n")], {"d": "one\ntwo\n", "a": "other\n"}),
    ([new("n"), "=== delete: n ===\n"], {}),
    (["=== delete: a ===\n", new("a", "again\n")], {"a": "again\n"}),
    # taken back
    ([edit("one\n", "1\n") + new("n"), "=== undo: a ===\n"], {"n": "n\n"}),
    ([edit("one\n", "1\n"), new("n") + "=== undo: a ===\n=== undo: never ===\n"], {"n": "n\n"}),
    (["=== rename: a -> d ===\n=== delete: b ===\n", edit("one\n", "1\n", "d"), "=== undo: d ===\n"], {"b": None}),
    (["=== delete: b ===\n", "=== undo: b ===\n", edit("1\n", "I\n", "b")], {"b": "I\n2\n"}),
    ([edit("one\n", "1\n"), edit("two\n", "2\n") + "=== undo: a ===\n"], {"a": "one\n2\n"}),
    # said once more
    ([edit("one\n", "one\nand\n"), edit("one\n", "one\nand\n") + new("n")], {"a": "one\nand\ntwo\n", "n": "n\n"}),
    ([edit("one\n", ""), edit("one\n", "")], {"a": "two\n"}),
    (["=== delete: a ===\n", "=== delete: a ===\n=== delete: b ===\n"], {"a": None, "b": None}),
    (["=== rename: a -> d ===\n", "=== rename: a -> d ===\n"], {"a": None, "d": "one\ntwo\n"}),
    # there and back
    ([edit("one\n", "1\n"), edit("1\n", "one\n"), edit("one\n", "1\n")], {"a": "1\ntwo\n"}),
    ([new("n", "1\n"), new("n", "2\n"), new("n", "1\n")], {"n": "1\n"}),
])
def test_an_answer_sees_what_those_before_it_did(answers: list[str], changed: dict[str, str | None]) -> None:
    assert made(*answers) == {path: text for path, text in {**FILES, **changed}.items() if text is not None}


@pytest.mark.parametrize(("before", "answer", "fault"), [
    ([], "=== undo: a ===\n", "no answer before this one did anything to `a`"),
    (["=== delete: a ===\n"], edit("one\n", "1\n"), "there is no file `a` to edit"),
    (["=== delete: a ===\n", "=== delete: b ===\n"], "=== rename: a -> d ===\n", "there is no file `a` to rename"),
    ([edit("one\n", "1\n")], edit("one\n", "2\n"), "SEARCH is not in the file"),
    ([new("n")], "=== rename: a -> n ===\n", "`n` is there already"),
    ([new("n")], new("n/m"), "`n` can't be a file and the folder of `n/m`"),
])
def test_what_an_answer_cannot_do(before: list[str], answer: str, fault: str) -> None:
    """What was taken before it stands."""
    taken = answered(*before)
    blocks, faults = read_blocks(answer)
    with pytest.raises(PartTaken) as told:
        apply_answers(following(taken, blocks), FILES, ["**"], faults)
    assert len(told.value.faults) == 1 and fault in told.value.faults[0]
    assert told.value.kept == taken


def test_what_was_taken_is_told_path_by_path() -> None:
    one = following((), parse_blocks(new("n") + edit("one\n", "1\n") + "=== rename: b -> d ===\n=== delete: c ===\n"))
    two = following(one, parse_blocks(edit("n\n", "m\n", "n") + edit("two\n", "2\n") + edit("1\n", "I\n", "d")))
    assert told_blocks(two) == ["`n`", "`a` (2 edits)", "`b` (now `d`)", "`c` (deleted)", "`d` (1 edit)"]
    assert told_blocks(following(two, parse_blocks(new("a"))))[1] == "`a`"
    assert written_answers(answered(new("n"), edit("n\n", "m\n", "n"))) == new("n") + edit("n\n", "m\n", "n")


PATH = st.sampled_from(["a", "b", "c", "n/m", "q"])
LINE = st.sampled_from(["one", "two", "1", "x", "n"])
BLOCK = st.one_of(
    st.builds(lambda path, text: Block("file", path, 0, text=f"{text}\n"), PATH, LINE),
    st.builds(lambda path, old, text: parse_blocks(edit(f"{old}\n", f"{text}\n", path))[0], PATH, LINE, LINE),
    st.builds(lambda path: Block("delete", path, 0), PATH),
    st.builds(lambda path, target: Block("rename", path, 0, target=target), PATH, PATH).filter(
        lambda one: one.path != one.target))
ANSWERS = st.lists(st.lists(BLOCK, min_size=1, max_size=3), min_size=1, max_size=4)


def taken_of(answers: Sequence[Sequence[Block]]) -> Answered:
    """What is taken of answers, each after those before it."""
    taken: Answered = ()
    for blocks in answers:
        taken = following(taken, blocks)
        try:
            apply_answers(taken, FILES, ["**"])
        except PartTaken as error:
            taken = error.kept
    return taken


@given(ANSWERS)
def test_what_was_taken_can_be_carried_out_again(answers: list[list[Block]]) -> None:
    taken = taken_of(answers)
    written, deleted = apply_answers(taken, FILES, ["**"])
    assert not {*written} & {*deleted} and {*deleted} <= {*FILES}


@given(ANSWERS)
def test_answers_in_one_go_are_answers_one_after_another(answers: list[list[Block]]) -> None:
    taken = taken_of(answers)
    said = [(block.kind, block.path, block.text, block.target, block.edits) for blocks in taken for block in blocks]
    if len(set(said)) < len(said):
        return                                              # what is said once more is another law
    now: dict[str, Content] = dict(FILES)
    for blocks in taken:
        written, deleted = apply_blocks(blocks, now, ["**"])
        now = {path: text for path, text in {**now, **written}.items() if path not in deleted}
    written, deleted = apply_answers(taken, FILES, ["**"])
    assert {path: text for path, text in {**FILES, **written}.items() if path not in deleted} == now


@given(ANSWERS, PATH)
def test_what_is_taken_back_was_never_said(answers: list[list[Block]], path: str) -> None:
    taken = taken_of(answers)
    if not taken:
        return
    left = without(taken, [path])
    assert following(taken, [Block("undo", path, 0)]) == (*left, ())
    assert not any(path in block.paths for blocks in left for block in blocks)
    written, deleted = apply_answers(left, FILES, ["**"])
    assert path not in written and path not in deleted


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=30), st.sets(st.integers(0, 29)), st.sets(st.integers(0, 29)))
def test_what_is_shown_again_has_whole_files_with_those_that_faults_name_and_is_bounded(
        sizes: list[int], named: set[int], refused: set[int]) -> None:
    files = {f"src/m{number}_.py": "x\n" * size for number, size in enumerate(sizes)}
    said = "".join(new(path, text) for path, text in files.items())
    wanted = {f"src/m{number}_.py" for number in named} & {*files}
    unsound = {f"src/m{number}_.py" for number in refused} & {*files}
    stands = (tuple(one for one in parse_blocks(said) if one.path not in unsound),)
    shown = shown_again(said, [f"`{path}`: no" for path in sorted(wanted)], stands)
    fits = wanted | unsound or any(len(text) <= SHOWN_AGAIN for text in files.values())
    if len(said) <= SHOWN_AGAIN or len(unsound) == len(files) or not fits:
        assert shown == said
    else:
        found = {one.path: one.text for one in parse_blocks(shown)}
        assert found.items() <= {path: text for path, text in files.items()}.items() and wanted | unsound <= {*found}
        most = BESIDE if wanted | unsound else SHOWN_AGAIN
        assert sum(len(text) for path, text in found.items() if path not in wanted | unsound) <= most


def test_an_answer_that_is_out_of_form_is_shown_whole() -> None:
    """A fault of form says the line of the answer."""
    said = new("a", "x\n" * SHOWN_AGAIN) + "=== file: b ===\nnever closed\n"
    assert shown_again(said, ["line 3 is left open"], answered(new("a", "x\n" * SHOWN_AGAIN))) == said
