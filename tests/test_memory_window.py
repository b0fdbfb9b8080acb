"""The window of a role's memory, by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted import Scripted, write

from metaflow_agents import run
from metaflow_agents.memory.window import Turn, latest

TURNS = [Turn(f"asked {number}", f"answered {number}") for number in range(6)]


def test_turns_are_counted() -> None:
    assert latest(TURNS, 2, "turns") == TURNS[-2:]
    assert latest(TURNS, 40, "turns") == TURNS
    assert latest([], 2, "turns") == []


def test_tokens_are_about_four_bytes() -> None:
    assert Turn("x" * 400, None).tokens == 100
    assert Turn("x" * 400, "y" * 4).tokens == 101
    assert Turn("ü" * 2, None).tokens == 1
    big = [Turn("x" * 400, None) for _ in range(5)]
    assert latest(big, 299, "tokens") == big[:2]
    assert latest(big, 300, "tokens") == big[:3]
    assert latest(big, 99, "tokens") == []


def test_the_newest_that_does_not_fit_hides_what_is_older() -> None:
    turns = [Turn("a", None), Turn("x" * 4000, None), Turn("b", None)]
    assert latest(turns, 100, "tokens") == turns[-1:]


@pytest.mark.parametrize("unit", ["turns", "tokens"])
def test_the_order_stays(unit: str) -> None:
    assert latest(TURNS, 5, "turns") == sorted(TURNS[-5:], key=TURNS.index)
    assert latest(TURNS, 1000, unit) == TURNS


@pytest.mark.parametrize(("memory", "messages"), [("{}", 4), ("{window: 1 turns}", 4), ("{window: 0 turns}", 2), ("none", 2)])
async def test_a_role_without_memory_remembers_nothing(tmp_path: Path, memory: str, messages: int) -> None:
    sop = write(tmp_path, """
        sop: twice
        inputs: {topic: string}
        roles: {writer: {profile: You write., memory: MEMORY}}
        artifacts: {note: {}, letter: {}}
        steps:
          jot: {role: writer, needs: [topic], makes: note}
          write: {role: writer, needs: [note], makes: letter}
    """.replace("MEMORY", memory))
    model = Scripted()
    assert (await run(sop, model=model, topic="rain", workspace=None)).ok
    assert [len(request.messages) for request in model.requests] == [2, messages]
