"""Laws that the reference interpreter itself keeps; each rule that is switched off breaks one of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_sops import features, random_sop, random_sops
from reference import RULES, Activation, Expr, Fails, Firing, Foreach, Procedure, Reference, Step, play, to_sop
from tiers import examples

from metaflow_agents.prompts import MISSING, CollectionView, FilesView, evaluate
from metaflow_agents.schema.sop import SOP

SOPS, TIMINGS = 500, 4


# laws of every procedure --------------------------------------------------------------------------------------------------


def outcome(machine: Reference) -> tuple[Any, ...]:
    """All that must not depend on timing."""
    return ({f.record() for f in machine.log}, set(machine.activations), machine.artifacts, machine.never)


def broken_laws(procedure: Procedure, without: Collection[str] = (), timings: int = TIMINGS) -> set[str]:
    machines = [play(procedure, seed, without) for seed in range(timings)]
    broken = {law for machine in machines for law, holds in LAWS.items() if not holds(machine)}
    first, *others = machines
    for other in others:
        if (first.ended == "stopped") != (other.ended == "stopped"):
            broken.add("whether it stops depends on timing")
        elif not first.stopped_by and outcome(first) != outcome(other):
            broken.add("depends on timing")
        elif first.stopped_by and not agree(first, other):
            broken.add("what fired before the stop depends on timing")
    return broken


def agree(one: Reference, other: Reference) -> bool:
    """A stop may come sooner or later, but what fired in both read the same versions, and what was made is the same."""
    fired = {(f.step.name, f.round): f for f in one.log}
    pairs = [(fired[f.step.name, f.round], f) for f in other.log if (f.step.name, f.round) in fired]
    same = [a.read == b.read and list(a.items) == list(b.items) and a.dropped == b.dropped for a, b in pairs]
    made = [one.versions[a][:n] == other.versions[a][:n] for a in one.versions.keys() & other.versions
            for n in [min(one.version(a), other.version(a))]]
    return all(same) and all(made)


def no_deadlock(machine: Reference) -> bool:
    return machine.ended in ("quiet", "stopped")


def within_bounds(machine: Reference) -> bool:
    rounds = {s.name: s.rounds or 10**6 for s in machine.procedure.steps}
    bounds = machine.order.bounds
    return all(n <= min(rounds[name], bounds[name]) for name, n in machine.fired.items())


def reads_its_versions(machine: Reference) -> bool:
    def at(f: Firing, entry: str) -> Any:
        artifact, *path = entry.split(".")
        number = f.read[artifact]
        value = machine.versions[artifact][number - 1][0] if number else None
        return value.get(path[0]) if path and value is not None else value

    return all(value == at(f, entry) for f in machine.log for entry, value in f.reads.items())


def outside_a_loop_reads_the_last_word(machine: Reference) -> bool:
    alone = [f for f in machine.log if len(machine.order.loop[f.step.name]) == 1]
    return bool(machine.stopped_by) or all(
        number == machine.version(a) for f in alone for a, number in f.read.items() if a not in f.step.all_made)


def unchanged_items_are_reused(machine: Reference) -> bool:
    """An activation whose inputs, as far as they count, equal those of the firing before must not run."""
    last: dict[tuple[str, Any], tuple[Any, ...]] = {}
    for f in machine.log:
        if not f.step.foreach:
            continue
        counted = {e: f.reads[e] for e in f.step.needs + f.step.wants if e not in f.step.foreach.names}
        counted["revised"] = f.revised if f.step.makes in f.step.reads else None
        for key in f.results:
            inputs = (f.round, f.items[key], counted, f.prior(key))
            before = last.get((f.step.name, key))
            if before and (before[0] + 1, *before[1:]) == inputs and key not in f.reused:
                return False
            last[f.step.name, key] = inputs
    return True


def only_its_last_list_remains(machine: Reference) -> bool:
    """A collection of one author holds exactly the items of the last list that did not fail, in its order."""
    for s in machine.procedure.steps:
        firings = [f for f in machine.log if f.step is s]
        makers = [m for m in machine.procedure.steps if s.makes in m.all_made]
        if s.foreach and firings and len(makers) == 1 and s.makes not in s.reads and not machine.stopped_by:
            value, last = machine.value(s.makes), firings[-1]
            if machine.procedure.kind(s.makes) == "files":
                if s.pattern and {p.split("/")[1] for p in value["of"]} - set(last.results):
                    return False
            elif {k for k, _ in value["of"]} != set(last.results) or set(value["missing"]) != {*last.failed, *last.lost}:
                return False
            elif last.made and [k for k, _ in value["of"]] != [k for k in last.items if k in last.results]:
                return False
    return True


def items_wait_for_their_after(machine: Reference) -> bool:
    ran = {a: place for place, a in enumerate(machine.activations)}
    for f in machine.log:
        each = f.step.foreach
        if each is None or each.after is None:
            continue
        for key, item in f.items.items():
            waited = [k for k in each.after.of(item, f.reads) if k in f.items]
            if key in f.results and not set(waited) <= set(f.prior(key)):
                return False
            first, *before = [ran.get(Activation(f.step.name, f.round, k, 0)) for k in (key, *waited)]
            if first is not None and (any(k in f.failed for k in waited) or any((b or 0) > first for b in before)):
                return False
    return True


LAWS: dict[str, Callable[[Reference], bool]] = {law.__name__: law for law in (
    no_deadlock, within_bounds, reads_its_versions, outside_a_loop_reads_the_last_word, unchanged_items_are_reused,
    only_its_last_list_remains, items_wait_for_their_after)}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("start", range(0, SOPS, 100))
def test_random_procedures_keep_every_law(start: int) -> None:
    for seed in range(start, start + 100):
        assert not broken_laws(random_sop(seed)), f"seed {seed}"


@settings(max_examples=examples(60), deadline=None)
@given(random_sops(), st.randoms(use_true_random=False))
def test_what_runs_together_may_run_together(procedure: Procedure, clock: Any) -> None:
    machine = Reference(procedure)
    while machine.running:
        steps = [f.step for f in machine.firing.values()]
        for a in steps:
            assert not machine.order.leads[a.name] & {b.name for b in steps}, "a path leads from one to the other"
            assert not any(a.all_made & b.all_made for b in steps if b is not a), "both make the same artifact"
        for f in machine.firing.values():
            assert f.running, "a firing with nothing to do has committed"
            assert not f.step.foreach or not f.step.foreach.parallel or len(f.running) <= f.step.foreach.parallel
        machine.finish(clock.choice(list(machine.running)))
    assert machine.ended in ("quiet", "stopped")


def test_random_procedures_are_valid_and_written_as_yaml_would_be() -> None:
    for seed in range(200):
        procedure = random_sop(seed)
        assert procedure.order.faults() == []
        written = SOP.model_validate(to_sop(procedure))
        assert list(written.steps) == [s.name for s in procedure.steps]
        for s in procedure.steps:
            read = written.steps[s.name]
            assert (read.needs, read.wants, read.sees) == (s.needs, s.wants, s.sees)
            assert (read.rounds, read.retries) == (s.rounds, s.retries)
            assert (read.foreach and read.foreach.in_) == (s.foreach and s.foreach.in_.text)
            assert read.on_fail.artifact == s.caught


def test_the_same_seed_is_the_same_procedure() -> None:
    assert to_sop(random_sop(7)) == to_sop(random_sop(7)) != to_sop(random_sop(8))
    assert outcome(play(random_sop(7), 3)) == outcome(play(random_sop(7), 3))


@pytest.mark.one_in(4)
def test_random_procedures_reach_every_case() -> None:
    seen: dict[str, int] = {}
    for seed in range(200):
        for name in features(play(random_sop(seed), seed)):
            seen[name] = seen.get(name, 0) + 1
    assert len(seen) == 26
    assert {name: n for name, n in seen.items() if n < 2} == {}


# the two forms of an expression -------------------------------------------------------------------------------------------


def scope(reads: dict[str, Any]) -> dict[str, Any]:
    """What the engine's expressions see of these reads."""
    def view(value: Any) -> Any:
        if isinstance(value, dict) and "of" in value:
            of = value["of"]
            return FilesView.of(of, value["missing"]) if isinstance(of, dict) else CollectionView(dict(of), value["missing"])
        return MISSING if value is None else value

    parts = {e.partition(".")[0]: {e.partition(".")[2]: view(value)} for e, value in reads.items() if "." in e}
    return parts | {e: view(value) for e, value in reads.items() if "." not in e}


