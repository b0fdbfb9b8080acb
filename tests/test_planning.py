"""PDDL read, checked and carried out, by the validator alone: no planner is needed here."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.kits.planning.domains import read_domain
from metaflow_agents.kits.planning.executing import Outcome, execute
from metaflow_agents.kits.planning.model import Domain, PlanningProblem
from metaflow_agents.kits.planning.problems import read_problem
from metaflow_agents.kits.planning.reaching import unreachable

DATA = os.environ.get("SOP_TEST_DATA")
ROOMS = """(define (domain rooms)
  (:requirements :strips :typing :negative-preconditions :equality :conditional-effects :adl)
  (:types room thing - object key - thing)
  (:constants hall - room)
  (:predicates (here ?r - room) (in ?t - thing ?r - room) (held ?t - thing) (locked ?r - room) (dark))
  (:action go
    :parameters (?from ?to - room)
    :precondition (and (here ?from) (not (= ?from ?to)) (not (locked ?to)))
    :effect (and (not (here ?from)) (here ?to)
                 (forall (?t - thing) (when (held ?t) (and (not (in ?t ?from)) (in ?t ?to))))))
  (:action take
    :parameters (?t - thing ?r - room)
    :precondition (and (here ?r) (in ?t ?r) (imply (dark) (held ?t)))
    :effect (held ?t))
  (:action open
    :parameters (?r - room)
    :precondition (exists (?k - key) (held ?k))
    :effect (not (locked ?r)))
  (:action light :parameters () :precondition (or (dark) (here hall)) :effect (not (dark))))
"""
CELLAR = """(define (problem cellar) (:domain rooms)
  (:objects cellar attic - room lamp - thing brass - key)
  (:init (here hall) (in brass attic) (in lamp cellar) (locked cellar) (dark))
  (:goal (and (held lamp) (here hall) (in lamp hall) (not (dark)))))
