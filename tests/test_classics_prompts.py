"""What the prompts of the classic SOPs hold: enough to do the work, and nothing that misleads whoever reads them."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from metaflow_agents import check, run
from metaflow_agents.memory.wording import observed, worded
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.prompts import from_package
from metaflow_agents.questions.question import Answer

CLASSICS = Path(__file__).parent.parent / "examples" / "classics"
LARGE = "The lamp was lit.\n" * 10_000


class Asked:
    """A model that answers by a function, and keeps what it was asked by key."""

    def __init__(self, answer: Callable[[ModelRequest], Any]) -> None:
        self.answer, self.requests = answer, dict[str, ModelRequest]()

    async def __call__(self, request: ModelRequest) -> Any:
        self.requests[request.key] = request
        return self.answer(request)

    def said(self, key: str) -> str:
        """All that one call was told."""
        return told(self.requests[key])


def told(request: ModelRequest) -> str:
    return "\n".join(str(message["content"]) for message in request.messages)


def results(request: ModelRequest) -> list[str]:
    return [str(message["content"]) for message in request.messages if message["role"] == "tool"]


def act(name: str, thought: str = "", **arguments: Any) -> Reply:
    return Reply(thought, calls=(ToolCall("", name, arguments),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    there = tmp_path / "mine"
    there.mkdir()
    (there / "log.txt").write_text(LARGE)
    (there / "people.txt").write_text("Ada was born in Bath.\n")
    return there


async def test_react_is_told_names_and_sizes_of_a_folder_too_large_for_a_prompt(folder: Path) -> None:
    def reader(request: ModelRequest) -> Any:
        acts = [act("read", path="mine/people.txt"), act("search", expression="Ada", pattern="mine/**"),
                act("read", path="people.txt")]
        done = results(request)
        return acts[len(done)] if len(done) < 3 else act("finish", answer='{"answer": "Bath", "because": ["people.txt"]}')

    model = Asked(reader)
    result = await run(CLASSICS / "react.yaml", question="Where was Ada born?", notes=folder, model=model, workspace=None)
    assert result.ok and result["answer"]["answer"] == "Bath"
    first = model.said("find@1~0/step.1")
    assert "- log.txt (180,000 bytes)" in first and "- people.txt (22 bytes)" in first
    assert "The lamp was lit" not in first and len(first) < 4000
    wrong, nothing, there = results(model.requests["find@1~0/step.4"])
    assert "there is no file `mine/people.txt`: `people.txt` is; paths begin inside of the folder that was given" in wrong
    assert "paths begin inside of the folder" in nothing and there == "Ada was born in Bath.\n"


def autogpt(last_word: str) -> Callable[[ModelRequest], Any]:
    """Writes one file and ends with these words; its judge believes what it finds in the prompt: a file about the goal."""
    def agent(request: ModelRequest) -> Any:
        if request.step == "judge":
            goal = re.search(r"One goal was: find (\w+)", told(request))[1]                              # type: ignore[index]
            return {"evidence": "looked", "reached": f"- work/{goal}.txt" in told(request)}
        return act("finish", answer=last_word) if results(request) else act("write", path="work/Ada.txt", text="Bath\n")
    return agent


async def test_autogpt_sees_the_folder_and_success_is_that_each_goal_is_reached(folder: Path) -> None:
    model = Asked(autogpt("Ada: done. Bob: nobody knows him."))
    goals = ["find Ada", "find Bob"]
    result = await run(CLASSICS / "autogpt.yaml", inputs={"name": "Finder", "goals": goals, "folder": folder}, model=model,
                       workspace=None)
    first = model.requests["pursue@1~0/step.1"]
    assert "- log.txt (180,000 bytes)" in told(first) and "The lamp was lit" not in told(first) and len(told(first)) < 4000
    assert first.one_call and not any(request.one_call for key, request in model.requests.items() if key.startswith("judge"))
    assert {"list", "search", "read", "write"} <= {tool["name"] for tool in first.tools}
    assert "your last word to people" in told(first) and "in a few words" not in told(first)
    assert result["work"]["work/last_word.md"] == "Ada: done. Bob: nobody knows him.\n"
    asked = next(said for key, said in ((key, model.said(key)) for key in model.requests) if "One goal was: find Bob" in said)
    assert "nobody knows him" in asked and "- work/Ada.txt" in asked and "find Ada" not in asked
    assert result.outcome == "failure"
    assert {goal: one["reached"] for goal, one in result["reached"].items()} == {"find Ada": True, "find Bob": False}


def test_a_last_word_is_a_file_that_the_step_makes(tmp_path: Path) -> None:
    whole = (CLASSICS / "autogpt.yaml").read_text()
    (tmp_path / "desk.py").write_text((CLASSICS / "desk.py").read_text())
    (tmp_path / "autogpt.yaml").write_text(whole.replace("last_word: work/last_word.md", "last_word: last_word.md"))
    (problem,) = [one for one in check(tmp_path / "autogpt.yaml").problems if one.code == "strategy-parameter"]
    assert problem.message == "the step makes files that match `work/**`, and `last_word.md` is none of them"


async def test_who_looks_at_a_run_sees_what_is_under_way(folder: Path) -> None:
    """After 25 calls: thoughts, actions with what they gave, and the files, none of which is an artifact yet."""
    def agent(request: ModelRequest) -> Any:
        number = len(results(request))
        if request.step == "judge":
            return {"evidence": "", "reached": True}
        if request.step == "progress":
            return {"action": "continue", "why": "on course"}
        if number == 28:
            return act("finish", answer="done")
        return act("write", f"thought {number}: next", path=f"work/{number}.txt", text=str(number)) if number % 2 \
            else act("search", f"thought {number}: look", expression=f"Ada|{number}", pattern="people.txt")

    model = Asked(agent)
    result = await run(CLASSICS / "autogpt.yaml", inputs={"name": "Finder", "goals": ["find Ada"], "folder": folder}, model=model,
                       workspace=None)
    assert result.ok, result.reason
    said = model.said("progress@1~0/verdict")
    assert "The goals of the run are reached" in said and '["find Ada"]' in said and "model calls of 120" in said
    assert "17 earlier messages are left out" in said and "thought 23: next" in said and "thought 2: look" not in said
    assert re.search(r'`write` with \{"path": ?"work/23.txt".*\} gave:\n\n<result>\n`work/23.txt` is written: 1 line', said)
    assert "Ada was born in Bath." in said and "- work/1.txt (1 bytes)" in said and "- work/23.txt (2 bytes)" in said
    assert "- log.txt (180,000 bytes)" in said and "The lamp was lit" not in said and len(said) < 12_000


async def test_who_is_stuck_or_asked_about_it_sees_what_was_done(folder: Path) -> None:
    asked: list[str] = []

    async def person(question: Any, number: int) -> Answer:
        asked.append(question.text)
        return Answer(text="give up")

    def agent(request: ModelRequest) -> Any:
        if request.step == "judge":
            return {"evidence": "", "reached": False}
        if "/reflect" in request.key:
            return "I look elsewhere."
        if "give up" in told(request):
            return act("finish", answer="nothing")
        return act("read", "Let me look into the secret file.", path="secret.txt")

    model = Asked(agent)
    result = await run(CLASSICS / "autogpt.yaml", inputs={"name": "Finder", "goals": ["find Ada"], "folder": folder}, model=model,
                       workspace=None, asker=person)
    assert result.outcome == "failure"
    (key,) = [key for key in model.requests if "/reflect" in key]
    for said in (model.said(key), *asked):
        assert "Let me look into the secret file." in said and "there is no file `secret.txt`" in said
        assert '`read` with {"path":"secret.txt"}' in said.replace('": "', '":"') and "model calls of 120" in said
    assert len(asked) == 1 and "1. find Ada" in asked[0]


async def test_characters_know_today_alone_remember_observations_and_hear_who_speaks(tmp_path: Path) -> None:
    """Three over three days: nobody reads what is to come, what another one did, or what a prompt says around a day."""
    people = [{"name": name, "about": f"{name} is a {trade}.", "days": [f"{name} sees {thing} {day}." for day in (1, 2, 3)]}
              for name, trade, thing in (("Ada", "baker", "flour"), ("Ben", "smith", "iron"), ("Cleo", "judge", "paper"))]

    def villager(request: ModelRequest) -> Any:
        if request.key.endswith("/importance"):
            return {"importance": 3}
        if "/questions" in request.key:
            return {"questions": ["Who?", "What?", "Why?"]}
        if "/insights" in request.key:
            return {"insights": [{"insight": "One is at peace", "because": [1], "importance": 5}]}
        name, day = re.search(r"You are (\w+)", told(request))[1], request.key.partition("@")[2][0]      # type: ignore[index]
        return "bread" if request.step == "ask" else {"did": f"{name} kept secret {day}", "said": f"words {day} of {name}"}

    model = Asked(villager)
    result = await run(CLASSICS / "generative_agents.yaml", people=people, model=model, workspace=tmp_path, name="town")
    assert result.ok and [*result["insights"]] == ["Ada", "Ben", "Cleo"]
    first, third = model.said("live@1[Ada]~0/turn.0"), model.said("live@3[Ada]~0/turn.0")
    assert "You are Ada. Ada is a baker." in first and "Day 1: Ada sees flour 1." in first and "flour 2" not in first
    assert "Day 3: Ada sees flour 3." in third and "Ben told you. On day 2: words 2 of Ben" in third
    assert "Ada told you" not in third
    assert not re.search(r"(Ben|Cleo) kept secret|iron|paper", first + third)
    asked = model.said("ask@1[Ada]~0/turn.0")
    memories = re.findall(r"<memory [^>]*>\n(.*?)\n</memory>", asked, re.DOTALL)
    assert any(one.startswith("Day 1: Ada sees flour 1.\n\nAnswered:\n{\"did\":") for one in memories)
    assert sum("Ben told you. On day 1: words 1 of Ben" in one for one in memories) == 1
    boilerplate = re.compile(r"# Your|You work on this one|Answer with|JSON Schema|You are Ada")
    rated = [model.said(key).partition("<memory>")[2].partition("</memory>")[0] for key in model.requests
             if key.endswith("/importance")]
    assert len(memories) >= 3 and [one for one in (*memories, *rated) if boilerplate.search(one)] == []


def test_what_is_remembered_is_what_happened_and_not_what_a_prompt_says_around_it() -> None:
    asked = from_package("activation", {"item": {"name": "letter", "key": "a. b", "value": "Where?"}, "task": "Answer it."})
    assert worded(asked, "Here.\n") == "<item name=\"letter\">\nWhere?\n</item>\n\nAnswer it.\n\nAnswered:\nHere."
    assert observed(from_package("activation", {"item": None, "task": "# My task\n\nGo on."})) == "# My task\n\nGo on."


TIMER = """=== file: main.py ===
import sys, time
seconds = int(sys.argv[2]) if sys.argv[1:2] == ["--seconds"] else 600
for left in range(seconds):
    print("x" * 9000, left)
    time.sleep(FACTOR)
