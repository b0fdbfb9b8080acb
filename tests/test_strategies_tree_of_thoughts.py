"""Tree of thoughts: what is generated, judged, gone on with, gone back to and answered."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from scripted import events
from thought_tree import LETTERS, SOP, UNTYPED, Tree, Way, astray, desk, noted, solved

from metaflow_agents import run
from metaflow_agents.schema.event import Failed

# -- generate, judge, select

async def test_the_best_of_each_depth_are_gone_on_with_under_keys_of_their_own(tmp_path: Path) -> None:
    model = Tree(LETTERS, {("a",): ["impossible"], ("b",): ["sure"], ("c",): ["likely"],
                           ("b", "a"): ["likely"], ("b", "b"): ["impossible"], ("c", "b"): ["sure"]})
    assert await solved(tmp_path, model, depth=2, breadth=2, samples=2) == "c-b"
    values = [f"tot.d{depth}.n{number}.value.s{sample}" for depth, count in ((1, 3), (2, 4))
              for number in range(count) for sample in range(2)]
    assert sorted(model.keys) == sorted(["tot.d0.n0.propose", "tot.d1.n1.propose", "tot.d1.n2.propose", *values, "turn.0"])
    def told(number: int, parent: int, thought: str, value: float) -> dict[str, Any]:
        return {"n": number, "from": parent, "thought": thought, "value": value}

    assert noted(tmp_path) == {
        "tot.d1": {"thoughts": [told(0, 0, "a", 0.002), told(1, 0, "b", 40), told(2, 0, "c", 2)],
                   "selected": [1, 2], "judged": 3},
        "tot.d2": {"thoughts": [told(0, 1, "a", 2), told(1, 1, "b", 0.002), told(2, 2, "a", 2), told(3, 2, "b", 40)],
                   "selected": [3, 0], "judged": 4}}


async def test_of_equals_the_first_generated_is_gone_on_with(tmp_path: Path) -> None:
    """Not the first by name, nor the last."""
    model = Tree({(): ["c", "b", "a", "d"]}, {("d",): ["impossible"]})
    assert await solved(tmp_path, model, depth=1, breadth=2) == "c" and noted(tmp_path)["tot.d1"]["selected"] == [0, 1]


async def test_samples_are_summed_whatever_their_order(tmp_path: Path) -> None:
    model = Tree({(): ["a", "b"]}, {("a",): ["likely", "impossible", "sure"], ("b",): ["sure", "likely", "impossible"]})
    assert await solved(tmp_path, model, depth=1) == "a"
    assert [one["value"] for one in noted(tmp_path)["tot.d1"]["thoughts"]] == [21.001, 21.001]
    tenths = Tree({(): ["a", "b"]}, {("a",): ["three", "two", "one"], ("b",): ["one", "two", "three"]})
    assert await solved(tmp_path / "t", tenths, depth=1, values={"one": 0.1, "two": 0.2, "three": 0.3}) == "a", "equal"
    other = Tree({(): ["a", "b"]}, {("a",): ["poor"], ("b",): ["good"]})
    assert await solved(tmp_path / "o", other, depth=1, samples=1, values={"poor": 0, "fair": 0.5, "good": 7}) == "b"
    assert "from the best to the worst: good, fair, poor" in other.asked["solve@1~0/tot.d1.n0.value.s0"]


async def test_a_duplicate_counts_nothing_and_is_not_judged(tmp_path: Path) -> None:
    model = Tree({(): ["a", "a", "a", "b"], ("a",): ["a"], ("b",): ["b"]},
                 {("a",): ["sure"], ("b",): ["likely"], ("a", "a"): ["impossible"], ("b", "b"): ["sure"]})
    assert await solved(tmp_path, model, depth=2, breadth=2, samples=1) == "b-b", "duplicates would have taken both places"
    assert [(one["value"], one.get("duplicate")) for one in noted(tmp_path)["tot.d1"]["thoughts"]] == \
        [(20, None), (0, True), (0, True), (1, None)]
    assert [key for key in model.keys if re.match(r"tot\.d1.*value", key)] == [f"tot.d1.n{number}.value.s0" for number in (0, 3)]


async def test_a_state_that_several_ways_reach_is_judged_once(tmp_path: Path) -> None:
    """What the prompt of a value shows is the state; the SOP's own template shows the last thought alone."""
    children = {(): ["1", "2"], ("1",): ["3", "4"], ("2",): ["3", "1"]}
    words = {"1": "likely", "2": "likely", "3": "sure", "4": "impossible"}

    class Sums(Tree):
        async def __call__(self, request: Any) -> Any:
            if ".value." in request.key:
                self.asked[request.key] = ""
                return {"why": "so", "value": words[re.findall(r"It stands at (\d)", str(request.messages))[-1]]}
            return await super().__call__(request)

    model = Sums(children)
    path = desk(tmp_path, {"depth": 2, "samples": 2, "prompts": {"value": "state.j2"}})
    (tmp_path / "state.j2").write_text("It stands at {{ path | last }}.")
    result = await run(path, riddle="x", model=model, workspace=tmp_path, name="r", sandbox="none")
    assert result["solved"] == {"answer": "1-3"}
    assert sorted(key for key in model.keys if "value" in key) == sorted(
        f"tot.d{place}.value.s{sample}" for place in ("1.n0", "1.n1", "2.n0", "2.n1") for sample in range(2))
    notes = noted(tmp_path)
    assert (notes["tot.d1"]["judged"], notes["tot.d2"]["judged"]) == (2, 2)
    assert [one["value"] for one in notes["tot.d2"]["thoughts"]] == [40, 0.002, 40, 2], "reached again: as valued as before"


