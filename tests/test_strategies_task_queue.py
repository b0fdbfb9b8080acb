"""The task queue: done, made, ordered anew; bounds; what an order of it loses or doubles; stopped and gone on with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, write
from stopping import stopped_everywhere

from metaflow_agents import check, run
from metaflow_agents.agent.strategies.task_queue import order_faults
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.schema.event import Observed

REPORT = """
    sop: queued
    inputs: {wish: string}
    roles: {lead: {profile: You lead.}, hand: {profile: You do., tools: [read, write]}}
    artifacts: {report: {schema: {said: [string]}}}
    steps:
      make: {role: lead, needs: [wish], makes: report, strategy: {task_queue: {PARAMETERS}}}
"""
FOLLOWS = {"": ["3 roof", "1 ground"], "1 ground": ["2 wall"], "2 wall": ["4 paint"]}
"""What follows from what. A task can be done once those with a lower number are."""


class Builder(Scripted):
    """Makes what follows of what its prompt shows as done; orders by the numbers in it; does a task if its prompt shows the
    result of the one before it. `follows`, `order`: other answers, of the prompt's text or its numbers.
    """

    def __init__(self, follows: Any = FOLLOWS, order: Any = None, late: tuple[str, ...] = ()) -> None:
        super().__init__(make=self.answer)
        self.follows, self.order, self.late = follows, order, late

    def answer(self, request: ModelRequest) -> Any:
        asked = "\n".join(str(message["content"]) for message in request.messages if message["role"] == "user")
        if "/create" in request.key:
            done = re.search(r"<(?:done|failed)>\n(.*)\n<result>", asked)
            told = self.follows[done[1] if done else ""] if not done or done[1] in self.follows else []
            return {"tasks": told(request) if callable(told) else told}
        if "/order" in request.key:
            waiting = [(int(number), task) for number, task in re.findall(r"(?m)^- (\d+): (.*)$", asked)]
            order = [number for number, _ in sorted(waiting, key=lambda one: one[1])]
            return {"order": self.order(order, request) if self.order else order}
        if "/do/" in request.key:
            (task,) = re.findall(r"<part>\n(.*)\n</part>", asked)
            known = re.findall(r"<result>\n(\d)", asked)
            before = str(int(task[0]) - 1)
            if task[0] == "1" or before in known:
                return {"ok": True, "result": f"{task[0]} stands"}
            return {"ok": False, "result": f"{before} is missing"}
        return {"said": re.findall(r"<(?:result|failed)>\n(.*)\n</", asked) + re.findall(r"(?m)^- (.*)$", asked)}


async def made(folder: Path, model: Any, parameters: str = "", sop: str = REPORT) -> Any:
    path = write(folder, sop.replace("PARAMETERS", parameters))
    result = await run(path, wish="x", model=model, workspace=folder / "w", name="r")
    assert result.ok, result.reason
    return result


def short(model: Scripted) -> list[str]:
    return [key.removeprefix("make@1~0/") for key in model.keys]


async def test_tasks_are_done_made_and_ordered_until_none_is_left(tmp_path: Path) -> None:
    model = Builder()
    result = await made(tmp_path, model)
    assert short(model) == [
        "queue/create", "queue.0/do/turn.0", "queue.0/create", "queue.1/do/turn.0", "queue.1/create", "queue.2/do/turn.0",
        "queue.2/create", "queue.3/do/turn.0", "queue.3/create", "turn.0"], "an order of one task is not asked for"
    assert result["report"]["said"] == ["2 is missing", "1 stands", "2 stands", "3 is missing"], "the first list is its author's"


SORTED = {**FOLLOWS, "": ["1 ground", "3 roof"]}


async def test_without_reprioritising_the_queue_is_done_as_it_was_made(tmp_path: Path) -> None:
    """Taken out, the roof comes before the wall, and can't be done."""
    (tmp_path / "fifo").mkdir()
    model, fifo = Builder(SORTED), Builder(SORTED)
    assert (await made(tmp_path, model))["report"]["said"] == ["1 stands", "2 stands", "3 stands", "4 stands"]
    result = await made(tmp_path / "fifo", fifo, "reprioritise: false")
    assert result["report"]["said"] == ["1 stands", "2 is missing", "2 stands", "3 is missing"]
    assert not any("/order" in key for key in fifo.keys)