BROKEN
print("done", *sys.argv[1:])
=== end ===
"""


@pytest.mark.parametrize("smoke", [["--seconds", "1"], []])
async def test_a_check_is_stated_and_a_program_that_runs_for_minutes_is_tried_by_what_its_author_names(
        smoke: list[str], tmp_path: Path) -> None:
    """A timer of ten minutes passes by its smoke arguments; without any it is told of its limit and of how it ended."""
    limited = (CLASSICS / "gpt_engineer.yaml").read_text().partition("\ntests:")[0].replace("time: 20s", "time: 1s")
    (tmp_path / "limited.yaml").write_text(limited.replace("sop: gpt_engineer", "sop: limited"))

    def engineer(request: ModelRequest) -> Any:
        if request.step == "clarify":
            return {"name": "timer", "features": [], "assumed": [], "smoke": smoke}
        mended = "/check." in request.key
        pause, broken = "0.01" if smoke else "0" if mended else "1", "" if mended else "print(lost)"
        return TIMER.replace("FACTOR", pause).replace("BROKEN", broken)

    model = Asked(engineer)
    result = await run(CLASSICS / "gpt_engineer.yaml" if smoke else tmp_path / "limited.yaml", wish="a timer", model=model,
                       workspace=None, sandbox="none")
    first, again = model.said("write@1~0/turn.0"), model.said("write@1~0/check.1")
    assert "runs this on its files: " + " ".join(["python main.py", *smoke]) + "\n" in first
    assert f"within {20 if smoke else 1} seconds" in first and "without a terminal" in first and "3 times at most" in first
    if smoke:
        assert result.ok and "exit code 1\n" in again and "NameError: name 'lost'" in again
        assert "characters left out …]" in again and len(again.partition("check still fails")[0]) < 16_000
    else:
        assert result.ok and "it did not end by itself: it was ended after 1 seconds, the longest that it may take" in again


def left(thought: str) -> str:
    return thought.partition("left: ")[2].rstrip(")")


def game(first: Mapping[str, str], then: Sequence[str]) -> Callable[[ModelRequest], Any]:
    """Proposes the thoughts of `first` (thought → what its numbers are worth), then those of `then`; answers with its way."""
    def player(request: ModelRequest) -> Any:
        said = told(request)
        if ".value." in request.key:
            return {"why": "", "value": next((word for thought, word in first.items() if left(thought) in said), "likely")}
        way = re.findall(r"<thought .*?>\n(.*?)\n</thought>", said)
        if request.key.endswith(".propose"):
            last = ["6 * 4 = 24 (left: 24)", "6 + 4 = 10 (left: 10)"]
            return {"thoughts": [*first] if not way else list(then) if len(way) == 1 else last}
        return {"steps": way, "found": "None of the ways" not in said}
    return player


async def test_a_state_is_judged_by_its_numbers_alone_and_a_finished_one_by_code() -> None:
    way = ["5 + 7 = 12 (left: 12 2 4)", "12 / 2 = 6 (left: 6 4)", "6 * 4 = 24 (left: 24)"]
    model = Asked(game({way[0]: "likely", "5 - 4 = 1 (left: 1 2 7)": "impossible"}, way[1:2]))
    result = await run(CLASSICS / "tree_of_thoughts.yaml", numbers="5 7 2 4", model=model, workspace=None)
    assert result.ok and result["way"]["steps"] == way
    valued = [model.said(key) for key in model.requests if ".value." in key]
    assert len(valued) == 9 and [said for said in valued if "5 7 2 4" in said or "# Your task" in said] == []
    assert "Can these numbers make 24" in valued[0] and "You play the game of 24." in valued[0]
    assert [key for key in model.requests if "tot.d3" in key and ".value." in key] == []
    assert [key.rpartition("/")[2] for key in model.requests if key.endswith(".propose")] == [
        "tot.d0.n0.propose", "tot.d1.n0.propose", "tot.d2.n0.propose"]
    assert "this one was judged the best" in model.said("solve@1~0/turn.0")


async def test_a_dead_end_is_not_called_the_best_and_no_success() -> None:
    model = Asked(game({"5 + 7 = 12 (left: 12 2 4)": "likely"}, []))
    result = await run(CLASSICS / "tree_of_thoughts.yaml", numbers="5 7 2 4", model=model, workspace=None)
    said = model.said("solve@1~0/turn.0")
    assert "None of the ways that were tried leads to an answer" in said and "judged the best" not in said
    assert result.outcome == "failure" and result["way"]["found"] is False and "what is left is" in result["checked"]["why"]


def test_the_arithmetic_of_an_answer_is_checked() -> None:
    verify = runpy.run_path(str(CLASSICS / "game24.py"))["verify"]
    for steps, why in (
            (["10 - 4 = 6 (left: 5 6 6)", "5 * 6 = 30 (left: 6 30)", "30 - 6 = 24 (left: 24)"], ""),
            (["10 - 4 = 6", "5 * 6 = 30", "30 - 6 = 24"], ""),
            (["10 - 4 = 5 (left: 5 5 6)"], "step 1, `10 - 4 = 5 (left: 5 5 6)`: it is 6"),
            (["4 * 6 = 24 (left: 24)"], "step 1, `4 * 6 = 24 (left: 24)`: what is left is 5 10 24"),
            (["4 * 4 = 16"], "step 1, `4 * 4 = 16`: 4 is not left"), (["4 * 6 = 24"], "what is left is 5 10 24"),
            (["six times four"], "step 1, `six times four`: it is not written like `4 + 5 = 9 (left: 6 9 10)`")):
        assert verify("4 5 6 10", {"steps": steps, "found": True}) == {"ok": not why, "why": why}


async def test_a_debate_is_judged_by_reasons_and_its_hint_does_not_contradict_it() -> None:
    def debater(request: ModelRequest) -> Any:
        if request.key.endswith("/choice"):
            return {"why": "the first step of 2 is wrong", "best": 1}
        return {"reasoning": request.role, "number": ["first", "second", "third"].index(request.role)}

    model = Asked(debater)
    result = await run(CLASSICS / "debate.yaml", question="How many?", model=model, workspace=None)
    assert result.ok and result["answer"]["number"] == 0
    judged = model.requests["settle@1~0/judge/choice"]
    assert list((judged.schema or {})["properties"]) == ["why", "best"]
    assert "Reason first: go through the answers one by one" in told(judged)
    hinted = [model.said(key) for key in model.requests if "agreeing on an answer failed 2 times" in model.said(key)]
    assert len(hinted) == 3
    for said in hinted:
        assert "keep your answer where it stands" in said and "the first step at which the answers differ" in said
        assert "Do something else" not in said and "don't repeat it" not in said


def planner(request: ModelRequest) -> Any:
    """Makes two tasks of each result, as many as it may, and keeps their order."""
    said = told(request)
    if "/do/" in request.key:
        return {"ok": True, "result": f"=== end === of {re.search(r'<part>.(.*?).</part>', said, re.DOTALL)[1]}"}      # type: ignore[index]
    if request.key.endswith("/order"):
        return {"order": [int(number) for number in re.findall(r"(?m)^- (\d+): ", said)]}
    if request.key.endswith("/create"):
        room = int(re.search(r"(\d+)\s+at most", said)[1])                                              # type: ignore[index]
        return {"tasks": [f"{request.key.partition('/')[2].split('/')[0]} {letter}" for letter in "ab"[:room]]}
    return "=== file: work/report.md ===\nall of it\n=== end ===\n"


async def test_a_queue_says_how_many_tasks_are_left_and_its_results_survive_and_are_gone_on_with(tmp_path: Path) -> None:
    model = Asked(planner)
    result = await run(CLASSICS / "babyagi.yaml", objective="a cake", model=model, workspace=tmp_path, name="first")
    assert result.ok and result["work"]["work/report.md"] == "all of it\n"
    last, order = model.said("pursue@1~0/queue.4/create"), model.said("pursue@1~0/queue.4/order")
    assert "1 more task is done" in last and "1 at most" in last and "Waiting are" in last
    assert "Only the first 1 of them can still be done" in order
    assert "small tasks, 6 at most. You do this one only, which is number 5" in model.said("pursue@1~0/queue.4/do/turn.0")
    assert "Of all of them together 6 are done" in model.said("pursue@1~0/queue/create")
    tasks = result["work"]["work/tasks.md"]
    assert re.findall(r"(?m)^(\d)\. queue", tasks) == ["1", "2", "3", "4", "5", "6"] and "=== end === of queue.1 b" in tasks
    assert "Open:\n\n- queue" in tasks
    more = Asked(planner)
    result = await run(CLASSICS / "babyagi.yaml", objective="a cake", earlier=tmp_path / "first" / "work", model=more,
                       workspace=None)
    asked = more.said("pursue@1~0/queue/create")
    assert result.ok and "=== end === of queue.1 b" in asked and "Open:\n\n- queue" in asked
    assert "Begin with what it left open" in asked and "Make a list of what has to be known" not in asked


async def test_what_a_person_answered_reaches_the_steps_that_build_on_it() -> None:
    """The specification leaves it out; who writes the program reads it all the same, and not what was only assumed."""
    async def person(question: Any, number: int) -> Answer:
        return Answer(text="In Celsius, please.") if "scale" in question.text else Answer(text="five", assumed=True)

    def engineer(request: ModelRequest) -> Any:
        if request.step == "clarify":
            asks = [act("ask_person", question="Which scale?", assumption="Kelvin"),
                    act("ask_person", question="How many digits?", assumption="five")]
            return asks[len(results(request))] if len(results(request)) < 2 else {
                "name": "thermometer", "features": [], "assumed": [], "smoke": []}
        return "=== file: main.py ===\nprint(20)\n=== end ===\n"

    model = Asked(engineer)
    result = await run(CLASSICS / "gpt_engineer.yaml", wish="a thermometer", model=model, workspace=None, sandbox="none",
                       asker=person)
    said = model.requests["write@1~0/turn.0"].messages[-1]["content"]
    assert result.ok and "A person was asked by who made it: Which scale?\nThey answered: In Celsius, please.\n" in said
    assert "They answered: five" not in said