async def test_all_judgements_of_a_depth_are_asked_at_once(tmp_path: Path) -> None:
    class Together(Tree):
        """None is answered before all are asked."""

        def __init__(self) -> None:
            super().__init__(LETTERS)
            self.met = {"propose": asyncio.Barrier(3), "1": asyncio.Barrier(9), "2": asyncio.Barrier(18)}

        async def __call__(self, request: Any) -> Any:
            place = re.search(r"d(\d)\.n\d\.(\w+)", request.key)
            if place and (place[2] == "value" or place[1] == "1"):
                await self.met["propose" if place[2] == "propose" else place[1]].wait()
            return await super().__call__(request)

    async with asyncio.timeout(30):
        assert await solved(tmp_path, Together(), depth=2) == "a-a"


async def test_votes_are_on_all_ways_of_a_depth(tmp_path: Path) -> None:
    model = Tree({**LETTERS, (): ["a", "a", "b", "c"]}, votes=[("b",), ("c",), ("b",), ("x",)])
    assert await solved(tmp_path, model, depth=1, evaluate="vote", samples=4) == "b"
    note = noted(tmp_path)["tot.d1"]
    assert [one["value"] for one in note["thoughts"]] == [0, 0, 2, 1] and note["unread"] == 1
    assert {f"tot.d1.vote.s{sample}" for sample in range(4)} <= set(model.keys)
    assert "<way number=\"3\">" in model.asked["solve@1~0/tot.d1.vote.s0"] and "<way number=\"4\">" not in str(model.asked)
    alone = Tree({(): ["a"]})
    assert await solved(tmp_path / "alone", alone, depth=1, evaluate="vote") == "a"
    assert alone.keys == ["tot.d0.n0.propose", "turn.0"], "nobody votes on one"


async def test_samples_of_thoughts_are_free_texts(tmp_path: Path) -> None:
    model = Tree(LETTERS, {("b",): ["sure"]})
    assert await solved(tmp_path, model, generate="sample", thoughts=2, depth=2, breadth=1, samples=1) == "b-a"
    assert [key for key in model.keys if "sample" in key] == [f"tot.{place}.sample.s{sample}" for place in ("d0.n0", "d1.n1")
                                                               for sample in range(2)]


async def test_a_judgement_that_cannot_be_read_counts_nothing_and_is_told(tmp_path: Path) -> None:
    model = Tree({(): ["a", "b"]}, {("a",): ["who knows", "sure"], ("b",): ["sure"]})
    assert await solved(tmp_path, model, depth=1, samples=2) == "b" and noted(tmp_path)["tot.d1"]["unread"] == 1
    assert "tot.d1.n0.value.s0/repair.2" in model.keys
    none = Tree({(): ["a", "b"]}, {("a",): ["who knows"], ("b",): ["who knows"]})
    result = await run(desk(tmp_path / "n", {"depth": 1}), riddle="x", model=none, workspace=tmp_path / "n", name="r")
    assert result.exit_status == 1 and "turn.0" not in none.keys
    (failed,) = events(tmp_path / "n", "r", Failed)
    assert failed.error.startswith("none of the 6 judgements can be read, the first one for this: not JSON")


async def test_another_role_may_judge(tmp_path: Path) -> None:
    model = Tree({(): ["a", "b"]}, {("b",): ["sure"]})
    assert await solved(tmp_path, model, depth=1, samples=1, judge="judge") == "b"
    judged = {key: said for key, said in model.asked.items() if "value" in key}
    assert set(judged) == {f"solve@1~0/judge/tot.d1.n{number}.value.s0" for number in range(2)}
    assert all("You judge." in said and "Solve x." in said for said in judged.values())


