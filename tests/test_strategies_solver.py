"""LLM+P: translated, solved, carried out, mended; on PlanBench, and on PDDL that is broken on purpose.

Most tests have a stand-in for the planner, which knows the plans of some problems and looks whether they hold in what it is
given: it takes no time and needs nothing installed. Those that ask Fast Downward say so.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sandboxes import needs_bubblewrap
from scripted import Scripted, events, write
from stopping import stopped_everywhere

from benchmarks.papers.corrupted import DOMAIN, KINDS, PROBLEM, Kind, base_of
from benchmarks.papers.solver import DOMAINS, SOP, Careless, planbench, repaired, story, translated
from metaflow_agents import check, resume, run, start
from metaflow_agents.errors import UsageError
from metaflow_agents.kits.planning import solving
from metaflow_agents.kits.planning.domains import read_domain
from metaflow_agents.kits.planning.executing import execute
from metaflow_agents.kits.planning.problems import read_problem
from metaflow_agents.sandbox.port import Completed
from metaflow_agents.sandbox.unconfined import Unconfined
from metaflow_agents.schema.event import Observed

DATA = os.environ.get("SOP_TEST_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA does not name a folder with public data")
needs_planner = pytest.mark.skipif(bool(solving.missing()), reason=solving.missing())
SWITCH = """(define (domain switches)
(:predicates (lamp ?l) (lit ?l))
(:action press :parameters (?l) :precondition (and (lamp ?l) (not (lit ?l))) :effect (lit ?l)))"""
LAMPS = """(define (problem lamps) (:domain switches)
(:objects a b)
(:init (lamp a) (lamp b))
(:goal (and (lit a) (lit b))))"""
PLANS = {
    "switches": "(press a)\n(press b)",
    "blocksworld-4ops": "(unstack b c)\n(put-down b)\n(pick-up c)\n(stack c b)",
    "logistics-strips": "(fly-airplane a1 l0-0 l1-0)\n(load-airplane p0 a1 l1-0)\n(fly-airplane a1 l1-0 l0-0)\n"
                        "(unload-airplane p0 a1 l0-0)",
    "depots": "(drive truck1 depot2 distributor0)\n(lift hoist1 crate2 crate0 depot1)\n(lift hoist2 crate1 pallet2 depot2)\n"
              "(load hoist2 crate1 truck0 depot2)\n(drive truck0 depot2 depot1)\n(drive truck0 depot1 distributor0)\n"
              "(unload hoist3 crate1 truck0 distributor0)\n(drop hoist3 crate1 pallet3 distributor0)\n"
              "(drive truck1 distributor0 depot1)\n(load hoist1 crate2 truck1 depot1)\n(lift hoist1 crate0 pallet1 depot1)\n"
              "(load hoist1 crate0 truck1 depot1)\n(unload hoist1 crate2 truck1 depot1)\n(drive truck1 depot1 distributor0)\n"
              "(unload hoist3 crate0 truck1 distributor0)\n(drop hoist1 crate2 pallet1 depot1)\n"
              "(drop hoist3 crate0 crate1 distributor0)",
}


class Planner:
    """Stands in for the sandbox and the planner in it: what it says, how often it was asked, and with what."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], dict[str, str], float]] = []
        self.says: Callable[[dict[str, str]], Any] = known_plan

    async def run(self, argv: Any, *, files: Any, timeout: float, collect: Any) -> Completed:  # noqa: ASYNC109
        texts = {name: data.decode() for name, data in files.items()}
        self.asked.append((tuple(argv), texts, timeout))
        said = self.says(texts)
        if asyncio.iscoroutine(said):
            said = await said
        if isinstance(said, Completed):
            return said
        assert collect == ("outcome.json",)
        return Completed(0, "", "", 0.1, files={"outcome.json": json.dumps(said).encode()})