def compared(procedure: Procedure, seen: list[str]) -> Procedure:
    """The same, but each expression is evaluated in both forms, which must agree."""
    def both(expr: Any, as_: str | None, truth: bool = False) -> Any:
        def of(one: Any, other: Any) -> Any:
            names = {"round": other, **scope(one)} if as_ is None else {"item": one, as_: one, **scope(other)}
            here, there = expr.of(one, other), evaluate(expr.text, names)
            assert (bool(here) == bool(there) if truth else (here or 0) == (there or 0)), (expr.text, names, here, there)
            seen.append(expr.text)
            return here
        return Expr(expr.text, of) if isinstance(expr, Expr) else expr

    def walked(each: Foreach) -> Foreach:
        return replace(each, in_=both(each.in_, None), key=both(each.key, each.as_), after=both(each.after, each.as_),
                       where=both(each.where, each.as_, truth=True))

    steps = tuple(replace(s, when=both(s.when, None, truth=True), priority=both(s.priority, None),
                          foreach=s.foreach and walked(s.foreach)) for s in procedure.steps)
    return replace(procedure, steps=steps)


@pytest.mark.one_in(4)
def test_both_forms_of_every_expression_agree() -> None:
    seen: list[str] = []
    for seed in range(150):
        play(compared(random_sop(seed), seen), seed)
    assert len(set(seen)) > 100


