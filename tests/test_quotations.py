# ruff: noqa: E501  (prose and markup stand here as people write them)
"""Quotations held against their sources: forty made by hand over text, HTML and PDF, and random ones."""

from __future__ import annotations

import asyncio
import random
import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from printed import SOFT, column, printed
from tiers import examples

from metaflow_agents.documents.folder import read_folder
from metaflow_agents.kits.research.quotations.verify import QuotationVerdict, verify
from metaflow_agents.schema.source import Source, SourcePage

TEXT = """\
THE MILL AT OVER HARL                                       Notes of a surveyor

The wheel was last turned in 1911, when the race silted up. It is a breast-shot
wheel of four metres and a half; its buckets are of elm, not oak as the guide-
book has it. Output was 3.5 kilowatts on a good day -- hardly more than a well-
kept horse.

"I would not spend a crown on the masonry," the owner told me, "before the
sluice is mended." He may be right. The long-
term cost of the sluice is put at 48,000 to 52,000 crowns.[3] Between 1896 and
1903 it was repaired twice, at a loss of -5 % of the rent each time... The
re-opening is co-
ordinated by the parish. The weir must not be raised.
"""
HTML = """<!doctype html><meta charset="iso-8859-1"><title>River board</title>
<body><nav>Home | Permits</nav><script>var s = "the weir may be raised at will";</script>
<h1>Decision on the weir</h1>
<p>The board, <em>having heard</em> the mill's owner, finds that the weir must not be raised above 2&frac12;&nbsp;m.<sup><a href="#1">1</a></sup>
Fishermen&rsquo;s rights are not affected&nbsp;&mdash; the pass stays open from March&ndash;October.
<p hidden>The board may change its mind in spring.
<p>A fine of 10&sup2; crowns a day is due &ldquo;without further no&shy;tice&rdquo; if the level exceeds the mark. <q>No appeal</q> is possible.
<ul><li>The gauge is read at eight<li>The gauge is read by the miller</ul>
<p>Na\xefve readings of caf\xe9 tables do not count.
</body>""".encode("latin-1")
LEFT = f"""The ﬁrst ofﬁcial ﬁgures were pub{SOFT}lished in the spring. They conﬂict with the survey{SOFT}or's notes in three places, of which one is im{SOFT}portant: the efﬁ{SOFT}ciency of the wheel. We put it at sixty-{SOFT}one per cent, he at ﬁfty{SOFT}-two."""
RIGHT = f"""We do not rec{SOFT}ommend a turbine. It would need a fall that this river does not have — and a per{SOFT}mit that the board is un{SOFT}likely to give. Restored as it stands, the mill would earn 4,200 crowns a year from vis{SOFT}itors and al{SOFT}most nothing from power. The short- and long-{SOFT}term interests of the parish are the same."""
NEXT = f"""Of the four options that were examined, only the second pays for its own upkeep. It is the one with{SOFT}out a roof."""


@cache
def shelf() -> tuple[Source, ...]:
    pdf = printed([[*column(LEFT, 60, 760, 30), *column(RIGHT, 310, 760, 30)], column(NEXT, 60, 760, 30), column("The end of it.", 60, 760)])
    sources, unread = asyncio.run(read_folder({"a_notes.txt": TEXT.encode(), "b_board.html": HTML, "c_report.pdf": pdf}))
    assert not unread
    assert "vis-\n" in sources[2].pages[0].text and "ﬁrst" in sources[2].pages[0].text      # what is to be allowed for is really there
    return tuple(sources)


def judged(text: str) -> QuotationVerdict:
    return verify({"part": text}, shelf())


