# ruff: noqa: E501
"""The map of a repository: what is found in files, which files come first, what fits a budget, and what hostile files cost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import networkx as nx
import pytest
from test_agent_tools import Script, calls
from tiers import some

from metaflow_agents import run
from metaflow_agents.code.map import reading
from metaflow_agents.code.map.mapping import mapped
from metaflow_agents.code.map.parsing import parse_job
from metaflow_agents.code.map.ranking import pagerank, ranked
from metaflow_agents.code.map.reading import Definition, KeptTags, Parts
from metaflow_agents.code.map.rendering import rendered
from metaflow_agents.texts.search_words import words
from metaflow_agents.threads.blocking import Threads

SHOP = {
    "shop/cart.py": b"from shop.money import Amount\n\nclass Cart:\n    '''What a customer wants.'''\n    def add(self, item, price):\n"
                    b"        def inner():\n            pass\n        self.total = Amount(price)\n\nLIMIT = 5\n",
    "shop/money.py": b"class Amount:\n    def rounded(self):\n        return 1\n",
    "shop/mail.py": b"def send_letter(to, text):\n    return to\n",
    "README.md": b"# A shop\n\nIt sends letters.\n",
    "logo.png": b"\x89PNG\0\0",
}


def threads() -> Threads:
    return Threads(1, "test-map")


@pytest.mark.parametrize("language, text, found", [
    ("python", "@deco\nclass A(B):\n    def f(self, a: int) -> int:\n        return g(a)\nX = 1\n",
     [("A", "class", 2, 0, "class A(B):"), ("f", "function", 3, 1, "def f(self, a: int) -> int:"), ("X", "value", 5, 0, "X = 1")]),
    ("javascript", "export class A { run(x) { return y(x) } }\nexport const f = (a) => a\nfunction g() {}\n",
     [("A", "class", 1, 0, "class A"), ("run", "function", 1, 1, "run(x)"), ("f", "value", 2, 0, "f = (a) => a"),
      ("g", "function", 3, 0, "function g()")]),
    ("typescript", "interface I { go(a: string): void }\nexport class C implements I { go(a: string) {} }\ntype T = I\n",
     [("I", "class", 1, 0, "interface I"), ("go", "function", 1, 1, "go(a: string): void"),
      ("C", "class", 2, 0, "class C implements I"), ("go", "function", 2, 1, "go(a: string)"), ("T", "class", 3, 0, "type T = I")]),
    ("tsx", "export function App(p: P) { return <b>{p.x}</b> }\n", [("App", "function", 1, 0, "function App(p: P)")]),
    ("go", "package p\ntype S struct{ x int }\nfunc (s *S) Go(a int) error { return nil }\nconst K = 1\n",
     [("S", "class", 2, 0, "S struct{ x int }"), ("Go", "function", 3, 0, "func (s *S) Go(a int) error"), ("K", "value", 4, 0, "K = 1")]),
    ("java", "class A extends B { int f(int x) { return g(x); } }\n",
     [("A", "class", 1, 0, "class A extends B"), ("f", "function", 1, 1, "int f(int x)")]),
    ("rust", "struct S { x: u8 }\nimpl S { fn go(&self) -> u8 { self.x } }\n",
     [("S", "class", 1, 0, "struct S"), ("S", "class", 2, 0, "impl S"), ("go", "function", 2, 1, "fn go(&self) -> u8")]),
    ("c", "struct s { int x; };\nint f(int a) { return g(a); }\nint h(int a);\n#define N 1\n",
     [("s", "class", 1, 0, "struct s"), ("f", "function", 2, 0, "int f(int a)"), ("h", "function", 3, 0, "int h(int a);"),
      ("N", "value", 4, 0, "#define N 1")]),
])
def test_definitions_of_each_language(language: str, text: str, found: list[Any]) -> None:
    assert parse_job(text.encode(), language)["definitions"] == found


def test_uses_are_without_definitions_and_without_comments_and_words_lose_their_endings() -> None:
    found = parse_job(b"def send_letters(n):\n    # other(n)\n    return send_letters(n) + 'quoted'\n", "python")
    assert found["uses"] == {"n": 2, "send_letters": 1}
    assert set(words("send letters quoted other")) <= set(found["words"])


async def test_what_a_request_is_about_comes_first_and_what_its_file_uses_before_the_rest() -> None:
    found = await mapped(threads(), SHOP, "The cart adds a price twice")
    assert found.order[0] == "shop/cart.py" and found.order[1] == "shop/money.py"
    assert "logo.png" not in found.order and found.unread == {}
    assert found.text.startswith("shop/cart.py:\n  3: class Cart:\n    5: def add(self, item, price):\n  10: LIMIT = 5\nshop/money.py:\n")
    assert "inner" not in found.text, "what is local to a function is nobody else's"
    letters = await mapped(threads(), SHOP, "letters are sent twice")
    assert letters.order[0] == "shop/mail.py"


@pytest.mark.parametrize("request_, mentioned, first", [
    ("a letter is sent twice, see shop/money.py", (), "shop/money.py"), ("mend mail.py", (), "shop/mail.py"), ("`send_letter` fails", (), "shop/mail.py"),
    ("money is lost", ("shop/mail.py",), "shop/mail.py"), ("", (), "shop/money.py"),
])
async def test_names_and_paths_that_a_request_says(request_: str, mentioned: tuple[str, ...], first: str) -> None:
    assert (await mapped(threads(), SHOP, request_, mentioned=mentioned)).order[0] == first


def test_pagerank_is_that_of_networkx() -> None:
    pytest.importorskip("scipy")
    for seed in some(range(40)):
        rng = random.Random(seed)
        arrows: nx.DiGraph[str] = nx.DiGraph()
        arrows.add_nodes_from(f"{number}" for number in range(rng.randint(1, 12)))
        for _ in range(rng.randint(0, 30)):
            one, other = rng.choice(list(arrows)), rng.choice(list(arrows))
            arrows.add_edge(one, other, weight=rng.random() + 0.1)
        personal = {name: rng.random() for name in arrows if rng.random() < 0.7}
        wanted = nx.pagerank(arrows, alpha=0.5, personalization=personal or None, tol=1e-10)
        found = pagerank(arrows, personal)
        assert found == pytest.approx(wanted, abs=1e-6), seed


def test_a_map_keeps_its_budget_and_says_what_it_leaves_out() -> None:
    parts = {f"f{number}.py": Parts(tuple(Definition(f"name_{number}_{at}", "function", at, 0, f"def name_{number}_{at}(é):")
                                          for at in range(1, 40)), {}, {}) for number in range(30)}
    order = [path for path, _ in ranked(parts, "name 3 7")]
    for tokens in (100, 333, 2_000):
        text = rendered(parts, order, tokens, "name 3 7")
        assert len(text.encode()) <= tokens * 4
        assert len(text.encode()) > tokens * 2, "and uses it"
        assert "more files]" in text and " more]\n" in text
    assert "def name_3_7(" in rendered({"f3.py": parts["f3.py"]}, ["f3.py"], 200, "what about 7 of 3"), "what is asked about is kept"


async def test_a_file_is_parsed_once_for_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    parsed = reading.parsed

    async def counted(name: str, data: bytes, **arguments: Any) -> Any:
        asked.append(data.decode())
        return await parsed(name, data, **arguments)

    monkeypatch.setattr(reading, "parsed", counted)
    kept = KeptTags(most=100)
    first = await kept.read({"a.py": b"x = 1\n", "b.py": b"y = 2\n"})
    assert await kept.read({"a.py": b"x = 1\n", "moved.py": b"y = 2\n"}) == {"a.py": first["a.py"], "moved.py": first["b.py"]}
    assert asked == ["x = 1\n", "y = 2\n"]
    await kept.read({"a.md": b"x = 1\n"})
    assert len(asked) == 3, "another language, another parse"
    await kept.read({"large.py": b"# " + b"z" * 98 + b"\n"})
    await kept.read({"b.py": b"y = 2\n"})
    assert len(asked) == 5, "what was used longest ago is forgotten past the size"


HOSTILE: Mapping[str, bytes] = {
    "deep.py": b"(" * 200_000, "nested.py": b"\n".join(b" " * depth + b"if x:" for depth in range(900)),
    "long.py": b"x" * 900_000, "names.py": b" ".join(b"n%d" % number for number in range(120_000)),
    "many.py": b"def f(): pass\n" * 60_000, "classes.py": b"".join(b" " * at + b"class A:\n" for at in range(800)),
    "deep.js": b"[" * 200_000, "broken.ts": b"class { <" * 50_000, "deep.c": b"{" * 200_000, "macro.rs": b"m!(" * 100_000,
}


@pytest.mark.one_in(10, always=False)
@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_files_cost_what_they_may(name: str) -> None:
    found = await asyncio.wait_for(mapped(threads(), {name: HOSTILE[name], "fine.py": b"def fine(): pass\n"}, "fine"), 300)
    assert found.order[0] == "fine.py" and name in found.order
    assert len(found.text) <= 8_000


async def test_what_is_too_large_or_refused_is_told_in_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 1_000)
    found = await mapped(threads(), {"large.py": b"x = 1\n" * 1_000, "a.py": b"x = 1\n"}, "")
    assert "large.py (has 6,000 bytes, and at most 1,000 are read)\n" in found.text
    assert found.unread == {"large.py": "has 6,000 bytes, and at most 1,000 are read"}


TOOL = """
sop: looks
inputs: {repo: {type: folder}, wish: string}
roles: {scout: {profile: looks around, tools: [map]}}
artifacts: {places: {}, plan: {}}
steps:
  map_it: {tool: map, inputs: {request: wish, tokens: "300", files: "['shop/mail.py']"}, needs: [repo, wish], makes: places}
  plan_it: {role: scout, needs: [places], sees: [repo], show: {repo: none}, makes: plan, task: Where?}
outputs: [places, plan]
"""


async def test_a_step_and_a_role_call_it(tmp_path: Any) -> None:
    (tmp_path / "looks.yaml").write_text(TOOL)
    for path, data in SHOP.items():
        place = tmp_path / "shop_repo" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    model = Script(calls(("map", {"request": "money", "pattern": "**/*.py"}), ("map", {"pattern": "/etc/**"}),
                         ("map", {"pattern": "none/**"})), "done")
    result = await run(tmp_path / "looks.yaml", repo=str(tmp_path / "shop_repo"), wish="a cart", model=model, workspace=None)
    assert result.ok
    assert str(result["places"]).startswith("shop/mail.py:\n  1: def send_letter(to, text):\nshop/cart.py:\n"), "`files` come first"
    told = str(model.sent[-1].messages)
    assert "shop/money.py:" in told and "is no path pattern" in told and "no file matches `none/**`; there are 5 files in all" in told
