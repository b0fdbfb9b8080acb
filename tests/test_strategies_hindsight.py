"""Hindsight: earlier outputs in rising order of their ratings, episodes in the order of learning; a game of 24 by public logs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, noted, write
from stopping import stopped_everywhere

from metaflow_agents import check, run

RATED = """
    sop: rated
    inputs: {past: [{text: string, mark: number}], words: {type: [string], default: [a]}, title: {type: string, default: x}}
    roles: {writer: {profile: You write.}}
    artifacts: {draft: {}}
    steps:
      write:
        role: writer
        needs: [past]
        sees: [words, title]
        makes: draft
        strategy:
          hindsight: {PARAMETERS}
"""
BY_MARK = "outputs: past | map(attribute='text') | list, ratings: past | map(attribute='mark') | list"
PAST = [{"text": text, "mark": mark} for text, mark in (("ccc", 3), ("a", 1), ("eeeee", 5), ("bb", 2), ("dddd", 4))]


def quoted(parameters: str) -> str:
    """Expressions with commas or braces in flow style have to stand in quotes."""
    return re.sub(r"(outputs|ratings|episodes): ([^,{}]+)", r'\1: "\2"', parameters)


def desk(folder: Path, parameters: str, text: str = RATED) -> Path:
    return write(folder, text.replace("PARAMETERS", quoted(parameters)))


def shown(request: Any) -> list[tuple[float, str]]:
    """The earlier outputs in a prompt, as they come."""
    found = re.findall(r'<output rating="([^"]*)">\n(.*?)\n</output>', request.messages[-1]["content"], re.DOTALL)
    return [(float(rating), text) for rating, text in found]


def follows(request: Any) -> str:
    """Goes on from the last of what it is shown: one letter more."""
    last = [text for _, text in shown(request)][-1:]
    return last[0] + last[0][0] if last else "a"


async def hindsight(folder: Path, parameters: str, **inputs: Any) -> tuple[Any, Scripted]:
    model = Scripted(write=follows)
    result = await run(desk(folder, parameters), **{"past": PAST, **inputs}, model=model, workspace=folder, sandbox="none")
    assert result.ok, result.reason
    return result["draft"], model


async def test_outputs_stand_in_rising_order_and_the_best_rating_is_asked_for(tmp_path: Path) -> None:
    found, model = await hindsight(tmp_path, BY_MARK)
    assert shown(model.requests[0]) == [(2, "bb"), (3, "ccc"), (4, "dddd"), (5, "eeeee")]
    assert found == "eeeeee", "it goes on from the best, not from the latest"
    assert "with the rating 5 or a better one" in model.last_said("write@1~0/turn.0") and model.keys == ["write@1~0/turn.0"]
    assert noted(tmp_path, "rated-1", "/hindsight") == [{"of": 5, "shown": [3, 0, 4, 2], "ratings": [2, 3, 4, 5], "best": 5}]


async def test_equal_ratings_stand_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    _, model = await hindsight(tmp_path, BY_MARK + ", most: 5", past=[{**one, "mark": 1} for one in PAST])
    assert [text for _, text in shown(model.requests[0])] == ["ccc", "a", "eeeee", "bb", "dddd"]


async def test_most_and_best_are_what_they_say(tmp_path: Path) -> None:
    _, model = await hindsight(tmp_path, BY_MARK + ", most: 2, best: 10")
    assert shown(model.requests[0]) == [(4, "dddd"), (5, "eeeee")]
    assert "with the rating 10 or a better one" in model.last_said("write@1~0/turn.0")


async def test_where_nothing_came_before_it_is_asked_plainly(tmp_path: Path) -> None:
    found, model = await hindsight(tmp_path, BY_MARK, past=[])
    assert found == "a" and "before" not in model.last_said("write@1~0/turn.0")


LOOP = """
    sop: loop
    inputs: {goal: {type: integer, default: 4}}
    roles: {writer: {profile: You write.}}
    artifacts: {draft: {}, mark: {schema: {score: number}}}
    steps:
      write:
        role: writer
        wants: [mark]
        sees: [draft]
        makes: draft
        when: not mark or mark.score < 5
        rounds: 6
        strategy:
          hindsight: {PARAMETERS}
      rate: {value: "{'score': draft | length}", needs: [draft], makes: mark, rounds: 6}
    outputs: [draft]
    success: mark.score >= 5
