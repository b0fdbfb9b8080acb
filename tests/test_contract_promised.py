"""The contract check: what a design promises, and what stands in the file."""

from __future__ import annotations

from typing import Any

import pytest
from contract_cases import HERE, designed, entry, told, verified

KEPT: dict[str, tuple[Any, str]] = {
    "to the letter": ("def f(a: int, b: str = 'x') -> int", "def f(a: int, b: str = 'x') -> int: return 1"),
    "one parameter more, with a default": ("def f(a)", "def f(a, b=1): ..."),
    "an alias": ("def f(a)", "def g(a): ...\nf = g"),
    "a lambda": ("def f(a)", "f = lambda a: a"),
    "what a call makes": ("def f(a)", "from functools import partial\nf = partial(print)"),
    "a decorator that may do anything": ("def f(a)", "import app\n@app.anything\ndef f(x, y): ..."),
    "a decorator that changes nothing": ("def f(a)", "from functools import cache\n@cache\ndef f(a): ..."),
    "overloads": (
        "def f(a: int) -> int",
        "from typing import overload\n@overload\ndef f(a: str) -> str: ...\n@overload\ndef f(a: int) "
        "-> int: ...\ndef f(a): return a",
    ),
    "one of two, by the version": (
        "def f(a)",
        "import sys\nif sys.version_info > (3, 12):\n    def f(a): ...\nelse:\n    def f(b): ...",
    ),
    "either way of an import": ("def f(a)", "try:\n    from fast import f\nexcept ImportError:\n    def f(a): ..."),
    "async": ("async def f(a) -> int", "async def f(a) -> int: return 1"),
    "a plain function that gives a coroutine": (
        "async def f(a)",
        "from collections.abc import Awaitable\ndef f(a) -> Awaitable[int]: ...",
    ),
    "a constant": ("LIMIT: int = 100", "LIMIT = 100"),
    "a constant that is computed": ("HOME: str", "import os\nHOME = os.sep"),
    "a constant by another road": ('NAME = "a"', 'from pathlib import Path\nNAME = Path("a")'),
    "a function as a value": ("hook: Callable[[int], int]", "def hook(a): return a"),
    "unpacked": ("B", "A, B = 1, 2"),
    "set by a function": ("CACHE", "def fill():\n    global CACHE\n    CACHE = {}"),
    "not known before it runs": ("def f(a)", "def __getattr__(name): return print"),
    "wider types": ("def f(a: Path) -> int", "from pathlib import Path\ndef f(a: str | Path) -> int: return 1"),
    "older words for the same type": (
        "def f(a: list[int]) -> dict[str, int]",
        "from typing import Dict, List\ndef f(a: List[int]) -> Dict[str, int]: return {}",
    ),
    "an alias of a type": ("def f(a: int) -> int", "Number = str\ndef f(a: Number) -> Number: return a"),
    "a method": (entry("class A", "def m(self, a)"), "class A:\n    def m(self, a): ..."),
    "an inherited method": (entry("class A", "def m(self, a)"), "class B:\n    def m(self, a): ...\nclass A(B): ..."),
    "a method by the order of its parents": (
        entry("class D", "def m(self, a)"),
        "class A:\n    def m(self): ...\nclass B(A):\n    def m(self, a): ...\nclass C(A): ...\nclass D(C, B): ...",
    ),
    "a method from outside": (entry("class A", "def m(self, a)"), "import threading\nclass A(threading.Thread): ..."),
    "a class method as a static one": (
        entry("class A", "@classmethod def m(cls, a)"),
        "class A:\n    @staticmethod\n    def m(a): ...",
    ),
    "a property as an attribute": (
        entry("class A", "@property def p(self) -> int"),
        "class A:\n    def __init__(self): self.p = 1",
    ),
    "an attribute as a property": (entry("class A", "p: int"), "class A:\n    @property\n    def p(self): return 1"),
    "a property with a setter": (
        entry("class A", "p: int"),
        "class A:\n    @property\n    def p(self): return 1\n    @p.setter\n    def p(self, value): ...",
    ),
    "slots": (entry("class A", "p"), "class A:\n    __slots__ = ('p',)"),
    "an attribute set from outside": (entry("class A", "p"), "class A: ...\nA.p = 1"),
    "a frozen object that sets itself": (
        entry("class A", "p"),
        "class A:\n    def __init__(self):\n        object.__setattr__(self, 'p', 1)",
    ),
    "attributes by their names": (
        entry("class A", "p"),
        "class A:\n    def __init__(self, **all):\n        for name in all: setattr(self, name, 1)",
    ),
    "a dataclass": (
        entry("@dataclass class A", "a: int", "b: int = 1"),
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    a: int\n    b: int = 1",
    ),
    "a dataclass written out": (
        entry("@dataclass class A", "a: int", "b: int = 1"),
        "class A:\n    def __init__(self, a: int, b: int = 1): self.a, self.b = a, b",
    ),
    "a dataclass with fields of its own": (
        entry("@dataclass class A", "a: int"),
        "from dataclasses import dataclass, field\nfrom typing import ClassVar\n@dataclass\nclass A:\n    a: int\n"
        "    n: ClassVar[int] = 0\n    _c: dict = field(init=False)\n    m: list = field(default_factory=list, kw_only=True)",
    ),
    "a dataclass that inherits": (
        entry("class A", "def __init__(self, a: int, b: int)"),
        "from dataclasses import dataclass\n@dataclass\nclass B:\n    a: int\n@dataclass\nclass A(B):\n    b: int",
    ),
    "a named tuple": (
        entry("class A(NamedTuple)", "a: int", "b: int = 1"),
        "from typing import NamedTuple\nclass A(NamedTuple):\n    a: int\n    b: int = 1",
    ),
    "an enumeration": (entry("class A(Enum)", 'X = "x"'), "from enum import Enum\nclass A(Enum):\n    X = 'x'"),
    "an error": ("class E(Exception)", "class E(ValueError): ..."),
    "a generic class": ("class A(Generic[T])", "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass A(Generic[T]): ..."),
    "a constructor from outside": (entry("class A", "def __init__(self, a)"), "import enum\nclass A(enum.Enum): ..."),
}