def known_plan(texts: dict[str, str]) -> dict[str, str]:
    """The plan that is known for the domain, if it holds in the problem that is given."""
    domain, _ = read_domain(texts[DOMAIN], DOMAIN)
    assert domain is not None
    problem, _ = read_problem(texts[PROBLEM], PROBLEM, domain)
    assert problem is not None
    plan = PLANS[domain.name]
    held = execute(domain, problem, plan).ok
    return {"status": "solved" if held else "unsolvable", "plan": plan if held else "", "told": ""}


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> Planner:
    made = Planner()
    monkeypatch.setattr(Unconfined, "run", lambda self, argv, **given: made.run(argv, **given))
    monkeypatch.setattr(solving, "missing", lambda: "")
    return made


def answer(request: Any, problem: str = LAMPS) -> Any:
    """A model that writes both texts, and then tells the plan of its prompt."""
    told = request.messages[-1]["content"]
    if request.key.endswith("/turn.0"):
        return {"steps": re.findall(r"^\(.*\)$", told.partition("\nThe plan, ")[2], re.M)}
    asked = [name for name in (DOMAIN, PROBLEM) if f"=== file: {name} ===" in told or "/mend." in request.key]
    return "\n".join(f"=== file: {name} ===\n{ {DOMAIN: SWITCH, PROBLEM: problem}[name] }\n=== end ===" for name in asked)


async def went(folder: Path, model: Any, parameters: str = "", rules: str = "", told: str = "Light both lamps.",
               **options: Any) -> Any:
    path = write(folder, SOP.replace("PARAMETERS", parameters))
    return await run(path, rules=rules, story=told, model=model, **{"workspace": None, "sandbox": "none", **options})


async def test_what_is_translated_is_solved_and_answered(tmp_path: Path, planner: Planner) -> None:
    model = Scripted(plan_it=answer)
    result = await went(tmp_path, model)
    assert result.ok and result["done"] == {"steps": ["(press a)", "(press b)"]}
    assert model.keys == ["plan_it@1~0/translate", "plan_it@1~0/turn.0"] and len(planner.asked) == 1
    assert "no costs, no durations" in model.last_said("plan_it@1~0/translate")


async def test_a_domain_that_is_given_is_told_and_not_asked_for(tmp_path: Path, planner: Planner) -> None:
    model = Scripted(plan_it=answer)
    assert (await went(tmp_path, model, "domain: rules", rules=SWITCH))["done"]["steps"] == ["(press a)", "(press b)"]
    said = model.last_said("plan_it@1~0/translate")
    assert SWITCH in said and "=== file: domain.pddl ===" not in said
    other = Scripted(plan_it=lambda request: f"=== file: domain.pddl ===\n{SWITCH}\n=== end ===")
    result = await went(tmp_path, other, "domain: rules, repairs: 0", rules=SWITCH)
    assert not result.ok and "path `domain.pddl` is outside of what this step makes" in result.reason


async def test_a_given_domain_that_is_wrong_fails_before_a_model_is_asked(tmp_path: Path, planner: Planner) -> None:
    model = Scripted(plan_it=answer)
    result = await went(tmp_path, model, "domain: rules", rules=SWITCH.replace("(lit ?l)))", "(litt ?l)))"))
    assert not model.keys and "found `litt`, which is no predicate of the domain; did you mean `lit`?" in result.reason, result


@pytest.mark.parametrize(("says", "told"), [
    ({"status": "unsolvable", "plan": "", "told": ""}, "it can try, and no plan reaches the goal"),
    ({"status": "refused", "plan": "", "told": "UPException: odd"}, "the solver can't read it: UPException: odd"),
    ({"status": "memory", "plan": "", "told": ""}, "no plan in the time and memory"),
    (Completed(-9, "", "", 2.0, timed_out=True), "the solver found no plan within 7 seconds"),
    (Completed(-9, "", "it took more than 2,048 MB of memory", 2.0), "no plan in the memory that it may take"),
    ({"status": "solved", "plan": "(press a)", "told": ""}, "the solver's plan does not hold: plan:2:1: found the end of"),
    ({"status": "solved", "plan": "(press a)\n(press a)", "told": ""}, "its precondition `(not (lit a))` does not hold there"),
])
async def test_what_the_solver_says_goes_back_to_the_model(tmp_path: Path, planner: Planner, says: Any, told: str) -> None:
    """The second time it finds the plan: its first word was wrong, and the validator or the solver itself said so."""
    planner.says = lambda texts: says if len(planner.asked) == 1 else known_plan(texts)
    model = Scripted(plan_it=answer)
    result = await went(tmp_path, model, "time: 7s")
    assert result.ok and model.keys[1] == "plan_it@1~0/mend.1" and len(planner.asked) == 2
    assert told in model.last_said("plan_it@1~0/mend.1"), model.last_said("plan_it@1~0/mend.1")


