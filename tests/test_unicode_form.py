"""Unicode's normal forms with joiners in endless runs of combining marks: the Stream-Safe Text Format (UAX #15, section 13)."""

from __future__ import annotations

import unicodedata
from itertools import groupby
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.schema.unicode_form import JOINER, LONGEST_RUN, normalized

FORMS = ("NFC", "NFKC", "NFKD")
MARKS = "\u0300\u0301\u0316\u0323\u0345\u05b0\u064b\u0f71\u20d0\u3099"
"""Of nine combining classes, so that sorting has something to do."""
texts = st.lists(st.one_of(st.text(max_size=20), st.text(alphabet=MARKS, max_size=90)), max_size=6).map("".join)


def runs(text: str) -> list[int]:
    """How many combining marks stand in a row, for each row."""
    return [len(list(row)) for combining, row in groupby(map(unicodedata.combining, text), key=bool) if combining]


@pytest.mark.parametrize("form", FORMS)
@given(text=texts)
def test_no_run_of_marks_is_longer_than_what_is_sorted_fast(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> None:
    """A mark is at most four in another form (UAX #15, table of expansion), so a row stays bounded however long the text is."""
    long = text + MARKS * 40
    assert max(runs(normalized(form, long))) <= 4 * LONGEST_RUN
    assert normalized(form, long).count(JOINER) >= len(MARKS) * 40 // LONGEST_RUN


@pytest.mark.parametrize("form", FORMS)
@given(text=texts)
def test_a_text_without_endless_runs_has_the_form_that_python_gives(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> None:
    if max(runs(text), default=0) <= LONGEST_RUN:
        assert normalized(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("form", FORMS)
@given(text=texts)
def test_a_normal_form_stays_as_it_is(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> None:
    once = normalized(form, text)
    assert normalized(form, once) == once
