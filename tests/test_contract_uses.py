"""The contract check: what files take from each other, and from outside."""

from __future__ import annotations

import pytest
from contract_cases import told

STORE = """
class Store:
    kind = "file"
    def __init__(self, path): self.path = path
    def add(self, item, *, day=None): return item
    @classmethod
    def of(cls, path): return cls(path)
    @staticmethod
    def next(items): return 1
class Fast(Store):
    def flush(self): ...
def load(path, *, strict=False): return Store(path)
"""

FINE: dict[str, str] = {
    "by name": "from app.store import Store, load\nload('x', strict=True)\nStore('x').add(1, day=2)",
    "by module": "from app import store\nstore.load('x')\nstore.Store.of('x')",
    "by its whole name": "import app.store\napp.store.load('x')",
    "by another name": "import app.store as s\ns.load('x')",
    "by dots": "from . import store\nfrom .store import load\nstore.load('x')\nload('y')",
    "a method on its class": "from app.store import Store\nStore.add(Store('x'), 1)\nStore.next([])",
    "arguments in stars": "from app.store import load\nload(*['x'], **{'strict': True})",
    "inside a function": "def f():\n    from app.store import load\n    return load('x')",
    "shadowed": "from app.store import load\ndef f(load): return load(1, 2, 3)",
    "bound twice": "from app.store import load\nload = print\nload(1, 2, 3)",
    "a class's own names": "from app.store import load\nclass A:\n    load = print\n    x = load(1, 2, 3)",
    "by type checkers alone": "from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"
    "if TYPE_CHECKING:\n    from app.store import Nothing\ndef f(a: Nothing): ...",
    "caught": "try:\n    from app.store import nothing\nexcept ImportError:\n    nothing = None",
    "asked for": "try:\n    unicode\nexcept NameError:\n    unicode = str\nunicode('x')",
    "caught by kind, and looked at": "try:\n    from app.store import nothing\nexcept ImportError as e:\n"
    "    if e.name != 'x':\n        raise\n    nothing = None",
    "asked for by any fault": "def f():\n    try:\n        return get_ipython()\n    except Exception:\n        return None",
    "caught, and raised elsewhere": "def f():\n    try:\n        return laod\n    except:\n"
    "        def again(): raise\n        return again",
    "comprehensions": "xs = [y for x in [[1]] for y in x if y]\nprint({a: b for a, b in []}, (z := 3), z)",
    "a lambda": "f = lambda a, *b, c=1, **d: (a, b, c, d)",
    "walrus in a comprehension": "def f(xs):\n    return [last := x for x in xs], last",
    "match": "def f(x):\n    match x:\n        case {'a': a, **rest}: return a, rest\n        case [b, *c]: return b, c\n"
    "        case str() as s: return s",
    "a name that comes later": "def f(): return later()\ndef later(): ...",
    "a nested class": "class A:\n    class B: ...\n    class C(B): ...\n    def m(self): return __class__",
    "exceptions": "try:\n    pass\nexcept ValueError as error:\n    print(error)",
    "the module's own": "print(__name__, __file__, __doc__)",
    "star": "from app.store import *\nload('x')\nStore('x')",
    "text as annotation": "def f(a: 'Later') -> 'Later': ...\nclass Later: ...",
    "an object's subclass": "from app.store import Store\ndef f(store: Store): return store.flush()",
    "asked what it is": "from app.store import Store\ndef f(store: Store):\n    if hasattr(store, 'x'): return store.x",
    "given away": "def more(cls, name): setattr(cls, name, 1)\nclass A:\n    def m(self): return self.x\nmore(A, 'x')\nA().m()",
    "made by nobody here": "class Mixin:\n    def m(self): return self.given_by_others",
    "for another system": "import sys\nif sys.platform == 'java':\n    import java",
    "names of an enumeration": "import enum\n@enum.global_enum\nclass E(enum.Enum):\n    RED = 1\nprint(RED)",
    "set from outside": "from app.store import Store\ndef f(store: Store):\n    store.more = 1\n    return store.more",
    "standard library": "import os.path, sys, tomllib\nfrom collections.abc import Mapping",
    "global": "def f():\n    global seen\n    seen = 1\nprint(seen)",
    "del": "x = 1\ndel x",
    "generic": "def f(a: list[int]) -> dict[str, int]: ...",
    "version": "import sys\nif sys.version_info >= (3, 20):\n    newbuiltin()",
}

