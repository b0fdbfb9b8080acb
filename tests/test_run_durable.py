"""Nothing acts outside of the process on what is not on disk yet: see docs/decisions/0014."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from metaflow_agents import ModelRequest, run
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.store import Batch, Store

SOP = """\
sop: ahead
inputs: {topic: string}
roles: {writer: {profile: You write.}}
artifacts: {first: {}, second: {}, seen: {schema: [string]}, last: {}}
steps:
  begin: {value: "topic ~ '!'", needs: [topic], makes: first}
  write: {role: writer, needs: [first], makes: second}
  look: {call: "looking:look", needs: [second], makes: seen}
  finish: {role: writer, needs: [seen], makes: last}
outputs: [seen, last]
"""
LOOKING = """\
from pathlib import Path
from metaflow_agents.journal.journal import Journal

def look():
    with Journal.read(Path({journal!r})) as journal:
        return [f"{{event.kind}} {{getattr(event, 'step', None) or getattr(event, 'firing', None) or ''}}".strip()
                for _, event in journal.events()]
"""


async def test_who_acts_outside_finds_all_that_it_acts_on_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Store.write

    def slowly(store: Store, batches: Any) -> None:             # on a fast disk it would be there before anybody looks
        time.sleep(0.05)
        write(store, batches)

    monkeypatch.setattr(Store, "write", slowly)
    path = tmp_path / "runs/.journals/r.db"
    (tmp_path / "ahead.yaml").write_text(SOP)
    (tmp_path / "looking.py").write_text(LOOKING.format(journal=str(path)))
    asked: dict[str, list[str]] = {}

    async def model(request: ModelRequest) -> Any:
        with Journal.read(path) as journal:
            asked[request.step] = [event.kind for _, event in journal.events()]
        return "text"

    result = await run(tmp_path / "ahead.yaml", topic="tea", model=model, workspace=tmp_path / "runs", name="r")
    assert result.ok, result.reason
    begun = ["run_opened", "committed", "fired", "finished", "committed", "fired", "reserved"]
    assert asked["write"] == begun
    assert result["seen"][-3:] == ["finished", "committed write@1", "fired look"], "the function's own firing, and all before it"
    assert asked["finish"][-4:] == ["finished", "committed", "fired", "reserved"]


async def test_what_a_step_made_and_its_commit_are_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is handed over at once is written at once, whatever else gathers: a kill leaves both or neither."""
    handed: list[list[str]] = []
    original = Store.write

    def write(self: Store, batches: Any) -> None:
        handed.extend([kind for _, kind, _ in batch.rows] for batch in batches if isinstance(batch, Batch))
        original(self, batches)

    monkeypatch.setattr(Store, "write", write)
    (tmp_path / "ahead.yaml").write_text(SOP)
    (tmp_path / "looking.py").write_text("def look():\n    return []\n")
    result = await run(tmp_path / "ahead.yaml", topic="tea", model=lambda request: "text", workspace=tmp_path / "runs", name="r")
    assert result.ok, result.reason
    with_work = [kinds for kinds in handed if "finished" in kinds]
    assert len(with_work) == 4 and all(kinds == ["finished", "committed"] for kinds in with_work)
