"""A key that a host sends back is written over, wherever the stream is cut."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.network.keys import Mask

KEY = "sk/planted+canary\"9"
HEADERS = {"Authorization": f"Bearer {KEY}", "X-Second": f"{KEY}-and-longer", "Content-Type": "application/json"}
FORMS = [KEY, f"Bearer {KEY}", f"{KEY}-and-longer", "sk%2Fplanted%2Bcanary%229",
         r"sk\/planted+canary" + '"9', r"sk/planted+canary\"9"]


@given(st.lists(st.sampled_from([*FORMS, "sk/planted", "Bearer ", "hello ", "application/json"]), max_size=6), st.data())
def test_the_same_however_the_stream_is_cut(parts: list[str], data: st.DataObject) -> None:
    whole = "|".join(parts).encode()
    mask, out, at = Mask(HEADERS), b"", 0
    while at < len(whole):
        step = data.draw(st.integers(1, 30))
        out += mask.feed(whole[at:at + step])
        at += step
    out += mask.end()
    assert out == Mask(HEADERS).over(whole)
    assert len(out) == len(whole)
    assert not any(form.encode() in out for form in FORMS)
    assert b"-and-longer" not in out
    assert out.count(b"application/json") == whole.count(b"application/json")


def test_the_password_of_basic() -> None:
    coded = base64.b64encode(b"user:open-sesame").decode()
    mask = Mask({"Authorization": f"Basic {coded}"})
    assert mask.over_text(f"open-sesame, user:open-sesame, {coded}") == \
        f"{'*' * 11}, {'*' * 16}, {'*' * len(coded)}"


def test_without_keys_nothing_is_held_back() -> None:
    mask = Mask({})
    assert not mask and mask.feed(b"hello") == b"hello" and mask.end() == b""