async def test_a_task_sees_the_results_of_those_before_it_and_what_is_made_sees_the_queue(tmp_path: Path) -> None:
    model = Builder(SORTED)
    await made(tmp_path, model)
    assert re.findall(r"<result>\n(.*)\n", model.last_said("make@1~0/queue.2/do/turn.0")) == ["1 stands", "2 stands"]
    told = model.last_said("make@1~0/queue.1/create")
    assert "Done before it:\n\n- 1 ground\n" in told and "Waiting in the queue:\n\n- 3 roof\n" in told and "8 at most" in told


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("order", "told", "kept"), [
    (lambda numbers: numbers[:-1], "task 2 is missing, and would be lost: `3 roof`", [3, 2]),
    (lambda numbers: [*numbers, numbers[0]], "task 3 stands there 2 times: `2 wall`", [3, 2]),
    (lambda numbers: [*numbers, 9], "there is no task 9 in the queue: there are 2, 3", [3, 2]),
    (lambda numbers: [], "task 3 is missing, and would be lost: `2 wall`", [2, 3]),
], ids=["dropped", "doubled", "made up", "all dropped"])
async def test_what_an_order_loses_or_doubles_is_told_and_else_kept(order: Any, told: str, kept: list[int],
                                                                    tmp_path: Path) -> None:
    mends = Builder(SORTED, order=lambda numbers, request: numbers if "/repair." in request.key else order(numbers))
    assert (await made(tmp_path, mends))["report"]["said"][-1] == "4 stands"
    assert told in mends.last_said("make@1~0/queue.0/order/repair.1")
    assert not any(event.key.endswith("/kept") for event in events(tmp_path / "w", "r", Observed))
    (tmp_path / "never").mkdir()
    never = Builder(SORTED, order=lambda numbers, request: order(numbers))
    result = await made(tmp_path / "never", never)
    assert len(result["report"]["said"]) == 4, "no task is lost, and none is done twice"
    assert "/order/repair.2" in "".join(never.keys)
    noted = [event for event in events(tmp_path / "never" / "w", "r", Observed) if event.key.endswith("queue.0/kept")]
    assert len(noted) == 1
    part = re.search(r"<part>\n(.*)\n", never.last_said("make@1~0/queue.1/do/turn.0"))
    assert part is not None and part[1] == {2: "3 roof", 3: "2 wall"}[kept[0]]


def test_faults_of_an_order_name_each_task() -> None:
    assert order_faults([2, 1], {1: "a", 2: "b"}) == []
    assert order_faults([1, 1, 7], {1: "a", 2: "b"}) == [
        "task 2 is missing, and would be lost: `b`", "task 1 stands there 2 times: `a`",
        "there is no task 7 in the queue: there are 1, 2"]


async def test_tasks_that_are_done_or_waiting_already_are_told_and_never_done_twice(tmp_path: Path) -> None:
    again = ["2 wall", "2  Wall.", "1 ground", "3 ROOF"]
    follows = {**SORTED, "1 ground": lambda request: ["2 wall"] if "/repair." in request.key else again}
    model = Builder(follows)
    assert (await made(tmp_path, model))["report"]["said"] == ["1 stands", "2 stands", "3 stands", "4 stands"]
    told = model.last_said("make@1~0/queue.0/create/repair.1")
    assert "`1 ground` is done already: leave it out" in told and "`3 ROOF` is in the queue already" in told
    assert "`2 wall` stands in the list more than once" in told
    (tmp_path / "never").mkdir()
    result = await made(tmp_path / "never", Builder({**SORTED, "1 ground": again}))
    assert result["report"]["said"] == ["1 stands", "2 stands", "3 stands", "4 stands"]
    assert any(event.key.endswith("queue.0/created") for event in events(tmp_path / "never" / "w", "r", Observed))


async def test_the_queue_is_bounded_and_what_it_does_not_take_is_told(tmp_path: Path) -> None:
    many = {"": ["1 ground", "2 wall", "3 roof", "4 paint"]}
    model = Builder({"": lambda request: many[""][:2] if "/repair." in request.key else many[""]})
    assert (await made(tmp_path, model, "queue: 2"))["report"]["said"] == ["1 stands", "2 stands"]
    assert "these are 4 tasks, and there is room for 2" in model.last_said("make@1~0/queue/create/repair.1")
    (tmp_path / "never").mkdir()
    never = Builder(many)
    result = await made(tmp_path / "never", never, "queue: 2")
    assert result["report"]["said"] == ["1 stands", "2 stands", "3 roof", "4 paint"], "the answer is told what was left out"
    assert any(event.key.endswith("queue/created") for event in events(tmp_path / "never" / "w", "r", Observed))


