"""What may stand at the cursor of a SOP that is half written: `|` in these texts is the cursor."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from metaflow_agents.sop.editing.completion import MOST, Known, complete
from metaflow_agents.sop.editing.cursor import cursor_at, offset_of
from metaflow_agents.sop.library import shipped_folder
from metaflow_agents.sop.load import LoadedSOP, read_sop

KNOWN = Known(("reviewer",), ("chapter",), ("big",))
SOP = """\
sop: book
inputs: {topic: string, notes: {type: folder, optional: true}}
roles:
  writer: {profile: You write.}
artifacts:
  plan: {schema: {chapters: [{id: string, title: string}], tone: plain | solemn}, description: What it will be}
  text: {}
steps:
  outline: {role: writer, needs: [topic], makes: plan}
  write:
    role: writer
    needs: [plan]
    foreach: {in: plan.chapters, as: chapter, key: chapter.id}
    makes: text
    task: |
      Write {{ chapter.title }}.
outputs: [text]
tests:
  walks: {inputs: {topic: tea}}
"""


def options(text: str, folder: Path) -> tuple[str, list[str]]:
    """The word that is completed, and what may stand there."""
    at = text.index("|||")
    text = text.replace("|||", "")
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)

    def load(marked: str) -> LoadedSOP | None:
        return read_sop(folder / "book.yaml", start=folder, text=marked.encode()).loaded

    start, found = complete(text, line, column, KNOWN, load)
    assert len(found) <= MOST
    return text[at - (column - start):at], [one.text for one in found]


def put(where: str, typed: str) -> str:
    """The SOP with something typed in the place of a text that stands in it once."""
    assert SOP.count(where) == 1, where
    return SOP.replace(where, typed)


@pytest.mark.parametrize("text, word, first", [
    ("|||", "", None),
    (put("outputs: [text]\n", "outputs: [text]\nbu|||\n"), "bu", ["budget: "]),
    (put("    makes: text\n", "    makes: text\n    |||\n"), "", ["wants: ", "sees: ", "when: ", "rounds: "]),
    (put("    makes: text\n", "    makes: text\n    re|||\n"), "re", ["retries: ", "review: "]),
    (put("needs: [plan]", "needs: [plan, |||]"), "", ["text", "topic", "notes"]),
    (put("needs: [plan]", "needs: [plan, no|||"), "no", ["notes"]),
    (put("needs: [plan]", "needs: |||"), "", ["plan", "text", "topic", "notes"]),
    (put("needs: [plan]", "needs:\n      - |||"), "", ["plan", "text", "topic", "notes"]),
    (put("    makes: text", "    makes: |||"), "", ["plan", "text"]),
    (put("    role: writer\n", "    role: |||\n"), "", ["writer", "reviewer"]),
    (put("outline: {role: writer,", "outline: {role: wr|||,"), "wr", ["writer"]),
    (put("outputs: [text]", "outputs: [|||"), "", ["plan", "text"]),
    (put("  outline: {role: writer, needs: [topic], makes: plan}", "  outline: {role: writer, ne|||"), "ne", ["needs: "]),
    (put("  outline: {role: writer, needs: [topic], makes: plan}", "  outline:\n    ro|||"), "ro", ["role: ", "rounds: "]),
    (put("    makes: text\n", "    makes: text\n    on_fail: |||\n"), "", ["stop", "skip"]),
    (put("    makes: text\n", "    makes: text\n    model: b|||\n"), "b", ["big"]),
    (put("    makes: text\n", "    makes: text\n    strategy: self|||\n"), "self", ["self_consistency"]),
    (put("    makes: text\n", "    makes: text\n    strategy: {debate: {ro|||}}\n"), "ro", ["roles: ", "rounds: "]),
    (put("    makes: text\n", "    makes: text\n    tools: [re|||\n"), "re", ["read"]),
    (put("    role: writer\n", "    sop: |||\n"), "", ["chapter"]),
    (put("    makes: text\n", "    makes: text\n    when: pl|||\n"), "pl", ["plan"]),
    (put("    makes: text\n", "    makes: text\n    when: plan.|||\n"), "", ["chapters", "tone"]),
    (put("    makes: text\n", "    makes: text\n    when: plan.to|||\n"), "to", ["tone"]),
    (put("    makes: text\n", "    makes: text\n    when: plan.chapters | len|||\n"), "len", ["length"]),
    (put("    makes: text\n", "    makes: text\n    when: plan is defi|||\n"), "defi", ["defined"]),
    (put("    makes: text\n", "    makes: text\n    when: history('|||\n"), "", ["plan", "text"]),
    (put("    makes: text\n", "    makes: text\n    when: run.inputs.|||\n"), "", ["topic", "notes"]),
    (put("{{ chapter.title }}", "{{ ch|||"), "ch", ["chapter"]),
    (put("{{ chapter.title }}", "{{ plan.|||"), "", ["chapters", "tone"]),
    (put("{{ chapter.title }}", "{% for one in pl|||"), "pl", ["plan"]),
    (put("Write {{ chapter.title }}.", "Write |||"), "", []),
    (put("{topic: tea}", "{no|||"), "no", ["notes"]),
    (put("  walks: {inputs: {topic: tea}}", "  walks: {until: |||}"), "", ["outline", "write"]),
    (put("  text: {}", "  text: {schema: num|||}"), "num", ["number"]),
    (put("  writer: {profile: You write.}", "  writer: {profile: You write.}\n  re|||"), "re", ["reviewer"]),
    (put("  writer: {profile: You write.}", "  writer: {memory: |||}"), "", ["none"]),
])
def test_at_a_cursor(text: str, word: str, first: list[str] | None, tmp_path: Path) -> None:
    (tmp_path / "book.yaml").write_text(SOP)
    found = options(text, tmp_path)
    assert found[0] == word
    if first is None:
        assert found[1][:2] == ["steps: ", "artifacts: "] and "sop: " in found[1]
    else:
        assert found[1][:len(first)] == first and (first or not found[1])


FILES = [path for path in sorted(shipped_folder("sops").glob("*.yaml")) if ".schema" not in path.name]


TYPED = ["", " ", "a", "{", "[", "'", '"', ":", "\n", "{{ ", "- "]


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(FILES), st.integers(0, 10_000), st.sampled_from(TYPED))
def test_anywhere_in_any_sop_it_says_something_or_nothing(path: Path, at: int, typed: str) -> None:
    """Whatever is typed wherever: no fault, and what is offered begins at or before the cursor, in its line."""
    text = path.read_text()
    at %= len(text)
    text = text[:at] + typed + text[at:]
    line, column = text.count("\n", 0, at + len(typed)) + 1, at + len(typed) - text.rfind("\n", 0, at + len(typed))
    start, _ = complete(text, line, column, KNOWN, lambda marked: None)
    assert 1 <= start <= column and offset_of(text, line, start) <= at + len(typed)


def test_a_cursor_in_what_can_not_be_read_at_all_is_nowhere() -> None:
    assert cursor_at("- a\n- b", 2, 4) is None
    assert offset_of("ab\ncd", 1, 99) == 2 and offset_of("ab\ncd", 99, 1) == 3 and offset_of("ab\ncd", 2, 2) == 4
