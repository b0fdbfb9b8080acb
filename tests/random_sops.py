"""Random procedures for property tests: loops with rounds, several makers, revisers, items, failures, files.

`random_sop(seed)` is deterministic and gives only what `sop check` would accept: every cycle has a capped step, makers
of one artifact are joined by a path, every step has a stage. `random_sops()` is the hypothesis strategy over seeds.

    python tests/random_sops.py [count]      what there is in them: shares of procedures, played on one timing
"""

from __future__ import annotations

import json
import random
import sys
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import networkx as nx
from hypothesis import strategies as st
from reference import Expr, Fails, Foreach, Procedure, Reference, Step, play

KEYS = ("k0", "k1", "k2", "k3", "k4")


@dataclass(frozen=True)
class Habit:
    """How a step works. Failing is planned by the item's content: `fails` 3 breaks every third for good (0 none does), and
    `flaky` 2 lets every second content fail its first 2 attempts."""

    kind: str = "data"                      # of the artifact that it makes
    salt: int = 0
    counts_rounds: bool = False
    fails: int = 0
    flaky: int = 0
    folder: str = ""                        # where its files lie
    shared: bool = False                    # items also write one file in common
    spread: int = 4                         # how many different values an item may get: few let dependents be reused


def digest(*parts: Any) -> int:
    return zlib.crc32(json.dumps(parts, sort_keys=True).encode())


def rows(seed: int) -> list[dict[str, Any]]:
    """A list for foreach: some keys, in either order, `after` edges among them, small values. Changes gently with the seed."""
    order = KEYS if seed % 5 else KEYS[::-1]
    there = [k for i, k in enumerate(order) if digest(seed, i) % 4]
    edges = {k: [o for j, o in enumerate(KEYS[:i]) if o in there and digest(i, j) % 2] for i, k in enumerate(KEYS)}
    return [{"id": k, "after": edges[k], "v": max(0, digest(k, seed) % 6 - 3)} for k in there]