async def test_a_full_queue_takes_no_more_and_that_is_noted(tmp_path: Path) -> None:
    follows = {"": ["1 ground", "2 wall"], "1 ground": ["9 x"], "2 wall": ["3 roof"]}
    model = Builder({**follows, "1 ground": ["5 x", "6 y", "7 z"]}, order=lambda numbers, _: numbers)
    await made(tmp_path, model, "queue: 2, tasks: 3")
    assert "1 at most" in model.last_said("make@1~0/queue.0/create")
    assert len([event for event in events(tmp_path / "w", "r", Observed) if event.key.endswith("/created")]) == 1


async def test_the_bound_on_tasks_ends_it_and_the_answer_is_told_what_is_left(tmp_path: Path) -> None:
    model = Builder(SORTED)
    result = await made(tmp_path, model, "tasks: 2")
    assert result["report"]["said"] == ["1 stands", "2 stands", "3 roof"]
    assert short(model)[-2:] == ["queue.1/do/turn.0", "turn.0"], "nothing is made or ordered that nobody would do"


async def test_a_task_that_fails_is_told_on(tmp_path: Path) -> None:
    model = Builder({"": ["2 wall"], "2 wall": ["1 ground"]})
    result = await made(tmp_path, model)
    assert "tried, and failed" in model.last_said("make@1~0/queue.0/create")
    assert result["report"]["said"] == ["1 is missing", "1 stands"] and "<failed>" in model.last_said("make@1~0/turn.0")


async def test_another_role_does_the_tasks_and_its_files_count(tmp_path: Path) -> None:
    class Writer(Builder):
        def answer(self, request: ModelRequest) -> Any:
            said = super().answer(request) if "/turn.1" not in request.key else {"ok": True, "result": "1"}
            if "/do/turn.0" in request.key:
                path = f"src/{len(self.keys)}"
                return Reply(text="", calls=(ToolCall("1", "write", {"path": path, "text": "x"}),))
            return said if "said" not in said else "=== file: src/last ===\nx\n=== end ===\n"

    model = Writer(SORTED)
    sop = REPORT.replace("{schema: {said: [string]}}", '{files: "src/**"}')
    result = await made(tmp_path, model, "executor: hand", sop)
    assert {request.role for request in model.requests if "/do/" in request.key} == {"hand"}
    assert {request.role for request in model.requests if "/do/" not in request.key} == {"lead"}
    assert len(result["report"]) == 5, "a file of each of the four tasks, and that of the answer"


def test_parameters_are_checked_and_bound_the_calls(tmp_path: Path) -> None:
    for parameters, calls in (("tasks: 4", 3 + 4 * 3 + 3 * 6), ("tasks: 4, reprioritise: false", 3 + 4 * 3 + 3 * 3)):
        report = check(write(tmp_path, REPORT.replace("PARAMETERS", parameters)))
        assert report.ok and report.bounds is not None and report.bounds.calls == calls + 1 + 2
    for wrong, told in (("tasks: 0", "at least 1"), ("executor: hnad", "did you mean `hand`"), ("queue: 0", "at least 1"),
                        ("prompts: {creat: x.j2}", "did you mean `create`")):
        said = "\n".join(str(problem) for problem in check(write(tmp_path, REPORT.replace("PARAMETERS", wrong))).problems)
        assert told in said, (wrong, said)


async def test_a_dry_run_walks_through_it(tmp_path: Path) -> None:
    assert (await made(tmp_path, "dry", "executor: hand")).ok


@pytest.mark.one_in(8)
async def test_a_run_that_is_stopped_at_any_call_goes_on_to_the_same(tmp_path: Path) -> None:
    """With an order that is mended, a task that comes twice, and one that fails."""
    def model() -> Builder:
        follows = {**SORTED, "1 ground": ["2 wall", "3 roof", "6 attic"]}
        return Builder(follows, order=lambda numbers, request: numbers if "/repair." in request.key else numbers[1:])

    path = write(tmp_path, REPORT.replace("PARAMETERS", "tasks: 5"))
    assert len((await stopped_everywhere(path, model, tmp_path / "runs", wish="x")).keys) > 5