# each rule matters ---------------------------------------------------------------------------------------------------------

BREAKS = {"7a": "depends on timing", "7b": "outside_a_loop_reads_the_last_word", "reuse": "unchanged_items_are_reused",
          "drop": "only_its_last_list_remains", "after": "items_wait_for_their_after"}


@pytest.mark.parametrize("rule", BREAKS)
def test_a_rule_taken_out_breaks_its_law(rule: str) -> None:
    assert any(BREAKS[rule] in broken_laws(random_sop(seed), without={rule}, timings=3) for seed in range(200))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rule", RULES)
def test_random_procedures_see_a_rule_taken_out(rule: str) -> None:
    """What the engine without the rule would do differs from the reference on enough of the random procedures."""
    seen = 0
    for seed in range(200):
        procedure = random_sop(seed)
        seen += outcome(play(procedure, seed)) != outcome(play(procedure, seed, {rule}))
        if seen == 5:
            return
    pytest.fail(f"only {seen} of 200 see it")


# the examples of the design ------------------------------------------------------------------------------------------------

Table = dict[str, Callable[..., Any]]


def by_hand(steps: list[Step], work: Table, kinds: dict[str, str] | None = None, **inputs: Any) -> Procedure:
    """A procedure whose steps work as the table says: name → function of what it is told (reads, item, key, …)."""
    def run(name: str, round_: int, reads: dict[str, Any], item: Any, key: str | None,
            prior: dict[str, Any], attempt: int) -> Any:
        told = {"round": round_, "reads": reads, "item": item, "key": key, "prior": prior, "attempt": attempt}
        return work[name](**told) if name in work else {"round": round_}
    return Procedure(tuple(steps), inputs, run, kinds or {})


def fires(machine: Reference) -> list[str]:
    return [f"{f.step.name}@{f.round}" for f in machine.log]


RED = Expr("not test_result.ok", lambda reads, round_: not reads["test_result"]["ok"])


def company(green_at: int) -> Procedure:
    return by_hand([
        Step("write_prd", "prd", ("idea",)), Step("design_system", "design", ("prd",)), Step("write_code", "source", ("design",)),
        Step("write_tests", "tests", ("prd", "design")), Step("run_tests", "test_result", ("source", "tests")),
        Step("fix_code", "source", ("test_result",), sees=("source", "tests", "design"), when=RED, rounds=4),
        Step("report", "qa_report", ("test_result",))],
        {"run_tests": lambda round, **told: {"ok": round >= green_at}}, idea="x")


@pytest.mark.parametrize(("green_at", "fixes"), [(1, 0), (3, 2), (99, 4)])
def test_company(green_at: int, fixes: int) -> None:
    assert broken_laws(company(green_at), timings=40) == set()
    machine = play(company(green_at), 0)
    loop = [word for n in range(1, fixes + 1) for word in (f"run_tests@{n}", f"fix_code@{n}")]
    assert sorted(fires(machine)[2:4]) == ["write_code@1", "write_tests@1"]
    assert fires(machine)[4:] == [*loop, f"run_tests@{fixes + 1}", "report@1"]
    assert machine.never == ({} if fixes else {"fix_code": "when"})


def triage_listed_first() -> Procedure:
    return by_hand([
        Step("triage", "faults", ("test_result", "contract"), when=RED), Step("run_tests", "test_result", ("source",)),
        Step("check_contract", "contract", ("source",)), Step("fix_code", "source", ("faults",), rounds=4),
        Step("write_code", "source", ("design",))],
        {"run_tests": lambda round, **told: {"ok": round >= 3}}, design=1)


