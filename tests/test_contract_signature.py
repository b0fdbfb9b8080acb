"""Signatures: what differs, and which calls can't bind, held against Python's own binding."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.kits.python_package.signature import FunctionParameter, FunctionSignature, differences, unbindable

NAMES = ("a", "b", "c", "d")


def written(text: str) -> FunctionSignature:
    node = ast.parse(f"def f{text}: ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    return FunctionSignature.of(node)


def called(text: str) -> ast.Call:
    node = ast.parse(f"f{text}", mode="eval").body
    assert isinstance(node, ast.Call)
    return node


@st.composite
def signatures(draw: st.DrawFn) -> FunctionSignature:
    names = draw(st.permutations(NAMES))[: draw(st.integers(0, 4))]
    first = draw(st.integers(0, len(names)))
    second = draw(st.integers(first, len(names)))
    defaults = draw(st.integers(0, second))
    found = [
        FunctionParameter(name, "positional" if index < first else "plain", index >= second - defaults)
        for index, name in enumerate(names[:second])
    ]
    if draw(st.booleans()):
        found.append(FunctionParameter("args", "many"))
    found += [FunctionParameter(name, "keyword", draw(st.booleans())) for name in names[second:]]
    if draw(st.booleans()):
        found.append(FunctionParameter("rest", "rest"))
    return FunctionSignature(tuple(found))


CALLS = st.tuples(st.integers(0, 5), st.lists(st.sampled_from((*NAMES, "z")), unique=True, max_size=5))


def binds(signature: FunctionSignature, places: int, names: list[str]) -> dict[str, object] | None:
    """What a real function of this signature gets; None where Python refuses the call."""
    made: dict[str, Callable[..., dict[str, object]]] = {}
    exec(f"def f{str(signature).replace('=…', '=None')}: return locals()", made)
    try:
        return made["f"](*range(places), **{name: name for name in names})
    except TypeError:
        return None


@pytest.mark.one_in(4)
@given(signatures(), CALLS)
def test_a_call_binds_where_python_binds_it(signature: FunctionSignature, call: tuple[int, list[str]]) -> None:
    places, names = call
    text = ", ".join([*map(str, range(places)), *(f"{name}=0" for name in names)])
    why = unbindable(signature, called(f"({text})"))
    assert (why is None) is (binds(signature, places, names) is not None), (str(signature), text, why)


@given(signatures(), signatures(), CALLS)
def test_what_keeps_the_promise_takes_what_was_promised(
    declared: FunctionSignature, other: FunctionSignature, call: tuple[int, list[str]]
) -> None:
    """With no difference told, every call that is promised is taken, and each name means the same argument."""
    if differences(declared, other):
        return
    ours, theirs = binds(declared, *call), binds(other, *call)
    if ours is None:
        return
    assert theirs is not None, (str(declared), str(other), call)
    for one in declared.parameters:
        if one.kind in ("plain", "keyword") and ours[one.name] is not None:
            assert theirs[one.name] == ours[one.name], (str(declared), str(other), call)


@given(signatures())
def test_a_signature_keeps_itself(signature: FunctionSignature) -> None:
    assert differences(signature, signature) == []
    assert str(written(str(signature).replace("=…", "=1"))) == str(signature)


@pytest.mark.parametrize(
    ("declared", "other", "told"),
    [
        ("(a, b=1)", "(a, b=1, c=2)", ""),
        ("(a, b)", "(a, b=1)", ""),
        ("(a, *, b)", "(a, b)", ""),
        ("(a, /)", "(z)", ""),
        ("(a)", "(z)", "the parameter `a` is missing; `z` is a parameter more, without a default"),
        ("(a, b)", "(b, a)", "`a` is parameter 2, not 1; `b` is parameter 1, not 2"),
        ("(a, b=1)", "(a, b)", "`b` has no default"),
        ("(a, b)", "(a, *, b)", "`b` can be given by name only"),
        ("(a)", "(a, /)", "`a` can't be given by name"),
        ("(a)", "(a, b)", "`b` is a parameter more, without a default"),
        ("(a)", "(a, *, b)", "`b` is a parameter more, without a default"),
        ("(a, *args)", "(a)", "`*args` is missing"),
        ("(a, *args)", "(a, b=1, *args)", "`b` takes what was meant for `*args`"),
        ("(*args, a)", "(a, *args)", "`a` takes what was meant for `*args`"),
        ("(**rest)", "()", "`**rest` is missing"),
        ("(a, b)", "(*args, **rest)", "the parameter `a` is missing; the parameter `b` is missing"),
        ("(*, a=1)", "(*, a)", "`a` has no default"),
    ],
)
def test_differences_are_told_by_name(declared: str, other: str, told: str) -> None:
    assert "; ".join(differences(written(declared), written(other))) == told


@pytest.mark.parametrize(
    ("signature", "call", "told"),
    [
        ("(a, b=1)", "(1)", None),
        ("(a, b=1)", "()", "it is not given `a`"),
        ("(a)", "(1, 2)", "it takes one argument by place, and 2 are given"),
        ("()", "(1)", "it takes no argument by place, and 1 are given"),
        ("(a)", "(c=1)", "there is no parameter `c` that can be given by name"),
        ("(a, /)", "(a=1)", "there is no parameter `a` that can be given by name"),
        ("(a, b)", "(1, a=2)", "`a` is given twice, by place and by name"),
        ("(a, b)", "(*things)", None),
        ("(a, b)", "(**things)", None),
        ("(a, b)", "(*things, z=1)", "there is no parameter `z` that can be given by name"),
    ],
)
def test_calls_that_cannot_bind_are_told(signature: str, call: str, told: str | None) -> None:
    assert unbindable(written(signature), called(call)) == told