async def test_a_solver_that_breaks_fails_the_attempt_and_no_model_is_blamed(tmp_path: Path, planner: Planner) -> None:
    planner.says = lambda texts: Completed(1, "", "Traceback: no module", 1.0)
    model = Scripted(plan_it=answer)
    result = await went(tmp_path, model)
    assert not result.ok and "the solver ended with exit code 1" in result.reason and model.keys == ["plan_it@1~0/translate"]


async def test_repairs_are_bounded_and_the_last_faults_are_told(tmp_path: Path, planner: Planner) -> None:
    model = Scripted(plan_it=lambda request: answer(request, LAMPS.replace("lit b", "lti b")))
    result = await went(tmp_path, model, "repairs: 2")
    assert [key.rpartition("/")[2] for key in model.keys] == ["translate", "mend.1", "mend.2"]
    assert not result.ok and "problem.pddl:4:22: found `lti`, which is no predicate of the domain; did you mean `lit`?" \
        in result.reason
    assert "This is the last answer that can be taken" in model.last_said("plan_it@1~0/mend.2")
    assert "This is the last answer" not in model.last_said("plan_it@1~0/mend.1")


async def test_a_model_may_mend_by_an_edit(tmp_path: Path, planner: Planner) -> None:
    def editing(request: Any) -> Any:
        if "/mend." in request.key:
            return ("=== edit: problem.pddl ===\n<<<<<<< SEARCH\n(:goal (and (lit a) (lti b))))\n=======\n"
                    "(:goal (and (lit a) (lit b))))\n>>>>>>> REPLACE\n=== end ===")
        return answer(request, LAMPS.replace("lit b", "lti b"))
    model = Scripted(plan_it=editing)
    assert (await went(tmp_path, model)).ok and model.keys[1:2] == ["plan_it@1~0/mend.1"]


async def test_the_plan_of_the_answer_is_carried_out_too(tmp_path: Path, planner: Planner) -> None:
    """Without `plan` a model may garble the plan; with it, that goes back."""
    def garbling(request: Any) -> Any:
        if request.key.endswith("/turn.0"):
            return {"steps": ["(press b)", "(press b)"]}
        if request.key.endswith("/plan.1"):
            return {"steps": ["(press b)", "(press a)"]}
        return answer(request)
    assert (await went(tmp_path, Scripted(plan_it=garbling)))["done"]["steps"] == ["(press b)", "(press b)"]
    model = Scripted(plan_it=garbling)
    assert (await went(tmp_path, model, "plan: answer.steps"))["done"]["steps"] == ["(press b)", "(press a)"]
    assert "plan:2:1: found `(press b)` as action 2; its precondition `(not (lit b))` does not hold" \
        in model.last_said("plan_it@1~0/plan.1")
    result = await went(tmp_path, Scripted(plan_it=garbling), "plan: answer.steps, repairs: 0")
    assert not result.ok and "as action 2" in result.reason
    result = await went(tmp_path, Scripted(plan_it=answer), "plan: answer.steps | length, repairs: 0")
    assert not result.ok and "gave '2'; expected a plan" in result.reason