BROKEN: dict[str, tuple[Any, str, str]] = {
    "missing": (
        "def f(a)",
        "def g(a): ...",
        "app/a.py: `f` is not defined here; the design promises `def f(a)`; there is: g; fix: define `f` as the design has it",
    ),
    "mistyped": ("def parse(a)", "def prase(a): ...", "did you mean `prase`?"),
    "for type checkers alone": (
        "def f(a)",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    def f(a): ...",
        "it stands there for type checkers alone",
    ),
    "annotated and never set": ("LIMIT: int", "LIMIT: int", "it is annotated there and never given a value"),
    "another signature": (
        "def f(a, b=1)",
        "def f(a, b): ...",
        "line 1: `f(a, b)` is not what the design promises, `def f(a, b=1)`: "
        "`b` has no default; fix: write it as the design has it",
    ),
    "behind a harmless decorator": (
        "def f(a)",
        "from functools import cache\n@cache\ndef f(b): ...",
        "the parameter `a` is missing",
    ),
    "both of two": (
        "def f(a)",
        "import sys\nif sys.platform:\n    def f(b): ...\nelse:\n    def f(c): ...",
        "the parameter `a` is missing",
    ),
    "defined again": ("def f(a)", "def f(a): ...\ndef f(b): ...", "the parameter `a` is missing"),
    "not async": ("async def f(a)", "def f(a): ...", "it is not `async`"),
    "async where it is not": ("def f(a)", "async def f(a): ...", "it is `async`"),
    "another type": (
        "def f(a: Decimal) -> int",
        "from decimal import Decimal\ndef f(a: float) -> int: return 1",
        "`a` is a `float`, not a `Decimal`",
    ),
    "another result": ("def f() -> int | None", "def f() -> str: return ''", "it gives `str`, not `int | None`"),
    "a class for a function": ("def f(a)", "class f: ...", "`f` is a class; the design promises a function: `def f(a)`"),
    "a function for a class": ("class A", "def A(): ...", "`A` is a function; the design promises a class"),
    "a value for a function": ("def f(a)", "f = 3", "`f` is a value; the design promises a function"),
    "a function for a constant": ("LIMIT = 3", "def LIMIT(): ...", "`LIMIT` is a function; the design promises a value"),
    "another value": ("LIMIT = 100", "LIMIT = 10", "`LIMIT` is `10`; the design promises `LIMIT = 100`"),
    "another kind of value": ("LIMIT = 1", "LIMIT = True", "`LIMIT` is `True`"),
    "no method": (
        entry("class A", "def add(self, a)"),
        "class A:\n    def ad(self, a): ...",
        "line 1: `A.add` is not there; the design promises `def add(self, a)` in `A`; did you mean `ad`?",
    ),
    "another method": (entry("class A", "def m(self, a)"), "class A:\n    def m(self, b): ...", "line 2: `A.m(b)` is not what"),
    "an inherited method of another form": (
        entry("class A", "def m(self, a)"),
        "class B:\n    def m(self): ...\nclass A(B): ...",
        "`A.m()` is not what the design promises",
    ),
    "a property for a method": (
        entry("class A", "def p(self)"),
        "class A:\n    @property\n    def p(self): ...",
        "`A.p` is a property; the design promises a method",
    ),
    "a method for a property": (
        entry("class A", "@property def p(self)"),
        "class A:\n    def p(self): ...",
        "`A.p` is a method; the design promises a property",
    ),
    "a method for an attribute": (entry("class A", "p: int"), "class A:\n    def p(self): ...", "promises a value"),
    "a method for a static one": (
        entry("class A", "@staticmethod def m(a)"),
        "class A:\n    def m(self, a): ...",
        "promises a staticmethod",
    ),
    "no attribute": (entry("class A", "size: int"), "class A:\n    def __init__(self): self.sise = 1", "did you mean `sise`?"),
    "another constructor": (
        entry("class A", "def __init__(self, a, b=1)"),
        "class A:\n    def __init__(self, a): ...",
        "`A(a)` is not how the design has it made, `def __init__(self, a, b=1)`: the parameter `b` is missing",
    ),
    "no constructor": (entry("class A", "def __init__(self, a)"), "class A: ...", "`A()` is not how the design has it made"),
    "an async constructor": (
        entry("class A", "def __init__(self, a)"),
        "class A:\n    async def __init__(self, a): ...",
        "`A.__init__` is `async`, and no object can be made so",
    ),
    "a dataclass with its fields in another order": (
        entry("@dataclass class A", "a: int", "b: str"),
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    b: str\n    a: int",
        "`a` is parameter 2, not 1",
    ),
    "a dataclass with another type": (
        entry("@dataclass class A", "a: Decimal"),
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    a: float",
        "`a` is a `float`, not a `Decimal`",
    ),
    "a dataclass without a field": (
        entry("@dataclass class A", "a: int", "b: int"),
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    a: int",
        "`A.b` is not there",
    ),
    "no member of an enumeration": (
        entry("class A(Enum)", 'X = "x"'),
        "from enum import Enum\nclass A(Enum):\n    Y = 'x'",
        "`A.X` is not there",
    ),
    "another member of an enumeration": (
        entry("class A(Enum)", 'X = "x"'),
        "from enum import Enum\nclass A(Enum):\n    X = 'y'",
        "`A.X` is `'y'`",
    ),
    "another base": (
        "class E(ValueError)",
        "class E(Exception): ...",
        "`E` inherits from Exception; the design promises `class E(ValueError)`; fix: make it inherit from `ValueError`",
    ),
    "no base": ("class E(ValueError)", "class E: ...", "`E` inherits from nothing"),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    promise, text = KEPT[name]
    assert told({"app/__init__.py": "anything = print", "app/a.py": text}, {"app/a.py": [promise]}) == []


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str) -> None:
    promise, text, why = BROKEN[name]
    found = told({"app/a.py": text}, {"app/a.py": [promise]})
    assert any(why in one for one in found), found
    assert all(one.startswith("app/a.py: ") for one in found)


