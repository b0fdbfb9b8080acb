"""What a role remembers in a run: its own past, what it watches, the window; parallel work does not leak in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from scripted import Scripted, events, write

from metaflow_agents import resume, run, start
from metaflow_agents.schema.event import Finished

CHAIN = """
    sop: memory
    inputs: {topic: string}
    roles:
      poet: {profile: You write. POET}
      judge: {profile: You judge. JUDGE}
    artifacts: {one: {}, verdict: {}, two: {}, three: {}}
    steps:
      first: {role: poet, needs: [topic], makes: one, task: "Write on {{ topic }}."}
      judge_it: {role: judge, needs: [one], makes: verdict, task: Judge it.}
      second: {role: poet, needs: [verdict], makes: two, task: Write a second.}
      third: {role: poet, needs: [two], makes: three, task: Write a third.}
"""


def chain(tmp_path: Path, poet: str = "", judge: str = "") -> Path:
    return write(tmp_path, CHAIN.replace(" POET", poet).replace(" JUDGE", judge))


def turns(model: Scripted, key: str) -> list[tuple[str, str]]:
    """(role, text) of what stands between the system prompt and the activation's own message."""
    (request,) = [request for request in model.requests if request.key == key]
    return [(message["role"], message["content"]) for message in request.messages[1:-1]]


async def test_a_role_remembers_its_own_steps_in_order_and_nobody_elses(tmp_path: Path) -> None:
    model = Scripted(first="a poem", judge_it="fine", second="another", third="a third")
    await run(chain(tmp_path), topic="tea", model=model, workspace=None)
    assert turns(model, "first@1~0/turn.0") == turns(model, "judge_it@1~0/turn.0") == []
    remembered = turns(model, "third@1~0/turn.0")
    assert [text for role, text in remembered if role == "assistant"] == ["a poem", "another"]
    assert [("Write on tea." in text, "Write a second." in text) for role, text in remembered if role == "user"] == [
        (True, False), (False, True)]
    assert "fine" not in [text for _, text in remembered]
    assert not any("<artifact" in text for _, text in remembered)          # the task, not the material again


async def test_the_window_drops_the_oldest(tmp_path: Path) -> None:
    model = Scripted(first="a poem", second="another", third="a third")
    await run(chain(tmp_path, ", memory: {window: 1 turn}"), topic="tea", model=model, workspace=None)
    assert [text for role, text in turns(model, "third@1~0/turn.0") if role == "assistant"] == ["another"]
    model = Scripted(first="x" * 4000, second="another", third="a third")
    await run(chain(tmp_path, ", memory: {window: 300 tokens}"), topic="tea", model=model, workspace=None)
    assert [text for role, text in turns(model, "third@1~0/turn.0") if role == "assistant"] == ["another"]


async def test_what_a_role_watches_reaches_its_memory(tmp_path: Path) -> None:
    model = Scripted(first="a poem", judge_it="harsh words", second="another")
    await run(chain(tmp_path, ", watches: [verdict]"), topic="tea", model=model, workspace=None)
    assert ("user", "Message on `verdict`, which you watch:\n\nharsh words") in turns(model, "second@1~0/turn.0")
    assert turns(model, "first@1~0/turn.0") == []


async def test_what_it_made_itself_is_not_told_to_it_again(tmp_path: Path) -> None:
    model = Scripted(first="a poem", judge_it="fine")
    await run(chain(tmp_path, ", watches: [one, two]"), topic="tea", model=model, workspace=None)
    assert not any("which you watch" in text for _, text in turns(model, "third@1~0/turn.0"))