async def test_the_objects_of_the_answer_are_those_of_the_problem(tmp_path: Path, planner: Planner) -> None:
    """Whoever looks for objects in what is made of the plan has to know all of them."""
    def forgetful(request: Any) -> Any:
        if request.key.endswith("/turn.0"):
            return {"steps": ["a", "press"]}
        return {"steps": ["B", "a"]} if request.key.endswith("/plan.1") else answer(request)
    model = Scripted(plan_it=forgetful)
    assert (await went(tmp_path, model, "objects: answer.steps"))["done"]["steps"] == ["B", "a"]
    told = model.last_said("plan_it@1~0/plan.1")
    assert "the object `b` of the problem is missing" in told and "`press` is no object of the problem: leave it out" in told
    result = await went(tmp_path, Scripted(plan_it=forgetful), "objects: answer.steps | length, repairs: 0")
    assert not result.ok and "gave '2'; expected a list of objects' names" in result.reason


async def test_a_plan_may_become_files_one_for_each_item(tmp_path: Path, planner: Planner) -> None:
    path = write(tmp_path, """
        sop: lights
        inputs: {houses: [string]}
        roles: {planner: {profile: You plan.}}
        artifacts: {plans: {files: "plans/*"}}
        steps:
          plan_it:
            role: planner
            needs: [houses]
            foreach: {in: houses, as: house}
            makes: {plans: "plans/{{ house }}.txt"}
            strategy: {solver: {plan: "answer['plans/' ~ house ~ '.txt']"}}
    """)

    def model(request: Any) -> Any:
        if request.key.endswith("/turn.0"):
            house = request.key.partition("[")[2].partition("]")[0]
            plan = "\n".join(answer(request)["steps"]) if house == "hut" else "(press z)"
            return f"=== file: plans/{house}.txt ===\n{plan}\n=== end ==="
        if request.key.endswith("/plan.1"):
            return "=== file: plans/villa.txt ===\n(press b)\n(press a)\n=== end ==="
        return answer(request)
    asked = Scripted(plan_it=model)
    result = await run(path, inputs={"houses": ["hut", "villa"]}, model=asked, workspace=None, sandbox="none")
    assert result.ok and dict(result["plans"]) == {"plans/hut.txt": "(press a)\n(press b)\n",
                                                   "plans/villa.txt": "(press b)\n(press a)\n"}
    assert "found `z`, which is no object here" in asked.last_said("plan_it@1[villa]~0/plan.1")
    assert len(planner.asked) == 2


async def test_optimal_and_time_reach_the_solver(tmp_path: Path, planner: Planner) -> None:
    await went(tmp_path, Scripted(plan_it=answer))
    await went(tmp_path, Scripted(plan_it=answer), "optimal: true, time: 2m")
    (first, _, patience), (second, texts, longer) = planner.asked
    assert "fast-downward" in first and "fast-downward-opt" in second and (patience, longer) == (60.0, 120.0)
    assert texts[DOMAIN] == SWITCH + "\n" and texts[PROBLEM] == LAMPS + "\n" and "unified_planning" in texts["solve.py"]


async def test_prompts_are_the_sops_own(tmp_path: Path, planner: Planner) -> None:
    write(tmp_path, "", a_j2="Like this: {{ domain }} === file: problem.pddl ===", b_j2="Mend: {{ faults[0] }}, {{ left }} left",
          c_j2="{{ output_format }} {{ problem }}\nThe plan, as it is:\n{{ plan | join('\\n') }}")
    def wrong_at_first(request: Any) -> Any:
        problem = LAMPS if "/mend." in request.key else LAMPS.replace("lit b", "lti b")
        return answer(request, problem) if "/mend." not in request.key else f"=== file: {PROBLEM} ===\n{problem}\n=== end ==="
    model = Scripted(plan_it=wrong_at_first)
    result = await went(tmp_path, model, "domain: rules, prompts: {translate: a.j2, mend: b.j2, answer: c.j2}", rules=SWITCH)
    assert result.ok and result["done"]["steps"] == ["(press a)", "(press b)"]
    assert "Like this: (define (domain switches)" in model.last_said("plan_it@1~0/translate")
    assert model.last_said("plan_it@1~0/mend.1").startswith("Mend: problem.pddl:4:22: found `lti`")


