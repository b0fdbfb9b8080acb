"""Plan and execute: the graph of a plan, what is wrong with one, how it is done, planned anew, stopped and gone on with."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, write
from stopping import stopped_everywhere
from test_agent_web import site

from metaflow_agents import check, resume, run
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.schema.event import Asked, Failed, Observed

REPORT = """
    sop: planned
    inputs: {wish: string}
    roles: {planner: {profile: You plan.}, hand: {profile: You do.}}
    artifacts: {report: {schema: {said: [string]}}}
    steps:
      make: {role: planner, needs: [wish], makes: report, strategy: {plan_and_execute: {PARAMETERS}}}
"""


def task(name: str, *needs: str, value: float = 1, effort: float = 1, **more: Any) -> dict[str, Any]:
    """A task that makes `NAME.out`."""
    return {"name": name, "does": f"do {name}", "needs": [f"{one}.out" for one in needs], "makes": [f"{name}.out"],
            "value": value, "effort": effort, **more}


DIAMOND = [task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c")]


def results_in(text: str) -> dict[str, str]:
    """What a prompt shows of results."""
    return {name: said.strip() for name, said in re.findall(r'<result name="([^"]+)">\n(.*?)\n</result>', text, re.DOTALL)}


def named(key: str) -> str:
    """The task that a call belongs to; empty for plans and the answer."""
    return key.partition("/task.")[2].partition("/turn")[0]


class Desk(Scripted):
    """Gives the plans one after the other (or by a function of the prompt), and does a task by setting together what its prompt
    shows: `d(b(a),c(a))`. `fails`: the tasks that it says it can't do.
    """

    def __init__(self, *plans: Any, fails: Mapping[str, str] | None = None, together: int = 1) -> None:
        super().__init__(make=self.answer)
        self.plans, self.fails, self.running, self.most = plans, dict(fails or {}), set[str](), 0
        self.together, self.gathered = together, asyncio.Event()

    async def answer(self, request: ModelRequest) -> Any:
        asked = str(request.messages[-1]["content"])
        name = named(request.key)
        if name:
            return await self.worked(name, asked)
        if "/plan." in request.key:
            plan = self.plans[int(request.key.partition("/plan.")[2][0])]
            return {"tasks": plan(request) if callable(plan) else plan}
        return {"said": [*results_in(asked).values()]}

    async def worked(self, name: str, asked: str) -> Any:
        self.running.add(name)
        self.most = max(self.most, len(self.running))
        if len(self.running) >= self.together:
            self.gathered.set()
        if name.startswith("b"):                # held until as many as are expected are under way
            async with asyncio.timeout(20):
                await self.gathered.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        self.running.remove(name)
        if name in self.fails:
            return {"ok": False, "why": self.fails[name], "results": {f"{name}.out": ""}}
        given = ",".join(results_in(asked).values())
        return {"ok": True, "why": "", "results": {f"{name}.out": f"{name}({given})" if given else name}}

    @property
    def begun(self) -> list[str]:
        """The tasks, in the order in which they were asked for."""
        return [named(key) for key in self.keys if named(key) and key.endswith("/turn.0")]


async def made(folder: Path, model: Any, parameters: str = "", sop: str = REPORT) -> Any:
    path = write(folder, sop.replace("PARAMETERS", parameters))
    return await run(path, wish="x", model=model, workspace=folder / "w", name="r")


def place(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


async def test_tasks_are_given_the_results_that_they_need_and_the_answer_all_of_them(tmp_path: Path) -> None:
    desk = Desk(DIAMOND)
    result = await made(tmp_path, desk)
    assert result["report"] == {"said": ["a", "b(a)", "c(a)", "d(b(a),c(a))"]}
    assert desk.keys[0] == "make@1~0/plan.0" and desk.keys[-1] == "make@1~0/turn.0"
    assert desk.keys[1:-1] == [f"make@1~0/plan.0/task.{name}/turn.0" for name in "abcd"]
    assert results_in(desk.last_said("make@1~0/plan.0/task.c/turn.0")) == {"a.out": "a"}, "and not what else is done"


async def test_what_is_ready_is_done_side_by_side_and_no_more_than_parallel(tmp_path: Path) -> None:
    plan = [task("a"), *(task(f"b{number}", "a") for number in range(5)), task("c", "b0")]
    for parallel, most in (("", 5), ("parallel: 2", 2), ("parallel: 1", 1)):
        desk = Desk(plan, together=most)
        result = await made(place(tmp_path, str(most)), desk, parallel)
        assert desk.most == most and len(result["report"]["said"]) == 7


async def test_a_task_starts_as_soon_as_what_it_needs_is_there_and_not_when_a_level_is_done(tmp_path: Path) -> None:
    """`slow` and `after` are not on one level of the graph; the slow one is held until the other is under way."""
    class Holding(Desk):
        async def worked(self, name: str, asked: str) -> Any:
            if name == "after":
                begun.set()
            async with asyncio.timeout(20):
                await (begun.wait() if name == "slow" else asyncio.sleep(0))
            return await super().worked(name, asked)

    begun = asyncio.Event()
    desk = Holding([task("slow"), task("quick"), task("after", "quick")])
    assert (await made(tmp_path, desk)).ok


@pytest.mark.parametrize(("plan", "order"), [
    ([task("a"), task("b"), task("c")], "abc"),
    ([task("a"), task("b", value=2), task("c", value=3)], "cba"),
    ([task("a", value=9, effort=9), task("b", value=4, effort=2), task("c", value=3, effort=1)], "cba"),
    ([task("a"), task("b", "a", value=9), task("c", value=2), task("d", "c", value=5)], "cdab"),
], ids=["as planned", "value", "value for effort", "what it lets follow does not count"])
async def test_where_they_compete_most_value_for_effort_is_first(plan: Any, order: str, tmp_path: Path) -> None:
    desk = Desk(plan)
    await made(tmp_path, desk, "parallel: 1")
    assert "".join(desk.begun) == order
    (noted,) = [event for event in events(tmp_path / "w", "r", Observed) if event.key.endswith("/tasks")]
    assert noted.key == "make@1~0/plan.0/tasks"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("plan", "told"), [
    ([task("a"), task("a", makes=["b.out"])], ["2 tasks are called `a`"]),
    ([task("a"), task("b", makes=["a.out"])], ["`a.out` is made by `a` and `b`"]),
    ([task("a", makes=["x", "x"])], ["`x` is made by `a` twice"]),
    ([task("first"), task("b", "frist")], ["`b` needs `frist.out`, which no task makes: did you mean `first.out`?"]),
    ([task("a", "b"), task("b", "a")], ["these wait for each other: `a` → `b` → `a`"]),
    ([task("a", "a")], ["these wait for each other: `a` → `a`"]),
    ([task("a", "b"), task("b", "a"), task("c", "d"), task("d", "c"), task("e", "x")],
     ["`a` → `b` → `a`", "`c` → `d` → `c`", "`e` needs `x.out`"]),
    ([task(f"t{number}") for number in range(7)], ["the plan has 7 tasks, and there may be 6"]),
    ([], ["tasks"]),
    ([task("a", makes=[])], ["makes"]),
    ([task("a", effort=0)], ["effort"]),
    ([task("a b")], ["name"]),
])
async def test_what_is_wrong_with_a_plan_is_told_its_planner_by_name(plan: Any, told: list[str], tmp_path: Path) -> None:
    desk = Desk(lambda request: DIAMOND if "/repair." in request.key else plan)
    result = await made(tmp_path, desk, "tasks: 6")
    assert result.ok and desk.keys[:2] == ["make@1~0/plan.0", "make@1~0/plan.0/repair.1"]
    said = desk.last_said("make@1~0/plan.0/repair.1")
    assert all(part in said for part in told), said


async def test_a_planner_that_mends_nothing_fails_the_attempt(tmp_path: Path) -> None:
    desk = Desk([task("a", "b"), task("b", "a")])
    result = await made(tmp_path, desk)
    (failed,) = events(tmp_path / "w", "r", Failed)
    assert not result.ok and "these wait for each other" in failed.error and desk.begun == []


async def test_a_failed_task_is_planned_anew_and_what_is_done_is_kept(tmp_path: Path) -> None:
    desk = Desk(DIAMOND, [task("c2", "a"), task("d", "b", "c2")], fails={"c": "no paper"})
    result = await made(tmp_path, desk)
    assert result["report"]["said"] == ["a", "b(a)", "c2(a)", "d(b(a),c2(a))"]
    assert desk.begun == ["a", "b", "c", "c2", "d"], "the failed one's dependant waits, the others are done, none twice"
    told = desk.last_said("make@1~0/plan.1")
    assert 'name="c" state="failed"' in told and "It failed: no paper" in told and 'name="d" state="not begun"' in told
    assert results_in(told) == {"a.out": "a", "b.out": "b(a)"}


async def test_a_new_plan_may_not_do_again_what_is_done(tmp_path: Path) -> None:
    def second(request: ModelRequest) -> Any:
        return [task("d", "b")] if "/repair." in request.key else [task("a"), task("e", makes=["b.out"])]

    desk = Desk(DIAMOND, second, fails={"c": "no paper"})
    assert (await made(tmp_path, desk)).ok
    told = desk.last_said("make@1~0/plan.1/repair.1")
    assert "`a` is done: leave it out" in told and "`b.out` is made by `b` and `e`" in told


@pytest.mark.parametrize(("parameters", "spent"), [("replans: 1", "`replans: 1`"), ("tasks: 2", "`tasks: 2`"),
                                                  ("replans: 0", "`replans: 0`")])
async def test_tasks_that_go_on_failing_fail_the_attempt(parameters: str, spent: str, tmp_path: Path) -> None:
    desk = Desk(*[[task("a")]] * 3, fails={"a": "no paper"})
    assert not (await made(tmp_path, desk, parameters)).ok
    (failed,) = events(tmp_path / "w", "r", Failed)
    assert failed.error == f"the plan was not carried out, and {spent} allows no other one: the task `a` failed: no paper"


async def test_a_task_whose_answer_is_never_in_form_failed(tmp_path: Path) -> None:
    class Muddled(Desk):
        async def worked(self, name: str, asked: str) -> Any:
            return "no json" if name == "a" else await super().worked(name, asked)

    desk = Muddled([task("a")], [task("b")])
    result = await made(tmp_path, desk)
    assert result["report"]["said"] == ["b"] and desk.begun == ["a", "b"]
    assert "/plan.0/task.a/turn.0/repair.2" in desk.keys[-4] and "It failed: " in desk.last_said("make@1~0/plan.1")


async def test_a_failed_task_says_why(tmp_path: Path) -> None:
    desk = Desk([task("a")], [task("b")], fails={"a": " "})
    assert (await made(tmp_path, desk)).ok
    assert "say in `why` what stood in the way" in desk.last_said("make@1~0/plan.0/task.a/turn.0/repair.1")


async def test_what_is_left_is_planned_anew_every_so_many_tasks(tmp_path: Path) -> None:
    """The tasks before a new plan are those of the sequence, whichever of them is ready first."""
    def left(request: ModelRequest) -> Any:
        told = str(request.messages[-1]["content"])
        waiting = re.findall(r'<task name="(\w+)" state="not begun"', told)
        return [one for one in DIAMOND if one["name"] in waiting]

    desk = Desk(DIAMOND, left, left)
    result = await made(tmp_path, desk, "every: 2")
    assert result["report"]["said"][-1] == "d(b(a),c(a))"
    assert [key.partition("~0/")[2] for key in desk.keys] == [
        "plan.0", "plan.0/task.a/turn.0", "plan.0/task.b/turn.0", "plan.1", "plan.1/task.c/turn.0", "plan.1/task.d/turn.0",
        "turn.0"]
    shorter = Desk(DIAMOND, [])
    result = await made(place(tmp_path, "shorter"), shorter, "every: 2")
    assert result["report"]["said"] == ["a", "b(a)"], "a planner that sees that nothing more is needed"


async def test_another_role_does_the_tasks(tmp_path: Path) -> None:
    desk = Desk(DIAMOND)
    await made(tmp_path, desk, "executor: hand")
    assert {request.role for request in desk.requests if named(request.key)} == {"hand"}
    assert {request.role for request in desk.requests if not named(request.key)} == {"planner"}
    assert "You do." in desk.said("make@1~0/plan.0/task.a/turn.0")


FILES = """
    sop: planned
    inputs: {wish: string}
    roles: {planner: {profile: You plan.}, hand: {profile: You do., tools: [write, read]}}
    artifacts: {code: {files: "src/**"}}
    steps:
      make: {role: planner, needs: [wish], makes: code, strategy: {plan_and_execute: {executor: hand}}}
