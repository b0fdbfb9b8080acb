"""Mutants of a program: what is changed, that each is a program that means something else, and which are chosen."""

from __future__ import annotations

import ast
import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tiers import some

from metaflow_agents.kits import company

PACKAGE = Path(__file__).parent.parent / "metaflow_agents"
REAL = {f"src/{path.relative_to(PACKAGE)}": path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


def mutants(tree: dict[str, str], most: int = 24) -> list[dict[str, Any]]:
    return asyncio.run(company.mutants(tree, most))


def changed(text: str, one: dict[str, Any]) -> str:
    data = text.encode()
    assert data[one["start"]:one["end"]].decode() == one["was"]
    return (data[:one["start"]] + one["now"].encode() + data[one["end"]:]).decode()


def all_of(text: str) -> list[str]:
    return [f"{one['was']} → {one['now']}" for one in mutants({"src/a.py": text}, 1000)]


@pytest.mark.parametrize(("text", "told"), [
    ("a = b < c", ["b < c → (b <= c)"]), ("a = b in c", ["b in c → (b not in c)"]),
    ("a = b is None", ["b is None → (b is not None)"]),
    ("a = b + c", ["b + c → (b - c)"]), ("a = b + 'x'", []), ("a = f'{b}' + c", []), ("a = b and c", ["b and c → (b or c)"]),
    ("a = not b", ["not b → (b)"]), ("a = True", ["True → False"]), ("a = 3", ["3 → 4"]), ("a = 'x'", []), ("a = f'{3}'", []),
    ("def f():\n    return a\n", ["return a → return None"]), ("def f():\n    return None\n", []), ("def f():\n    return\n", []),
    ("def f():\n    g()\n", ["g() → pass"]), ("def f():\n    raise E()\n", ["raise E() → pass"]),
    ("def f():\n    log.info(1 < 2)\n", ["1 < 2 → (1 <= 2)", "1 → 2", "2 → 3"]),
    ("def f(a=1, *, b: int = 2) -> int:\n    '''3'''\n", []), ("@c(1)\ndef f(): pass\n", []),
    ("if __name__ == '__main__':\n    f()\n", []), ("if TYPE_CHECKING:\n    x = 1\n", []),
    ("ä = 'ü'; b = 'ö' if c > d else 0", ["c > d → (c >= d)", "0 → 1"]),
    ("a = (b <\n     c)", ["b <\n     c → (b <= c)"]), ("def f(:\n", []), ("", []), ("x = 1" * 60_000, [])])
def test_what_is_changed(text: str, told: list[str]) -> None:
    assert all_of(text) == told


@pytest.mark.one_in(4)
def test_each_is_a_program_that_means_something_else() -> None:
    seen: Counter[str] = Counter()
    for path, text in some(list(REAL.items()), 60):
        before = ast.dump(ast.parse(text))
        for one in mutants({path: text}, 12):
            assert ast.dump(ast.parse(changed(text, one))) != before, one
            seen[one["id"]] += 1
    assert len(seen) > 50 and set(seen.values()) == {1}


@pytest.mark.one_in(8, always=False)
def test_they_are_spread_over_the_functions_and_the_same_each_time() -> None:
    few = dict(list(REAL.items())[::8])
    found = mutants(few, 120)
    assert len(found) == 120 and found == mutants(dict(reversed(few.items())), 120)
    assert max(Counter((one["path"], one["within"]) for one in found).values()) == 1
    text = "def f():\n    a = 1 < 2\n    return a\ndef g():\n    return b\n"
    assert Counter(one["within"] for one in mutants({"src/a.py": text}, 3)) == {"f": 2, "g": 1}
    kinds = Counter(one["now"].split()[0].strip("()").isdigit() or one["now"].partition(" ")[0] for one in found)
    assert len(kinds) > 5


def test_tests_and_documents_have_none_and_src_is_enough() -> None:
    files: dict[str, str | bytes] = {"tests/test_a.py": "a = 1", "examples/x.py": "a = 1", "data.bin": b"\xff", "app.ts": "a = 1"}
    assert mutants(files) == []
    assert [one["path"] for one in mutants({**files, "app.py": "a = 1"})] == ["app.py"]
    assert [one["path"] for one in mutants({**files, "app.py": "a = 1", "src/b.py": "a = 1"})] == ["src/b.py"]


def of_script(text: str) -> list[str]:
    return [f"{one['was']} → {one['now']}" for one in mutants({"assets/rules.js": text}, 1000)]


@pytest.mark.parametrize(("text", "told"), [
    ("x = a < b;", ["a < b → (a <= b)"]), ("x = a === b;", ["a === b → (a !== b)"]), ("x = a + b;", ["a + b → (a - b)"]),
    ("x = a + 'x';", []), ("x = `${a}` + b;", []), ("x = a ?? b;", ["a ?? b → (a && b)"]), ("x = a && b;", ["a && b → (a || b)"]),
    ("a && f()", []), ("x = !a;", ["!a → (a)"]), ("x = true;", ["true → false"]), ("x = 3;", ["3 → 4"]),
    ("x = 3.5 + 0x10 + 1e3;", ["3.5 + 0x10 → (3.5 - 0x10)", "3.5 + 0x10 + 1e3 → (3.5 + 0x10 - 1e3)"]),
    ("function f() { return a; }", ["return a; → return undefined;"]), ("function f() { return; }", []),
    ("function f() { return null; }", []), ("if (a) f();", ["f(); → ;"]), ("await f()", ["await f() → ;"]),
    ("console.log(1 < 2)", ["1 < 2 → (1 <= 2)", "1 → 2", "2 → 3"]),
    ("if (a) throw new Error('no');", ["throw new Error('no'); → ;"]),
    ("function f(a = 1, {b = 2} = {}) {}", []), ("x = /1/;", []), ("// 1 < 2", []),
    ("if (typeof module !== 'undefined') module.exports = { f: f(1) };", []), ("if (require.main === module) { f(1); }", []),
    ("x = 'ü'; y = c > d;", ["c > d → (c >= d)"]), ("x = ;", []), ("", []),
    ("document.title = 1 + 2;", []), ("x = window.a + 1;", []), ("x = typeof document === 'undefined' ? 1 : 2;",
                                                              ["typeof document === 'undefined' → "
                                                               "(typeof document !== 'undefined')", "1 → 2", "2 → 3"]),
    ("(" * 100_000, []), ("-" * 100_000 + "1", []), ("1+" * 50_000 + "1;", [])])
def test_what_is_changed_in_a_script(text: str, told: list[str]) -> None:
    found = of_script(text)
    assert found == told or (len(text) > 50_000 and len(found) <= 1000)


def test_changes_of_scripts_say_in_which_function_they_are() -> None:
    text = ("const f = (a) => a + 1;\nclass C { m() { return 2; } }\n"
            "function g() { return [3].map(function h(x) { return x; }); }\n")
    assert {(one["line"], one["within"]) for one in mutants({"assets/rules.js": text}, 50)} == {
        (1, "f"), (2, "C.m"), (3, "g"), (3, "g.h")}


def test_changed_scripts_stay_scripts() -> None:
    """In each place of a script that is written without semicolons as well."""
    text = ("const rows = [1, 2]\nlet sum = 0\nfor (const one of rows) {\n"
            "  if (one < 2 && one !== 3) sum += one * 2\n  else add(one)\n}\n"
            "function add(n) {\n  if (!n) throw new RangeError('none')\n  sum = sum + n\n  return sum\n}\n"
            "if (typeof module !== 'undefined') module.exports = { add }\n")
    found = mutants({"rules.js": text}, 100)
    assert len(found) > 12
    for one in found:
        again = changed(text, one)
        assert again != text and mutants({"rules.js": again}, 100), (one, "it can still be read")