WRONG: dict[str, tuple[str, str]] = {
    "a name that is not there": (
        "from app.store import laod",
        "line 1: `from app.store import laod`: `app/store.py` has no `laod`; "
        "did you mean `load`? there is: Fast, Store, load; fix: take a name that is there",
    ),
    "inside a function": ("def f():\n    from app.store import laod", "line 2: `from app.store import laod`"),
    "from a module that is not there": (
        "from app.stroe import load",
        "there is no module `app.stroe`; did you mean `app.store`?",
    ),
    "a module that is not there": ("import app.stroe", "`import app.stroe`: there is no such module in the package"),
    "from the package": ("from app import stroe", "`from app import stroe`: `app/__init__.py` has no `stroe`"),
    "out of the package": ("from ..app import store", "`from ..app import …` leads out of the package: this file lies in `app`"),
    "by its file name": (
        "import store",
        "`import store`: there is no top-level module `store`; fix: name it from the package's root, `app.store`",
    ),
    "an attribute of a module": ("from app import store\nstore.laod('x')", "`store.laod`: `app/store.py` has no `laod`"),
    "an attribute of a class": ("from app.store import Store\nStore.size", "`Store.size`: `app/store.py` has no `Store.size`"),
    "an attribute of an object": (
        "from app.store import Store\ndef f():\n    store = Store('x')\n    return store.remove(1)",
        "`store.remove`: objects of `Store` (app/store.py) have no `remove`; there is: add, kind, next, of, "
        "path; fix: use what the class has",
    ),
    "an attribute of a parameter": (
        "from app.store import Store\ndef f(store: Store): return store.remove(1)",
        "objects of `Store` (app/store.py) have no `remove`",
    ),
    "an attribute of self": (
        "class A:\n    def __init__(self): self.size = 1\n    def m(self): return self.sise\nA()",
        "`self.sise`: objects of `A` (app/a.py) have no `sise`; did you mean `size`?",
    ),
    "an argument too many": (
        "from app.store import load\nload('x', 'y')",
        "line 2: `load('x', 'y')`: it takes one argument by place, "
        "and 2 are given; `app/store.py` defines `load(path, *, strict=…)`; fix: call it as it is defined",
    ),
    "an argument missing": ("from app.store import Store\nStore()", "`Store()`: it is not given `path`"),
    "an argument of another name": ("from app import store\nstore.load('x', strct=True)", "there is no parameter `strct`"),
    "a method's argument": (
        "from app.store import Store\ndef f(s: Store): return s.add()",
        "`s.add()`: it is not given `item`; `app/store.py` defines `Store.add(item, *, day=…)`",
    ),
    "a class method's argument": ("from app.store import Store\nStore.of()", "`Store.of()`: it is not given `path`"),
    "a method on its class, without an object": ("from app.store import Store\nStore.add(1)", "it is not given `item`"),
    "a call in its own file": ("def f(a): ...\nf()", "`f()`: it is not given `a`"),
    "a name nobody binds": (
        "def f(): return Decimal(1)",
        "line 1: `Decimal` is used and nowhere defined or imported in this file",
    ),
    "a name nobody binds, whose fault is only told": (
        "def main():\n    try:\n        return laod()\n    except Exception as e:\n        print(e)",
        "line 3: `laod` is used and nowhere defined",
    ),
    "a name nobody binds, whose fault goes on": (
        "def f(x):\n    try:\n        return laod(x)\n    except ValueError:\n        raise\n    except:\n        if x:\n"
        "            print(x)\n        else:\n            raise",
        "line 3: `laod` is used and nowhere defined",
    ),
    "an import whose failure goes on": (
        "try:\n    from app.store import laod\nexcept:\n    print('no')\n    raise",
        "line 2: `from app.store import laod`: `app/store.py` has no `laod`",
    ),
    "not declared, and its failure goes on": (
        "try:\n    import requests\nexcept Exception:\n    raise",
        "line 2: `requests` is imported",
    ),
    "a name of another class": ("class A:\n    x = 1\n    def m(self): return x", "`x` is used and nowhere defined"),
    "a type that is evaluated": ("def f(a: Decimal): ...", "`Decimal` is used and nowhere defined"),
    "not declared": (
        "import requests",
        "line 1: `requests` is imported, and is neither of the standard library nor a declared "
        "dependency (declared: none); fix: do it with the standard library",
    ),
    "not declared, inside a function": ("def f():\n    from requests.sessions import Session", "line 2: `requests` is imported"),
    "there, and not declared": ("import pytest", "`pytest` is imported, and is neither"),
}


@pytest.mark.parametrize("name", FINE)
def test_fine(name: str) -> None:
    assert told({"app/__init__.py": "", "app/store.py": STORE, "app/a.py": FINE[name]}) == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    text, why = WRONG[name]
    found = told({"app/__init__.py": "", "app/store.py": STORE, "app/a.py": text})
    assert len(found) == 1 and why in found[0], found
    assert found[0].startswith("app/a.py: line ")