# -- depth first, pruning

async def test_depth_first_goes_back_where_all_that_goes_on_is_pruned(tmp_path: Path) -> None:
    model = astray()
    assert await solved(tmp_path, model, search="dfs", depth=2, threshold=0.5, samples=1) == "b-b"
    assert [key for key in model.keys if "propose" in key] == ["tot.d0.n0.propose", "tot.d1.n0.propose", "tot.d1.n1.propose"]
    assert [key for key in model.keys if "d2" in key] == [f"tot.d2.n{number}.value.s0" for number in range(4)]
    assert {key: note["selected"] for key, note in noted(tmp_path).items()} == {
        "tot.d0.n0": [0, 1], "tot.d1.n0": [], "tot.d1.n1": [3, 2]}
    unpruned = astray()
    assert await solved(tmp_path / "u", unpruned, search="dfs", depth=2, samples=1) == "a-a", "the first of the full depth"


async def test_depth_first_ends_with_the_deepest_and_best_where_none_is_whole_or_too_many_are_opened(tmp_path: Path) -> None:
    assert await solved(tmp_path, astray(), search="dfs", depth=2, threshold=0.5, samples=1, expansions=2) == "a"
    assert await solved(tmp_path / "d", astray(), search="dfs", depth=3, threshold=0.5, samples=1) == "b-b"
    narrow = astray()
    assert await solved(tmp_path / "n", narrow, search="dfs", depth=2, threshold=0.5, samples=1, breadth=1) == "a"


async def test_what_is_not_above_the_threshold_is_pruned_from_a_breadth_too(tmp_path: Path) -> None:
    model = astray()
    assert await solved(tmp_path, model, depth=2, threshold=1, samples=1) == "a", "`b` is not above 1, and `a` leads nowhere"
    assert [key for key in model.keys if "propose" in key] == ["tot.d0.n0.propose", "tot.d1.n0.propose"]
    path = desk(tmp_path / "n", {"depth": 2, "threshold": 70})
    result = await run(path, riddle="x", model=astray(), workspace=tmp_path / "n", name="r")
    (failed,) = events(tmp_path / "n", "r", Failed)
    assert result.exit_status == 1
    assert failed.error == "none of the first 3 thoughts is valued above 70.0, the `threshold` of the search"


async def test_votes_prune_the_ways_from_one_node(tmp_path: Path) -> None:
    model = Tree(LETTERS, votes=[("a", "b"), ("a", "b"), ("c",)])
    assert await solved(tmp_path, model, search="dfs", depth=2, evaluate="vote", threshold=1) == "a-b"
    assert {key: note["selected"] for key, note in noted(tmp_path).items()} == {"tot.d0.n0": [0], "tot.d1.n0": [1]}
    assert {f"tot.{place}.vote.s{sample}" for place in ("d0.n0", "d1.n0") for sample in range(3)} <= set(model.keys)


# -- the answer

async def test_every_kind_of_artifact_is_answered_from_the_best_way(tmp_path: Path) -> None:
    def said(request: Any, path: Way) -> Any:
        return f"=== file: out/{path[-1]}.txt ===\n{path}\n=== end ===\n"

    files = SOP.replace("{schema: {answer: string}}", '{files: "out/**"}')
    result = await solved(tmp_path / "f", Tree(LETTERS, {("c",): ["sure"]}, answer=said), files, depth=1)
    assert (tmp_path / "f" / "r" / "out" / "c.txt").exists(), result
    text = Tree(LETTERS, {("b",): ["sure"]}, answer=lambda _, path: f"It is {path}")
    assert await solved(tmp_path / "t", text, UNTYPED, depth=1) == "It is ('b',)"


async def test_the_last_thought_may_be_the_answer_and_is_repaired_like_one(tmp_path: Path) -> None:
    model = Tree(LETTERS, {("a", "b"): ["sure"]})
    assert await solved(tmp_path, model, UNTYPED, depth=2, answer="last") == "b" and "turn.0" not in model.keys
    data = Tree({(): ['{"answer": "x"}', "nothing"]}, {("nothing",): ["impossible"]})
    assert await solved(tmp_path / "d", data, depth=1, answer="last") == "x" and "turn.0" not in data.keys
    wrong = Tree({(): ["nothing"]}, answer=lambda request, path: {"answer": "mended"})
    assert await solved(tmp_path / "w", wrong, depth=1, answer="last") == "mended"
    assert wrong.keys[-1] == "turn.0/repair.1" and "nothing" in wrong.asked["solve@1~0/turn.0/repair.1"]