"""


class Writer(Desk):
    """Each task reads the file `all`, which those before it wrote, and puts its name below; and writes one of its own."""

    def answer(self, request: ModelRequest) -> Any:
        name = named(request.key)
        if not name:
            return super().answer(request) if "/plan." in request.key else "=== file: src/last ===\nx\n=== end ===\n"
        turns = [message for message in request.messages if message["role"] == "tool"]
        if not turns:
            return Reply(text="", calls=(ToolCall("1", "read", {"path": "src/all"}),))
        if len(turns) == 1:
            seen = re.findall(r"(?m)\b[a-d]$", str(turns[0]["content"]))
            wrote = {"src/all": "".join(f"{one}\n" for one in [*seen, name]), f"src/{name}": name}
            return Reply(text="", calls=tuple(ToolCall(path, "write", {"path": path, "text": text})
                                              for path, text in wrote.items()))
        return {"ok": True, "why": "", "results": {f"{name}.out": name}}


async def test_a_task_has_the_files_of_those_that_it_builds_on_and_all_count(tmp_path: Path) -> None:
    desk = Writer([task("a"), task("b", "a"), task("c", "b")])
    result = await made(tmp_path, desk, sop=FILES)
    assert result.ok, result.reason
    assert {path: str(text).split() for path, text in result["code"].items()} == {
        "src/all": ["a", "b", "c"], "src/a": ["a"], "src/b": ["b"], "src/c": ["c"], "src/last": ["x"]}
    assert "changed these files" not in desk.last_said("make@1~0/turn.0")


async def test_files_that_were_changed_side_by_side_are_told(tmp_path: Path) -> None:
    desk = Writer(DIAMOND)
    result = await made(tmp_path, desk, sop=FILES)
    assert result["code"]["src/all"].split() == ["a", "c", "d"]
    assert {path.removeprefix("src/") for path in result["code"]} == {*"abcd", "all", "last"}
    told = "the last one's stand: src/all"
    assert told in desk.last_said("make@1~0/plan.0/task.d/turn.0") and told in desk.last_said("make@1~0/turn.0")
    assert told not in desk.last_said("make@1~0/plan.0/task.c/turn.0")


def test_parameters_are_checked_and_bound_the_calls(tmp_path: Path) -> None:
    report = check(write(tmp_path, REPORT.replace("PARAMETERS", "tasks: 4, every: 2, replans: 1")))
    assert report.ok and report.bounds is not None and report.bounds.calls == (1 + 1 + 2) * 3 + 4 * 3 + 1 + 2
    for wrong, told in (("tasks: 0", "at least 1"), ("executor: hnad", "did you mean `hand`"), ("every: 0", "at least 1"),
                        ("paralel: 2", "did you mean `parallel`"), ("prompts: {plann: x.j2}", "did you mean `plan`")):
        said = "\n".join(str(problem) for problem in check(write(tmp_path, REPORT.replace("PARAMETERS", wrong))).problems)
        assert told in said, (wrong, said)


async def test_a_dry_run_walks_through_it(tmp_path: Path) -> None:
    for sop in (REPORT, FILES):
        result = await made(place(tmp_path, str(len(sop))), "dry", "every: 2", sop)
        assert result.ok, result


async def test_no_prompt_depends_on_which_task_was_ready_first(tmp_path: Path) -> None:
    """Four tasks at once, one fails, the rest is planned anew: whatever the order in which they end, the same is asked."""
    plan = [*(task(name) for name in "abcd"), task("e", "a", "b"), task("f", "c", "d")]

    class Shuffled(Desk):
        async def worked(self, name: str, asked: str) -> Any:
            before = order[order.index(name) - 1] if name in order[1:] else ""
            async with asyncio.timeout(20):
                await (ended[before].wait() if before else asyncio.sleep(0))
            said = await super().worked(name, asked)
            ended.setdefault(name, asyncio.Event()).set()
            return said

    told = []
    for order in ("acd", "dca", "cad"):
        ended = {name: asyncio.Event() for name in order}
        desk = Shuffled(plan, [task("g"), task("e", "a", "g"), task("f", "c", "d")], fails={"b": "no paper"})
        assert (await made(place(tmp_path, order), desk, "every: 4")).ok
        told.append({request.key: request.messages for request in desk.requests})
    assert told[0] == told[1] == told[2] and "make@1~0/plan.1/task.f/turn.0" in told[0]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("parallel", [1, 4])
async def test_a_task_carries_the_label_of_what_it_read_and_of_nothing_else(tmp_path: Path, first: str, parallel: int) -> None:
    """Each fetches a page; `c` works from what `a` made. Whatever is done by then, a person is asked about `c` alone."""
    plan = [task("a", value=2 if first == "a" else 1), task("b", value=1.5), task("c", "a", value=0.1)]

    async def fetching(request: ModelRequest) -> Any:
        if named(request.key):
            if not any(message["role"] == "tool" for message in request.messages):
                address = f"http://127.0.0.1:{port}/{named(request.key)}"
                return Reply("", calls=(ToolCall("", "fetch", {"url": address}),))
            return {"ok": True, "why": "", "results": {f"{named(request.key)[0]}.out": "read"}}
        return {"tasks": plan} if "/plan." in request.key else {"said": []}

    async with site() as (port, heard):
        text = REPORT.replace("{profile: You plan.}", "{profile: You plan., tools: [fetch]}").replace(
            "roles:", f'policy: {{allow: ["fetch(http://127.0.0.1:{port}/*)"]}}\n    roles:')
        path = write(tmp_path, text.replace("PARAMETERS", f"parallel: {parallel}"))
        result = await run(path, wish="x", model=Scripted(make=fetching), workspace=tmp_path, name="r")
        assert result.outcome == "waiting" and len(heard) == 2
        assert [event.key for event in events(tmp_path, "r", Asked)] == ["make@1~0/plan.0/task.c/turn.0/tool.0/may"]
        result = await resume("r", model=Scripted(make=fetching), workspace=tmp_path)
        assert result.outcome == "waiting" and len(heard) == 2 and len(events(tmp_path, "r", Asked)) == 1


@pytest.mark.one_in(4)
async def test_a_run_that_is_stopped_at_any_call_goes_on_to_the_same(tmp_path: Path) -> None:
    """A plan that is mended, a task that fails, a new plan, three tasks at once: left at each call, taken up again."""
    path = write(tmp_path, REPORT.replace("PARAMETERS", "every: 3"))
    assert len((await stopped_everywhere(path, planner, tmp_path / "runs", wish="x")).keys) > 5


def planner() -> Desk:
    wrong = [task("a"), task("b", "A"), task("c", "a")]
    anew = [task("c2", "a"), task("e"), task("d", "b", "c2", "e")]
    return Desk(lambda request: DIAMOND if "/repair." in request.key else wrong, anew, fails={"c": "no paper"})
