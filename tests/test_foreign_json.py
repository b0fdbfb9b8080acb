"""The strict reader of foreign JSON: what it takes, what it refuses and where, within which bounds."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.errors import BudgetExceeded, JournalError, Unexpected, Waiting, failure_of, raised
from metaflow_agents.errors.encodable import all_encodable, encodable, words_of
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.calls import arguments_of
from metaflow_agents.models.endpoint.usage import usage_of
from metaflow_agents.models.vectors import fault_of
from metaflow_agents.schema.event import Failed, Fired, RunEnded
from metaflow_agents.texts.strict_json import BYTES, DEEPEST, VALUES, NotJSON, check, read, read_next

REFUSED = {
    "NaN": "NaN is no JSON number, at line 1, column 1",
    '{"x": "NaN",\n "y": [1, NaN]}': "NaN is no JSON number, at line 2, column 11",
    "-Infinity": "-Infinity is no JSON number, at line 1, column 1",
    '{"1e999": 1e999}': "the number 1e999 is larger than any double, at line 1, column 11",
    "-1e309": "the number -1e309 is larger than any double, at line 1, column 1",
    "9" * 400: "(400 characters) is larger than any double, at line 1, column 1",
    "1" * 1_000_000: "(1,000,000 characters) is larger than any double, at line 1, column 1",
    "0." + "1" * 2000: "is larger than any double",
    "9" * 300 + "e9": "is larger than any double",
    '{"a": ["\\ud800"]}': "`a[0]` holds half a surrogate pair",
    '{"a": {"\\uDFFF": 1}}': "`a` has the key",
    '"\udc80"': "half a surrogate pair at line 1, column 2",
    '{"a": 1, "b": {"c": 1, "c": 2}}': 'the key "c" is duplicated in one object',
    "[" * 200_000 + "]" * 200_000: f"it is nested deeper than {DEEPEST} levels",
    "[" * 200_000: f"it is nested deeper than {DEEPEST} levels",
    "[" * 101 + "]" * 101: f"it is nested deeper than {DEEPEST} levels",
    '{"a":' * 101 + "1" + "}" * 101: f"it is nested deeper than {DEEPEST} levels",
    "[" + "0," * VALUES + "0]": f"it holds more than {VALUES:,} values",
    '"' + "x" * BYTES + '"': "at most 16,777,216 are read",
    b"\xff": "it is no UTF-8 (byte 0 of 1)", b'"\xed\xa0\x80"': "it is no UTF-8 (byte 1 of 5)",
    "": "Expecting value at line 1, column 1", "[1,\n2,]": "Expecting value at line 2, column 3", "01": "Extra data",
    '"a\nb"': "Invalid control character", "{'a': 1}": "Expecting property name",
}


@pytest.mark.parametrize("written", REFUSED, ids=lambda written: ascii(written[:14]))
def test_refused_with_its_place(written: str | bytes) -> None:
    with pytest.raises(NotJSON) as refused:
        read(written)
    assert REFUSED[written] in str(refused.value) and len(str(refused.value)) < 200


@pytest.mark.parametrize(("written", "value"), [
    ("1e-400", 0.0), ("1" * 308, int("1" * 308)), ("1.7976931348623157e308", 1.7976931348623157e308), ("-0", 0), (" [ ] ", []),
    ('"\\ud83d\\ude00"', "\U0001f600"), ('"[[[[\\"{"', '[[[["{'), (b"\xef\xbb\xbf1", 1), ("[" * 100 + "]" * 100, None),
    ('{"x": "' + "," * 2_000_000 + '"}', None), ('["\\\\ud800"]', ["\\ud800"]),
], ids=lambda written: ascii(str(written)[:14]))
def test_taken(written: Any, value: Any) -> None:
    found = read(written)
    assert value is None or (found == value and type(found) is type(value))


def test_minus_zero_stays_one() -> None:
    assert math.copysign(1, read("-0.0")) == -1.0


def test_the_envelopes_of_endpoints_are_read_leniently() -> None:
    assert read('{"a": NaN, "b": 1e999, "c": "x\ny", "d": "\\ud83d", "a": [-Infinity]}', lenient=True) == {
        "a": [None], "b": None, "c": "x\ny", "d": "\ud83d"}
    for written in ("[" * 101 + "]" * 101, "[" + "0," * VALUES + "0]"):
        with pytest.raises(NotJSON):
            read(written, lenient=True)


JSON = st.recursive(st.none() | st.booleans() | st.integers(-2**1000, 2**1000) | st.floats(allow_nan=False, allow_infinity=False)
                    | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(JSON, st.booleans(), st.sampled_from((None, 1)))
def test_what_python_writes_is_read_as_it_was(value: Any, ascii_: bool, indent: int | None) -> None:
    written = json.dumps(value, ensure_ascii=ascii_, indent=indent)
    assert read(written) == value == read(written.encode()) == read(written, lenient=True) == read_next(f"x{written}", 1)[0]
    check(value)


@given(st.text(alphabet='[]{}",:\\u0123e+-.dD8 NaIinfty\n') | st.binary())
def test_whatever_comes_is_a_value_or_a_refusal(written: str | bytes) -> None:
    """Where it is taken, the standard reader gives the same, and the journal can hold it."""
    try:
        found = read(written)
    except NotJSON:
        return
    assert found == json.loads(written if isinstance(written, str) else written.decode("utf-8-sig"))
    check(found)


CYCLE: list[Any] = []
CYCLE += [CYCLE, CYCLE]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("value", "told"), [
    ({"a": [1, {"b": float("nan")}]}, "`a[1].b` is nan"), ([10**400], "`[0]` is a number larger than any double"),
    ([10**5000], "larger than any double"), (CYCLE, "nested deeper"), ({"a": {1}}, "`a` is of the type set"), ([b"x"], "bytes"),
    ({1: 2}, "has the key 1"), ({"\udc80": 1}, "has the key"), ({"a": "\udc80"}, "`a` holds half"), (object(), "type object"),
    ([[0] * 1000] * 1001, "more than 1,000,000 values"),
], ids=lambda given: given if isinstance(given, str) else type(given).__name__)
def test_values_that_others_made_are_held_to_the_same_rules(value: Any, told: str) -> None:
    with pytest.raises(NotJSON, match=told.replace("[", r"\[")):
        check(value)


@pytest.mark.parametrize("counts", [{"prompt_tokens": 10**400, "completion_tokens": 1}, {"prompt_tokens": "9" * 5000},
                                    {"prompt_tokens": -1}, {"prompt_tokens": float("inf")}, {"prompt_tokens": float("nan")},
                                    {"prompt_tokens": True}, {"prompt_tokens": [1]}],
                         ids=range(7))
def test_counts_that_are_none(counts: Any) -> None:
    assert usage_of(counts) is None


def test_a_vector_with_a_number_beyond_doubles_is_none() -> None:
    assert fault_of([[10**400]], 1)


@pytest.mark.parametrize("written", ['{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', '{"a": ' + "[" * 101 + "]" * 101 + "}",
                                     '{"a": 1, "a": 2}'], ids=lambda written: written[:10])
def test_arguments_of_a_call_that_are_no_json_come_as_the_text_that_they_are(written: str) -> None:
    assert arguments_of(written) == written


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("error", [Silent(), ValueError("x" * 10**7), KeyError("\udc80"), ValueError("a\n\x00\ud800b")])
def test_an_exception_is_told_in_a_short_line_that_can_be_written(error: Exception) -> None:
    for told in (raised(error), str(Unexpected(error)), words_of(error, 100), Unexpected(error).trace):
        told.encode()
        assert len(told) < 10_000
    assert "\n" not in raised(error)


@given(st.text(alphabet=st.characters()) | st.text(alphabet="a\ud800\udfff\U0001f600"))
def test_every_text_can_be_made_encodable(text: str) -> None:
    assert encodable(text).encode().decode() == encodable(text)
    assert encodable(encodable(text)) == encodable(text)
    assert all_encodable({text: [text]}) == {encodable(text): [encodable(text)]}


async def test_an_event_whose_texts_hold_half_pairs_is_written_and_folded_as_it_is_read() -> None:
    journal = Journal.in_memory()
    async with journal:
        await journal.append(Fired(step="s", round=1, read={}),
                             Failed(activation="s@1~0", error="a\udc80b", final=True, trace="\ud800"),
                             RunEnded(outcome="stopped", reason="\udfff"))
        assert journal.state.active["s@1"].lost == {None: r"a\udc80b"}
        (failed,) = [event for _, event in journal.events(Failed)]
        assert (failed.error, failed.trace, failed.final) == (r"a\udc80b", r"\ud800", True)


def test_of_what_went_wrong_at_once_what_stops_the_run_comes_first() -> None:
    waits, unforeseen, stops = Waiting(["a"]), ValueError("v"), JournalError("j")
    assert failure_of(ExceptionGroup("g", [waits, unforeseen, ExceptionGroup("h", [stops])])) is stops
    assert isinstance(failure_of(ExceptionGroup("g", [waits, unforeseen])), Unexpected)
    both = failure_of(ExceptionGroup("g", [waits, Waiting(["b"])]))
    assert isinstance(both, Waiting) and both.keys == ("a", "b")
    assert isinstance(failure_of(ExceptionGroup("g", [unforeseen, BudgetExceeded("b")])), BudgetExceeded)