async def test_parallel_work_of_one_role_does_not_leak_into_itself(tmp_path: Path) -> None:
    text = """
        sop: parallel
        inputs: {names: [string]}
        roles: {poet: {profile: You write.}}
        artifacts: {poems: {each: string}, aside: {}, book: {}, end: {}}
        steps:
          write: {role: poet, needs: [names], foreach: {in: names, as: name}, makes: poems, task: "Write of {{ name }}."}
          beside: {role: poet, needs: [names], makes: aside, task: Write beside it.}
          bind: {role: poet, needs: [poems], makes: book, task: Bind them.}
          close: {role: poet, needs: [book, aside], makes: end}
    """
    model = Scripted(write=lambda request: f"poem {request.key}")
    await run(write(tmp_path, text), names=["b", "a"], model=model, workspace=None)
    for key in ("write@1[b]~0/turn.0", "write@1[a]~0/turn.0", "beside@1~0/turn.0"):
        assert turns(model, key) == []
    bind = [text for role, text in turns(model, "bind@1~0/turn.0") if role == "user"]
    assert len(bind) == 2 and "Write of b." in bind[0] and "Write of a." in bind[1]      # in the order of the list
    close = [text for role, text in turns(model, "close@1~0/turn.0") if role == "assistant"]
    # Equal ranks go by place in the file: `write` and `beside` before `bind`.
    assert close == ["poem write@1[b]~0/turn.0", "poem write@1[a]~0/turn.0", "beside done", "bind done"]


async def test_repairs_are_not_remembered_but_the_answer_that_was_taken(tmp_path: Path) -> None:
    text = CHAIN.replace("one: {}", "one: {schema: {n: integer}}").replace(" POET", "").replace(" JUDGE", "")
    model = Scripted(first=["no json", {"n": 1}])
    await run(write(tmp_path, text), topic="tea", model=model, workspace=None)
    remembered = turns(model, "second@1~0/turn.0")
    assert [text for role, text in remembered if role == "assistant"] == ['{"n":1}']


async def test_memory_survives_a_resume(tmp_path: Path) -> None:
    path = chain(tmp_path)
    whole = Scripted(first="a poem", judge_it="fine", second="another")
    await run(path, topic="tea", model=whole, workspace=tmp_path / "whole")
    part = Scripted(first="a poem", judge_it="fine", second="another")
    await run(path, topic="tea", model=part, workspace=tmp_path / "part", until="judge_it")
    await resume("memory-1", model=part, workspace=tmp_path / "part")
    assert [request.messages for request in part.requests] == [request.messages for request in whole.requests]
    assert all(event.memory is not None for event in events(tmp_path / "part", "memory-1", Finished))


async def test_letters_that_came_are_recorded_before_a_prompt_is_built_from_them(tmp_path: Path) -> None:
    """A resume asks with the letters that the first asking had, not with those that came since."""
    model = Scripted(first="a poem")
    async with start(chain(tmp_path), topic="tea", model=model, workspace=tmp_path) as going:
        async def stop_here() -> Any:
            await going.bus.send("boss", "judge", "too late for this one")
            going.stop()
            await asyncio.sleep(60)

        await going.bus.send("boss", "judge", "be mild")
        model.answers["judge_it"] = lambda request: stop_here()
        await going.result()
    again = Scripted()
    assert (await resume("memory-1", model=again, workspace=tmp_path)).ok
    assert [message["content"] for message in again.requests[0].messages][1:-1] == ["Message from boss:\n\nbe mild"]


async def test_a_letter_that_comes_in_the_middle_of_an_activation_waits_for_the_next(tmp_path: Path) -> None:
    """Its first call was made without the letter: a resume goes on with the same prompt."""
    text = CHAIN.replace(" POET", "").replace(" JUDGE", "")
    path = write(tmp_path, text.replace("task: Judge it.", "task: Judge it., strategy: chain_of_thought"))
    model = Scripted(first="a poem")
    async with start(path, topic="tea", model=model, workspace=tmp_path) as going:
        async def stop_here() -> Any:
            await going.bus.broadcast("boss", "hurry")
            going.stop()
            await asyncio.sleep(60)

        model.answers["judge_it"] = lambda request: "thought" if request.key.endswith("reason") else stop_here()
        await going.result()
    again = Scripted()
    result = await resume("memory-1", model=again, workspace=tmp_path)
    assert result.ok, result.reason
    assert again.keys[0] == "judge_it@1~0/turn.0" and "hurry" not in again.said("judge_it@1~0/turn.0")
    assert "hurry" in again.said("second@1~0/turn.0")
