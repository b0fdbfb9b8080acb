"""`sop graph --svg`: every step, every edge, no box over another one, and nothing of a SOP's text as markup."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from metaflow_agents.schema.sop import SOP
from metaflow_agents.sop.graph import SOPGraph
from metaflow_agents.views.graph import edges_of
from metaflow_agents.views.layout import laid_out
from metaflow_agents.views.picture import svg

NS = "{http://www.w3.org/2000/svg}"
LOOP = {
    "sop": "loop", "inputs": {"topic": "string"}, "artifacts": {"draft": {}, "verdict": {}, "final": {}}, "outputs": ["final"],
    "steps": {
        "write": {"value": "1", "needs": ["topic"], "wants": ["verdict"], "rounds": 3, "makes": "draft"},
        "judge": {"human": "text", "needs": ["draft"], "makes": "verdict"},
        "publish": {"value": "1", "needs": ["draft"], "sees": ["verdict"], "makes": "final"}}}


def drawn(data: dict[str, Any]) -> tuple[SOPGraph, ET.Element]:
    sop = SOP.model_validate(data)
    graph = SOPGraph(sop)
    return graph, ET.fromstring("\n".join(svg(sop, graph)))


def boxes(root: ET.Element) -> list[tuple[float, float, float, float]]:
    """Left, top, right, bottom of each box; the first rectangle is the ground."""
    found = []
    for box in root.findall(f"{NS}rect")[1:]:
        x, y, width, height = (float(box.get(name, "")) for name in ("x", "y", "width", "height"))
        found.append((x, y, x + width, y + height))
    return found


def edges(root: ET.Element) -> list[ET.Element]:
    """The paths that are edges: those of the legend are straight."""
    return [path for path in root.findall(f"{NS}path") if "C" in path.get("d", "")]


def test_what_closes_a_loop_leads_up_in_a_colour_of_its_own() -> None:
    _, root = drawn(LOOP)
    back = [path for path in edges(root) if path.get("class") == "back"]
    assert len(edges(root)) == 5 and len(back) == 1, "that publish needs the draft follows from the others"
    numbers = [float(number) for number in re.findall(r"[\d.]+", back[0].get("d", ""))]
    assert numbers[1] > numbers[-1], "it leads upwards"
    assert back[0].get("stroke-dasharray") and not edges(root)[0].get("stroke-dasharray")
    texts = [text.text for text in root.findall(f"{NS}text")]
    assert {"write ↻3", "a person", "→ verdict", "topic", "final", "needs", "wants, back", "sees"} <= set(texts)


def test_text_of_a_sop_is_no_markup() -> None:
    _, root = drawn({
        "sop": "x", "inputs": {"topic": "string"}, "roles": {"a": {"profile": "x"}}, "artifacts": {"draft": {}},
        "steps": {"write": {"role": "'<script>alert(1)</script>' & \"a\"", "needs": ["topic"], "makes": "draft"}}})
    assert not [one for one in root.iter() if one.tag.endswith("script")]
    assert any("<script>" in (text.text or "") for text in root.findall(f"{NS}text"))


@st.composite
def procedures(draw: st.DrawFn) -> dict[str, Any]:
    """SOPs of expressions that read what any step makes, loops included."""
    number = draw(st.integers(1, 9))
    names = [f"s{place}" for place in range(number)]
    steps: dict[str, Any] = {}
    for place, name in enumerate(names):
        step: dict[str, Any] = {"value": "1", "makes": f"a{place}", "rounds": 2}
        made = draw(st.lists(st.integers(0, number - 1), max_size=4, unique=True))
        for other in made:
            key = "needs" if other < place and draw(st.booleans()) else draw(st.sampled_from(["wants", "sees"]))
            step.setdefault(key, []).append(f"a{other}")
        steps[name] = step
    return {"sop": "x", "inputs": {"i": "string"}, "artifacts": {f"a{place}": {} for place in range(number)}, "steps": steps}


@settings(max_examples=examples(120))
@given(procedures())
def test_boxes_keep_apart(data: dict[str, Any]) -> None:
    graph, root = drawn(data)
    for one, other in itertools.combinations(boxes(root), 2):
        assert one[2] <= other[0] + 0.2 or other[2] <= one[0] + 0.2 or one[3] <= other[1] or other[3] <= one[1], (one, other)
    shown = {text.text for text in root.findall(f"{NS}text[@class='name']")}
    assert shown == {f"{name} ↻2" for name in graph.steps}
    left, top, right, bottom = (float(number) for number in root.get("viewBox", "").split())
    assert all(left <= x and top <= y and to_x <= right and to_y <= bottom for x, y, to_x, to_y in boxes(root))


@settings(max_examples=examples(120))
@given(procedures())
def test_an_edge_is_left_out_where_others_lead_there_too(data: dict[str, Any]) -> None:
    """What is drawn is the transitive reduction of what leads on, and what starts steps again."""
    sop = SOP.model_validate(data)
    graph = SOPGraph(sop)
    layout = laid_out(sop, graph)
    ends = {(edge.chain[-1 if edge.back else 0].id, edge.chain[0 if edge.back else -1].id): edge for edge in layout.edges}
    assert len(ends) == len(layout.edges)
    given = {tuple(f"step:{name}" for name in (maker, reader)) for maker, reader, *_ in edges_of(graph)}
    assert {pair for pair in ends if pair[1].startswith("step:")} == given
    onward: nx.DiGraph[str] = nx.DiGraph(pair for pair, edge in ends.items() if not edge.back)
    drawn = {pair for pair, edge in ends.items() if not edge.back and not edge.aside}
    assert drawn == set(nx.transitive_reduction(onward).edges)
    assert all(edge.aside == (edge.kind == "sees") for edge in layout.edges if edge.back)


def test_an_input_stands_over_the_first_step_that_reads_it() -> None:
    sop = SOP.model_validate({"sop": "x", "inputs": {"late": "string"}, "artifacts": {"a": {}, "b": {}, "c": {}}, "steps": {
        "one": {"value": "1", "makes": "a"}, "two": {"value": "1", "needs": ["a"], "makes": "b"},
        "three": {"value": "1", "needs": ["b", "late"], "makes": "c"}}})
    layers = {box.id: box.layer for box in laid_out(sop, SOPGraph(sop)).boxes if box.lines}
    assert layers["input:late"] == layers["step:two"] == layers["step:three"] - 1


def test_a_function_is_told_without_its_module() -> None:
    texts = [text.text for text in drawn({"sop": "x", "artifacts": {"a": {}}, "steps": {
        "s": {"call": "metaflow_agents.company:patch", "makes": "a"}}})[1].findall(f"{NS}text")]
    assert "call patch" in texts


def test_the_same_sop_gives_the_same_picture() -> None:
    sop = SOP.model_validate(LOOP)
    assert svg(sop, SOPGraph(sop)) == svg(sop, SOPGraph(sop))


@pytest.mark.parametrize("data", [{"sop": "x", "artifacts": {"a": {}}, "steps": {"s": {"value": "1", "makes": "a"}}}])
def test_one_step_is_a_picture(data: dict[str, Any]) -> None:
    _, root = drawn(data)
    assert len(boxes(root)) == 2 and len(edges(root)) == 1
