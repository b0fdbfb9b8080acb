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
MARKS = "\u0f73\u0f75\u0344\u0300\u0301\u0316\u0323\u0345\u05b0\u064b\u0f71\u20d0\u3099"
"""Of nine combining classes, so that sorting has something to do; the first three come apart into two marks."""
texts = st.lists(st.one_of(st.text(max_size=20), st.text(alphabet=MARKS, max_size=90)), max_size=6).map("".join)


def runs(text: str) -> list[int]:
    """How many combining marks stand in a row, for each row."""
    return [len(list(row)) for combining, row in groupby(map(unicodedata.combining, text), key=bool) if combining]


@pytest.mark.parametrize("form", FORMS)
@given(text=texts)
def test_no_run_of_marks_is_longer_than_what_is_sorted_fast(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> None:
    long = text + MARKS * 40
    assert max(runs(unicodedata.normalize("NFKD", normalized(form, long)))) <= LONGEST_RUN
    assert normalized(form, long).count(JOINER) >= len(MARKS) * 40 // LONGEST_RUN


@pytest.mark.parametrize("form", FORMS)
@given(text=texts)
def test_a_text_without_endless_runs_has_the_form_that_python_gives(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> None:
    if max(runs(unicodedata.normalize("NFKD", text)), default=0) <= LONGEST_RUN:
        assert normalized(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("form", FORMS)
@given(text=texts)
def test_a_normal_form_stays_as_it_is(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> None:
    once = normalized(form, text)
    assert normalized(form, once) == once


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("letter", ["\u0f73", "\u0f75", "\u0f81", "\u0344", "a\u0f73", "\u1e17\u0f73"])
def test_a_letter_that_comes_apart_into_marks_is_counted(form: Literal["NFC", "NFKC", "NFKD"], letter: str) -> None:
    """The vowel signs of Tibetan are starters by their class; 100,000 of them would be sorted for a minute."""
    found = normalized(form, letter * 200)
    assert max(runs(unicodedata.normalize("NFKD", found))) <= LONGEST_RUN and JOINER in normalized(form, letter[-1] * 200)