TRUE = [
    '"The wheel was last turned in 1911, when the race silted up" [S1].',
    'It is "a breast\u2011shot wheel of four metres and a half" [S1].',
    '"not oak as the guidebook has it" [S1]',
    '"not oak as the guide-book has it" [S1]',
    '“Output was 3.5 kilowatts on a good day—hardly more than a well-kept horse.” [S1]',
    "“‘I would not spend a crown on the masonry,’ the owner told me, ‘before the sluice is mended.’” [S1]",
    'He thinks "[t]he long-term cost of the sluice is put at 48,000 to 52,000 crowns" [S1].',
    '"Between 1896 and 1903 it was repaired twice, at a loss of −5 % of the rent each time…" [S1]',
    '"The re-opening is coordinated by the parish" [S1].',
    '"The wheel was last turned in 1911 [...] its buckets are of elm, not oak" [S1]',
    '"the weir must not be raised above 2 1/2 m. Fishermen\'s rights are not affected" [S2]',
    '« Fishermen’s rights are not affected – the pass stays open from March-October » [S2].',
    "\"due 'without further notice' if the level exceeds the mark. 'No appeal' is possible\" [S2]",
    "> The board, having heard the mill's owner, finds that the weir must **not** be raised\n> above 2½ m.\n>\n> — River board, [S2]",
    '"The gauge is read at eight The gauge is read by the miller" [S2], and "Nai\u0308ve readings of cafe\u0301 tables do not count" [S2].',
    '"The first official figures were published in the spring" [S3, p. 1].',
    '"They conflict with the surveyor’s notes in three places, of which one is important: the efficiency of the wheel" [S3, p. 1]',
    '„We put it at sixty-one per cent, he at fifty-two.“ [S3, pp. 1–2]',
    '"The short- and long-term interests of the parish are the same. Of the four options that were examined" [S3, p. 2]',
    '"It would need a fall that this river does not have -- and a permit that the board is unlikely to give," [S1; S3, p. 1] it says.',
]
FALSE = [
    ('"The wheel was last turned in 1912, when the race silted up" [S1]', "turned in 1911"),
    ('"The wheel was first turned in 1911" [S1]', "last turned"),
    ('"its buckets are of oak, not elm as the guidebook has it" [S1]', "elm, not oak"),
    ('"Output was 35 kilowatts on a good day" [S1]', "3.5 kilowatts"),
    ('"5 kilowatts on a good day" [S1]', "3.5 kilowatts"),
    ('"I would spend a crown on the masonry" [S1]', "would not spend"),
    ('"The long-term cost of the sluice is put at 48,000 crowns" [S1]', "48,000 to 52,000"),
    ('"at a loss of 5 % of the rent each time" [S1]', "-5 %"),
    ('"he wheel was last turned in 1911" [S1]', "The wheel"),
    ('"the wheel was last turned in 1911" [S1]', "The wheel"),
    ('"its buckets are of elm [...] The wheel was last turned in 1911" [S1]', "buckets are of elm"),
    ('"The weir may be raised at will" [S2]', "weir must not be raised"),
    ('"The board may change its mind in spring" [S2]', "nor anything like it"),
    ('"A fine of 102 crowns a day is due" [S2]', "A fine of 10² crowns"),
    ('"the pass stays open from March [and] October" [S2]', "nothing may stand in brackets but"),
    ('"The first unofficial figures were published in the spring" [S3]', "on p. 1: <<The ﬁrst ofﬁcial ﬁgures"),
    ('"a permit that the board is likely to give" [S3]', "likely to give"),
    ('"We recommend a turbine" [S3, p. 1]', "We do not recommend a turbine."),
    ('"only the second pays for its own upkeep" [S3, p. 1]', "write [S3, p. 2]"),
    ('"The gauge is read at eight" [S3]', "it stands in S2 (b_board.html): write [S2]"),
]


@pytest.mark.parametrize("text", TRUE, ids=range(1, 21))
def test_true_quotations_pass_whatever_their_type(text: str) -> None:
    verdict = judged(text)
    assert verdict.faults == ()
    assert len(verdict.found) == (2 if text.count('" [S') == 2 else 1)


@pytest.mark.parametrize(("text", "told"), FALSE, ids=range(1, 21))
def test_false_quotations_are_caught_and_the_author_is_told_what_stands_there(text: str, told: str) -> None:
    verdict = judged(text)
    assert verdict.found == ()
    (fault,) = verdict.faults
    assert told in fault
    assert ("section `part`" in fault and "Mend: " in fault) or "mind in spring" in fault or "write [" in fault


def test_twenty_of_each_and_every_kind_of_source() -> None:
    for cases in (TRUE, [text for text, _ in FALSE]):
        assert len(cases) == len(set(cases)) == 20
        for name in ("S1", "S2", "S3"):
            assert sum(f"[{name}" in text or f"; {name}" in text for text in cases) >= 4


# --- forms

