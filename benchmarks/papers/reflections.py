"""Generative Agents (Park et al., UIST 2023) in small: three people of one role, three days, and what they come to see.

When somebody reflects is compared with sums computed by hand; what it is worth, with what the same people know without.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.papers.row import PaperRow
from metaflow_agents import run
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.event import Observed
from metaflow_agents.schema.payload import Data, unpack

TOWN = """
sop: town
inputs: {people: [string], diary: {Klaus: [string], Maria: [string], Isabella: [string]}}
roles: {villager: {profile: You live in a small town., memory: {window: 1 tokens, recall: {top: 1}, reflect: {after: 12}}}}
artifacts: {days: {each: string}, talk: {schema: [string]}, answers: {each: string}}
steps:
  live:
    role: villager
    needs: [people]
    wants: [talk]
    sees: [diary]
    foreach: {in: people, as: person}
    makes: days
    self: "{{ person }}"
    rounds: 3
    task: "You are {{ person }}. {{ diary[person][round - 1] }}"
  gather: {value: "days | values | list", needs: [days], makes: talk}
  ask:
    role: villager
    needs: [talk, people]
    foreach: {in: people, as: person}
    makes: answers
    self: "{{ person }}"
    task: "You are {{ person }}. What do you care about most, before all else?"
"""
WITHOUT = TOWN.replace(", reflect: {after: 12}", "")
DIARY = {
    "Klaus": ["You read on research. It moved you 5.", "You ate figs. It moved you 4.", "You wrote up research. It moved you 6."],
    "Maria": ["You planned a party. It moved you 9.", "You bought lamps for the party. It moved you 3.",
              "You ate figs. It moved you 2."],
    "Isabella": ["You swept. It moved you 2.", "You swept. It moved you 2.", "You swept. It moved you 2."],
}
# Klaus: 5, 5+4 = 9, 9+6 = 15 ≥ 12, and anew. Maria: 9, 9+3 = 12 ≥ 12, anew: 2. Isabella: 2, 4, 6. The last question weighs 1.
SUMS = {"Klaus": [5, 9, 15, 1], "Maria": [9, 12, 2, 3], "Isabella": [2, 4, 6, 7]}
"""Person → the importance that came together by each of its four activations, computed by hand."""
CARES = {"Klaus": "research", "Maria": "party", "Isabella": "nothing"}
_TOPICS = ("research", "party", "figs")


async def villager(request: ModelRequest) -> Any:
    """Computes what it says from its prompt alone: rates by the number there, sees what is spoken of twice or more, knows what
    it is reminded of.
    """
    told = str(request.messages[-1]["content"])
    if request.key.endswith("/importance"):
        found = re.search(r"moved you (\d+)", told)
        return {"importance": int(found[1]) if found else 1}
    if request.key.endswith("/reflect/questions"):
        name = re.findall(r"You are (\w+)", told)[-1]
        return {"questions": [f"What does {name} care about?", f"What did {name} do?", f"Whom does {name} know?"]}
    if "/reflect/insights." in request.key:
        return {"insights": [_insight(told)]}
    if request.step == "ask":
        seen = re.search(r"cares about (\w+)", "\n".join(str(message["content"]) for message in request.messages))
        return seen[1] if seen else "nothing"
    return re.findall(r"You are \w+\. (.*?\.)", told)[-1]


def _insight(told: str) -> Mapping[str, Any]:
    memories = [text for text in re.findall(r"<memory number=\"\d+\">\n(.*?)\n</memory>", told, re.DOTALL)
                if "cares about" not in text]
    places = {topic: [place for place, text in enumerate(memories, 1) if topic in text] for topic in _TOPICS}
    topic = max(_TOPICS, key=lambda one: len(places[one]))
    return {"insight": f"One cares about {topic} before all else", "because": places[topic] or [1], "importance": 9}


async def lived(folder: Path, sop: str = TOWN) -> tuple[dict[str, list[int]], dict[str, str]]:
    """The run of a town: the sums as the journal has them, and what each says in the end."""
    (folder / "town.yaml").write_text(sop, encoding="utf-8")
    result = await run(folder / "town.yaml", people=list(DIARY), diary=DIARY, model=villager, workspace=folder, name="town")
    sums: dict[str, list[int]] = {name: [] for name in DIARY}
    with Journal.read(folder / ".journals" / "town.db") as journal:
        for _, event in journal.events(Observed):
            found = re.fullmatch(r"\w+@\d\[(\w+)\]~0/reflect", event.key)
            if found:
                payload = unpack(journal.blob(event.payload))
                assert isinstance(payload, Data)
                sums[found[1]].append(payload.value["summed"])
    return sums, dict(result["answers"])


def rows(data: Path) -> list[PaperRow]:
    """Two rows: when they reflect, and what it is worth. `data` is not looked at."""
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:     # each with a memory file of its own
        sums, said = asyncio.run(lived(Path(here)))
        _, without = asyncio.run(lived(Path(there), WITHOUT))
    right = sum(one == by_hand for name in SUMS for one, by_hand in zip(sums[name], SUMS[name], strict=True))
    answers = [sum(given[name] == CARES[name] != "nothing" for name in CARES) for given in (said, without)]
    return [
        PaperRow("reflections", "trigger: summed importance at each of the 12 activations of 3 people",
                 "reflect once the sum passes 150; about two or three times a day of the game",
                 f"{right} of 12 sums as computed by hand; reflected after {sums['Klaus'].index(15) + 1} and "
                 f"{sums['Maria'].index(12) + 1} days, and never", "a threshold of 12 in place of 150, three days"),
        PaperRow("reflections", "what two people care about, told of one memory alone",
                 "believability of interviews (TrueSkill μ): 29.89 with all, 26.88 without reflections "
                 "(as remembered, not verified)",
                 f"{answers[0]} of 2 with, {answers[1]} of 2 without",
                 "a function that computes from its prompt in place of a model and of human judges"),
    ]
