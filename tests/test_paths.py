from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from metaflow_agents.schema import paths


@pytest.mark.parametrize("path", [
    "", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.", ".git", ".git/config", "a/.GIT/x", "a\\b", "a\0b", "a\nb", "a\x7f",
    "C:/x", "c:x", "a /b", "a./b", "a.", "a ", "~/x", "x" * 241, "/".join(["abc"] * 300), "a\ud800",
    "a\u200bb", "a\u202eb", "a\u2060b", "\ufeffa", *(f"{above}{name}{below}" for name in (
        ".git", ".GIT", ".Git", "git~1", "GIT~1", ".git ", ".git.", ".git. .", ".git ..", "git~1 .", ".git:x",
        ".git::$INDEX_ALLOCATION", ".git . :x",
        "git~1:x", "GIT~1. ::$DATA", ".g\u200cit", ".git\u200d", "\ufeff.git", ".gi\u206ft", ".\u202ag\u202eit")
        for above in ("", "src/") for below in ("", "/config")),
])
def test_refused_paths(path: str) -> None:
    assert paths.refusal(path)
    assert not paths.matches(["**"], path)


@pytest.mark.parametrize("path", [
    "a", "a/b.py", ".github/x", ".gitignore", "app/[slug]/page.tsx", "a b", "ü/x", "x" * 240, "ab:c", "0:x", "..a",
    "git", "git~", "git~2", "git~10", "xgit~1", ".gitx", ".git x", ".git .x", "git~1x", "x.git", ".git-blame-ignore-revs", ".gít",
    "g", "gi/g", "日本/𝔤𝔦𝔱", ".gıt", "grün"])
def test_good_paths(path: str) -> None:
    assert paths.refusal(path) is None
    assert paths.matches(["**"], path)


@pytest.mark.parametrize(("pattern", "path", "expected"), [
    ("src/**", "src/a", True), ("src/**", "src/a/b.py", True), ("src/**", "src", False), ("src", "src/a", False),
    ("**/a.py", "a.py", True), ("**/a.py", "x/y/a.py", True), ("a/**/b", "a/b", True), ("a/**/b", "a/x/y/b", True),
    ("*.py", "a.py", True), ("*.py", "x/a.py", False), ("*", ".hidden", True), ("a?c", "abc", True), ("a?c", "a/c", False),
    ("[ab]c", "bc", True), ("[!ab]c", "bc", False), ("[!a]", "/", False), ("[a-c]x", "bx", True), ("[]]", "]", True),
    ("a**b", "axxb", True), ("a**b", "a/b", False), ("x[.]py", "x.py", True),
])
def test_patterns(pattern: str, path: str, expected: bool) -> None:
    assert paths.matches([pattern], path) is expected


@pytest.mark.parametrize("pattern", [
    "", "src/", "/a", "../x", "a/./b", "[a", "a[b/c]", "[b-a]", ".git/**", "a\\b", "a//b", "*.", "C:x", "[.][.]"])
def test_refused_patterns(pattern: str) -> None:
    assert paths.pattern_refusal(pattern)
    assert not any(paths.matches([pattern], path) for path in ("a", "src/a", "x.", "a/b"))


def test_a_pattern_that_names_a_folder_says_how_to_mean_what_is_below() -> None:
    assert "`src/**`" in (paths.pattern_refusal("src/") or "")


def test_any_of_several_patterns() -> None:
    assert paths.matches(["a", "b/**"], "b/c")
    assert not paths.matches([], "b/c")


# A naive reference: a pattern is all the texts that it may spell, tried by recursion over parts and characters.

def naive(pattern: str, path: str) -> bool:
    return _parts(pattern.split("/"), path.split("/"))