@pytest.mark.parametrize(("text", "told"), [
    ("It is so [S9].", "[S9] names no source: there is: S1, S2, S3"),
    ("It is so [S1, p. 2].", "S1 (a_notes.txt) has no pages: write [S1]"),
    ("It is so [S3, p. 7].", "a page that S3 (c_report.pdf) does not have: it has 3"),
    ("It is so [S3, chapter two].", "can't be read: write [S2], [S2, p. 4]"),
    ("It is so (S3, p. 2).", "(S3, p. 2) is no citation: write [S3, p. 2]"),
    ('It says "the weir must not be raised" and no more.', "has no citation behind it"),
    ("It says ‘the weir must not be raised’ and no more.", "has no citation behind it"),
    ('It says "the weir must not [S1].\n\nNew."', "opens with \" and does not close"),
    ("> The weir must not be raised.\n\nAs [S1] has it.", "has no citation behind it"),
    ('"weir [...] a [...] the" [S1]', "patched together"),
])
def test_faults_of_form(text: str, told: str) -> None:
    assert any(told in fault for fault in judged(text).faults), judged(text).faults


@pytest.mark.parametrize("text", [
    'The so-called "green power" of mills is small. The weir stays [S1].',         # a term: the citation is another sentence's
    "The owner's words, the mill's wheel and the '90s: the boats' owners said so [S2].",
    'A 6" pipe and a 5\'10" man [S1].',
    'See `"this is code, no quotation"` [S1].\n\n```\n"nor is this one here"\n```\n',
    "Plain [S1], two [S1; S2], pages [S3, pp. 1-2], many [S3, p. 1, 3; S1], and [S2 and S3].",
    "> The weir must not be raised.\n\n[S1]",
    '- "The weir must not be raised" [S1]\n- "No appeal is possible"\n  [S2]'.replace('"No appeal is', '"\'No appeal\' is'),
    '| "The weir must not be raised" | [S1] |',
])
def test_what_is_no_fault(text: str) -> None:
    assert judged(text).faults == ()


def test_a_short_quotation_counts_where_its_citation_stands_in_its_sentence() -> None:
    assert judged('It is a "breast-shot wheel" of elm, the surveyor says [S1].').found
    assert judged('It is an "overshot wheel" of elm, the surveyor says [S1].').faults
    assert judged('It is an "overshot wheel." [S1]').faults


def test_a_thousand_quotations_of_a_text_are_looked_for() -> None:
    true, false = "“The weir must not be raised” [S1]\n\n", "“The weir must not sing” [S1]\n\n"
    assert judged(true * 1_000).faults == ()
    assert judged(true * 1_000 + false).faults == (
        "section `part`: it has 1,001 quotations, and at most 1,000 are looked for: quote less",)


def test_quotations_before_one_citation_share_it() -> None:
    verdict = judged('The owner would "not spend a crown" before "the sluice is mended", he says [S1].')
    assert [found.text for found in verdict.found] == ["not spend a crown", "the sluice is mended"]


def test_words_that_stand_twice_are_found_on_the_page_that_is_named() -> None:
    twice = Source(id="S1", path="t.pdf", title="t", kind="pdf", words=9,
                   pages=(SourcePage(number=1, text="It was a mild winter."), SourcePage(number=2, text="It was a mild winter.")))
    (found,) = verify({"": '"It was a mild winter" [S1, p. 2]'}, [twice]).found
    assert (found.first_page, found.last_page) == (2, 2)


def test_in_a_pdf_white_space_is_the_readers_guess_and_elsewhere_it_is_the_authors() -> None:
    pages = (SourcePage(number=1, text="The mi ll was builtby two br others."),)
    for kind, faults in (("pdf", 0), ("text", 1)):
        source = Source(id="S1", path="x", title="x", kind=kind, words=1, pages=pages)
        assert len(verify({"": '"The mill was built by two brothers" [S1]'}, [source]).faults) == faults
        assert len(verify({"": '"The mill was built by two others" [S1]'}, [source]).faults) == 1


# --- random quotations

WORDS = ["river", "mill", "wheel", "ﬁgures", "office", "coöperate", "1911", "3.5", "the", "a", "not", "well-kept", "Saint", "naïve",
         "long", "runs", "under", "council", "afﬂicted", "owner’s", "crown", "until", "paid", "fair"]
sources_ = st.lists(st.sampled_from(WORDS), min_size=30, max_size=80)
rolls = st.integers(0, 2**32)


