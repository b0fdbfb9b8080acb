"""A plan chooses among what its SOP declares, and never past the policy: also one that nobody can be asked about, or trust."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import events, write

from metaflow_agents import run
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.schema.event import Decided, Failed, Reserved

FUNCTIONS = """
    import pathlib
    def look(at: str) -> str:
        "Looks at it."
        return "it is there"
    def post(text: str) -> str:
        "Posts it."
        pathlib.Path(__file__).with_name("posted").write_text(text)
        return "posted"
    def quick(request): return "quick"
"""
DESK = """
    sop: desk
    inputs:
      plan:
        type: {tasks: [{id: string, 'role?': string, 'model?': string, 'tools?': [string]}]}
        trusted: TRUSTED
    roles:
      clerk: {profile: You look., tools: [look]}
      officer: {profile: You act., tools: [look, post]}
      guarded: {profile: You act under orders., tools: [look, post], policy: {deny: ["call(post)"]}}
    tools: {look: {python: "funcs:look", effect: none}, post: {python: "funcs:post"}}
    models: {fast: "python:funcs.py:quick"}
    policy: {allow: ["call(*)"]}
    artifacts: {done: {each: string}}
    steps:
      do:
        role: task.role
        model: task.model
        tools: {only: task.tools}
        needs: [plan]
        foreach: {in: plan.tasks, as: task, key: task.id}
        makes: done
        on_fail: skip
    outputs: [done]
"""


class Posting:
    """Calls `post` whatever it is offered, then answers; keeps what it was offered."""

    def __init__(self) -> None:
        self.offered: list[list[str]] = []

    async def __call__(self, request: ModelRequest) -> Any:
        if request.messages[-1]["role"] == "tool":
            return "done"
        self.offered.append(sorted(tool["name"] for tool in request.tools))
        return Reply("", calls=(ToolCall("1", "post", {"text": "x"}),)) if request.tools else "done"


async def done(folder: Path, *, trusted: bool = False, **task: Any) -> tuple[Posting, str, list[str], bool]:
    """A plan of one task, which nobody made in the run: the model, why the task failed, decisions, and whether it was posted."""
    model = Posting()
    path = write(folder, DESK.replace("TRUSTED", "true" if trusted else "false"), funcs_py=FUNCTIONS)
    await run(path, plan={"tasks": [{"id": "a", **task}]}, models={"default": model}, workspace=folder, name="it")
    failed = [event.error for event in events(folder, "it", Failed)]
    decided = [f"{event.role} {event.action} {event.verdict}" for event in events(folder, "it", Decided)]
    return model, failed[0] if failed else "", decided, (folder / "posted").exists()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(("task", "told"), [
    ({"role": "clerk", "tools": ["post"]}, "gave 'post', which the role `clerk` does not have: there is: look"),
    ({"role": "clerk", "tools": ["look", "write"]}, "gave 'write', which the role `clerk` does not have"),
    ({"role": "clerk", "tools": ["*"]}, "gave '*', which the role `clerk` does not have"),
    ({"role": "clerk", "tools": ["l?ok"]}, "gave 'l?ok', which the role `clerk` does not have"),
    ({"role": "chief"}, "gave 'chief', which is no role"),
    ({"role": "clerk", "model": "python:funcs.py:quick"}, "which is no model of this SOP: there is: fast"),
    ({"role": "clerk", "model": "gpt-4.1"}, "gave 'gpt-4.1', which is no model of this SOP"),
    ({}, "gave nothing, which is no role"),
], ids=["tool of another role", "tool of no role", "all tools", "pattern", "role", "model spelled out", "model", "nobody"])
async def test_a_task_has_nothing_that_is_not_declared_for_it(tmp_path: Path, trusted: bool, task: dict[str, Any],
                                                              told: str) -> None:
    """The plan is an input, so that no planner is there to hear of it: the task fails before any model is asked."""
    model, why, decided, called = await done(tmp_path, trusted=trusted, **task)
    assert told in why, why
    assert not events(tmp_path, "it", Reserved) and not model.offered and not decided and not called


async def test_what_a_task_leaves_out_is_its_roles_and_no_more(tmp_path: Path) -> None:
    model, why, decided, called = await done(tmp_path, trusted=True, role="clerk")
    assert model.offered == [["look"]] and not why
    assert not called and not decided, "a tool that is not offered is not there, whoever calls it"


async def test_a_trusted_plan_lets_a_task_act_as_the_policy_says(tmp_path: Path) -> None:
    model, why, decided, called = await done(tmp_path, trusted=True, role="officer", tools=["post"])
    assert not why and model.offered == [["post"]]
    assert decided == ["officer call(post) allow"] and called


async def test_a_plan_from_outside_chooses_a_tool_and_a_person_is_asked(tmp_path: Path) -> None:
    _, _, decided, called = await done(tmp_path, role="officer", tools=["post"])
    assert decided == ["officer call(post) ask"] and not called


@pytest.mark.parametrize("trusted", [True, False])
async def test_the_policy_of_the_role_that_is_chosen_holds(tmp_path: Path, trusted: bool) -> None:
    _, _, decided, called = await done(tmp_path, trusted=trusted, role="guarded", tools=["post"])
    assert decided == ["guarded call(post) deny"] and not called


async def test_a_model_that_is_chosen_from_outside_is_a_declared_one(tmp_path: Path) -> None:
    model, why, _, _ = await done(tmp_path, role="clerk", model="fast")
    assert not why and not model.offered
    assert [event.model for event in events(tmp_path, "it", Reserved)] == ["python:funcs.py:quick"]
