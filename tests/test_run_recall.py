"""What comes back to a role's mind in a run: from its own past, other roles, other runs; rated, journalled, labelled."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, write

from metaflow_agents import check, resume, run, start
from metaflow_agents.memory.store import PLACE, MemoryDatabase
from metaflow_agents.schema.event import Finished

DESK = """
    sop: desk
    inputs: {topic: string}
    roles:
      poet: {profile: You write., memory: {window: 1 turn, recall: {RECALL}}}
      judge: {profile: You judge. JUDGE}
    artifacts: {one: {}, verdict: {}, two: {}, three: {}, four: {}}
    steps:
      first: {role: poet, needs: [topic], makes: one, task: "Write on {{ topic }}."}
      judge_it: {role: judge, needs: [one], makes: verdict, task: Judge the poem.}
      second: {role: poet, needs: [verdict], makes: two, task: Write about a whale.}
      third: {role: poet, needs: [two], makes: three, task: Write of the weather.}
      fourth: {role: poet, needs: [three], sees: [topic], makes: four, task: "Write once more of {{ topic }}."}
"""


def desk(folder: Path, recall: str, judge: str = "") -> Path:
    return write(folder, DESK.replace("RECALL", recall).replace(" JUDGE", judge))


def poet(**rated: int) -> Scripted:
    """Answers with its step; rates each memory as is given for its step."""
    def said(request: Any) -> Any:
        if "importance" in request.key:
            return {"importance": rated.get(request.step, 1)}
        return f"{request.step} of {request.key}"
    return Scripted({step: said for step in ("first", "judge_it", "second", "third", "fourth")})


def mind(model: Scripted, step: str) -> list[str]:
    """The answers that came back to mind, as a step's first prompt shows them."""
    (request,) = [request for request in model.requests if request.key == f"{step}@1~0/turn.0"]
    told = [message["content"] for message in request.messages if "comes to your mind" in message["content"]]
    return re.findall(r"Answered:\n(\w+) of", told[0]) if told else []


async def test_relevance_recency_and_importance_choose_what_comes_back(tmp_path: Path) -> None:
    """The fourth step's window holds the third turn; of the first and the second one comes back."""
    for weights, wanted in (("importance: 0, recency: 0", "first"), ("importance: 0, relevance: 0", "second"),
                            ("relevance: 0, recency: 0", "first"), ("relevance: 0, recency: 0.5, importance: 0.1", "second")):
        model = poet(first=9, second=3)
        await run(desk(tmp_path, f"top: 1, {weights}"), topic="tea", model=model, workspace=None)
        assert mind(model, "fourth") == [wanted], weights
        assert mind(model, "first") == mind(model, "second") == [], "what stands in the window is not told twice"
        assert any(key.endswith("/importance") for key in model.keys) == ("importance: 0," not in weights)


async def test_who_is_remembered_is_what_from_says(tmp_path: Path) -> None:
    for source, wanted in (("role", ["first", "second"]), ("run", ["first", "judge_it", "second"])):
        model = poet()
        await run(desk(tmp_path, f"from: {source}"), topic="tea", model=model, workspace=None)
        assert mind(model, "fourth") == wanted


async def test_it_outlives_the_run_and_says_whose_it_was(tmp_path: Path) -> None:
    path, first, again = desk(tmp_path, "from: project, top: 9"), poet(first=7), poet()
    await run(path, topic="tea", model=first, workspace=tmp_path, name="monday")
    await run(path, topic="tea", model=again, workspace=tmp_path, name="tuesday")
    assert mind(first, "first") == [] and mind(again, "first") == ["first", "judge_it", "second", "third", "fourth"]
    told = again.said("first@1~0/turn.0")
    assert '<memory of="you" run="monday" at="first@1~0">' in told
    assert '<memory of="judge" run="monday" at="judge_it@1~0">' in told
    store = MemoryDatabase(tmp_path / PLACE)
    assert [(one.name, one.role, one.importance) for one in store.listed(run="monday")] == [
        ("monday", "poet", 7), ("monday", "judge", 1), *[("monday", "poet", 1)] * 3]
    assert len(store.listed()) == 10, "the run that ended handed over all"


async def test_a_run_under_another_name_sends_the_same_prompts(tmp_path: Path) -> None:
    """So a recording replays under any name: of its own run a memory says where it was made, and not what the run is called."""
    sent = []
    for name in ("a1", "another"):
        model = poet(first=9)
        await run(desk(tmp_path, "from: project, top: 3"), topic="tea", model=model, workspace=tmp_path / name, name=name)
        assert '<memory of="you" at="first@1~0">' in model.said("fourth@1~0/turn.0")
        sent.append({request.key: request.messages for request in model.requests})
    assert sent[0] == sent[1]