def stale(without: Collection[str] = ()) -> bool:
    """Whether `triage` reads a contract that is older than the test result beside it."""
    logs = [play(triage_listed_first(), seed, without).log for seed in range(20)]
    return any(f.read["contract"] != f.read["test_result"] for log in logs for f in log if f.step.name == "triage")


def test_rule_7c_lets_triage_wait_for_the_contract() -> None:
    assert broken_laws(triage_listed_first(), timings=20) == set()
    assert not stale()
    assert stale(without={"7c"})


def test_priority_decides_who_starts_first_in_a_loop() -> None:
    """A fork inside a loop: both are ready, no path of rising rank joins them, yet they run one at a time."""
    high = Expr("(go or 0) + 5", lambda reads, round_: (reads["go"] or 0) + 5)

    def order(priority: int | Expr, without: Collection[str] = ()) -> list[str]:
        steps = [Step("open", "o", ("go",), ("d",), rounds=2), Step("low", "a", ("o",)),
                 Step("high", "b", ("o",), sees=("go",), priority=priority), Step("close", "d", ("a", "b"))]
        return [name for name in fires(play(by_hand(steps, {}, go=1), 0, without)) if name[:4] in ("low@", "high")]

    assert order(0) == order(-1) == order(9, {"priority"}) == ["low@1", "high@1", "low@2", "high@2"]
    assert order(9) == order(high) == ["high@1", "low@1", "high@2", "low@2"]


def test_a_stage_counts_from_the_earliest_maker_wherever_it_stands_in_the_file() -> None:
    steps = [Step("slow", "x", ("a",)), Step("first", "a", ("go",)), Step("then", "c", ("x",)), Step("quick", "x", ("go",))]
    for placed in (steps, steps[::-1], [steps[1], steps[0], *steps[2:]]):
        assert by_hand(placed, {}, go=1).order.stage == {"first": 1, "quick": 1, "slow": 2, "then": 2}


# items -------------------------------------------------------------------------------------------------------------------

WALK = Foreach(Expr("plan.rows", lambda reads, round_: reads["plan"]["rows"]), frozenset({"plan"}),
               Expr("item.id", lambda item, reads: item["id"]), Expr("item.after", lambda item, reads: item["after"]))


def rows(*written: str) -> dict[str, Any]:
    """`c2>a,b`: item c with v = 2, after a and b."""
    parts = [w.partition(">") for w in written]
    return {"rows": [{"id": head[0], "v": int(head[1:]), "after": after.split(",") if after else []} for head, _, after in parts]}


def walk(*lists: dict[str, Any], work: Callable[..., Any] = lambda item, **told: item["v"], kind: str = "collection",
         again: Step | None = None, **keys: Any) -> Procedure:
    """`each` walks over the lists, one after the other: `planner` writes the next as soon as it did."""
    steps = [Step("planner", "plan", ("go",), ("out",), rounds=len(lists)),
             Step("each", "out", needs=("plan",), foreach=keys.pop("foreach", WALK), **keys)]
    return by_hand(steps + ([again] if again else []), {"planner": lambda round, **told: lists[round - 1], "each": work},
                   {"out": kind, "bad": "failure"}, go=1)


def ran(machine: Reference, step: str = "each") -> list[str]:
    return [f"{a.round}{a.key}" + (f"~{a.attempt}" if a.attempt else "") for a in machine.activations if a.step == step]


def lists(machine: Reference) -> Iterator[tuple[str, str]]:
    """Each version of `out`: its items in order, and what is missing."""
    return ((" ".join(f"{k}{v}" for k, v in value["of"]), " ".join(value["missing"])) for value, _ in machine.versions["out"])


def test_unchanged_items_are_reused_changed_ones_run_and_vanished_ones_drop() -> None:
    machine = play(walk(rows("b1", "a1", "c1"), rows("a1", "c2", "d1"), rows("c2", "b1", "a1")), 0)
    assert ran(machine) == ["1b", "1a", "1c", "2c", "2d", "3b"]
    assert list(lists(machine)) == [("b1 a1 c1", ""), ("a1 c2 d1", ""), ("c2 b1 a1", "")]