def wrapped(words: list[str], dice: random.Random) -> str:
    """The words in lines of uneven length, some hyphenated."""
    text = ""
    for word in words:
        if word.isalpha() and len(word) > 4 and dice.random() < 0.2:
            cut = dice.randint(2, len(word) - 2)
            word = word[:cut] + dice.choice(["-\n", "\u00ad\n", "\u2010\n"]) + word[cut:]
        text += word + dice.choice([" ", " ", "  ", "\n", "\u00a0", " \n  "])
    return text


def noisy(text: str, dice: random.Random) -> str:
    """The same words as another program would print them."""
    swaps = [("ﬁ", "fi"), ("ﬂ", "fl"), ("’", "'"), ("-", "\u2011"), ("ö", "o\u0308"), ("ï", "i\u0308"), ("ff", "ﬀ"), (" ", "\u00a0"), (" ", "\n"), ("fi", "ﬁ")]
    for old, new in swaps:
        text = re.sub(re.escape(old), lambda found, new=new: new if dice.random() < 0.5 else found[0], text)
    return re.sub(r"(?<=[a-z])(?=[a-z])", lambda _: "\u00ad" if dice.random() < 0.03 else "", text)


def quoted(source: str, words: list[str], kind: str = "text") -> QuotationVerdict:
    pages = (SourcePage(number=1 if kind == "pdf" else None, text=source),)
    return verify({"": f"It says “{' '.join(words)}” [S1]."}, [Source(id="S1", path="x", title="x", kind=kind, words=1, pages=pages)])


@pytest.mark.one_in(4)
@settings(max_examples=examples(120), deadline=None)
@given(sources_, st.integers(0, 70), st.integers(4, 15), rolls, st.sampled_from(["text", "pdf"]))
def test_any_slice_of_a_source_passes_under_typographic_noise(words: list[str], at: int, size: int, roll: int, kind: str) -> None:
    dice = random.Random(roll)
    at = min(at, len(words) - size)
    text = noisy(" ".join(words[at:at + size]), dice)
    assert quoted(wrapped(words, dice), text.split(" "), kind).faults == ()


@settings(max_examples=examples(120), deadline=None)
@given(sources_, st.integers(0, 70), st.integers(5, 15), st.integers(1, 13), st.sampled_from(["swap", "insert", "delete", "exchange"]),
       rolls, st.sampled_from(["text", "pdf"]))
def test_any_word_changed_inserted_or_left_out_is_caught(words: list[str], at: int, size: int, where: int, change: str, roll: int,
                                                        kind: str) -> None:
    dice = random.Random(roll)
    at = min(at, len(words) - size)
    quote = words[at:at + size]
    where = min(where, size - 2)
    match change:
        case "swap":
            quote[where] = dice.choice([word for word in WORDS if word != quote[where]])
        case "insert":
            quote.insert(where, dice.choice(WORDS))
        case "delete":
            del quote[where]
        case _:
            quote[where], quote[where + 1] = quote[where + 1], quote[where]
    stands = any(words[start:start + len(quote)] == quote for start in range(len(words)))
    verdict = quoted(wrapped(words, dice), noisy(" ".join(quote), dice).split(" "), kind)
    assert bool(verdict.faults) != stands


@pytest.mark.one_in(4)
@pytest.mark.parametrize("unit", ["a", "a ", "a-\n", "ab, "])
def test_a_source_that_repeats_itself_for_ever_takes_no_longer_than_another(unit: str) -> None:
    text = unit * (60_000 // len(unit))
    for quote in (unit * 500 + "b", "b" + unit * 500, f"{unit * 20}b [...] {unit * 20}c"):
        assert quoted(text, [quote.replace("\n", "").strip()]).faults


def test_what_no_source_holds_is_not_made_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern of 20,000 words takes a second to be compiled."""
    monkeypatch.setattr("metaflow_agents.kits.research.quotations.search._pattern", lambda *_, **__: pytest.fail("a pattern was made"))
    assert quoted("The wheel is of elm.", ["elm and oak " * 7_000]).faults


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=300), st.text(alphabet="\"“”'‘’«»„[]S123, p.;>…\n -a|`*\\()", max_size=120))
def test_no_text_makes_it_raise(source: str, report: str) -> None:
    pages = (SourcePage(text=source),)
    verify({"x": report}, [Source(id="S1", path="x", title="x", kind="html", words=1, pages=pages)])
