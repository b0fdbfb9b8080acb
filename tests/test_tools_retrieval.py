"""The search over many tools, on its own and against plain BM25 and chance on API-Bank's and BFCL's tools."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.papers import tool_search
from benchmarks.papers.tool_search import told
from metaflow_agents.texts.search_words import words
from metaflow_agents.tools.retrieval import ToolIndex

DATA = Path(os.environ.get("SOP_TEST_DATA", "/dev/null"))


@pytest.mark.parametrize(("text", "found"), [
    ("searchIssues", ["search", "issu"]), ("search_issues", ["search", "issu"]), ("git.search-issue", ["git", "search", "issu"]),
    ("HTTPServerError", ["http", "serv", "error"]), ("Base64Token", ["base", "64", "token"]),
    ("the booking of a hotel", ["book", "hotel"]), ("cancellation cancelled cancel", ["cancel"] * 3),
    ("Größe straße", ["größ", "straß"]), ("", []), ("?! the", []),
])
def test_words(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_it_finds_by_name_description_and_parameters() -> None:
    index = ToolIndex([told("depot.listParcels", "Parcels that wait.\nMore of it."), told("clock.now", "What time it is."),
                       told("mail.send", "Send a letter.", recipient="who gets it"), told("depot.addParcel", "Put one in.")])
    assert index.search("parcel list")[0] == "depot.listParcels"
    assert index.search("recipients") == ["mail.send"] and index.search("letters") == ["mail.send"]
    assert index.search("depot") == ["depot.addParcel", "depot.listParcels"]     # of two alike, the one that says less
    assert index.search("") == index.search("zebra") == []
    assert index.description("depot.listParcels") == "Parcels that wait." and len(index) == 4
    assert ToolIndex([]).search("anything") == []
    assert ToolIndex([{"name": "odd", "description": None, "parameters": {"properties": [1]}}]).search("odd") == ["odd"]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])       # the alphabet of all texts is made at the first
@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=40)), max_size=8, unique_by=lambda pair: pair[0]),
       st.text(max_size=30), st.integers(0, 9))
def test_whatever_is_asked_it_gives_known_names_once(tools: list[tuple[str, str]], query: str, top: int) -> None:
    index = ToolIndex([told(name, said) for name, said in tools])
    found = index.search(query, top)
    assert len(found) <= top and len(set(found)) == len(found) and set(found) <= {name for name, _ in tools}
    assert found == index.search(query, 10)[:top]


def test_a_tools_own_description_finds_it() -> None:
    verbs, things = ("list", "create", "delete", "update", "export"), ("invoice", "parcel", "customer", "route", "driver")
    tools = [told(f"{verb}_{thing}", f"{verb} one {thing} or several") for verb in verbs for thing in things]
    index = ToolIndex(tools)
    for tool in tools:
        assert index.search(tool["description"].replace("_", " "))[0] == tool["name"]


# -- against plain BM25 and chance: what `python -m benchmarks.papers tool_search` tells


@pytest.mark.one_in(4)
@pytest.mark.skipif(not (DATA / "api_bank").is_dir(), reason="SOP_TEST_DATA does not name a folder with public data")
def test_recall_on_api_bank_is_not_below_plain_bm25() -> None:
    tools, keywords, said_first = tool_search.api_bank(DATA)
    assert len(tools) > 40 and len(keywords) > 20
    for cases in (keywords, said_first):
        found = tool_search.measured(tools, cases)
        assert found.ours >= found.plain > found.chance, found
    assert tool_search.measured(tools, keywords).ours >= 0.85


@pytest.mark.one_in(4)
@pytest.mark.skipif(not (DATA / "bfcl").is_dir(), reason="SOP_TEST_DATA does not name a folder with public data")
def test_recall_on_the_functions_of_bfcl_is_not_below_plain_bm25() -> None:
    tools, cases = tool_search.bfcl(DATA)
    assert len(tools) > 400 and len(cases) > 400
    found = tool_search.measured(tools, cases)
    assert found.ours >= found.plain > found.chance, found


@pytest.mark.one_in(4)
@pytest.mark.skipif(not (DATA / "bfcl").is_dir(), reason="SOP_TEST_DATA does not name a folder with public data")
def test_the_table_tells_the_same() -> None:
    assert [row.here for row in tool_search.rows(DATA)] == ["0.909; 0.727; 0.109", "0.840; 0.600; 0.109", "0.953; 0.923; 0.010"]