def test_declared_dependencies_may_be_imported() -> None:
    files = {"app/a.py": "import yaml\nfrom rich.table import Table"}
    assert len(told(files)) == 2
    assert told(files, dependencies=[{"name": "pyyaml", "why": ""}, {"name": "Rich", "why": ""}]) == []


def test_stray_files_are_judged_by_what_they_break() -> None:
    """A file that no design lists is no fault; what does not work in it is."""
    assert told({"app/a.py": "", "app/more.py": "def f(): ..."}, {"app/a.py": []}) == []
    assert "`nothing` is used" in told({"app/a.py": "", "app/more.py": "nothing()"}, {"app/a.py": []})[0]


CIRCLES: dict[str, tuple[dict[str, str], bool]] = {
    "names both ways": ({"a": "from app.b import y\nx = 1", "b": "from app.a import x\ny = 1"}, True),
    "modules both ways": ({"a": "import app.b\nx = 1", "b": "import app.a\ny = 1"}, False),
    "modules by from": ({"a": "from app import b\nx = 1", "b": "from app import a\ny = 1"}, False),
    "a module's name at once": (
        {"a": "from app import b\nclass X(b.Y): ...", "b": "from app import a\nz = a.X\nclass Y: ..."},
        True,
    ),
    "a module's name later": ({"a": "from app import b\nx = 1", "b": "from app import a\ndef f(): return a.x"}, False),
    "inside a function": (
        {"a": "from app.b import y\nx = 1", "b": "y = 1\ndef f():\n    from app.a import x\n    return x"},
        False,
    ),
    "at the end": ({"a": "x = 1\nfrom app.b import y", "b": "y = 1\nfrom app.a import x"}, False),
    "for type checkers": (
        {
            "a": "from app.b import y\nx = 1",
            "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from app.a import x\ny = 1",
        },
        False,
    ),
    "caught": (
        {"a": "from app.b import y\nx = 1", "b": "try:\n    from app.a import x\nexcept ImportError:\n    x = 0\ny = 1"},
        False,
    ),
    "over three": (
        {"a": "from app.b import y\nx = 1", "b": "from app.c import z\ny = 1", "c": "from app.a import x\nz = 1"},
        True,
    ),
    "over the package": ({"__init__": "from app.a import x\nv = 1", "a": "from app import v\nx = 1"}, True),
    "over the package, in order": ({"__init__": "v = 1\nfrom app.a import x", "a": "from app import v\nx = 1"}, False),
    "a star": ({"a": "from app.b import *\nx = 1\ndef f(): return y", "b": "from app.a import x\ny = 1"}, True),
    "a star, too early": ({"a": "import app.b\nx = 1", "b": "from app.a import *\ny = x"}, True),
    "a star of what is there by then": ({"a": "x = 1\nimport app.b", "b": "from app.a import *\ny = x"}, False),
    "a star that nobody needs": ({"a": "import app.b\nx = 1", "b": "from app.a import *\ny = 1"}, False),
    "a star, and a name of one's own": ({"a": "import app.b\nx = 1", "b": "from app.a import *\nx = 2\ny = x"}, False),
    "itself by a default": ({"a": "from app.b import y\nx = 1", "b": "import app.a\ndef y(z=app.a.x): ..."}, True),
}


@pytest.mark.parametrize("name", CIRCLES)
def test_circles(name: str) -> None:
    files, fails = CIRCLES[name]
    found = told({"app/__init__.py": "", **{f"app/{module}.py": text for module, text in files.items()}})
    assert bool(found) is fails, found
    assert all("circular import" in one for one in found)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CIRCLES)
def test_python_agrees_on_circles(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    from contract_truth import failing_imports

    files, fails = CIRCLES[name]
    written = {"app/__init__.py": "", **{f"app/{module}.py": text for module, text in files.items()}}
    assert bool(failing_imports(written, tmp_path_factory.mktemp("circle"))) is fails


def test_a_circle_is_told_at_the_import_that_the_design_does_not_allow() -> None:
    files = {"app/a.py": "from app.b import y\nx = 1", "app/b.py": "from app.a import x\ny = 1"}
    design = {"app/a.py": ["x"], "app/b.py": ["y"]}
    from contract_cases import HERE, designed, verified

    made = designed(design)
    made["files"][0]["uses"] = ["app/b.py"]
    found = verified(files, None, made, HERE)["faults"]
    assert [fault["path"] for fault in found] == ["app/b.py"]
    assert (
        "line 1: circular import: app/" in found[0]["why"] and "the design does not let app/b.py use app/a.py" in found[0]["why"]
    )
    made["files"][0]["uses"], made["files"][1]["uses"] = [], ["app/a.py"]
    assert [fault["path"] for fault in verified(files, None, made, HERE)["faults"]] == ["app/a.py"]