"""
OF_VERSIONS = "outputs: history('draft'), ratings: history('mark') | map(attribute='score') | list"


async def test_versions_of_an_artifact_and_their_ratings_in_a_cycle(tmp_path: Path) -> None:
    """Each round goes on from the best so far; without the outputs each begins anew, and nothing is learnt."""
    model = Scripted(write=follows)
    result = await run(desk(tmp_path, OF_VERSIONS, LOOP), model=model, workspace=None, sandbox="none")
    assert result.ok and result["draft"] == "aaaaa" and len(model.keys) == 5
    assert [text for _, text in shown(model.requests[3])] == ["a", "aa", "aaa"]
    blind = write(tmp_path, re.sub(r"strategy:\s+hindsight: \{PARAMETERS\}", "strategy: single", LOOP))
    plain = Scripted(write=follows)
    assert not (await run(blind, model=plain, workspace=None, sandbox="none")).ok and len(plain.keys) == 6


EPISODES = """
    sop: walks
    inputs: {walks: [string]}
    roles: {writer: {profile: You walk.}}
    artifacts: {draft: {}}
    steps: {write: {role: writer, needs: [walks], makes: draft, strategy: {hindsight: {PARAMETERS}}}}
"""


def walker(request: Any) -> str:
    """Takes the next step in the direction in which the episodes went; it needs two of them to see one."""
    found = [int(text) for text in re.findall(r'<episode number="\d+">\n(.*?)\n</episode>', request.messages[-1]["content"])]
    return str(found[-1] + found[-1] - found[-2]) if len(found) > 1 else "0"


@pytest.mark.parametrize(("walks", "parameters", "wanted", "seen"), [
    (["9", "7", "1", "2", "4", "8"], "episodes: walks", "12", ["1", "2", "4", "8"]),
    (["9", "7", "1", "2", "4", "8"], "episodes: walks, most: 2", "12", ["4", "8"]),
    (["8", "4", "2", "1"], "episodes: walks | reverse | list", "12", ["1", "2", "4", "8"]),
    (["8", "4", "2", "1"], "episodes: walks", "0", ["8", "4", "2", "1"]),
    ([], "episodes: walks", "0", []),
])
async def test_episodes_stand_in_their_order_the_last_of_them(tmp_path: Path, walks: list[str], parameters: str, wanted: str,
                                                              seen: list[str]) -> None:
    model = Scripted(write=walker)
    result = await run(desk(tmp_path, parameters, EPISODES), walks=walks, model=model, workspace=None, sandbox="none")
    assert result["draft"] == wanted
    assert re.findall(r"<episode number=\"\d+\">\n(.*?)\n</episode>", model.last_said("write@1~0/turn.0")) == seen


@pytest.mark.parametrize(("parameters", "told"), [
    (BY_MARK.replace("'mark'", "'text'"), "numbers are wanted"),
    ("outputs: past, ratings: past", "numbers are wanted"),
    ("outputs: title, ratings: words", "a list is wanted"),
    ("outputs: pats, ratings: words", "did you mean `past`"),
    ("outputs: history('past')", "belong together"),
    ("most: 3", "exactly one of"),
    (BY_MARK + ", episodes: past", "exactly one of"),
    ("episodes: past, most: 5", "2 to 4 episodes"),
    ("episodes: past, most: 1", "at least 2"),
    ("episodes: past, best: 1", "episodes have none"),
    (BY_MARK + ", best: true", "`best`"),
])
def test_parameters_are_checked(tmp_path: Path, parameters: str, told: str) -> None:
    problems = check(desk(tmp_path, parameters)).problems
    assert told in "\n".join(map(str, problems)), problems


async def test_ratings_that_do_not_fit_fail_the_attempt_and_say_why(tmp_path: Path) -> None:
    loose = RATED.replace("past: [{text: string, mark: number}]", "past: {type: any}")
    for past, told in (([{"text": "a", "mark": "good"}], "'good', which is no number"),
                       ([{"text": "a", "mark": True}], "True, which is no number")):
        path = desk(tmp_path, BY_MARK, loose)
        result = await run(path, past=past, model=Scripted(write=follows), workspace=None, sandbox="none")
        assert not result.ok and told in str(result.reason)
    fewer = desk(tmp_path, "outputs: words, ratings: past | map(attribute='mark') | list")
    result = await run(fewer, past=PAST, model=Scripted(write=follows), workspace=None, sandbox="none")
    assert not result.ok and "gave 1 and" in str(result.reason) and "a rating for each output" in str(result.reason)


async def test_a_dry_walk_and_its_bound(tmp_path: Path) -> None:
    path = desk(tmp_path, BY_MARK)
    assert (await run(path, past=PAST, model="dry", workspace=None)).calls == 1
    bounds = check(path).bounds
    assert bounds is not None and bounds.calls == 1 + 2


@pytest.mark.one_in(4)
async def test_stopped_at_each_call_it_comes_to_the_same(tmp_path: Path) -> None:
    whole = await stopped_everywhere(desk(tmp_path, OF_VERSIONS, LOOP), lambda: follows, tmp_path / "runs")
    assert whole.result.ok and len(whole.keys) == 5
