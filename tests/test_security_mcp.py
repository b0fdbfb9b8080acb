"""Hostile and broken MCP servers, by the table in tests/security/mcp.yaml: each row is run against a real process."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from mcp_desk import SECRETS, called, gone, misbehaving, odd, opened
from mcp_odd_server import made

from metaflow_agents.tools.mcp_listing import LONGEST_DESCRIPTION, Listing
from metaflow_agents.tools.mcp_schema import LONGEST, SchemaUnusable, bounded, refuse_unusable

ROWS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "security" / "mcp.yaml").read_text(encoding="utf-8"))
OFFERS = [row for row in ROWS if "offers" in row]
DOES = [row for row in ROWS if "does" in row]


def usable(schema: Any) -> dict[str, Any]:
    found = bounded(schema)
    refuse_unusable(found)
    return found


def test_every_row_is_run() -> None:
    assert len(OFFERS) + len(DOES) == len(ROWS) >= 30
    assert len({row["id"] for row in ROWS}) == len(ROWS)
    assert all(re.match(r"(LLM\d\d:2025|ASI\d\d) ", row["owasp"]) for row in ROWS)
    assert {row["expected"] for row in ROWS} == {"refused", "bounded", "error"}


@pytest.mark.parametrize("row", OFFERS, ids=lambda row: row["id"])
async def test_what_a_server_offers(row: dict[str, Any], tmp_path: Path) -> None:
    server = odd(tmp_path, row["offers"])
    async with opened(server) as tools:
        assert [*tools] == row["kept"]
        assert len(server.refused) == len(row["refused"])
        for name, words in row["refused"].items():
            assert [why for shown, why in server.refused.items() if words in why and shown[:4].isprintable()], server.refused
            assert name not in row["kept"] or len(row["offers"]) > len(row["kept"])
        assert (row["expected"] == "refused") == bool(row["refused"])
        for tool in tools.values():
            assert tool.name.startswith("odd.") and len(tool.description) < LONGEST_DESCRIPTION + 60
            written = json.dumps([tool.name, tool.description, tool.parameters], ensure_ascii=False)
            assert len(written) < LONGEST + 2 * LONGEST_DESCRIPTION
            assert not [hidden for hidden in (*row.get("hidden", ()), *row.get("without", ())) if hidden in written]
            Draft202012Validator(tool.parameters).is_valid({"x": "a" * 40 + "!"})


@pytest.mark.one_in(4)
@pytest.mark.parametrize("row", DOES, ids=lambda row: row["id"])
async def test_what_a_server_does(row: dict[str, Any], tmp_path: Path) -> None:
    pids: list[int] = []
    async with opened(misbehaving(tmp_path, row["does"], "chatter", timeout=20)) as tools:
        said = await called(tools[row["does"]])
        assert said.error == (row["expected"] == "error") and said.untrusted == "from the MCP server odd"
        assert [words for words in row["told"] if words not in said.text] == [], said.text
        assert len(said.text) < 120_000 and not [value for value in SECRETS.values() if value in said.text]
        pids += [int(number) for number in re.findall(r"started (\d+)", said.text)]
        assert (await called(tools["chatter"])).text == "still here", "it goes on, or is started once more"
    assert await gone(*pids)


def test_a_cut_description_says_so() -> None:
    listing = Listing()
    listing.add({"name": "wordy", "description": "buy " * 2_500_000, "inputSchema": {"type": "object"}})
    assert listing.kept["wordy"].description.endswith("… cut: 9,996,000 more characters")


@pytest.mark.one_in(8)
def test_a_list_of_schemas_is_read_in_bounded_time() -> None:
    """A thousand tools that each bring the largest schema there may be would keep everything else waiting."""
    listing = Listing()
    largest = {"type": "object", "properties": {f"field_{number}": {"type": "string", "minLength": 1} for number in range(900)}}
    for number in range(1000):
        listing.add({"name": f"tool_{number}", "inputSchema": largest})
    assert 5 < len(listing.kept) < 100 and "all schemas together" in listing.refused["tool_999"]


@pytest.mark.parametrize("schema", [
    {"type": "object", "properties": {"pattern": {"type": "string"}, "$id": {"type": "integer"}}, "required": ["pattern"]},
    {"type": "object", "properties": {"x": {"enum": ["a\u200bb"]}, "y": {"const": {"pattern": "("}}}},
])
def test_names_and_values_are_not_taken_for_words(schema: dict[str, Any]) -> None:
    assert usable(schema) == schema


@pytest.mark.parametrize(("written", "left"), [
    ({"properties": {"x": {"type": "string", "pattern": "(a+)+$", "minLength": 2}}},
     {"properties": {"x": {"type": "string", "minLength": 2}}}),
    ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {}),
    ({"properties": {"x": {"type": "array", "items": [{"type": "string"}], "additionalItems": False}}},
     {"properties": {"x": {"type": "array"}}}),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/x"}, {}),
])
def test_what_is_left_out_makes_it_looser(written: dict[str, Any], left: dict[str, Any]) -> None:
    assert usable({"type": "object", **written}) == {"type": "object", **left}


def test_a_long_way_of_references() -> None:
    chain: dict[str, Any] = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(600)}
    with pytest.raises(SchemaUnusable, match="lead on for more than"):
        usable({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {**chain, "d600": {}}})


def test_the_table_means_what_it_says() -> None:
    laughs = next(row for row in OFFERS if row["id"] == "schema-fan-out")["offers"][0]["inputSchema"]
    whole = made(laughs)
    assert len(whole["$defs"]) == 11 and len(whole["$defs"]["d9"]["allOf"]) == 10
