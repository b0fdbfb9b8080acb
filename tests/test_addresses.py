"""How people name firings and activations: what an address means, and how a place in the journal is spelled as one."""

from __future__ import annotations

import pytest

from metaflow_agents.schema.address import Address, address_of, alike, lies_in, parse_address
from metaflow_agents.schema.keys import ActivationKey


@pytest.mark.parametrize("item", ["L06", "src/a.py", "a]b", "a[0]", "100%", "%41", "x]/y", "ä ö", "a\nb", "a]/", "]"])
def test_an_item_is_found_by_the_address_that_is_told_of_it(item: str) -> None:
    key = f"{ActivationKey('write', 2, item, 1)}/{ActivationKey('draft', 1, None, 0)}/turn.0"
    place = address_of(key)
    assert place == (Address("write", 2, item), Address("draft", 1))
    assert parse_address("/".join(map(str, place))) == place


@pytest.mark.parametrize(("written", "address"), [
    ("write[a[0]]", [("write", None, "a[0]")]), ("write@2[a]b]/draft", [("write", 2, "a]b"), ("draft", None, None)])])
def test_an_item_may_be_written_as_the_log_prints_it(written: str, address: list[tuple[str, int | None, str | None]]) -> None:
    assert parse_address(written) == tuple(Address(*part) for part in address)


@pytest.mark.parametrize("written", ["", "@", "a@0", "a@x", "a[", "a[]", "a]", "a/", "/a", "a//b", "a@1~0", "a[x]~1", "a[x]b",
                                     "a b", "a@1/turn.0"])
def test_what_is_no_address_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="names no firing: write like"):
        parse_address(written)


def test_a_place_lies_in_what_leads_to_it() -> None:
    place = address_of("write@2[ann]~0/draft@1~0/turn.0")
    for inside in ("write", "write@2", "write[ann]", "write@2[ann]/draft@1"):
        assert lies_in(place, parse_address(inside))
    for beside in ("write@1", "write[bob]", "write/draft@2", "write/draft[ann]", "write/draft/more"):
        assert not lies_in(place, parse_address(beside))
    assert alike(place, parse_address("write[bob]")) == "write[ann]" and alike(place, parse_address("edit@1")) == ""
    assert alike(place, parse_address("write@1/draft")) == "write@2/draft" and address_of("run") == ()