async def test_what_its_past_did_not_commit_does_not_come_to_mind(tmp_path: Path) -> None:
    text = """
        sop: parallel
        inputs: {names: [string]}
        roles: {poet: {profile: You write., memory: {window: 1 tokens, recall: {importance: 0, from: run}}}}
        artifacts: {poems: {each: string}, aside: {}, book: {}}
        steps:
          write: {role: poet, needs: [names], foreach: {in: names, as: name}, makes: poems, task: "Write of {{ name }}."}
          beside: {role: poet, needs: [names], makes: aside, task: Write beside it.}
          bind: {role: poet, needs: [poems], makes: book, task: Bind them.}
    """
    model = Scripted(write=lambda request: f"{request.key} poem", bind="bound")
    await run(write(tmp_path, text), names=["b", "a"], model=model, workspace=tmp_path)
    assert not any("comes to your mind" in model.said(f"{key}/turn.0") for key in ("write@1[b]~0", "write@1[a]~0", "beside@1~0"))
    told = model.said("bind@1~0/turn.0")
    assert "write@1[b]~0/turn.0 poem" in told and "write@1[a]~0/turn.0 poem" in told and "beside done" not in told


@pytest.mark.one_in(8, always=False)
async def test_a_resume_after_every_call_sees_the_same_memories_and_asks_nothing_twice(tmp_path: Path) -> None:
    """Stopped in the middle of each call in turn; while it rests another run fills the project with other memories."""
    path = desk(tmp_path, "from: project, top: 3")

    async def stopped(home: Path, after: int) -> Scripted:
        await run(path, topic="tea", model=poet(second=8), workspace=home, name="before")
        model = poet(first=9, third=4)
        said = model.answers["first"]

        async def stop_here() -> Any:
            model.requests.pop()
            going.stop()
            await asyncio.sleep(60)

        steps = [*model.answers]
        model.answers = dict.fromkeys(steps, lambda request: stop_here() if len(model.requests) > after else said(request))
        async with start(path, topic="tea", model=model, workspace=home, name="whole") as going:
            await going.result()
        return model

    whole = await stopped(tmp_path / "whole", 99)
    wanted = {request.key: request.messages for request in whole.requests}
    assert len(wanted) == 10 and any("Write about a whale" in str(messages) for messages in wanted.values())
    for after in range(10):
        home = tmp_path / f"k{after}"
        inner, rest = await stopped(home, after), poet(first=9, third=4)
        await run(path, topic="rain", model=poet(first=10), workspace=home, name="between")
        assert (await resume("whole", model=rest, workspace=home)).ok
        assert [*inner.keys, *rest.keys] == list(wanted), "no finished call is asked twice"
        assert all(request.messages == wanted[request.key] for request in inner.requests)
        assert rest.requests[0].messages == wanted[rest.keys[0]], "what was recalled before the stop is what is told after it"


async def test_untrusted_stays_untrusted_and_secrets_are_blotted(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("DESK_KEY", "xyzzy-4711")
    text = DESK.replace("inputs: {topic: string}", "inputs: {topic: {type: string, trusted: false}}\n    secrets: [DESK_KEY]")
    path = write(tmp_path, text.replace("RECALL", "from: project").replace(" JUDGE", ""))
    model = poet()
    model.answers["first"] = lambda request: {"importance": 2} if "importance" in request.key else "the key is xyzzy-4711"
    await run(path, topic="tea", model=model, workspace=tmp_path, name="monday")
    store = MemoryDatabase(tmp_path / PLACE)
    assert all(one.untrusted for one in store.listed())
    store.close()
    for file in (tmp_path / PLACE.parent).iterdir():
        assert b"xyzzy" not in file.read_bytes()
    trusted = write(tmp_path, DESK.replace("RECALL", "from: project").replace(" JUDGE", ""))
    other = poet()
    await run(trusted, topic="rain", model=other, workspace=tmp_path, name="tuesday")
    labels = {event.activation: event.memory.untrusted for event in events(tmp_path, "tuesday", Finished) if event.memory}
    assert labels["first@1~0"], "it was reminded of what came from outside"


async def test_a_dry_run_leaves_nothing_and_a_rating_that_fails_costs_only_itself(tmp_path: Path) -> None:
    path = desk(tmp_path, "from: project")
    result = await run(path, topic="tea", model="dry", workspace=tmp_path, name="dry")
    assert result.ok and not (tmp_path / PLACE).exists() and result.calls == 10
    report = check(path)
    assert report.bounds is not None and report.bounds.calls == 5 * (3 + 3)
    model = poet()
    model.answers["first"] = lambda request: "very" if "importance" in request.key else "a poem"
    assert (await run(path, topic="tea", model=model, workspace=tmp_path, name="odd")).ok
    (memory,) = [one for one in MemoryDatabase(tmp_path / PLACE).listed() if one.activation == "first@1~0"]
    assert memory.importance is None


async def test_runs_without_recall_make_no_file(tmp_path: Path) -> None:
    path = write(tmp_path, DESK.replace(", recall: {RECALL}", "").replace(" JUDGE", ""))
    await run(path, topic="tea", model=poet(), workspace=tmp_path)
    assert not (tmp_path / PLACE.parent).exists()
