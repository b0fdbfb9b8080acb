"""Every case of `prompts.yaml`: what somebody else wrote closes and has no effect of what stands around it in prompts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import tiers
from scripted import Scripted, write

from metaflow_agents import run
from metaflow_agents.prompts import from_package

TABLE: dict[str, list[dict[str, Any]]] = tiers.table(Path(__file__).with_name("prompts.yaml"))
SOP = """
    sop: desk
    inputs: {INPUT}
    roles: {clerk: {profile: You write.}}
    artifacts: {REPLY}
    steps: {answer: {role: clerk, STEP}}
"""
ONE, EACH = ("letter: string", "reply: {}"), ("letters: [string]", "reply: {each: string}")
STEPS = {
    "artifact": (*ONE, "needs: [letter], makes: reply"),
    "task": (*ONE, 'needs: [letter], makes: reply, task: "Read it.\\n{{ letter }}"'),
    "item": (*EACH, "needs: [letters], foreach: {in: letters, as: letter, key: \"'one'\"}, makes: reply"),
}


async def sent(folder: Path, through: str, text: str) -> str:
    given, reply, step = STEPS[through]
    model = Scripted({"answer": "done"})
    sop = write(folder, SOP.replace("INPUT", given).replace("REPLY", reply).replace("STEP", step))
    inputs: dict[str, Any] = {"letters": [text]} if through == "item" else {"letter": text}
    result = await run(sop, model=model, workspace=None, **inputs)
    assert result.ok, result.reason
    return "\n".join(str(message["content"]) for request in model.requests for message in request.messages)


async def recalled(folder: Path, _: str, text: str) -> str:
    told = {"role": "clerk", "run": "first", "activation": "reply@1", "kind": "turn", "text": text}
    return from_package("recalled", {"role": "clerk", "memories": [told]})


async def reviewed(folder: Path, _: str, text: str) -> str:
    return from_package("review", {"answer": text, "files": False, "deleted": [], "before": [], "accept": ""})


OTHERS: dict[str, Callable[[Path, str, str], Awaitable[str]]] = {"memory": recalled, "review": reviewed}


@pytest.mark.parametrize("row", TABLE["forged"], ids=lambda row: row["id"])
async def test_texts_forge_nothing_of_a_prompt(row: dict[str, Any], tmp_path: Path) -> None:
    told = await OTHERS.get(row["through"], sent)(tmp_path, row["through"], row["text"])
    assert row["holds"].replace("TEXT", row["text"]) in told
