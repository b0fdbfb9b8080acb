"""Whose a memory is: a run's alone, a name's that several roles share, and what a sub-SOP inherits of the run above."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, write

from metaflow_agents import check, run
from metaflow_agents.memory.store import PLACE, MemoryDatabase

TOWN = """
    sop: town
    inputs: {people: [string], news: string}
    roles:
      villager: {profile: You live in a town., memory: {window: 1 tokens, MEMORY}}
    artifacts: {heard: {each: string}, told: {each: string}, evenings: {each: string}}
    steps:
      hear:
        {role: villager, needs: [people, news], foreach: {in: people, as: who}, makes: heard, self: "{{ who }}",
         task: "News: {{ news }}."}
      tell: {role: villager, needs: [people, heard], foreach: {in: people, as: who}, makes: told, self: "{{ who }}", task: News?}
      sleep:
        {role: villager, needs: [people, told], foreach: {in: people, as: who}, makes: evenings, self: "{{ who }}",
         task: News again?}
"""
RECALLS = "recall: {top: 100, importance: 0}, reflect: {after: 1}, lessons: 5"


def heard(request: Any) -> str:
    """Tells all news that its prompt holds."""
    said = "\n".join(str(message["content"]) for message in request.messages)
    return " ".join(sorted(set(re.findall(r"News: (\w+)", said))))


def villager() -> Scripted:
    """Answers with the news that it knows of; what it is asked for in JSON, it has no answer to."""
    return Scripted(hear=heard, tell=heard, sleep=heard)


async def side_by_side(folder: Path, memory: str) -> list[str]:
    """What those who live in two runs of one workspace know in the end, which began together and had news of their own."""
    path = write(folder, TOWN.replace("MEMORY", memory))
    runs = await asyncio.gather(*(run(path, people=["Klaus", "Maria"], news=news, model=villager(), workspace=folder, name=news)
                                  for news in ("figs", "plums")))
    assert all(one.ok for one in runs), runs
    again = await run(path, people=["Klaus"], news="pears", model=villager(), workspace=folder, name="pears")
    return [*(" ".join(sorted(set(one["evenings"].values()))) for one in runs), again["evenings"]["Klaus"]]


@pytest.mark.one_in(8)
async def test_two_runs_of_a_town_side_by_side_know_nothing_of_each_other_where_the_author_says_so(tmp_path: Path) -> None:
    for folder in (tmp_path / "run", tmp_path / "runs"):
        folder.mkdir()
    assert await side_by_side(tmp_path / "run", f"over: run, {RECALLS}") == ["figs", "plums", "pears"]
    *_, later = await side_by_side(tmp_path / "runs", RECALLS)
    assert later == "figs pears plums", "by default a later run knows what earlier ones left"


async def test_what_is_a_runs_alone_comes_to_nobodys_mind_in_another_run(tmp_path: Path) -> None:
    """Neither by another role's `from: project`, nor by the same role once `over: run` is gone; the store says whose it is."""
    path = write(tmp_path, TOWN.replace("MEMORY", f"over: run, {RECALLS}"))
    await run(path, people=["Klaus"], news="figs", model=villager(), workspace=tmp_path)
    for name, memory in (("wide", "recall: {from: project, importance: 0}"), ("own", "recall: {importance: 0}")):
        path = write(tmp_path, TOWN.replace("MEMORY", memory))
        later = await run(path, people=["Klaus"], news=name, model=villager(), workspace=tmp_path)
        assert "figs" not in later["evenings"]["Klaus"], name
    with closing(MemoryDatabase(tmp_path / PLACE)) as store:
        assert {(one.name, one.apart, one.as_json()["over"]) for one in store.listed()} >= {
            ("town-1", True, "run"), ("town-2", False, "runs")}


async def test_over_one_run_a_role_recalls_its_own_or_all_roles(tmp_path: Path) -> None:
    for source, ok in (("role", True), ("run", True), ("project", False)):
        found = check(write(tmp_path, TOWN.replace("MEMORY", f"over: run, recall: {{from: {source}}}")), start=tmp_path)
        assert [problem.code for problem in found.errors] == ([] if ok else ["memory-over"])


def test_a_memory_file_of_format_1_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "project.db"
    with closing(MemoryDatabase(path)) as store:
        assert store.sound() == []
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
            DROP INDEX by_role;
            ALTER TABLE memories DROP COLUMN apart;
            CREATE INDEX by_role ON memories(role, run, seq, importance);
            PRAGMA user_version=1;
            INSERT INTO memories(key, kind, run, name, role, activation, at, text, digest, untrusted, cites)
            VALUES ('k', 'turn', 'r', 'r', 'poet', 'write@1~0', 1.0, 'tea', 'd', '', '[]');""")
    for _ in range(2):
        with closing(MemoryDatabase(path)) as store:
            (one,) = store.listed()
            assert (one.key, one.text, one.apart) == ("k", "tea", False) and store.sound() == []


@pytest.mark.one_in(4)
async def test_a_role_of_this_run_alone_is_told_nothing_that_others_left(tmp_path: Path) -> None:
    """What a run that is not alone left is told to the next such run, and not to one that is."""
    for number, (memory, known) in enumerate(((RECALLS, "a"), (f"over: run, {RECALLS}", "b"), (RECALLS, "a c"))):
        path = write(tmp_path, TOWN.replace("MEMORY", memory))
        told = await run(path, people=["Klaus"], news="abc"[number], model=villager(), workspace=tmp_path)
        assert told["evenings"]["Klaus"] == known
