"""What a role is shown of what its step reads: all of it, but for what its task presents itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import write

from metaflow_agents import run
from metaflow_agents.models.port import ModelRequest

SOP = """
    sop: shown
    inputs: {topic: string}
    roles: {ann: {profile: You plan.}, bob: {profile: You write.}}
    artifacts:
      plan: {schema: {title: string, parts: [{name: string}], kinds: {one: string}}}
      text: {}
      files: {files: "**"}
    steps:
      think: {role: ann, needs: [topic], makes: plan}
      write: {role: bob, needs: [plan, topic], makes: text, task: "TASK"}
      lay:
        role: bob
        needs: [plan]
        foreach: {in: plan.parts, as: part, key: part.name, after: AFTER}
        makes: {files: "{{ part.name }}"}
"""
PLAN = {"title": "Tea", "parts": [{"name": "a.py"}, {"name": "b.py"}], "kinds": {"one": "x"}}


async def prompts(tmp_path: Path, task: str) -> dict[str, str]:
    """Call → the user's message."""
    seen: dict[str, str] = {}

    def answer(request: ModelRequest) -> Any:
        seen[request.key] = request.messages[-1]["content"]
        if request.step == "lay":
            path = "a.py" if "[a.py]" in request.key else "b.py"
            return f"=== file: {path} ===\nx = 'said \"so\"'\n=== end ===\n"
        return PLAN if request.step == "think" else "text"

    text = SOP.replace("TASK", task).replace("AFTER", "\"['a.py'] if part.name == 'b.py' else []\"")
    result = await run(write(tmp_path, text), topic="tea", model=answer, workspace=None)
    assert result.ok, result.reason
    return seen


@pytest.mark.parametrize(("task", "shown"), [
    ("Write.", True), ("Write on {{ plan.title }}.", True), ("{% if plan.title == 'Tea' %}Write.{% endif %}", True),
    ("{{ plan }}", False), ("{% for part in plan.parts %}{{ part.name }}{% endfor %}", False), ("{{ plan.kinds }}", False),
])
async def test_what_the_task_only_mentions_is_still_shown(tmp_path: Path, task: str, shown: bool) -> None:
    said = (await prompts(tmp_path, task))["write@1~0/turn.0"]
    assert ('<artifact name="plan"' in said) is shown
    assert '<artifact name="topic"' in said


async def test_files_of_items_before_are_shown_as_they_are(tmp_path: Path) -> None:
    said = (await prompts(tmp_path, "Write."))["lay@1[b.py]~0/turn.0"]
    assert "<made key=\"a.py\">\na.py\n```\nx = 'said \"so\"'\n```\n</made>" in said
