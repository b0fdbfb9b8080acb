"""The passages that a section's author is given."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import PATIENCE
from tiers import examples

from metaflow_agents.kits.research.passages import MAX_CHARACTERS, choose
from metaflow_agents.kits.research.values import Section
from metaflow_agents.schema.source import Source, SourcePage

FILLER = "The committee met again and discussed the usual matters of the season, none of which was settled before the evening. "


def section(*sources: str, question: str = "Why did the sluice gates fail?") -> Section:
    return Section(id="a", heading="The gates", question=question, points=("cause of the failure",), sources=sources,
                   terms=("corrosion",))


def source(name: str, *pages: str) -> Source:
    return Source(id=name, path=f"{name}.pdf", title=name, kind="pdf", words=1,
                  pages=tuple(SourcePage(number=number, text=text) for number, text in enumerate(pages, 1)))


def test_short_sources_are_given_whole() -> None:
    found = choose(section("S1", "S2"), [source("S1", "One.\n\nTwo.", "Three."), source("S2", "Four."), source("S3", "Other.")])
    assert [(passage.source, passage.page, passage.text) for passage in found] == [
        ("S1", 1, "One.\n\nTwo."), ("S1", 2, "Three."), ("S2", 1, "Four.")]
    assert all(passage.whole for passage in found)


def test_of_long_sources_the_passages_that_bear_on_the_question() -> None:
    long = [FILLER * 25 for _ in range(240)]
    long[70] = FILLER * 10 + "The corrosion of the hinges made the sluice gates fail in the flood. " + FILLER * 10
    found = choose(section("S1", "S2", "S3"), [source("S1", *long), source("S2", *[FILLER * 20] * 80), source("S3", "Sluices.")])
    assert {passage.source: passage.whole for passage in found} == {"S1": False, "S2": False, "S3": True}
    assert sum(len(passage.text) for passage in found) <= MAX_CHARACTERS
    (bearing,) = [passage for passage in found if "corrosion of the hinges" in passage.text]
    assert bearing.page == 71
    assert found == sorted(found, key=lambda passage: (passage.source, passage.page))


def test_short_sources_stay_whole_beside_long_ones() -> None:
    short = [source(f"S{number}", f"{number} words of its own. " * 300) for number in range(2, 9)]
    found = choose(section(*[f"S{number}" for number in range(1, 9)]), [source("S1", *[FILLER * 25] * 240), *short])
    whole = {passage.source for passage in found if passage.whole}
    assert len(whole) == 40_000 // len(short[0].pages[0].text), "as many as half of the room takes"
    assert {passage.source for passage in found} == {f"S{number}" for number in range(1, 9)}


def test_each_term_has_its_best_passage() -> None:
    """One term fills the room by itself; the other stands in a single place, in words that rank nowhere else."""
    words = "hinge bolt rust flood winter iron repair inspector painting corrosion failure sluice gates"
    pages = [f"{words}. " * 40 if number % 2 else FILLER * 25 for number in range(120)]
    pages[80] = FILLER * 10 + "A pintle was lost. " + FILLER * 10
    asked = section("S1").model_copy(update={"points": (words,), "terms": ("corrosion", "pintles", "nobody writes zyx")})
    assert any("pintle" in passage.text for passage in choose(asked, [source("S1", *pages)]))


def test_endings_and_accents_do_not_hide_a_word() -> None:
    long = [FILLER * 25 for _ in range(60)]
    long[31] += " Les vannes corrodées cédèrent: corroded gate, failures."
    assert any(passage.page == 32 and "corrod" in passage.text for passage in choose(section("S1"), [source("S1", *long)]))


def test_a_section_that_names_no_source_has_all() -> None:
    assert {passage.source for passage in choose(section(), [source("S1", "a"), source("S2", "b")])} == {"S1", "S2"}


def test_three_hundred_pages_are_ranked_soon() -> None:
    book = source("S1", *[f"{number} " + FILLER * 25 for number in range(300)])
    before = process_time()
    choose(section("S1"), [book])
    assert process_time() - before < PATIENCE, "some tenths of a second on a usual machine"


@pytest.mark.one_in(4)
@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.text(alphabet="ab .\n", max_size=4000), min_size=1, max_size=6), st.integers(100, 6000))
def test_passages_are_the_sources_own_words_in_their_order(pages: list[str], most: int) -> None:
    found = choose(section("S1"), [source("S1", *pages)], most)
    for passage in found:
        page = " ".join(pages[(passage.page or 0) - 1].split())
        at = 0
        for word in passage.text.split():
            at = page.index(word, at) + len(word)
    if sum(map(len, pages)) <= most:
        assert " ".join(" ".join(passage.text for passage in found).split()) == " ".join(" ".join(pages).split())