def test_where_nothing_ran_or_was_dropped_there_is_no_version() -> None:
    machine = play(walk(rows("a1", "b1"), rows("b1", "a1"), rows("a5")), 0)
    assert [f.made for f in machine.log if f.step.name == "each"] == [{"out": 1}, {}]
    assert machine.fired["planner"] == 2, "without a new version nothing triggers the planner"
    assert list(lists(play(walk(rows()), 0))) == [("", "")], "an empty list makes an empty collection, once"


def test_a_changed_item_lets_those_after_it_run_again_only_if_it_made_something_else() -> None:
    work = lambda item, prior, **told: item["v"] // 10 + sum(prior.values())                      # noqa: E731
    first, same, other = (rows(f"a{v}", "b5>a", "c5>b") for v in (11, 12, 22))
    machine = play(walk(first, same, other, work=work), 0)
    assert ran(machine) == ["1a", "1b", "1c", "2a", "3a", "3b", "3c"]
    assert [set(f.reused) for f in machine.log if f.step.name == "each"] == [set(), {"b", "c"}, set()]


def test_other_needs_count_plain_sees_and_the_list_itself_do_not() -> None:
    def again(**reads: Any) -> list[str]:
        steps = [Step("planner", "plan", ("go",), ("out",), rounds=2), Step("each", "out", foreach=WALK, **reads)]
        work: Table = {"planner": lambda round, **told: rows("a1", f"b{round}") | {"n": round},
                       "each": lambda item, **told: item["v"]}
        return ran(play(by_hand(steps, work, {"out": "collection"}, go=1), 0))[2:]

    assert again(needs=("plan",)) == again(needs=("go", "plan")) == ["2b"]
    assert again(needs=("plan.n",), sees=("plan",)) == ["2a", "2b"], "a part counts, though `in` names its artifact"
    assert again(needs=("plan",), wants=("out",)) == ["2a", "2b"]
    assert again(needs=("plan",), sees=("out",)) == ["2a", "2b"], "what a reviser betters counts"
    assert again(needs=("plan",), sees=("go",)) == ["2b"]


def test_a_reviser_lays_over_the_latest_and_drops_nothing() -> None:
    machine = play(walk(rows("a1", "b1"), rows("c1", "b2"), sees=("out",)), 0)
    assert list(lists(machine)) == [("a1 b1", ""), ("a1 b2 c1", "")]


def test_a_failing_item_and_its_dependents_are_absent_and_listed() -> None:
    def work(item: Any, **told: Any) -> int:
        if item["v"] > 5:
            raise Fails(f"{item['id']} broke")
        return int(item["v"])

    plans = (rows("a1", "b1>a", "c1>b", "d1"), rows("c1>b", "b1>a", "a9", "d1", "e9"), rows("a1", "b1>a", "c1>b", "d1"))
    machine = play(walk(*plans, work=work, on_fail={"makes": "bad"}), 0)
    assert list(lists(machine)) == [("a1 b1 c1 d1", ""), ("d1", "c b a e"), ("a1 b1 c1 d1", "")]
    assert ran(machine) == ["1a", "1d", "1b", "1c", "2a", "2e", "3a", "3b", "3c"]
    told = [{"key": "a", "error": "a broke"}, {"key": "e", "error": "e broke"}]
    assert machine.artifacts["bad"] == (1, {"step": "each", "key": "a", "error": "a broke", "items": told})
    assert machine.log[3].made == {"out": 2, "bad": 1}

    assert "bad" not in play(walk(*plans, work=work, on_fail="skip"), 0).artifacts
    stopped = play(walk(*plans, work=work), 0)
    assert (stopped.ended, stopped.stopped_by, stopped.version("out")) == ("stopped", Activation("each", 2, "a", 0), 1)


def test_a_failed_item_runs_again_though_nothing_changed() -> None:
    def work(item: Any, round: int, **told: Any) -> int:
        if item["id"] == "b" and round == 1:
            raise Fails("not yet")
        return int(item["v"])

    plan = rows("a1", "b1", "c1>b")
    assert ran(play(walk(plan, plan, work=work, on_fail="skip"), 0)) == ["1a", "1b", "2b", "2c"]


def test_a_failing_item_of_a_reviser_leaves_what_was_there() -> None:
    def work(item: Any, **told: Any) -> int:
        if item["v"] > 5:
            raise Fails("broke")
        return int(item["v"])

    machine = play(walk(rows("a1", "b1"), rows("b9", "c9"), rows("b2"), work=work, on_fail="skip", sees=("out",)), 0)
    assert list(lists(machine)) == [("a1 b1", ""), ("a1 b1", "b c"), ("a1 b2", "c")]