def test_a_re_export_is_a_promise_too() -> None:
    files = {"app/__init__.py": "from app.rules import parse", "app/rules.py": "def parse(a): ...\ndef show(a): ..."}
    assert told(files, {"app/__init__.py": ["from .rules import parse"]}) == []
    assert told(files, {"app/__init__.py": ["from .rules import parse, show"]}) == [
        "app/__init__.py: `show` is not defined here; the design promises `from .rules import parse, show`; there is: parse; "
        "fix: define `show` as the design has it"
    ]


def test_a_method_may_come_from_another_file() -> None:
    files = {"app/a.py": "from app.b import Base\nclass A(Base): ...", "app/b.py": "class Base:\n    def m(self, a): ..."}
    promised = {"app/a.py": [entry("class A(Base)", "def m(self, a)")]}
    assert told(files, promised) == []
    found = told({**files, "app/b.py": "class Base:\n    def m(self): ..."}, promised)
    assert found and "`A.m()`" in found[0]


def test_files() -> None:
    promised = {"app/a.py": ["def f(a)"], "app/page.html": []}
    assert told({"app/a.py": "def f(a): ...", "app/page.html": "<p>"}, promised) == []
    assert told({"app/page.html": "<p>"}, promised) == [
        "app/a.py: `app/a.py` is missing; the design has it for: a purpose; it is to define `def f(a)`; fix: write it"
    ]
    assert "`app/page.html` is missing" in told({"app/a.py": "def f(a): ..."}, promised)[0]
    assert "is no Python" in told({"app/a.py": "def f(a: ..."}, {"app/a.py": ["def f(a)"]})[0]
    assert "null bytes" in told({"app/a.py": "x = '\0'"}, {"app/a.py": []})[0]
    twins = told({"app/a.py": "", "app/a/__init__.py": ""})
    assert twins == [
        "app/a.py: `app/a.py` and `app/a/__init__.py` are one module to Python, and only the folder is found; "
        "fix: keep one of them"
    ]


def test_the_user_of_a_missing_name_is_not_blamed() -> None:
    """One fault, at the file that breaks its promise."""
    files = {"app/a.py": "from app.b import f\nf(1, 2)", "app/b.py": "def g(a): ..."}
    assert [one[:9] for one in told(files, {"app/b.py": ["def f(a, b)"]})] == ["app/b.py:"]
    files["app/b.py"] = "def f(a): ..."
    assert [one[:9] for one in told(files, {"app/b.py": ["def f(a, b)"]})] == ["app/b.py:"]
    assert told({"app/a.py": files["app/a.py"]}, {"app/b.py": ["def f(a, b)"]})[0].startswith("app/b.py: `app/b.py` is missing")


def test_what_cannot_be_checked_is_said() -> None:
    """Files in another language, and those that are nested too deep to be followed: no fault is told of them."""
    source = {"app/a.py": "from app.deep import x", "app/deep.py": f"x = {'-' * 400}1", "app/page.js": "let x"}
    found = verified(source, None, designed({path: [] for path in source}), HERE)
    assert found == {"ok": True, "faults": [], "unchecked": ["app/deep.py", "app/page.js"]}
