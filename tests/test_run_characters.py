"""`self:` on a step: each of the many characters of one role remembers what it did itself, in a run and beyond it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, finished, write
from stopping import stopped_everywhere

from metaflow_agents import check, run
from metaflow_agents.memory.store import PLACE, MemoryDatabase
from metaflow_agents.schema.event import Finished

TOWN = """
    sop: town
    inputs: {people: {type: [{name: string, secret: string}]}}
    roles: {villager: {profile: You live in a town. MEMORY}}
    artifacts: {heard: {each: string}, told: {each: string}}
    steps:
      hear:
        {role: villager, needs: [people], foreach: {in: people, as: person, key: person.name}, makes: heard,
         self: "{{ person.name }}", task: "Keep this to yourself: {{ person.secret }}."}
      tell:
        {role: villager, needs: [heard, people], foreach: {in: people, as: person, key: person.name}, makes: told,
         self: "{{ person.name }}", task: What do you know?}
"""
PEOPLE = [{"name": "Klaus Mueller", "secret": "figs"}, {"name": "Maria Lopez", "secret": "plums"},
          {"name": "Isabella", "secret": "pears"}]
OWN = {person["name"]: person["secret"] for person in PEOPLE}


def town(folder: Path, memory: str = "", without: str = "") -> Path:
    return write(folder, TOWN.replace(" MEMORY", memory).replace(without or "\0", ""))


def villager() -> Scripted:
    """Tells the fruit that its prompt tells it to keep."""
    def told(request: Any) -> Any:
        if "importance" in request.key:
            return {"importance": 3}
        said = "\n".join(message["content"] for message in request.messages)
        return " ".join(sorted(set(re.findall(r"Keep this to yourself: (\w+)", said))))
    return Scripted(hear="I will.", tell=told)


async def test_each_character_remembers_itself_alone(tmp_path: Path) -> None:
    result = await run(town(tmp_path), people=PEOPLE, model=villager(), workspace=tmp_path, name="r")
    assert dict(result["told"]) == OWN
    shared = await run(town(tmp_path, without=' self: "{{ person.name }}",'), people=PEOPLE, model=villager(), workspace=None)
    assert set(shared["told"].values()) == {"figs pears plums"}, "without `self` they are one mind"
    entries = {key: event.memory for key, event in finished(tmp_path, "r").items()}
    entry = entries["tell@1[Maria%20Lopez]~0"]
    assert entry is not None and (entry.role, entry.mind, entry.whose) == ("villager", *["villager[Maria Lopez]"] * 2)


async def test_it_outlives_the_run_and_is_recalled_by_itself_alone(tmp_path: Path) -> None:
    path = town(tmp_path, ", memory: {window: 1 tokens, recall: {importance: 0}}")
    first, again = villager(), villager()
    await run(path, people=PEOPLE, model=first, workspace=tmp_path, name="monday")
    await run(path, people=[{"name": "Isabella", "secret": "quinces"}], model=again, workspace=tmp_path, name="tuesday")
    (tells,) = [request for request in again.requests if request.step == "tell"]
    told = "\n".join(message["content"] for message in tells.messages)
    assert "pears" in told and "quinces" in told and "figs" not in told and 'of="you"' in told
    store = MemoryDatabase(tmp_path / PLACE)
    assert len(store.listed(role="villager")) == 8 and len(store.listed(role="villager[Isabella]")) == 4
    assert store.listed(role="village") == []


@pytest.mark.one_in(4)
async def test_stopped_at_every_call_each_goes_on_with_its_own(tmp_path: Path) -> None:
    path = town(tmp_path, ", memory: {window: 1 tokens, recall: {importance: 0}}")
    whole = await stopped_everywhere(path, villager, tmp_path, people=PEOPLE)
    assert dict(whole.result["told"]) == OWN


async def test_from_reuses_a_character_whose_memory_is_the_same(tmp_path: Path) -> None:
    other = [{**person, "secret": "nuts"} if person["name"] == "Isabella" else person for person in PEOPLE]
    for without, anew in (("", {"tell@1[Isabella]~0"}), (' self: "{{ person.name }}",', {
            "tell@1[Isabella]~0", "tell@1[Klaus%20Mueller]~0", "tell@1[Maria%20Lopez]~0"})):
        path, changed, home = town(tmp_path, without=without), villager(), tmp_path / f"home{len(without)}"
        await run(path, people=PEOPLE, model=villager(), workspace=home, name="a")
        await run(path, people=other, model=changed, workspace=home, name="b", from_run="a")
        assert {key.partition("/")[0] for key in changed.keys} == {"hear@1[Isabella]~0", *anew}


async def test_who_has_no_name_is_told(tmp_path: Path) -> None:
    path = town(tmp_path)
    result = await run(path, people=[{"name": "x", "secret": "y"}], model=villager(), workspace=tmp_path, name="fine")
    assert result.ok
    path.write_text(path.read_text().replace('self: "{{ person.name }}"', "self: \"{{ person.secret[9:] }}\""))
    result = await run(path, people=[{"name": "x", "secret": "y"}], model=villager(), workspace=tmp_path, name="r")
    assert not result.ok and "gave no name: say whose memory this is" in result.reason
    assert not [event for event in events(tmp_path, "r", Finished)]
    assert check(path).ok
