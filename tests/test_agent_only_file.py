# ruff: noqa: E501  (answers stand here as models write them)
"""Steps that make one file: its text as a fenced block or as plain text, without the lines that say which file it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Scripted, block, noted, write

from metaflow_agents import RunResult, run
from metaflow_agents.agent.blocks import parse_blocks
from metaflow_agents.agent.only_file import as_block
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall

CODE = """
    sop: code
    inputs: {letter: string}
    roles: {smith: {profile: You code. TOOLS}}
    artifacts: {source: {files: "src/**" FILES}}
    steps: {make: {role: smith, needs: [letter], makes: {source: MAKES} MORE}}
    outputs: [source]
"""
TEXT = "def double(number):\n    return 2 * number\n"
FENCED = f"```python\n{TEXT}```"


async def code(folder: Path, *answers: Any, makes: str = "src/a.py", files: str = "", more: str = "",
               tools: str = "") -> tuple[RunResult, Scripted]:
    model = Scripted(make=list(answers))
    sop = CODE.replace("MAKES", makes).replace(" FILES", files).replace(" MORE", more).replace(" TOOLS", tools)
    return await run(write(folder, sop), letter="x", model=model, workspace=folder, sandbox="none"), model


@pytest.mark.parametrize("answer", [
    TEXT, FENCED, f"\n{FENCED}\n", f"~~~\n{TEXT}~~~", f"Here is the file:\n\n{FENCED}\n\nIt doubles.", FENCED.replace("\n", "\r\n"),
])
async def test_the_text_of_the_only_file_is_an_answer(tmp_path: Path, answer: str) -> None:
    result, model = await code(tmp_path, answer)
    assert result["source"] == {"src/a.py": TEXT}, result.reason
    assert model.keys == ["make@1~0/turn.0"]
    (found,) = noted(tmp_path, "code-1", "/turn.0/repaired")
    assert "the text of `src/a.py`" in found["changes"][0] and ("Here is" in answer) == ("left out" in found["changes"][0])


async def test_each_item_of_a_list_may_be_answered_so(tmp_path: Path) -> None:
    sop = """
        sop: items
        inputs: {paths: [string]}
        roles: {smith: {profile: You code.}}
        artifacts: {source: {files: "src/**"}}
        steps: {make: {role: smith, needs: [paths], foreach: {in: paths}, makes: {source: "src/{{ item }}.py"}}}
    """
    result = await run(write(tmp_path, sop), paths=["a", "b[1]"], model=lambda request: f"# {request.key[7:8]}", workspace=tmp_path)
    assert result["source"] == {"src/a.py": "# a\n", "src/b[1].py": "# b\n"}


@pytest.mark.parametrize(("answer", "more"), [
    (FENCED, {"makes": "src/*.py"}), (FENCED, {"makes": "['src/a.py', 'src/b.py']"}),                   # there may be other files
    (FENCED, {"files": ", initial: {src/a.py: x}", "more": ", sees: [source], rounds: 1"}),             # all of it, or a part?
    (FENCED, {"tools": ", tools: [write]"}),                                                            # its last words, perhaps
    (f"Two files:\n{FENCED}\nand\n{FENCED}", {}), ("", {}), (" \n", {}),
    (f"{'This file doubles what it is given. ' * 5}\n{FENCED}", {}),                                    # a text that holds a block
    ("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", {}), (f"{TEXT}=== end ===\n", {}), ("=== file: src/a.py ===\nx\n", {}),
])
async def test_what_does_not_say_what_the_file_is_goes_back(tmp_path: Path, answer: str, more: dict[str, str]) -> None:
    result, model = await code(tmp_path, answer, block("src/a.py", "b = 1"), **more)
    assert result["source"] == {"src/a.py": "b = 1\n"}, result.reason
    assert model.keys == ["make@1~0/turn.0", "make@1~0/turn.0/repair.1"]
    assert noted(tmp_path, "code-1", "/repaired") == []


async def test_what_tools_wrote_is_not_replaced_by_the_last_words(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Any:
        if request.messages[-1]["role"] == "tool":
            return "I wrote the file."
        return Reply(text="", calls=(ToolCall("c", "write", {"path": "src/a.py", "text": TEXT}),))

    result, _ = await code(tmp_path, answer, tools=", tools: [write]")
    assert result["source"] == {"src/a.py": TEXT}


async def test_blocks_are_taken_as_they_are(tmp_path: Path) -> None:
    result, _ = await code(tmp_path, block("src/a.py", "b = 1"))
    assert result["source"] == {"src/a.py": "b = 1\n"} and noted(tmp_path, "code-1", "/repaired") == []


async def test_a_markdown_file_keeps_the_blocks_that_it_holds(tmp_path: Path) -> None:
    answer = f"# How to double\n\n{FENCED}\n"
    result, _ = await code(tmp_path, answer, makes="src/a.md")
    assert result["source"] == {"src/a.md": answer}
    assert as_block(f"```markdown\n{answer}```", "src/a.md") == (block("src/a.md", answer.strip("\n")),
                                                                 "the fenced block is the text of `src/a.md`")


@pytest.mark.one_in(4)
@given(st.text("ab \n=`~#", max_size=60), st.sampled_from(["src/a.py", "b.md"]))
def test_what_is_taken_is_one_block_with_lines_of_the_answer(answer: str, path: str) -> None:
    made = as_block(answer, path)
    if made is None:
        return
    (one,) = parse_blocks(made[0])
    assert (one.kind, one.path) == ("file", path)
    assert one.text.strip("\n") in answer.replace("\r\n", "\n")
    assert as_block(made[0], path) is None                      # a second time there is nothing to do


@given(st.text("abc (\n", min_size=1, max_size=60).filter(str.strip))
def test_plain_text_is_taken_whole(text: str) -> None:
    made = as_block(text, "a.py")
    assert made is not None
    (one,) = parse_blocks(made[0])
    assert one.text == text.strip("\n") + "\n"
