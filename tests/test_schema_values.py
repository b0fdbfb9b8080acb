"""Keys of the journal, quantities, canonical JSON and payloads: what is written is what is read."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from metaflow_agents.schema import payload as payloads
from metaflow_agents.schema.keys import ActivationKey, firing_key, parse_activation, parse_firing
from metaflow_agents.schema.model import canonical, digest, fingerprint
from metaflow_agents.schema.quantity import count, seconds, window

STEPS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)
NUMBERS = st.integers(0, 10**6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(STEPS, NUMBERS, st.none() | st.text(), NUMBERS)
@example("a", 1, "", 0)
@example("a", 1, "x]~3/turn.0", 0)
@example("a", 1, "100%[é]/日本\n", 2)
@example("a", 1, "%5D", 0)
def test_an_activation_key_comes_back(step: str, round_: int, item: str | None, attempt: int) -> None:
    key = ActivationKey(step, round_, item, attempt)
    assert parse_activation(str(key)) == key
    assert parse_activation(f"{key}/turn.0/repair.1") == key
    assert parse_firing(key.firing) == (step, round_)
    assert str(key) == f"{key.slot}~{attempt}"
    assert str(key).isascii()


@given(STEPS, NUMBERS, st.text(), st.text())
def test_different_items_have_different_keys(step: str, round_: int, one: str, other: str) -> None:
    equal = ActivationKey(step, round_, one, 0).slot == ActivationKey(step, round_, other, 0).slot
    assert equal == (one == other)


def test_keys_look_as_the_language_says() -> None:
    assert firing_key("fix_code", 3) == "fix_code@3"
    assert str(ActivationKey("fix_code", 3, "src/a.py", 0)) == "fix_code@3[src/a.py]~0"
    assert str(ActivationKey("walk", 1, None, 2)) == "walk@1~2"
    assert ActivationKey("a", 1, "", 0).slot != ActivationKey("a", 1, None, 0).slot


@pytest.mark.parametrize("wrong", ["", "fix_code", "fix_code@", "fix_code@x", "@3", "fix code@3", "a@1~0", "a@1 "])
def test_what_is_no_firing_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="is not a firing: write like fix_code@2"):
        parse_firing(wrong)


@pytest.mark.parametrize("wrong", ["", "a@1", "a@1[x]", "a@1[x~0", "a@1[x]y~0", "a@1~0x", "a@1[x]]~0", "@1~0"])
def test_what_is_no_activation_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="is not an activation"):
        parse_activation(wrong)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (90, 90.0),
        (1.5, 1.5),
        ("250ms", 0.25),
        ("90s", 90.0),
        ("30m", 1800.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("2d", 172800.0),
    ],
)
def test_durations(written: object, expected: float) -> None:
    assert seconds(written) == pytest.approx(expected)


@pytest.mark.parametrize(
    "wrong", ["", "30", "m", "30 minutes", "-1s", 0, -3, "0s", True, None, "400d", [1], float("nan"), float("inf")]
)
def test_what_is_no_duration_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds(wrong)


@given(st.integers(1, 10**9))
def test_a_count_in_thousands_is_exact(number: int) -> None:
    assert count(number) == number
    assert count(str(number)) == number
    assert count(f"{number // 1000}.{number % 1000:03}k") == number
    assert count(f"{number // 10**6}.{number % 10**6:06}M") == number


@pytest.mark.parametrize(
    ("written", "expected"), [(300, 300), ("16k", 16_000), ("1.5M", 1_500_000), ("1.001M", 1_001_000), ("2 G", 2 * 10**9)]
)
def test_counts(written: object, expected: int) -> None:
    assert count(written) == expected
    assert isinstance(count(written), int)


@pytest.mark.parametrize("wrong", ["", "k", "1.5", "1e3", 0, -1, "0", "0.0001k", True, None, 1.0, "3x", 10**16])
def test_what_is_no_count_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="count"):
        count(wrong)


def test_windows_have_a_normal_form() -> None:
    assert window("40 turns") == window("40 turn") == window([40, "turns"]) == (40, "turns")
    assert window("16k tokens") == window(window("16k tokens")) == (16_000, "tokens")
    assert window("0 turns") == (0, "turns")
    for wrong in ("40", "turns", "40 words", 40, None, [40, "words"], "0 tokens", ["x", "turns"]):
        with pytest.raises(ValueError):
            window(wrong)


@given(JSON)
def test_canonical_json_means_the_same_and_forgets_the_order_of_keys(value: object) -> None:
    assert json.loads(canonical(value)) == value
    assert fingerprint(_turned(value)) == fingerprint(value)
    assert len(fingerprint(value)) == 32
    assert digest(canonical(value)).startswith(fingerprint(value))


def _turned(value: object) -> object:
    if isinstance(value, dict):
        return {key: _turned(inner) for key, inner in reversed(value.items())}
    return [_turned(inner) for inner in value] if isinstance(value, list) else value


def test_fingerprints_tell_values_apart() -> None:
    values: list[object] = [
        None,
        False,
        0,
        "",
        "0",
        [],
        {},
        [0],
        ["0"],
        {"a": 0},
        {"a": 1},
        {"b": 0},
        [[]],
        "false",
        [1, 2],
        [2, 1],
    ]
    assert len({fingerprint(value) for value in values}) == len(values)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), {1, 2}, object()])
def test_what_is_no_json_has_no_canonical_form(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        canonical(wrong)


DIGESTS = st.binary(max_size=4).map(digest)
PATHS = st.text(min_size=1, max_size=12)
PAYLOADS = st.one_of(
    st.builds(payloads.Data, value=JSON),
    st.builds(
        payloads.Files,
        patterns=st.lists(PATHS, max_size=3).map(tuple),
        files=st.dictionaries(PATHS, DIGESTS, max_size=3),
        missing=st.lists(PATHS, max_size=3).map(tuple),
    ),
    st.builds(
        payloads.Patch, written=st.dictionaries(PATHS, DIGESTS, max_size=3), deleted=st.lists(PATHS, max_size=3).map(tuple)
    ),
    st.builds(
        payloads.Collection,
        items=st.lists(st.tuples(PATHS, DIGESTS), max_size=3).map(tuple),
        missing=st.lists(PATHS, max_size=3).map(tuple),
    ),
)


@pytest.mark.one_in(4)
@given(PAYLOADS)
def test_a_payload_comes_back(payload: payloads.Data | payloads.Files | payloads.Patch | payloads.Collection) -> None:
    packed = payloads.pack(payload)
    assert payloads.unpack(packed) == payload
    assert payloads.pack(payloads.unpack(packed)) == packed


@pytest.mark.parametrize(
    "wrong", [b"", b"{}", b'{"kind":"dta"}', b'{"kind":"data","value":1,"more":2}', b'{"kind":"files","files":{"a":1}}']
)
def test_what_is_no_payload_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValidationError):
        payloads.unpack(wrong)


def test_values_are_frozen_and_closed() -> None:
    data = payloads.Data(value=1)
    with pytest.raises(ValidationError):
        data.value = 2  # type: ignore[misc]
    with pytest.raises(ValidationError):
        payloads.Data(value=1, valu=2)  # type: ignore[call-arg]