def _parts(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        least = 1 if len(pattern) == 1 else 0
        return any(_parts(pattern[1:], path[n:]) for n in range(least, len(path) + 1))
    return bool(path) and _chars(pattern[0], path[0]) and _parts(pattern[1:], path[1:])


def _chars(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(_chars(pattern[1:], text[n:]) for n in range(len(text) + 1))
    if pattern[0] == "[":
        chosen, rest = pattern[1:].split("]", 1)
        return bool(text) and ((text[0] not in chosen[1:]) if chosen[0] == "!" else text[0] in chosen) and _chars(rest, text[1:])
    return bool(text) and pattern[0] in ("?", text[0]) and _chars(pattern[1:], text[1:])


PATHS = [p for n in range(1, 6) for p in map("".join, product("ab./", repeat=n)) if paths.refusal(p) is None]
part = st.lists(st.sampled_from(["a", "b", ".", "*", "?", "[ab]", "[!a]", "[.b]"]), min_size=1, max_size=3).map("".join)
patterns = st.lists(st.one_of(part, st.just("**")), min_size=1, max_size=3).map("/".join).filter(
    lambda pattern: paths.pattern_refusal(pattern) is None)


@settings(max_examples=examples(150), deadline=None)
@given(patterns)
def test_matches_equals_the_naive_reference(pattern: str) -> None:
    assert [p for p in PATHS if paths.matches([pattern], p)] == [p for p in PATHS if naive(pattern, p)]


@settings(max_examples=examples(300), deadline=None)
@given(patterns, patterns)
def test_overlap_is_sound_and_complete(first: str, second: str) -> None:
    found = paths.overlap(first, second)
    if found is not None:
        assert paths.refusal(found) is None
        assert naive(first, found)
        assert naive(second, found)
    common = [p for p in PATHS if naive(first, p) and naive(second, p)]
    assert not (found is None and common), common[:3]
    assert (found is None) == (paths.overlap(second, first) is None)


GIT_PATHS = [p for n in range(1, 7) for p in map("".join, product("git~1.: /x", repeat=n))
             if n < 5 or ".git" in p or "git~1" in p]


def test_whether_a_pattern_meets_a_path_is_the_same_as_whether_it_is_refused() -> None:
    """The walk over the automaton of all paths that are not refused, against what is refused: around every spelling of `.git`."""
    def walked(path: str) -> bool:
        state: str | None = "start"
        for char in path:
            state = None if state is None else paths._follow(state, char)
        return state is not None and paths._may_end(state)

    assert [p for p in GIT_PATHS if walked(p) != (paths.refusal(p) is None)] == []


@given(st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=20))
def test_escaped_text_matches_itself_and_nothing_else(text: str) -> None:
    pattern = paths.escape(text)
    if paths.refusal(text) is None:
        assert paths.pattern_refusal(pattern) is None
        assert paths.literal(pattern) == text
        assert paths.matches([pattern], text)
        assert not paths.matches([pattern], text + "x")


@pytest.mark.parametrize(("first", "second", "found"), [
    ("source/**", "**/*.py", True), ("a/*", "b/*", False), ("*.py", "*.pyc", False), (".gi?", ".?it", False),
    ("app/[[]s]/x", "app/[s]/x", False),
    ("src/a.py", "src/**", True), ("src/a.py", "src/a.py", True), ("src/a.py", "src/b.py", False),
    ("*", "**", True), ("[a-zA-Z]:x", "*", False), ("?:x", "*", True),
    ("x[.a]", "x[.b]", False), ("[ -.]", "?", True), ("[~-é]", "?", True), ("[Z-a]:", "?:", True), ("[ü-ÿ]", "[à-ý]", True),
    ("[! -\u200a]", "?", True), ("[! -\u2027]", "?", True), ("[! -\u2027\u202f-\U0010ffff]", "?", False),
    (".gi?:a", ".?it:*", False), ("git~?", "?it~[1]", False), ("git~?", "git~[12]", True),
    ("x/g?t~1", "*/?it~*", False), ("[g]:x", "?:x", False),
    (".*", "*.", False), ("[a-m]*", "[k-z]*", True), ("[a-k]*", "[m-z]*", False),
])
def test_overlap_cases(first: str, second: str, found: bool) -> None:
    assert (paths.overlap(first, second) is not None) is found


def test_hostile_patterns_take_no_exponential_time() -> None:
    pattern = "*a" * 60
    assert not paths.matches([pattern], "a" * 59)
    assert paths.overlap("**/" * 12 + "x", "*a" * 12 + "/x") == "a" * 12 + "/x"


def test_whether_patterns_meet_takes_no_exponential_time() -> None:
    assert paths.overlap("*a" + "?" * 24, "*b" + "?" * 23) is not None
    assert paths.overlap("*a" + "?" * 24, "*b" + "?" * 24) is None          # the same place from the end


def test_literal() -> None:
    assert paths.literal("a/b") == "a/b"
    assert paths.literal("a/*") is None
    assert paths.literal("[ab]") is None


def test_clash() -> None:
    assert paths.clash(["a/b", "c"]) is None
    assert paths.clash(["a/b/c", "a"]) == ("a", "a/b/c")