async def test_a_dry_walk_needs_no_planner_and_no_pddl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "missing", lambda: "it is not installed: `pip install it`")
    result = await went(tmp_path, "dry", "domain: rules, plan: answer.steps", rules="no PDDL", sandbox=None)
    assert result.ok and result.calls == 2, result


async def test_what_is_not_installed_is_refused_before_a_model_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "WANTED", {"a-planner-that-is-not-there": (1, 0)})
    model = Scripted(plan_it=answer)
    told = "step `plan_it` thinks by the strategy `solver`, and a-planner-.* is not installed: `pip install 'metaflow-agents"
    with pytest.raises(UsageError, match=told):
        await went(tmp_path, model)
    assert not model.keys
    monkeypatch.setattr(solving, "WANTED", {"pydantic": (99, 0)})
    assert re.fullmatch(r"pydantic is 2\.\S+, and 99\.0 is needed: .*", solving.missing())


def test_parameters_are_checked_and_bound_the_calls(tmp_path: Path) -> None:
    def report(parameters: str) -> Any:
        return check(write(tmp_path, SOP.replace("PARAMETERS", parameters)))
    bounds = [report(parameters).bounds.calls for parameters in ("repairs: 4", "repairs: 4, plan: answer.steps", "")]
    assert bounds == [1 + 3 + 4, 1 + 3 + 4, 1 + 3 + 5], "three for the answer, with its repairs"
    for wrong, told in (("domain: ruels", "did you mean `rules`"), ("plan: answer.stpes", "did you mean `steps`"),
                        ("optimal: 1", "has to be true or false"), ("repairs: -1", "at least 0"),
                        ("time: soon", "not a duration"), ("plans: x", "did you mean `plan`"),
                        ("prompts: {solve: x.j2}", "there is no prompt `solve`")):
        told_ = "\n".join(map(str, report(wrong).problems))
        assert told in told_, (wrong, told_)


async def test_it_goes_on_from_every_call_and_no_search_is_made_twice(tmp_path: Path, planner: Planner) -> None:
    def mending(request: Any) -> Any:
        if request.key.endswith(("/turn.0", "/translate")):
            return {"steps": ["(press a)"]} if "turn.0" in request.key else answer(request, LAMPS.replace("lit b", "lti b"))
        return {"steps": ["(press a)", "(press b)"]} if "/plan." in request.key else answer(request)
    path = write(tmp_path, SOP.replace("PARAMETERS", "plan: answer.steps"))
    given = {"rules": "", "story": "Light."}
    whole = await stopped_everywhere(path, lambda: mending, tmp_path / "runs", inputs=given)
    keys = whole.keys
    assert [key.rpartition("/")[2] for key in keys] == ["translate", "mend.1", "turn.0", "plan.1"]
    assert len(planner.asked) == 1 + len(whole.stops), "one search a run, whether it was stopped before it or after it"


async def test_it_goes_on_from_the_middle_of_a_search(tmp_path: Path, planner: Planner) -> None:
    path, model = write(tmp_path, SOP.replace("PARAMETERS", "")), Scripted(plan_it=answer)
    given = {"rules": "", "story": "x"}
    async with start(path, model=model, workspace=tmp_path, name="left", sandbox="none", inputs=given) as going:
        async def stopped(texts: dict[str, str]) -> Any:
            going.stop()
            await asyncio.sleep(3600)
        planner.says = stopped
        assert (await going.result()).outcome == "interrupted"
    planner.says = known_plan
    result = await resume("left", model=model, workspace=tmp_path)
    assert result.ok and len(planner.asked) == 2 and model.keys == ["plan_it@1~0/translate", "plan_it@1~0/turn.0"]
    seen = [event.key.rpartition("/")[2] for event in events(tmp_path, "left", Observed)]
    assert seen == ["solve.0", "solved"]