"""
PLAN = """(light)
(go hall attic)
(take brass attic) ; the key
(open cellar)
(GO attic cellar)
(take lamp cellar)
(go cellar hall)
"""


def domain_of(text: str = ROOMS) -> Domain:
    domain, faults = read_domain(text, "domain.pddl")
    assert domain is not None and not faults, faults
    return domain


def problem_of(text: str = CELLAR, domain: str = ROOMS) -> PlanningProblem:
    problem, faults = read_problem(text, "problem.pddl", domain_of(domain))
    assert problem is not None and not faults, faults
    return problem


def done(plan: str, domain: str = ROOMS, problem: str = CELLAR) -> Outcome:
    return execute(domain_of(domain), problem_of(problem, domain), plan)


def faults_of(domain: str = ROOMS, problem: str | None = None) -> str:
    read, faults = read_domain(domain, "domain.pddl")
    if problem is not None:
        assert read is not None and not faults, faults
        faults = read_problem(problem, "problem.pddl", read)[1]
    return "\n".join(map(str, faults))


def test_a_plan_with_types_quantifiers_and_conditional_effects_is_carried_out() -> None:
    outcome = done(PLAN)
    assert outcome.ok, outcome.faults
    assert len(outcome.actions) == 7 and outcome.actions[4] == ("go", "attic", "cellar")
    assert {("in", "lamp", "hall"), ("in", "brass", "hall"), ("held", "lamp"), ("here", "hall")} <= outcome.state
    assert not any(atom[0] in ("dark", "locked") for atom in outcome.state)


@pytest.mark.parametrize(("line", "instead", "told"), [
    (0, "", "plan:2:1: found `(take brass attic)` as action 2; its precondition `(or (not (dark)) (held brass))` does not hold"),
    (3, "", "as action 4; its precondition `(not (locked cellar))` does not hold"),
    (1, "(go hall hall)", "its precondition `(not (= hall hall))` does not hold"),
    (1, "(go hall garden)", "plan:2:10: found `garden`, which is no object here"),
    (1, "(go hall lamp)", "plan:2:10: found `lamp` of type `thing`; expected one of type `room`; there is: `hall`, `cellar`"),
    (1, "(goo hall attic)", "plan:2:2: found `goo`, which is no action of the domain; did you mean `go`?"),
    (1, "(go attic)", "plan:2:1: found 1 arguments in `(go attic)`; expected 2: `(go ?from ?to)`"),
    (6, "", "found the end of the plan, and of the goal `(here hall)`, `(in lamp hall)` do not hold"),
    (2, "take brass attic", "plan:3:1: found `take brass attic` outside of parentheses"),
])
def test_what_a_plan_does_wrong_is_told_with_its_place(line: int, instead: str, told: str) -> None:
    lines = PLAN.splitlines()
    lines[line] = instead
    text = "\n".join(one for one in lines if one)
    assert told in "\n".join(map(str, done(text).faults)), done(text).faults


def test_what_is_deleted_and_added_at_once_is_there() -> None:
    domain = ("(define (domain d) (:predicates (p) (q)) (:action a :parameters () :precondition (p) "
              ":effect (and (p) (not (p)) (q))))")
    outcome = done("(a)", domain, "(define (problem x) (:domain d) (:init (p)) (:goal (and (p) (q))))")
    assert outcome.ok, outcome.faults


def test_effects_come_from_the_state_before() -> None:
    domain = ("(define (domain d) (:predicates (p) (q)) (:action swap :parameters () "
              ":effect (and (when (p) (and (not (p)) (q))) (when (q) (and (not (q)) (p))))))")
    assert done("(swap)", domain, "(define (problem x) (:domain d) (:init (p)) (:goal (and (q) (not (p)))))").ok


@pytest.mark.parametrize(("found", "instead", "told"), [
    ("(here hall) (in", "(hree hall) (in", ":3:11: found `hree`, which is no predicate of the domain; did you mean `here`?"),
    ("(in lamp cellar) (l", "(in lamp) (l", ":3:39: found 1 argument of `in` in `(in lamp)`; expected 2: `(in ?t ?r)`"),
    ("(in lamp cellar) (l", "(in cellar lamp) (l", ":3:43: found `cellar` of type `room`; expected one of type `thing`"),
    ("lamp - thing", "lamp - thingy", ":2:40: found `thingy`, which is no type of the domain; did you mean `thing`?"),
    ("(:goal", "(:gaol", ":4:4: found `:gaol`, which is no section here; did you mean `:goal`?"),
    ("(dark))\n", "(dark) (not (locked attic)))\n", "expected what is true alone: all else is false; leave it out"),
    ("(:init (here", "(:init (and (here", ":4:3: found `(:goal`, while `(:init` of 3:3 is still open; expected `)`"),
    ("(:domain rooms)", "(:domain romos)", ":1:35: found `romos`; expected the domain's name, `rooms`"),
    ("(:goal (and", "(:metric minimize (total-time)) (:goal (and", "found `(:metric`: numbers and costs are not understood here"),
    ("(not (dark)))))", "(not (dark))))) (ok)", "found `(ok)` after the end of `(define`"),
    ("(locked cellar)", "(locked cellär)", "found `cellär`; expected a name of letters, digits, `-` and `_`"),
])
def test_what_is_wrong_with_a_problem_is_told(found: str, instead: str, told: str) -> None:
    assert found in CELLAR
    assert told in faults_of(problem=CELLAR.replace(found, instead, 1)), faults_of(problem=CELLAR.replace(found, instead, 1))


@pytest.mark.parametrize(("found", "instead", "told"), [
    ("(:types", "(:durative-action x) (:types", "found `(:durative-action`: actions that last are not understood here"),
    ("(:types", "(:functions (cost)) (:types", "found `(:functions`: numbers and costs are not understood here"),
    (":adl)", ":fluents)", "found `:fluents`, which is not understood here; leave it out; expected one of: `:strips`"),
    (":adl)", ":adll)", "found `:adll`, which is no requirement; did you mean `:adl`?"),
    (":effect (held ?t)", ":effect (increase (cost) 1)", "numbers are not understood here; expected a predicate; leave it out"),
    ("?t - thing ?r - room)\n", "?t - thing ?r - (either room key))\n", "found `(either room key)`: a choice of types"),
    ("(:types room thing", "(:types room key - thing thing", "found `key` a second time"),
    ("key - thing)", "key - thing thing - key)", "found `thing` a second time"),
    (":effect (not (locked ?r))", "", "found no `:effect` in `(:action open`; expected one"),
    ("(held ?k)", "(held ?key)", "found `?key`, which is no variable here; did you mean `?k`?"),
])
def test_what_is_wrong_with_a_domain_is_told(found: str, instead: str, told: str) -> None:
    assert found in ROOMS
    assert told in faults_of(ROOMS.replace(found, instead, 1)), faults_of(ROOMS.replace(found, instead, 1))


def test_all_faults_are_told_at_once() -> None:
    wrong = CELLAR.replace("here hall", "hree hall", 1).replace("in lamp hall", "in lmap hall", 1)
    places = [line.partition(" ")[0] for line in faults_of(problem=wrong).splitlines()]
    assert places == ["problem.pddl:3:11:", "problem.pddl:4:43:"]


def test_why_a_goal_is_out_of_reach_is_told() -> None:
    domain = domain_of()
    text = CELLAR.replace("(in lamp cellar) ", "")
    told = "\n".join(map(str, unreachable(domain, problem_of(text), text, "problem.pddl")))
    assert told.startswith("problem.pddl:4:3: found `(held lamp)`, `(in lamp hall)` in the goal, which no order of actions")
    blocks = ("(define (domain d) (:predicates (free) (up ?x)) (:action lift :parameters (?x) :precondition (free) "
              ":effect (and (up ?x) (not (free)))) (:action drop :parameters (?x) :precondition (up ?x) :effect (free)))")
    text = "(define (problem p) (:domain d) (:objects a b) (:init (up b)) (:goal (up a)))"
    assert unreachable(domain_of(blocks), problem_of(text, blocks), text, "p") == [], "in reach: b is dropped first"
    text = text.replace("b) (:init (up b)", "b) (:init (down)")
    blocks = blocks.replace("(free) (up ?x))", "(free) (down) (up ?x))")
    (fault,) = unreachable(domain_of(blocks), problem_of(text, blocks), text, "p")
    assert "found no `(free)` in `(:init`" in str(fault) and str(fault).endswith("put `(free)` before it")
    assert unreachable(domain, problem_of(), CELLAR, "p") == []


@pytest.mark.slow
def test_what_takes_too_many_choices_is_refused() -> None:
    names = " ".join(f"o{number}" for number in range(130))
    domain = ("(define (domain d) (:constants o1) (:predicates (p ?x)) (:action a :parameters () "
              ":precondition (forall (?x ?y ?z) (or (p ?x) (not (p ?x)))) :effect (p o1)))")
    problem = f"(define (problem x) (:domain d) (:objects {names.replace('o1 ', '')}) (:init (p o2)) (:goal (p o1)))"
    assert "more than 2,000,000 choices" in str(done("(a)", domain, problem).faults[0])


@given(st.text(alphabet="()?:-; \nabdefino", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    domain, faults = read_domain(text, "d")
    assert domain is not None or faults
    problem, faults = read_problem(f"(define (problem p) {text}", "p", domain_of())
    assert problem is not None or faults


@given(st.data())
def test_a_broken_text_never_breaks_the_reader(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([ROOMS, CELLAR]))
    at = data.draw(st.integers(0, len(text) - 1))
    put = data.draw(st.sampled_from(["", "(", ")", ":", "?", " - ", "and", "(not "]))
    text = text[:at] + put + text[at + data.draw(st.integers(0, 3)):]
    domain, faults = read_domain(text, "d")
    problem, more = read_problem(text, "p", domain_of())
    assert (domain is not None or faults) and (problem is not None or more)


@pytest.mark.one_in(4)
@pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA does not name a folder with public data")
@pytest.mark.parametrize("world", ["blocksworld", "logistics", "depots"])
def test_every_problem_of_planbench_is_read_without_a_fault(world: str) -> None:
    folder = Path(DATA or "") / "planbench" / world
    rules = (folder / "domain.pddl").read_text()
    domain, faults = read_domain(rules, "domain.pddl")
    assert domain is not None and not faults
    instances = sorted(folder.glob("instance-*.pddl"))
    assert len(instances) == 40
    for instance in instances:
        problem, faults = read_problem(instance.read_text(), instance.name, domain)
        assert problem is not None and not faults, faults
        assert unreachable(domain, problem, instance.read_text(), instance.name) == []


@pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA does not name a folder with public data")
def test_the_validator_agrees_with_a_search_written_apart_from_it() -> None:
    """Every plan of two actions of a small world: which hold, by rules of blocks written down here by hand."""
    folder = Path(DATA or "") / "planbench" / "blocksworld"
    domain = domain_of((folder / "domain.pddl").read_text())
    text = ("(define (problem b) (:domain blocksworld-4ops) (:objects a b c) (:init (handempty) (ontable a) (ontable c) "
            "(on b a) (clear b) (clear c)) (:goal (and)))")
    problem = problem_of(text, (folder / "domain.pddl").read_text())
    steps = [f"({name} {one})" for name in ("pick-up", "put-down") for one in "abc"] \
        + [f"({name} {one} {two})" for name in ("stack", "unstack") for one in "abc" for two in "abc"]
    for plan in product(steps, repeat=2):
        assert execute(domain, problem, "\n".join(plan)).ok == _by_hand([["a", "b"], ["c"]], plan), plan


def _by_hand(piles: list[list[str]], plan: tuple[str, ...]) -> bool:
    """Whether a plan can be carried out on piles of blocks, each from the table upwards."""
    held = ""
    for step in plan:
        name, block, *below = step.strip("()").split()
        pile = next((one for one in piles if one and one[-1] == block), None)
        if name in ("pick-up", "unstack"):
            if held or pile is None or (len(pile) == 1) != (name == "pick-up") or (below and pile[-2] != below[0]):
                return False
            held = pile.pop()
        elif held != block:
            return False
        elif name == "put-down":
            piles, held = [*piles, [held]], ""
        else:
            target = next((one for one in piles if one and one[-1] == below[0]), None)
            if target is None:
                return False
            target.append(held)
            held = ""
    return True
