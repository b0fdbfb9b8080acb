"""Data stands in the order of its schema wherever it is read: in prompts, expressions, files, and after it was loaded again."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_strategies import SCHEMAS, cases
from scripted import Scripted, write
from test_schema_validation import normalise
from tiers import examples

from metaflow_agents import resume, run, start
from metaflow_agents.cli import command
from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.schema.payload import Data, pack, unpack
from metaflow_agents.schema.validation import validator

SOP = """
    sop: order
    inputs:
      order:
        type:
          number: integer
          customer: {name: string, city: string}
          amounts: {properties: {}, additionalProperties: {type: integer}}
    roles: {clerk: {profile: You judge.}, teller: {profile: You tell.}}
    artifacts:
      verdict: {schema: {why: string, accept: boolean, by: [{who: string, at: string}]}, file: verdict.json}
      listed: {schema: [string]}
      text: {}
    steps:
      judge: {role: clerk, needs: [order], makes: verdict}
      list_it: {value: "verdict | list", needs: [verdict], makes: listed}
      tell: {role: teller, needs: [order, verdict, listed], makes: text}
"""
ORDER = {"customer": {"city": "Oslo", "name": "Ann"}, "amounts": {"tea": 3, "rum": 1}, "number": 7}
VERDICT = {"by": [{"at": "noon", "who": "Bo"}], "accept": True, "why": "it fits"}


async def test_in_prompts_expressions_and_files(tmp_path: Path) -> None:
    model = Scripted({"judge": VERDICT, "tell": "told"})
    result = await run(write(tmp_path, SOP), order=ORDER, model=model, name="one", workspace=tmp_path / "w")
    assert result.ok, result.reason
    first, last = (request.messages[-1]["content"] for request in model.requests)
    ordered = {"number": 7, "customer": {"name": "Ann", "city": "Oslo"}, "amounts": {"rum": 1, "tea": 3}}
    assert json.dumps(ordered, indent=2) in first
    assert json.dumps({"why": "it fits", "accept": True, "by": [{"who": "Bo", "at": "noon"}]}, indent=2) in last
    assert '[\n  "why",\n  "accept",\n  "by"\n]' in last
    assert list(json.loads((tmp_path / "w/one/verdict.json").read_text())) == ["why", "accept", "by"]


async def test_a_run_that_is_gone_on_with_sends_the_same_prompt(tmp_path: Path) -> None:
    sop, seen = write(tmp_path, SOP), []
    for stops in (False, True):
        model, name = Scripted({"judge": VERDICT, "tell": "told"}), f"stops-{stops}"
        if stops:
            async with start(sop, order=ORDER, model=model, name=name, workspace=tmp_path / "w", until="list_it") as going:
                await going.result()
            model = Scripted({"tell": "told"})
            assert (await resume(name, model=model, workspace=tmp_path / "w")).ok
        else:
            assert (await run(sop, order=ORDER, model=model, name=name, workspace=tmp_path / "w")).ok
        seen.append(model.requests[-1].prompt)
    assert seen[0] == seen[1]


TALK = """
    sop: talk
    roles: {clerk: {profile: You judge.}}
    artifacts: {one: {schema: {why: string, accept: boolean}}, two: {}, three: {}}
    steps:
      first: {role: clerk, makes: one}
      second: {role: clerk, needs: [one], makes: two}
      third: {role: clerk, needs: [two], makes: three}
"""


async def test_what_a_role_remembers_of_its_answer_stands_as_it_gave_it(tmp_path: Path) -> None:
    """In the run, after its journal was read again, and from a recording."""
    sop, place, said = write(tmp_path, TALK), tmp_path / "w", '{"why":"it fits","accept":true}'
    answers = {"first": {"why": "it fits", "accept": True}, "second": "2", "third": "3"}
    model = Scripted(answers)
    async with start(sop, model=model, name="one", workspace=place, until="second") as going:
        await going.result()
    again = Scripted(answers)
    assert (await resume("one", model=again, workspace=place)).ok
    for request in (model.requests[-1], again.requests[-1]):
        assert said in [message["content"] for message in request.messages if message["role"] == "assistant"]
    words = ["export", "one", "--recording", str(tmp_path / "one.jsonl"), "--answered-by", "a script", "--workspace", str(place)]
    assert await asyncio.to_thread(command, words) == 0
    assert (await run(sop, model=f"replay:{tmp_path / 'one.jsonl'}", name="two", workspace=place)).ok


async def test_texts_of_a_collection_stand_as_texts(tmp_path: Path) -> None:
    text = TALK.replace("one: {schema: {why: string, accept: boolean}}", "one: {each: string}").replace(
        "first: {role: clerk, makes: one}", "first: {role: clerk, foreach: {in: \"['a', 'b']\"}, makes: one}").replace(
        "needs: [one], makes: two", "needs: [one], show: {one: [a]}, makes: two").replace(
        "needs: [two], makes: three", "needs: [two], sees: [one], makes: three")
    model = Scripted({"first": 'He said "no".\nTwice.', "second": "2", "third": "3"})
    assert (await run(write(tmp_path, text), model=model, workspace=None)).ok
    second, third = (model.last_said(f"{step}@1~0/turn.0") for step in ("second", "third"))
    one = '<entry key="a">\nHe said "no".\nTwice.\n</entry>\n'
    assert f'<artifact name="one" kind="collection" shown="a">\n{one}</artifact>' in second
    assert f'<artifact name="one" kind="collection">\n{one}{one.replace(chr(34) + "a", chr(34) + "b")}</artifact>' in third


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: shuffled(value[key], chance) for key in keys}
    return [shuffled(one, chance) for one in value] if isinstance(value, list) else value


@settings(max_examples=examples(200), deadline=None)
@given(cases(SCHEMAS, normalise), st.integers())
def test_equal_values_are_stored_once_whatever_order_they_came_in(case: Any, roll: int) -> None:
    _, schema, value = case
    checked = validator(schema, "it")
    try:
        first = checked.validate(value)
    except AnswerInvalid:
        return
    again = checked.validate(shuffled(value, random.Random(roll)))
    assert pack(Data(value=first)) == pack(Data(value=again))
    assert json.dumps(unpack(pack(Data(value=first))).value) == json.dumps(first)


@pytest.mark.parametrize("schema", [{}, {"type": "object", "properties": {"z": {}}, "additionalProperties": {}}])
def test_keys_without_an_order_are_sorted(schema: dict[str, Any]) -> None:
    value = validator(schema, "it").validate({"b": {"y": 1, "x": 2}, "a": 1, "z": 3})
    assert list(value) == (["z", "a", "b"] if schema else ["a", "b", "z"]) and list(value["b"]) == ["x", "y"]
