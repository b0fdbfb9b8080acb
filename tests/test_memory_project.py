"""What a run hands over to its project's memory: all that commits, also while something is being handed over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from metaflow_agents.memory.project import MemoryFile, ProjectMemory
from metaflow_agents.memory.store import MemoryDatabase
from metaflow_agents.schema.event import Entry
from metaflow_agents.schema.role import Recall


def entry(step: str) -> Entry:
    return Entry(role="poet", activation=f"{step}@1~0", asked=f"{step}?", answered=f"{step}!")


class Slow(MemoryFile):
    """A file in which nothing is done until something else has committed."""

    def __init__(self, path: Path, meanwhile: Callable[[], None]) -> None:
        super().__init__(partial(MemoryDatabase, path))
        self._meanwhile = meanwhile

    async def do(self, work: Callable[[MemoryDatabase], Any]) -> Any:
        done = await super().do(work)
        self._meanwhile()
        return done


WAYS: dict[str, Callable[[ProjectMemory], Awaitable[object]]] = {
    "settle": lambda project: project.settle(),
    "recall": lambda project: project.recall("poet", Recall.model_validate({"top": 3}), [], [], "first"),
    "recent": lambda project: project.recent("poet", [], 3, others=True),
    "lessons": lambda project: project.lessons("poet", [], 3),
}


@pytest.mark.parametrize("way", WAYS)
async def test_what_commits_while_others_are_handed_over_comes_with_the_next(tmp_path: Path, way: str) -> None:
    memory = {"first@1": [entry("first")]}
    state: Any = SimpleNamespace(memory=memory, opened=SimpleNamespace(run="r", at=1.0, compiled="c"))
    values: Any = SimpleNamespace(text=str)
    file = Slow(tmp_path / "project.db", lambda: memory.update({"second@1": [entry("second")]}))
    project = ProjectMemory(file, state, values, str)
    await WAYS[way](project)
    await project.settle()
    await project.close()
    store = MemoryDatabase(tmp_path / "project.db")
    assert [one.activation for one in store.listed()] == ["first@1~0", "second@1~0"]
    store.close()
