"""ReAct: one action a message, its result read before the next; how it finishes; what is corrected; its last step; GSM8K."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scripted import block, events, write
from stopping import stopped_everywhere
from test_agent_web import site

from benchmarks.papers import react as papers
from metaflow_agents import check, run, start
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall, Traits
from metaflow_agents.schema.event import Asked, Committed, Done, Intended, Observed

DATA = os.environ.get("SOP_TEST_DATA")
SUMS = """
    sop: sums
    inputs: {numbers: [integer]}
    roles: {clerk: {profile: You add., tools: [add]}}
    tools: {add: {python: "adding:add", effect: none}}
    artifacts: {total: ARTIFACT}
    steps:
      work: {role: clerk, needs: [numbers], makes: total, strategy: {react: {PARAMETERS}}}
"""
ADDING = """
    def add(a: int, b: int) -> int:
        '''The sum.'''
        return a + b

    def judge(total: dict, numbers: list[int]) -> str:
        return "" if total["sum"] == sum(numbers) else "one is missing"
"""
NUMBERS = [3, 5, 8, 13]


def written(folder: Path, artifact: str = "{schema: {sum: integer}}", parameters: str = "max_steps: 6", **files: str) -> Path:
    return write(folder, SUMS.replace("ARTIFACT", artifact).replace("PARAMETERS", parameters), adding_py=ADDING, **files)


def act(name: str, thought: str = "I go on.", **arguments: Any) -> Reply:
    return Reply(text=thought, calls=(ToolCall("", name, arguments),))


def observed(request: ModelRequest) -> list[int]:
    """What the tool said so far, as it stands in the prompt."""
    return [int(message["content"]) for message in request.messages
            if message["role"] == "tool" and re.fullmatch(r"-?\d+", message["content"])]


def numbers_of(request: ModelRequest) -> list[int]:
    """Those of the task, from the prompt."""
    found: list[int] = json.loads(re.search(r"\[[\d,\s]+\]", request.messages[-1]["content"] if len(request.messages) < 3
                                            else request.messages[1]["content"])[0])    # type: ignore[index]
    return found


def adder(request: ModelRequest) -> Any:
    """Adds number after number with the tool. It can't add itself: what it does not read in its prompt it does not know."""
    numbers, sums = numbers_of(request), observed(request)
    if len(sums) == len(numbers) - 1:
        return json.dumps({"sum": sums[-1]})
    if not request.tools:                               # the last one: it has to answer
        return {"sum": sums[-1] if sums else 0}
    return act("add", a=sums[-1] if sums else numbers[0], b=numbers[len(sums) + 1])