def data(h: int) -> dict[str, Any]:
    """The value of a data artifact: its number and its lists each change on their own."""
    return {"n": h % 7, "rows": rows(h // 7 % 9), "texts": [k for i, k in enumerate(KEYS) if (h >> 8) % 9 >> i % 4 & 1]}


@dataclass(frozen=True)
class RandomWork:
    """The work of all steps of a procedure, one plain deterministic function."""

    habits: dict[str, Habit] = field(default_factory=dict)

    def __call__(self, name: str, round_: int, reads: dict[str, Any], item: Any, key: str | None,
                 prior: dict[str, Any], attempt: int) -> Any:
        """Data: {n, rows, texts}; of a collection's item: {n}; of files: path → text, None to delete. Raises Fails."""
        habit = self.habits[name]
        h = digest(habit.salt, reads, item, prior, round_ if habit.counts_rounds else 0)
        whole = digest(habit.salt, item, round_) if key is not None else h
        if (habit.fails and whole % habit.fails == 0) or (habit.flaky > attempt and whole % 2):
            raise Fails(f"{name} fails on {key} at attempt {attempt}")
        if habit.kind == "data":
            return data(h)
        if habit.kind == "collection":
            return {"n": h % habit.spread}
        folder = f"{habit.folder}{key}/" if key is not None else habit.folder
        files: dict[str, Any] = {f"{folder}main": f"{name} {h % habit.spread}"}
        if h % 3 == 0:
            files[f"{folder}extra"] = f"{name} {h % 5}"
        elif h % 7 == 1:
            files[f"{folder}extra"] = None
        if habit.shared:
            files[f"{habit.folder}shared"] = f"{key} {h % habit.spread}"
        return files


class _Maker:
    """Draws one procedure. It may break a rule of `sop check`; then another is drawn."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.kinds: dict[str, str] = {}
        self.habits: dict[str, Habit] = {}
        self.initial: dict[str, Any] = {}

    def often(self, share: float) -> bool:
        return self.r.random() < share

    def draw(self) -> Procedure:
        r = self.r
        steps: list[Step] = []
        for i in range(r.randint(2, 8)):
            steps.append(self._first_reads(i, steps))
        steps = [self._more_reads(s, steps) for s in steps]
        steps = [self._failing(s, steps) for s in steps]
        steps = [self._told_of_failures(s) for s in steps]
        steps = [self._walks(s) if s.foreach else s for s in steps]
        steps = [self._conditions(s) for s in steps]
        if self.often(0.6):
            r.shuffle(steps)
        steps = self._capped(steps)
        given = {"start": data(r.randrange(10**6))}
        for s in steps:
            kind = self.kinds[s.makes]
            self.habits[s.name] = replace(self.habits.get(s.name, Habit()), kind=kind, salt=r.randrange(1000),
                                          counts_rounds=self.often(0.3), spread=r.choice([1, 2, 2, 7]), folder=f"{s.makes}/",
                                          shared=kind == "files" and bool(s.foreach) and s.pattern is None)
        return Procedure(tuple(steps), given, RandomWork(self.habits), self.kinds, self.initial)

    def _first_reads(self, i: int, before: list[Step]) -> Step:
        """What it needs of the steps before it, so that it has a stage; what it makes, its own or another's artifact."""
        r = self.r
        there = ["start", *dict.fromkeys(s.makes for s in before)]
        needs = list(dict.fromkeys(r.choice(there[-3:] if self.often(0.6) else there) for _ in range(r.randint(1, 2))))
        other = r.choice(before) if before and self.often(0.3) else None
        makes = other.makes if other else f"a{i}"
        kind = self.kinds.setdefault(makes, r.choices(["data", "collection", "files"], [6, 4, 2])[0])
        wants: list[str] = []
        if i and self.often(0.15):
            needs, wants = needs[1:], needs[:1]
        foreach = kind == "collection" or (kind == "files" and self.often(0.7))
        if kind == "data" and not other and self.often(0.08):
            self.initial[makes] = data(r.randrange(10**6))
        sees = [makes] if other and makes not in needs + wants and self.often(0.6) else []      # a reviser
        walk = Foreach(Expr("", lambda reads, round_: []), frozenset()) if foreach else None
        return Step(f"s{i}", makes, tuple(needs), tuple(wants), tuple(sees), foreach=walk)

    def _more_reads(self, s: Step, steps: list[Step]) -> Step:
        """Reads of any other step's artifact; those of later ones close loops."""
        r = self.r
        for _ in range(r.choice([0, 1, 1, 2])):
            a = r.choice(steps).makes
            if a in s.reads or (a == s.makes and self.often(0.8)):
                continue
            how = r.choices(["wants", "sees", "needs"], [7, 2, 4])[0]
            s = _reading(s, how, a)
        narrowed = [a for a in s.needs if self.kinds.get(a, "data") == "data"]
        if narrowed and self.often(0.2):
            a = r.choice(narrowed)
            s = replace(s, needs=tuple(f"{e}.n" if e == a else e for e in s.needs))
            s = _reading(s, "sees", a) if self.often(0.4) else s
        return s

    def _failing(self, s: Step, steps: list[Step]) -> Step:
        r = self.r
        if not self.often(0.4):
            return s
        retries = r.choice([0, 0, 1, 2])
        flaky = r.choice([0, 1, 2]) if retries else 0
        told = sorted(a for a, kind in self.kinds.items() if kind == "failure")
        caught = r.choice(told) if told and self.often(0.3) else f"f{s.name}"
        on_fail: Any = r.choices(["stop", "skip", {"makes": caught}], [2, 5, 5])[0]
        stays = on_fail != "stop" or self.often(0.5)
        if isinstance(on_fail, dict):
            self.kinds[caught] = "failure"
        self.habits[s.name] = Habit(fails=r.choice([3, 4, 6]) if stays else 0, flaky=flaky if stays else min(flaky, retries))
        return replace(s, retries=retries, on_fail=on_fail)

    def _told_of_failures(self, s: Step) -> Step:
        failures = sorted(a for a, kind in self.kinds.items() if kind == "failure")
        if not failures or not self.often(0.25):
            return s
        a, how = self.r.choice(failures), self.r.choices(["wants", "needs", "sees"], [6, 1, 2])[0]
        return _reading(s, how, a) if a not in s.reads else s

    def _walks(self, s: Step) -> Step:
        """`foreach` over rows or texts of a data artifact that it reads; mostly one that it needs."""
        r = self.r
        read = [e for e in s.needs + s.wants + s.sees if "." not in e and self.kinds.get(e, "data") == "data"]
        if not set(read) & set(s.needs) - {"start"}:
            others = [a for a, kind in sorted(self.kinds.items()) if kind == "data" and a != s.makes and a not in s.reads]
            a = r.choice(others) if others and self.often(0.6) else "start"
            if a not in read:
                s, read = _reading(s, "sees" if a in s.reads else "needs", a), [*read, a]
        over = next((e for e in s.needs if e in read and e != "start"), read[-1])
        part = "rows" if self.often(0.85) else "texts"
        text = f"{over}.{part}" if over in s.needs else f"{over}.{part} or []"
        in_ = Expr(text, lambda reads, round_: (reads[over] or {}).get(part))
        if self.often(0.6) and over in s.needs:                 # nothing else that would make every item run again
            others = [e for e in (*s.needs, *s.wants) if e != over]
            s = replace(s, needs=(over,), wants=(), sees=tuple(dict.fromkeys([*s.sees, *others])))
        as_ = r.choice(["item", "item", "row"])
        keyed = part == "rows"
        after = Expr(f"{as_}.after", lambda item, reads: item["after"]) if keyed and self.often(0.6) else None
        where = None
        if self.often(0.35):
            least = r.randint(0, 1)
            where = (Expr(f"{as_}.v >= {least}", lambda item, reads: item["v"] >= least) if keyed
                     else Expr(f"{as_} != 'k{least}'", lambda item, reads: item != f"k{least}"))
        walk = Foreach(in_, frozenset([over]), Expr(f"{as_}.id", lambda item, reads: item["id"]) if keyed else None, after, where,
                       r.choice([None, None, 1, 2]), as_)
        key = f"{as_}.id" if keyed else as_
        pattern = f"{{{{ {key} }}}}/**" if self.kinds[s.makes] == "files" and self.often(0.7) else None
        return replace(s, foreach=walk, pattern=f"{s.makes}/{pattern}" if pattern else None)

    def _conditions(self, s: Step) -> Step:
        r = self.r
        if self.often(0.3):
            s = replace(s, when=self._condition(s))
        if self.often(0.5):
            s = replace(s, priority=r.randint(-2, 2))
        numbers = [e for e in s.needs + s.wants + s.sees if "." not in e and self.kinds.get(e, "data") == "data"]
        if numbers and self.often(0.15):
            e = r.choice(numbers)
            s = replace(s, priority=Expr(f"({e}.n or 0) % 3", lambda reads, round_: ((reads[e] or {}).get("n") or 0) % 3))
        return s

    def _condition(self, s: Step) -> Expr:
        r, n, k = self.r, self.r.choice([2, 3, 4, 5]), self.r.randint(0, 1)
        e = r.choice(s.needs + s.wants + s.sees)
        kind = "part" if "." in e else self.kinds.get(e, "data")
        if self.often(0.15):
            return Expr(f"round != {k + 2} or {e}", lambda reads, round_: round_ != k + 2 or _holds(reads[e]))
        if kind == "part":
            return Expr(f"(not {e}) or {e} % {n} != {k}", lambda reads, round_: not reads[e] or reads[e] % n != k)
        if kind == "data" and self.often(0.7):
            return Expr(f"(not {e}) or {e}.n % {n} != {k}", lambda reads, round_: not reads[e] or reads[e]["n"] % n != k)
        if kind == "data":
            return Expr(f"{e} and {e}.n % {n} != {k}", lambda reads, round_: reads[e] and reads[e]["n"] % n != k)
        if kind == "failure":
            return Expr(f"(not {e}) or {e}.key != 'k{k}'", lambda reads, round_: not reads[e] or reads[e]["key"] != f"k{k}")
        if self.often(0.3):
            return Expr(f"(not {e}) or not {e}.missing", lambda reads, round_: not _holds(reads[e]) or not reads[e]["missing"])
        return Expr(f"(not {e}) or ({e} | length) % {n} != {k}",
                    lambda reads, round_: not _holds(reads[e]) or len(reads[e]["of"]) % n != k)

    def _capped(self, steps: list[Step]) -> list[Step]:
        """Gives `rounds` to steps until no cycle is without; a self-edge is no cycle."""
        r = self.r
        steps = [replace(s, rounds=r.randint(1, 4)) if self.often(0.1) else s for s in steps]
        graph = Procedure(tuple(steps), {"start": None}, RandomWork()).order.graph
        while True:
            open_ = graph.subgraph(s.name for s in steps if s.rounds is None)
            loops = [loop for loop in nx.strongly_connected_components(open_) if len(loop) > 1]
            if not loops:
                return steps
            chosen = r.choice(sorted(loops[0]))
            steps = [replace(s, rounds=r.choice([2, 3, 3, 4, 6])) if s.name == chosen else s for s in steps]


def _reading(s: Step, how: str, artifact: str) -> Step:
    """The step with one more entry under needs, wants or sees."""
    changed: Any = {how: (*getattr(s, how), artifact)}
    return replace(s, **changed)


def _holds(value: Any) -> bool:
    """Truth as the language has it: files and collections are true when they hold something."""
    return bool(value["of"]) if isinstance(value, dict) and "of" in value else bool(value)


def random_sop(seed: int) -> Procedure:
    """The procedure of this seed. Raises RuntimeError if nothing valid was drawn, which a test would show."""
    r = random.Random(seed)
    for _ in range(1000):
        procedure = _Maker(r).draw()
        if not procedure.order.faults():
            return procedure
    raise RuntimeError(f"seed {seed}: no valid procedure in 1000")


def random_sops() -> st.SearchStrategy[Procedure]:
    """The same as a strategy: what shrinks is the seed alone."""
    return st.integers(min_value=0, max_value=10**6).map(random_sop)


def features(machine: Reference) -> set[str]:
    """What a procedure has and what happened when it was played."""
    p, log = machine.procedure, machine.log
    loops = {loop for loop in p.order.loop.values() if len(loop) > 1}
    makers = Counter(a for s in p.steps for a in s.all_made)
    told = {
        "has a loop": bool(loops), "loop of 3 or more": any(len(loop) > 2 for loop in loops),
        "several makers": max(makers.values()) > 1, "a reviser": any(s.makes in s.reads for s in p.steps),
        "foreach": any(s.foreach for s in p.steps), "files": "files" in p.kinds.values(), "initial": bool(p.initial),
        "round 2 or more": any(f.round > 1 for f in log), "round 4 or more": any(f.round > 3 for f in log),
        "foreach in round 2": any(f.round > 1 and f.step.foreach for f in log),
        "reused": any(f.reused for f in log),
        "reused beside others that ran": any(f.reused and f.ran for f in log),
        "reused after what ran again": any(set(f.after[k]) - set(f.reused) for f in log for k in f.reused),
        "dropped": any(f.dropped for f in log),
        "came back": any(_came_back(log, f) for f in log),
        "prior": any(f.prior(k) for f in log for k in f.results), "failed": any(f.failed for f in log),
        "dependents lost": any(f.lost for f in log),
        "failure told": any(f.step.caught in f.made for f in log if f.step.caught),
        "retried": any(a.attempt for a in machine.activations),
        "failed, then worked": any(a.attempt and a.key in f.results for a in machine.activations
                                   for f in log if (f.step.name, f.round) == (a.step, a.round)),
        "stopped": machine.stopped_by is not None, "never fired": bool(machine.never),
        "no version": any(not f.made for f in log), "parallel limit": any(s.foreach and s.foreach.parallel for s in p.steps),
        "after what `where` left out": any(_left_out(f) for f in log),
    }
    return {name for name, holds in told.items() if holds}


def _came_back(log: list[Any], f: Any) -> bool:
    earlier = [e for e in log if e.step is f.step and e.round < f.round]
    return bool(f.step.foreach and earlier and {k for e in earlier[:-1] for k in e.items} & set(f.items) - set(earlier[-1].items))


def _left_out(f: Any) -> bool:
    each = f.step.foreach
    return bool(each and each.after and any(k not in f.items for i in f.items.values() for k in each.after.of(i, f.reads)))


def _main(count: int) -> None:
    started, seen, firings, ended = time.perf_counter(), Counter[str](), 0, Counter[str]()
    for seed in range(count):
        machine = play(random_sop(seed), seed)
        seen.update(features(machine))
        firings += len(machine.log)
        ended[str(machine.ended)] += 1
    lines = [f"{count} procedures in {time.perf_counter() - started:.1f} s, {firings / count:.1f} firings each, {dict(ended)}"]
    lines += [f"{100 * seen[name] / count:5.1f} %  {name}" for name in sorted(seen, key=lambda n: -seen[n])]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    _main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
