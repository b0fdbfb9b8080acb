"""The warning that a `foreach` shows its whole list to each item, held against the prompts of a run: told where they hold it."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted import Scripted, write

from metaflow_agents import run
from metaflow_agents.sop.check import check

SOP = """
    sop: desk
    inputs:
      plan: {type: {title: string, parts: [{name: string, about: string}]}, default: {title: Tea, parts: [
        {name: one, about: about-one}, {name: two, about: about-two}, {name: three, about: about-three}]}}
      notes: {type: {properties: {}, additionalProperties: {type: string}},
              default: {one: about-one, two: about-two, three: about-three}}
      loose: {type: {properties: {parts: {}}}, default: {parts: [{name: one, about: about-one}, {name: two, about: about-two}]}}
      all: {type: boolean, default: true}
    roles: {ann: {profile: You write.}}
    artifacts: {texts: {each: string}}
    steps:
      draft: {role: ann, needs: [all, READS], foreach: {in: "LIST", as: part, key: KEY}, makes: texts, task: "TASK",
              show: {all: none, SHOW}}
"""
CASES = [
    # reads, list, key, task, show, whether each item is shown the others
    ("plan", "plan.parts", "part.name", "Write.", "", True),
    ("plan", "plan['parts']", "part.name", "Write.", "", True),
    ("plan.parts", "plan.parts", "part.name", "Write.", "", True),
    ("plan", "plan.parts | selectattr('about') | list", "part.name", "Write.", "", True),
    ("plan", "plan.parts + []", "part.name", "Write.", "", True),
    ("plan", "plan.parts if all else []", "part.name", "Write.", "", True),
    ("plan", "plan.parts or []", "part.name", "Write.", "", True),
    ("plan", "plan.parts | map(attribute='name') | list", "part", "Write.", "", True),
    ("plan", "plan.parts", "part.name", "{{ plan.title }}: {{ part.name }}", "", True),
    ("notes", "notes | list", "part", "Write.", "", True),
    ("plan", "plan.parts", "part.name", "Write.", "plan: none", False),
    ("plan", "plan.parts", "part.name", "Write.", "plan: [title]", False),
    ("notes", "notes | list", "part", "Write.", "notes: ['{{ part }}']", False),
    ("plan", "plan.parts", "part.name", "{{ plan.title }}, {{ plan.parts | length }} parts: write.", "", False),
    ("loose", "loose.parts", "part.name", "Of {{ loose.parts | length }}: write.", "", False),
]


async def others_shown(folder: Path, sop: str) -> bool:
    """Whether a prompt of a run holds what belongs to another item."""
    model = Scripted({"draft": "text"})
    result = await run(write(folder, sop), model=model, workspace=None)
    assert result.ok, result.reason
    texts = ["\n".join(str(message["content"]) for message in request.messages) for request in model.requests]
    assert texts
    return all("about-one" in text and "about-two" in text for text in texts)


@pytest.mark.parametrize(("reads", "listed", "key", "task", "show", "pasted"), CASES)
async def test_it_is_told_where_each_item_is_shown_the_others(tmp_path: Path, reads: str, listed: str, key: str, task: str,
                                                              show: str, pasted: bool) -> None:
    sop = SOP.replace("READS", reads).replace("LIST", listed).replace("KEY", key).replace("TASK", task).replace("SHOW", show)
    problems = check(write(tmp_path, sop), start=tmp_path).problems
    assert [problem.code for problem in problems if problem.code != "unused-input"] == (["list-pasted"] if pasted else [])
    assert await others_shown(tmp_path, sop) is pasted


@pytest.mark.parametrize(("listed", "key"), [("plan.parts[:1]", "part.name"), ("[plan.title]", "part")])
def test_the_head_of_a_list_is_no_walk_over_it(tmp_path: Path, listed: str, key: str) -> None:
    sop = SOP.replace("READS", "plan").replace("LIST", listed).replace("KEY", key).replace("TASK", "Write.").replace("SHOW", "")
    assert {problem.code for problem in check(write(tmp_path, sop), start=tmp_path).problems} <= {"unused-input"}


def test_the_mend_names_what_there_is_and_each_way_of_it_ends_the_warning(tmp_path: Path) -> None:
    sop = SOP.replace("READS", "plan").replace("LIST", "plan.parts").replace("KEY", "part.name").replace("TASK", "Write.")
    problems = check(write(tmp_path, sop.replace("SHOW", "")), start=tmp_path).problems
    told = next(problem for problem in problems if problem.code == "list-pasted")
    assert "3 items make 3 copies" in told.message
    assert told.mend == ("add `show: {plan: none}` where the item is enough, `[title]` for some of its fields; "
                         "`whole` where each item needs all of it")
    for way in ("none", "[title]", "whole"):
        problems = check(write(tmp_path, sop.replace("SHOW", f"plan: {way}")), start=tmp_path).problems
        assert {problem.code for problem in problems} <= {"unused-input"}


def test_what_an_item_shows_of_itself_is_not_told_as_unshown_and_the_mend_pastes_no_list(tmp_path: Path) -> None:
    sop = SOP.replace("READS", "plan").replace("LIST", "plan.parts").replace("KEY", "part.name").replace("SHOW", "")
    told = check(write(tmp_path, sop.replace("TASK", "One of {{ plan.parts | length }}: write.")), start=tmp_path).problems
    found = next(problem for problem in told if problem.code == "fields-unshown")
    assert found.message.endswith("does not print `plan.title`")
    assert "`show: {plan: [title]}`" in found.mend and "whole" not in found.mend