class Kept:
    """A model that keeps its requests."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.sent = answer, list[ModelRequest]()

    def __call__(self, request: ModelRequest) -> Any:
        self.sent.append(request)
        return self.answer(request) if callable(self.answer) else self.answer[min(len(self.sent), len(self.answer)) - 1]

    def told(self, number: int) -> str:
        """The last message of a request."""
        return str(self.sent[number].messages[-1]["content"])


async def done(path: Path, model: Any, **options: Any) -> Any:
    return await run(path, **{"numbers": NUMBERS, "model": model, "workspace": None, "sandbox": "none", **options})


async def test_each_action_is_chosen_after_the_last_observation(tmp_path: Path) -> None:
    model = Kept(adder)
    result = await done(written(tmp_path), model)
    assert result["total"] == {"sum": sum(NUMBERS)} and result.calls == len(NUMBERS)
    assert [request.key for request in model.sent] == [f"work@1~0/step.{number}" for number in range(1, 5)]
    assert [message["role"] for message in model.sent[-1].messages] == ["system", "user", *["assistant", "tool"] * 3]
    assert model.sent[-1].messages[2]["content"] == "I go on.", "the thought stays in the context"
    assert [tool["name"] for tool in model.sent[0].tools] == ["add", "finish"]


async def test_the_schema_of_the_answer_is_told_in_the_first_prompt(tmp_path: Path) -> None:
    """A step is asked for as a text: what fits the answer goes with no request."""
    seen: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Any:
        seen.append(request)
        return act("finish", answer={"sum": 29})

    assert (await run(written(tmp_path), numbers=NUMBERS, model=answer, workspace=None)).ok
    assert [request.schema for request in seen] == [None]
    assert seen[0].messages[-1]["content"].count('"sum": {"type": "integer"}') == 1


async def test_several_actions_at_once_are_not_carried_out_and_told(tmp_path: Path) -> None:
    """A hasty model guesses what the first call gives, until it is told to call one at a time."""
    def hasty(request: ModelRequest) -> Any:
        if any("Call exactly one" in message["content"] for message in request.messages if message["role"] == "tool"):
            return adder(request)
        if observed(request):
            return json.dumps({"sum": observed(request)[-1]})
        return Reply(text="", calls=tuple(ToolCall("", "add", {"a": 0, "b": number}) for number in NUMBERS))
    model = Kept(hasty)
    async with start(written(tmp_path), numbers=NUMBERS, model=model, workspace=tmp_path, name="hasty", sandbox="none") as going:
        result = await going.result()
    assert result["total"] == {"sum": sum(NUMBERS)}
    corrected = [message["content"] for message in model.sent[1].messages if message["role"] == "tool"]
    assert len(corrected) == len(NUMBERS) and all("called 4 tools, and none of them was carried out" in one for one in corrected)
    assert "5 steps are left" in corrected[0]
    assert [event.key for event in events(tmp_path, "hasty", Intended)] == [
        f"work@1~0/step.{number}/tool.0" for number in (2, 3, 4)]


async def test_a_thought_without_an_action_is_no_answer(tmp_path: Path) -> None:
    model = Kept(lambda request: "I think about it." if len(request.messages) < 3 else adder(request))
    assert (await done(written(tmp_path), model))["total"] == {"sum": sum(NUMBERS)}
    assert "called no tool" in model.told(1) and "If it was meant to be your answer" in model.told(1)
    assert model.sent[1].messages[-1]["role"] == "user"


async def test_of_a_text_a_thought_can_not_be_told_from_an_answer_and_finish_ends_it(tmp_path: Path) -> None:
    model = Kept(["It is 29, I am sure.", act("finish", answer="29"), "never asked"])
    result = await done(written(tmp_path, artifact="{}"), model)
    assert result["total"] == "29" and result.calls == 2
    assert "called no tool" in model.told(1) and "If it was meant" not in model.told(1)


@pytest.mark.parametrize(("first", "told"), [
    (act("finish", answer='{"sum": "many"}'), '`sum` is "many"'), (act("finish"), "wants `answer`"),
    (act("finish", answer={"sum": 1.5}), "`sum` is 1.5"), ('{"sum": "many"}', '`sum` is "many"'),
])
async def test_what_is_wrong_with_an_answer_is_told_and_costs_a_step(tmp_path: Path, first: Any, told: str) -> None:
    model = Kept([first, act("finish", answer='{"sum": 29}')])
    result = await done(written(tmp_path), model)
    assert result["total"] == {"sum": 29} and result.calls == 2
    assert told in model.told(1) and "5 steps are left" in model.told(1)


async def test_an_answer_may_be_an_object_where_it_is_one(tmp_path: Path) -> None:
    assert (await done(written(tmp_path), Kept([act("finish", answer={"sum": 4})])))["total"] == {"sum": 4}


@pytest.mark.parametrize("last", [block("out/sum.txt", "29"), act("finish", answer=block("out/sum.txt", "29"))])
async def test_files_come_in_blocks(tmp_path: Path, last: Any) -> None:
    path = written(tmp_path, artifact='{files: "out/**"}')
    assert (await done(path, Kept([act("add", a=1, b=2), last])))["total"] == {"out/sum.txt": "29\n"}


async def test_what_tools_wrote_counts_from_step_to_step(tmp_path: Path) -> None:
    path = written(tmp_path, artifact='{files: "out/**"}')
    path.write_text(path.read_text().replace("tools: [add]", "tools: [write, read]"))
    model = Kept([act("write", path="out/a", text="x"), act("read", path="out/a"), "That is all.", act("finish", answer="done")])
    assert (await done(path, model))["total"] == {"out/a": "x"}
    assert model.told(2) == "x" and "called no tool" in model.told(3), "any words would be an answer: none are taken for one"


@pytest.mark.parametrize(("most", "sum_"), [(1, 8), (2, 16), (3, 29)])
async def test_after_the_last_step_it_is_asked_for_its_best_answer(tmp_path: Path, most: int, sum_: int) -> None:
    model = Kept(adder)
    result = await done(written(tmp_path, parameters=f"max_steps: {most}"), model, workspace=tmp_path, name="last")
    assert result["total"] == {"sum": sum_} and result.calls == most + 1
    last = model.sent[-1]
    assert last.key == "work@1~0/turn.0" and last.tools == () and last.schema is not None
    assert f"You have taken {most} step" in model.told(-1) and model.told(-1).count("JSON Schema") == 1
    assert [event.key for event in events(tmp_path, "last", Observed)] == ["work@1~0/steps"]


async def test_a_correction_and_the_last_question_are_one_message(tmp_path: Path) -> None:
    model = Kept(lambda request: {"sum": 1} if not request.tools else "hm")
    assert (await done(written(tmp_path, parameters="max_steps: 2"), model))["total"] == {"sum": 1}
    roles = [message["role"] for message in model.sent[-1].messages]
    assert all(pair != ("user", "user") for pair in pairwise(roles))
    assert "There are no steps left." in model.told(-1) and "You have taken 2 steps" in model.told(-1)


class InText:
    """A model without tool calls of its own: a call is a block in its text, a result comes in a message of the user."""

    name, traits = "in-text", Traits(native_tools=False)

    def __init__(self) -> None:
        self.sent: list[ModelRequest] = []

    async def ask(self, request: ModelRequest) -> Reply:
        self.sent.append(request)
        sums = [int(found) for message in request.messages[2:]
                for found in re.findall(r"as it came;[^\n]*\n\n```\n(-?\d+)\n```", message["content"])]
        if len(sums) == len(NUMBERS) - 1:
            call: Mapping[str, Any] = {"name": "finish", "arguments": {"answer": json.dumps({"sum": sums[-1]})}}
        else:
            call = {"name": "add", "arguments": {"a": sums[-1] if sums else NUMBERS[0], "b": NUMBERS[len(sums) + 1]}}
        return Reply(text=f"Thought: on.\n\n```tool\n{json.dumps(call)}\n```", tokens_in=1, tokens_out=1)


async def test_the_text_form_does_the_same(tmp_path: Path) -> None:
    model = InText()
    result = await done(written(tmp_path), model)
    assert result["total"] == {"sum": sum(NUMBERS)} and result.calls == len(NUMBERS)
    assert "## finish" in model.sent[0].messages[0]["content"] and model.sent[0].tools == ()


async def test_what_a_tool_brought_from_outside_bears_on_the_next_action(tmp_path: Path) -> None:
    async with site() as (port, heard):
        text = SUMS.replace("tools: [add]", "tools: [fetch]").replace('tools: {add: {python: "adding:add", effect: none}}',
                                                                      f'policy: {{allow: ["fetch(http://127.0.0.1:{port}/*)"]}}')
        path = write(tmp_path, text.replace("ARTIFACT", "{}").replace("PARAMETERS", "max_steps: 4"))
        fetch = [act("fetch", url=f"http://127.0.0.1:{port}/{page}") for page in "ab"]
        source = f"fetched from http://127.0.0.1:{port}"
        async with start(path, numbers=NUMBERS, model=Kept([fetch[0], act("finish", answer="x")]), workspace=tmp_path,
                         name="one") as going:
            assert (await going.result()).untrusted == {"total": source}
        async with start(path, numbers=NUMBERS, model=Kept(fetch), workspace=tmp_path, name="two") as going:
            assert (await going.result()).outcome == "waiting", "after a page the next one is asked about"
        assert len(heard) == 2 and len(events(tmp_path, "two", Asked)) == 1
        assert [event.untrusted for event in events(tmp_path, "two", Done)] == [source]
        assert [version.untrusted for event in events(tmp_path, "one", Committed) for version in event.versions][-1] == source


@pytest.mark.one_in(4)
@pytest.mark.parametrize("most", [2, 6])
async def test_it_goes_on_from_every_call(tmp_path: Path, most: int) -> None:
    """With a correction in the middle, and, of two steps, with the best answer at the end."""
    def thinking_aloud(request: ModelRequest) -> Any:
        return "First I think." if len(request.messages) == 2 else adder(request)

    path = written(tmp_path, parameters=f"max_steps: {most}")
    whole = await stopped_everywhere(path, lambda: thinking_aloud, tmp_path / "runs", numbers=NUMBERS)
    assert len(whole.keys) == (3 if most == 2 else 5)


async def test_a_dry_walk_and_its_bound(tmp_path: Path) -> None:
    path = written(tmp_path, parameters="max_steps: 3")
    assert (await run(path, numbers=NUMBERS, model="dry", workspace=None)).calls == 3 + 1
    bounds = check(path).bounds
    assert bounds is not None and bounds.steps["work"].calls == 4 + 2, "the form of its best answer is mended without tools"
    path.write_text(path.read_text().replace("makes: total", "makes: total, check: {call: 'adding:judge', repairs: 1}"))
    bounds = check(path).bounds
    assert bounds is not None and bounds.steps["work"].calls == 4 + 2 + (4 + 2), "what a check says is mended in steps"


async def test_what_a_check_says_is_mended_by_one_action_a_message_too(tmp_path: Path) -> None:
    """It drops the last number, and is told so. Then it is hasty, is told that too, and adds what is missing."""
    def careless(request: ModelRequest) -> Any:
        sums, numbers = observed(request), numbers_of(request)
        if "one is missing" not in str(request.messages[-1]["content"]) and "/check.1" not in request.key:
            return adder(request) if len(sums) < 2 else json.dumps({"sum": sums[-1]})
        if len(sums) == 3:
            return json.dumps({"sum": sums[-1]})
        once = act("add", a=sums[-1], b=numbers[-1])
        told = any("Call exactly one" in str(message["content"]) for message in request.messages)
        return once if told else Reply(text="", calls=once.calls * 2)

    path = written(tmp_path)
    path.write_text(path.read_text().replace("makes: total", "makes: total, check: {call: 'adding:judge'}"))
    model = Kept(careless)
    async with start(path, numbers=NUMBERS, model=model, workspace=tmp_path, name="careless", sandbox="none") as going:
        assert (await going.result())["total"] == {"sum": sum(NUMBERS)}
    assert [event.key for event in events(tmp_path, "careless", Intended)] == [
        f"work@1~0/{step}/tool.0" for step in ("step.1", "step.2", "check.1/step.2")], "two at once were not carried out"
    assert [request.key.partition("~0/")[2] for request in model.sent[3:]] == [f"check.1/step.{number}" for number in (1, 2, 3)]


async def test_the_form_of_a_best_answer_is_mended_without_tools(tmp_path: Path) -> None:
    model = Kept(lambda request: {"sum": 7} if "/repair." in request.key else "It is seven." if not request.tools else "hm")
    result = await done(written(tmp_path, parameters="max_steps: 1"), model)
    assert result["total"] == {"sum": 7}
    assert [(request.key.partition("~0/")[2], len(request.tools)) for request in model.sent] == [
        ("step.1", 2), ("turn.0", 0), ("turn.0/repair.1", 0)]


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    for change, told in ((("max_steps: 6", "max_steps: 0"), "at least 1"),
                         (("max_steps: 6", "steps: 6"), "did you mean `max_steps`"),
                         (("tools: [add]", "tools: []"), "acts with tools, and there are none"),
                         (("add", "finish"), "`react` has a tool `finish` of its own"),
                         (("max_steps: 6", "prompts: {correction: x.j2}"), "did you mean `correct`")):
        path = written(tmp_path)
        path.write_text(path.read_text().replace(*change))
        said = "\n".join(map(str, check(path).problems))
        assert told in said, (change, said)


async def test_its_prompts_are_replaced(tmp_path: Path) -> None:
    files = {"act_j2": "ACT {{ steps }} {{ numbers | length }} {{ output_format }}",
             "correct_j2": "CORRECT {{ actions }} {{ left }}", "best_j2": "BEST {{ steps }}"}
    path = written(tmp_path, parameters="max_steps: 1, prompts: {act: act.j2, correct: correct.j2, best: best.j2}", **files)
    assert check(path).ok, [str(problem) for problem in check(path).problems]
    model = Kept(lambda request: {"sum": 1} if not request.tools else "hm")
    await done(path, model)
    assert "ACT 1 4 " in model.told(0) and "CORRECT 0 0" in model.told(1) and "BEST 1" in model.told(1)


@pytest.mark.one_in(20)
@pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA does not name a folder with public data")
def test_sums_of_word_problems() -> None:
    """GSM8K: what the model can't do in its head is right where it reads the tool's results, one after the other."""
    tool, steps, hasty = (row.here for row in papers.rows(Path(DATA or "")))
    assert tool == "271; 69 of 271"
    assert steps == "90; 139; 232 of 271"
    assert hasty == "271; 106 of 271"