def test_retries() -> None:
    def work(item: Any, attempt: int, **told: Any) -> int:
        if attempt < item["v"]:
            raise Fails("again")
        return attempt

    machine = play(walk(rows("a1", "b3", "c0"), work=work, retries=2, on_fail="skip", foreach=replace(WALK, parallel=1)), 0)
    assert ran(machine) == ["1a", "1a~1", "1b", "1b~1", "1b~2", "1c"]
    assert list(lists(machine)) == [("a1 c0", "b")]


def test_parallel_and_after_decide_which_items_run() -> None:
    machine = Reference(walk(rows("d1>b", "a1", "b1>a", "c1"), foreach=replace(WALK, parallel=2)))
    machine.finish(Activation("planner", 1, None, 0))
    for done, then in (("a", "c b"), ("b", "c d"), ("c", "d")):
        machine.finish(Activation("each", 1, done, 0))
        assert " ".join(str(a.key) for a in machine.running) == then


def test_where_picks_items_and_those_it_leaves_out_are_not_waited_for() -> None:
    chosen = replace(WALK, where=Expr("item.v > 0", lambda item, reads: item["v"] > 0))
    machine = play(walk(rows("a0", "b1>a", "c1"), rows("a1", "b1>a", "c0"), foreach=chosen,
                        work=lambda prior, **told: len(prior)), 0)
    assert list(lists(machine)) == [("b0 c0", ""), ("a0 b1", "")]


def test_text_items_are_their_own_keys() -> None:
    texts = Foreach(Expr("plan", lambda reads, round_: reads["plan"]), frozenset({"plan"}))
    assert ran(play(walk(["x", "y"], ["y", "z"], work=lambda item, **told: item, foreach=texts), 0)) == ["1x", "1y", "2z"]  # type: ignore[arg-type]


# files -------------------------------------------------------------------------------------------------------------------


def files(item: Any, **told: Any) -> dict[str, Any]:
    """Item a with v = 3 writes a/3 and common; a negative one would delete: v = 0 deletes a/3."""
    return {f"{item['id']}/3": None} if item["v"] == 0 else {f"{item['id']}/{item['v']}": "x", "common": item["id"]}


def trees(machine: Reference) -> list[str]:
    versions = [value["of"].items() for value, _ in machine.versions["out"]]
    return [" ".join(f"{p}={text}" if p == "common" else p for p, text in version) for version in versions]


def test_files_are_overlays_merged_in_the_order_of_the_list() -> None:
    for seed in range(4):
        machine = play(walk(rows("b3", "a3"), rows("b3", "a3", "c1"), rows("b0", "a4", "c1"), kind="files", work=files), seed)
        assert trees(machine) == ["a/3 b/3 common=a", "a/3 b/3 c/1 common=c", "a/3 a/4 c/1 common=a"]


def test_a_dropped_item_takes_every_file_with_it_that_it_wrote() -> None:
    machine = play(walk(rows("a1", "b1"), rows("a2", "b1"), rows("b1"), kind="files", work=files), 0)
    assert trees(machine) == ["a/1 b/1 common=b", "a/1 a/2 b/1 common=a", "b/1"]
    revised = play(walk(rows("a1", "b1"), rows("b2"), kind="files", work=files, sees=("out",)), 0)
    assert trees(revised)[-1] == "a/1 b/1 b/2 common=b"


# without foreach ---------------------------------------------------------------------------------------------------------


def failing(on_fail: Any, retries: int = 0, fails: int = 9) -> Reference:
    def work(attempt: int, **told: Any) -> int:
        if attempt < fails:
            raise Fails("no")
        return 1

    return play(by_hand([Step("try", "x", ("go",), on_fail=on_fail, retries=retries), Step("then", "y", ("x",)),
                         Step("mend", "z", ("bad",))], {"try": work}, {"bad": "failure"}, go=1), 0)


def test_a_step_that_fails() -> None:
    assert failing("stop").ended == "stopped"
    assert failing("skip").never == {"then": "needs x", "mend": "needs bad"}
    caught = failing({"makes": "bad"}, retries=1)
    assert len([a for a in caught.activations if a.step == "try"]) == 2
    assert caught.artifacts["bad"] == (1, {"step": "try", "key": "", "error": "no", "items": []})
    assert (caught.fired["mend"], caught.never) == (1, {"then": "needs x"})
    assert failing({"makes": "bad"}, retries=1, fails=1).never == {"mend": "needs bad"}