@needs_data
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_broken_pddl_is_mended_by_what_it_is_told(kind: Kind, planner: Planner) -> None:
    steps, mends = await repaired(Path(DATA or ""), kind, sandbox="none")
    texts = base_of(Path(DATA or ""), kind)
    domain, _ = read_domain(texts[DOMAIN], DOMAIN)
    assert domain is not None
    problem, _ = read_problem(texts[PROBLEM], PROBLEM, domain)
    assert problem is not None and execute(domain, problem, "\n".join(steps)).ok, "it holds in what was broken"
    assert 1 <= mends <= 3


@needs_data
async def test_a_model_that_is_told_nothing_mends_nothing(tmp_path: Path, planner: Planner) -> None:
    assert len(KINDS) >= 30
    for kind in KINDS[::9]:
        model = Careless(kind, base_of(Path(DATA or ""), kind), deaf=True)
        result = await went(tmp_path, model, "repairs: 4")
        assert not result.ok and model.mends == 4, kind.name


@needs_data
def test_the_translator_reads_english_and_not_pddl() -> None:
    folder = Path(DATA or "") / "planbench" / "depots"
    told = story(folder, folder / "instance-1.pddl")
    assert "(" not in told and "In the end crate0 lies on crate1." in told
    domain, _ = read_domain((folder / "domain.pddl").read_text(), DOMAIN)
    assert domain is not None
    problem, faults = read_problem(translated(told), PROBLEM, domain)
    original, _ = read_problem((folder / "instance-1.pddl").read_text(), PROBLEM, domain)
    assert problem is not None and original is not None and not faults
    assert (problem.initial, problem.objects) == (original.initial, original.objects)


@pytest.mark.one_in(12, always=False)
@needs_data
@needs_planner
@needs_bubblewrap
@pytest.mark.parametrize("world", DOMAINS)
async def test_planbench_is_solved_in_the_sandbox(world: str) -> None:
    """The first of each world; all of them where tests that take minutes are asked for, and in the table of papers."""
    assert (await planbench(Path(DATA or ""), world, 1))[:2] == (1, 1)


@needs_data
@needs_planner
@needs_bubblewrap
@pytest.mark.slow
@pytest.mark.parametrize("world", DOMAINS)
async def test_all_of_planbench_is_solved(world: str) -> None:
    assert (await planbench(Path(DATA or ""), world))[:2] == (40, 40)


@pytest.mark.slow
@needs_planner
@needs_bubblewrap
async def test_the_planner_itself_finds_refuses_and_gives_up(tmp_path: Path) -> None:
    """Fast Downward in the sandbox: an optimal plan; a goal out of reach, which goes back; a search that takes too long."""
    trap = SWITCH.replace("(:action press", "(:action hold :parameters (?l) :effect (lamp ?l))\n(:action press")
    reachable = LAMPS.replace("(lamp b)", "")
    texts = {DOMAIN: trap, PROBLEM: reachable}

    def model(request: Any) -> Any:
        if request.key.endswith("/turn.0"):
            return answer(request)
        if "/mend." in request.key:
            texts[PROBLEM] = LAMPS
        return "\n".join(f"=== file: {name} ===\n{text}\n=== end ===" for name, text in texts.items())
    result = await went(tmp_path, model, "optimal: true, repairs: 0", sandbox=None)
    assert result.ok and len(result["done"]["steps"]) == 3
    texts |= {DOMAIN: SWITCH, PROBLEM: reachable}
    asked = Scripted(plan_it=model)
    assert (await went(tmp_path, asked, sandbox=None)).ok
    said = asked.last_said("plan_it@1~0/mend.1")
    assert "no plan reaches the goal" in said and "found `(lit b)` in the goal, which no order of actions can make true" in said
    texts |= {PROBLEM: LAMPS}
    result = await went(tmp_path, model, "time: 10ms, repairs: 0", sandbox=None)
    assert not result.ok and "no plan within 0.01 seconds" in result.reason
