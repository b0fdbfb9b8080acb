"""What `sop check` says of steps that never fire, loops that stand still, reads that come too late, and small budgets.

`tests/sops/bad` holds the messages. Here: what is near to each finding and is not one, and what the reference interpreter
says of the findings on random procedures.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from random_sops import random_sop
from reference import Expr, Procedure, Step, play, to_sop
from tiers import some

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts import MISSING, evaluate, never_holds, truthy
from metaflow_agents.sop.check import check

ROOT = Path(__file__).parent.parent
CODES = {"when-never", "loop-stands-still", "seen-too-late", "budget-exceeded"}
BEGINNING = """
sop: near
roles: {writer: {profile: You write.}}
inputs: {topic: string}
artifacts:
  draft: {}
  verdict: {schema: {good: boolean}}
  letter: {}
"""


def found(folder: Path, text: str) -> list[tuple[str, int, int]]:
    (folder / "near.yaml").write_text(text)
    report = check("near.yaml", start=folder)
    assert report.ok, report.errors
    return [(problem.code, problem.line, problem.column) for problem in report.problems if problem.code in CODES]


WRITE = "  write: {role: writer, needs: [topic], %s, makes: draft, %s}\n"
JUDGE = "  judge: {role: writer, needs: [draft], makes: verdict}\n"
FINISH = "  finish: {role: writer, needs: [draft], sees: [verdict], makes: letter}\n"
NEAR = {
    "it wants the verdict": WRITE % ("wants: [verdict]", "rounds: 3") + JUDGE,
    "when holds while the verdict is missing": WRITE % ("wants: [verdict]", "rounds: 3, when: not verdict.good") + JUDGE,
    "when holds in round 1": WRITE % ("wants: [verdict]", "rounds: 3, when: round == 1 or verdict and not verdict.good") + JUDGE,
    "outside of the loop it sees the last word": WRITE % ("wants: [verdict]", "rounds: 3") + JUDGE + FINISH,
    "it sees its own draft in its second round": WRITE % ("wants: [verdict], sees: [draft]", "rounds: 3") + JUDGE,
    "another step of the loop makes the verdict before": (
        WRITE % ("sees: [verdict]", "rounds: 1") + JUDGE + "  finish: {role: writer, needs: [draft], makes: letter}\n"
        + "  ask: {role: writer, needs: [topic], sees: [letter], makes: verdict}\n"),
    "it fires a second time, if not a third": (
        WRITE % ("wants: [verdict]", "rounds: 3") + "  ask: {role: writer, needs: [topic], sees: [draft], makes: verdict}\n"),
    "it goes round by another way": (WRITE % ("wants: [letter], sees: [verdict]", "rounds: 3") + JUDGE
                                     + "  finish: {role: writer, needs: [verdict], makes: letter}\n"),
}


@pytest.mark.parametrize("near", NEAR)
def test_what_is_near_is_not_told(near: str, tmp_path: Path) -> None:
    text = BEGINNING if "letter" in NEAR[near] else BEGINNING.replace("  letter: {}\n", "")
    assert found(tmp_path, text + "steps:\n" + NEAR[near]) == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("file", [file for folder in ("sops", "examples", "tests/sops/good") for file in sorted(
    (ROOT / folder).rglob("*.yaml")) if "steps:" in file.read_text(encoding="utf-8")], ids=lambda file: file.stem)
def test_no_working_sop_gets_one_of_these(file: Path) -> None:
    assert [str(problem) for problem in check(file.name, start=file.parent).problems if problem.code in CODES] == []


@pytest.mark.parametrize(("initial", "code"), [("", "seen-too-late"), ("initial: {good: true}", None)])
def test_a_first_value_is_there_in_time(initial: str, code: str | None, tmp_path: Path) -> None:
    text = BEGINNING.replace("{good: boolean}}", f"{{good: boolean}}, {initial}}}").replace("  letter: {}\n", "")
    told = found(tmp_path, text + "steps:\n" + WRITE % ("sees: [verdict]", "rounds: 1") + JUDGE)
    assert [one[0] for one in told] == ([code] if code else [])


def test_a_constant_when_is_told_once_and_what_waits_for_it_is_not(tmp_path: Path) -> None:
    steps = ("  write: {role: writer, needs: [topic], makes: draft, when: false}\n"
             "  finish: {role: writer, needs: [topic], sees: [draft], makes: letter, when: draft}\n")
    assert found(tmp_path, BEGINNING.replace("  verdict: {schema: {good: boolean}}\n", "") + "steps:\n" + steps) == []


def test_bounds_follow_a_loop_that_stands_still_to_its_end(tmp_path: Path) -> None:
    """`judge` stands first in the file, so that `write` is not known to fire once when it is looked at first."""
    (tmp_path / "near.yaml").write_text(BEGINNING.replace("  letter: {}\n", "") + "steps:\n"
                                        + JUDGE.replace("makes", "rounds: 4, makes") + WRITE % ("sees: [verdict]", "rounds: 3"))
    report = check("near.yaml", start=tmp_path)
    assert report.bounds is not None
    assert {name: step.firings for name, step in report.bounds.steps.items()} == {"judge": 1, "write": 1}
    assert [problem.code for problem in report.problems] == ["loop-stands-still"]


@pytest.mark.parametrize(("cap", "told"), [(5, True), (6, False)])
def test_a_budget_may_be_a_twentieth_of_the_bound(cap: int, told: bool, tmp_path: Path) -> None:
    """60 firings of each of two steps are 120 first answers."""
    text = BEGINNING.replace("  letter: {}\n", "") + f"budget: {{calls: {cap}}}\nsteps:\n"
    codes = [code for code, _, _ in found(tmp_path, text + WRITE % ("wants: [verdict]", "rounds: 60") + JUDGE)]
    assert codes == (["budget-exceeded"] if told else [])


def test_tools_and_repairs_do_not_count_against_a_budget(tmp_path: Path) -> None:
    text = BEGINNING.replace("You write.", "You write., tools: [read]").replace("  verdict: {schema: {good: boolean}}\n", "")
    steps = ("steps:\n  write: {role: writer, needs: [topic], makes: draft}\n"
             "  finish: {role: writer, needs: [draft], makes: letter}\n")
    (tmp_path / "near.yaml").write_text(text + steps)
    bounds = check("near.yaml", start=tmp_path).bounds
    assert bounds is not None and bounds.calls is not None and bounds.calls > 20 * 4
    assert found(tmp_path, text + "budget: {calls: 4}\n" + steps) == []


# --- against the reference interpreter

def doubtful(seed: int) -> Procedure:
    """A random procedure in which more steps depend on what may be missing: by `when`, and by what they only see."""
    procedure, r = random_sop(seed), random.Random(seed)

    def changed(step: Step) -> Step:
        made = [other.makes for other in procedure.steps]
        if r.random() < 0.3 and step.wants:
            step = replace(step, wants=step.wants[1:], sees=tuple(dict.fromkeys((*step.sees, step.wants[0]))))
        kind = r.choice(made)
        if r.random() < 0.3 and not step.foreach and kind not in step.reads:
            step = replace(step, sees=(*step.sees, kind), rounds=step.rounds or r.choice([1, 2, 3]))
        entries = [entry for entry in step.wants + step.sees if "." not in entry]
        if entries and r.random() < 0.5:
            artifact = r.choice(entries)
            expression = r.choice([
                Expr(artifact, lambda reads, round_: reads[artifact] not in (None, {}, [])),
                Expr("round > 1", lambda reads, round_: round_ > 1),
                Expr(f"{artifact} is defined", lambda reads, round_: reads[artifact] is not None),
                Expr(f"round > 1 or {artifact} is defined", lambda reads, round_: round_ > 1 or reads[artifact] is not None)])
            step = replace(step, when=expression)
        return step

    return replace(procedure, steps=tuple(changed(step) for step in procedure.steps))


@pytest.mark.slow
def test_on_random_procedures_each_finding_is_true(tmp_path: Path) -> None:
    """What is said never to fire never does; what is said always to be missing is missing in each firing; a loop that is said
    to stand still does. Each code is said often enough to mean something."""
    counts = dict.fromkeys(CODES - {"budget-exceeded"}, 0)
    for seed in some(range(3000)):
        procedure = doubtful(seed)
        if procedure.order.faults():
            continue
        file = tmp_path / "it.yaml"
        file.write_text(yaml.safe_dump(to_sop(procedure), sort_keys=False))
        told = [problem for problem in check("it.yaml", start=tmp_path).problems if problem.code in counts]
        if not told:
            continue
        plays = [play(procedure, timing) for timing in range(4)]
        for problem in told:
            counts[problem.code] += 1
            for played in plays:
                assert not refuted(problem.code, problem.message, played), f"seed {seed}: {problem}"
    assert min(counts.values()) >= 3, counts


def refuted(code: str, message: str, played: Any) -> bool:
    words = message.split("`")[1::2]
    if code == "when-never":
        return any(firing.step.name == words[0] for firing in played.log)
    if code == "seen-too-late":
        artifact, step = words[0], words[1]
        return any(firing.step.name == step and firing.read[artifact] for firing in played.log)
    step = words[-2]
    return sum(firing.step.name == step for firing in played.log) > 1


NAMES = ("gone", "lost", "there", "other")


def drawn(r: random.Random, depth: int = 3) -> str:
    if depth == 0 or r.random() < 0.2:
        name = r.choice(NAMES)
        return r.choice([name, f"{name}.good", f"{name} is defined", f"{name} | length > 0", f"{name} == 'x'", f"{name} != 'x'",
                         f"round > {r.randrange(3)}", f"round == {r.randrange(3)}", f"{name}['a'] == 1", "1 < 2", "'a' == 'b'"])
    one, two = drawn(r, depth - 1), drawn(r, depth - 1)
    return r.choice([f"not ({one})", f"({one}) and ({two})", f"({one}) or ({two})"])


@pytest.mark.one_in(8, always=False)
def test_what_never_holds_is_false_for_all_values() -> None:
    values: list[Any] = [MISSING, "", "x", {"good": True, "a": 1}, {"good": False}, [1], []]
    said = 0
    for seed in range(2000):
        r = random.Random(seed)
        text = drawn(r)
        if never_holds(text, {"round": 1, "gone": MISSING, "lost": MISSING}):
            said += 1
            for there in values:
                for other in values:
                    scope = {"round": 1, "gone": MISSING, "lost": MISSING, "there": there, "other": other}
                    try:
                        assert not truthy(evaluate(text, scope)), text
                    except ExpressionError:
                        pass                              # it fails, and fires nothing
    assert said > 300


@pytest.mark.parametrize("text", ["gone <", "gone < 1", "there", "not gone", "history('gone')", "gone | default(true)",
                                  "round < 2"])
def test_what_may_hold_or_fail_or_can_not_be_read_is_left_open(text: str) -> None:
    assert not never_holds(text, {"round": 1, "gone": MISSING})
