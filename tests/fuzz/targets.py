"""The parsers of foreign bytes, each as the product calls it, with what it may raise and texts to begin with."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from metaflow_agents.errors import MetaflowError

TESTS = Path(__file__).parent.parent
MOST = 400_000  # characters of an input


@dataclass(frozen=True)
class Target:
    """`feed` is given one input; `raises` is what that may raise; `corpus` gives texts of the honest kind."""

    name: str
    feed: Callable[[str], object]
    corpus: Callable[[], tuple[str, ...]]
    raises: tuple[type[Exception], ...] = (MetaflowError,)
    most: int = MOST
    words: tuple[str, ...] = field(default=())


def raw(text: str) -> bytes:
    """The bytes of an input: half a character stays half a character."""
    return text.encode("utf-8", "surrogatepass")


def loaded(text: str) -> Any:
    """Foreign JSON as the product reads it; where it is none, the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def beside(work: Callable[[], object], standstill: float = 1.0) -> None:
    """Work that a thread of its own does. Raises TimeoutError where no other thread could go on for `standstill` seconds."""
    longest, last = 0.0, time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        while not done.done():
            time.sleep(0.01)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
    done.result()
    if longest > standstill:
        raise TimeoutError(f"it held all threads up for {longest:.1f} s")


# -- what models say


def blocks(text: str) -> None:
    """Files and edits of an answer."""
    from metaflow_agents.agent.applying import PartTaken, apply_answers, apply_blocks, following
    from metaflow_agents.agent.blocks import holds_block, parse_blocks, read_blocks

    holds_block(text)
    current = {"src/a.py": "\n".join(f"line {number}" for number in range(400)), "src/b.py": "def f():\n    return 1\n"}
    said, faults = read_blocks(text)
    try:
        apply_blocks(said, current, ["src/**", "*.py"], faults)
    except PartTaken as error:
        if error.kept:
            apply_answers(following(error.kept, said), current, ["src/**", "*.py"])
    parse_blocks(text)


BLOCKS = (
    "Here it is.\n=== file: src/c.py ===\n```python\ndef g():\n    return 2\n```\n=== end ===\n",
    "=== edit: src/b.py ===\n<<<<<<< SEARCH\n    return 1\n=======\n    return 2\n>>>>>>> REPLACE\n=== end ===\n",
    "=== edit: src/a.py ===\n<<<<<<< SEARCH\n"
    + "\n".join(f"lime {number}" for number in range(60))
    + "\n=======\n>>>>>>> REPLACE\n=== end ===",
    "=== rename: src/b.py -> src/d.py ===\n=== delete: src/a.py ===\n",
    "==== file: docs/form.md ====\n=== end ===\n==== end ====\n",
    "=== x: ",
)


def calls(text: str) -> None:
    """Tool calls in the text of an answer, and arguments against a schema."""
    from metaflow_agents.models.text_form import read_blocks
    from metaflow_agents.tools.arguments import faults_of

    schema = {
        "type": "object",
        "properties": {"path": {"type": "string", "pattern": "^[a-z/.]+$"}, "n": {"type": "integer", "maximum": 9}},
        "required": ["path"],
        "additionalProperties": False,
    }
    for call in read_blocks(text)[1][:50]:
        faults_of(schema, call.arguments)
    faults_of(schema, loaded(text))


CALLS = (
    '```tool_call\n{"name": "read", "arguments": {"path": "a/b.py", "n": 3}}\n```',
    '<tool_call>{"name": "x", "arguments": {}}</tool_call>',
    '{"path": "a", "n": 1e3, "more": [1, {"a": null}]}',
    '{"path": "' + "a" * 90 + '"}',
)


def structured(text: str) -> None:
    """A typed answer."""
    from metaflow_agents.models.structured import as_asked
    from metaflow_agents.schema.validation import validator

    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "number", "multipleOf": 0.5},
            "t": {"type": "string", "pattern": "^(a|b)+$"},
            "l": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
            "o": {"anyOf": [{"type": "null"}, {"enum": ["x", 1, 2.5]}]},
        },
        "required": ["n"],
        "additionalProperties": False,
    }
    as_asked(schema, text)
    check = validator(schema, "answer")
    for value in (loaded(text), {"n": loaded(text)}, {"n": 1, "t": text}):
        try:
            check.validate(value)
        except MetaflowError:
            continue


STRUCTURED = (
    '{"n": 1.5, "t": "abab", "l": [1, 2, 3], "o": "x"}',
    '{"value": {"n": 1}}',
    '{"n": 2, "o": null}',
    '```json\n{"n": 3}\n```',
)


def expressions(text: str) -> None:
    """What `sop check` sees of templates and expressions."""
    from metaflow_agents.prompts import analyse_expression, analyse_template

    analyse_expression(text, {})
    analyse_template(text, {})


def rendering(text: str) -> None:
    """Templates and expressions of a SOP, on data: another moment than their analysis."""
    from metaflow_agents.prompts import evaluate, render

    scope: dict[str, Any] = {"x": {"y": [1, 2, 3]}, "t": "text", "rows": [{"a": 1, "b": "c"}] * 20}
    for act in (evaluate, render):
        try:
            act(text, scope)
        except MetaflowError:
            continue


EXPRESSIONS = (
    "x.y | sum > 3 and t != ''",
    "{% for r in rows if r.a > 0 %}{{ r.b | upper | join(', ') }}{% else %}none{% endfor %}",
    "rows | selectattr('a') | map(attribute='b') | list | tojson(indent=2)",
    "{{ t | replace('t', 'a') | indent(4) | center(80) }}",
    "{% macro m(a, b=2) %}{{ a }}{% endmacro %}{{ m(1) }}{% set z = [1, 2] %}{{ z[0] + x.y[1] ** 2 }}",
    "t ~ 'a' * 3 if x else none",
)


# -- what people and strangers write


def sop(text: str) -> None:
    """A SOP that is checked."""
    from tempfile import TemporaryDirectory

    from metaflow_agents.runtime.checking import check

    with TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder) / "it.yaml"
        path.write_bytes(raw(text))
        for problem in check(path, start=Path(folder)).problems:
            str(problem)


@cache
def sops() -> tuple[str, ...]:
    """SOPs of the tests, good and bad."""
    return tuple(
        file.read_text(encoding="utf-8", errors="replace")
        for kind in ("good", "bad")
        for file in sorted((TESTS / "sops" / kind).glob("*.yaml"))
        if file.stat().st_size < 6000
    )


def policy(text: str) -> None:
    """Rules of a policy, and commands that they are asked about."""
    from metaflow_agents.policy.action import Action
    from metaflow_agents.policy.patterns import RuleWritten
    from metaflow_agents.policy.policy import Policy
    from metaflow_agents.schema.tools import PolicySpec

    words = text.split("\n")[:5]
    try:
        rules = Policy(
            PolicySpec.model_validate({"preset": "workspace", "allow": words[:1], "deny": words[1:2]}), None, role_name="r"
        )
    except (RuleWritten, ValueError, MetaflowError):
        rules = Policy(
            PolicySpec.model_validate({"allow": ["run(git *)"], "deny": ["run(touch *)", "fetch(http://a.b/*)"]}),
            None,
            role_name="r",
        )
    for verb in ("run", "write", "fetch", "mcp"):
        rules.decide(Action(verb, text), untrusted="")


POLICY = (
    "run(git push *)\nrun(python -m pytest *)",
    "fetch(https://*.example.com/a/**)\nwrite(src/**)",
    "mcp(github.get_*)\napi(shop.*)",
    "git push origin main",
    "sh -c 'echo a && touch b; (cd x | tee y) > z 2>&1'",
    "env -S 'A=1 nice -n 5 timeout 3 git push' x",
    "find . -name '*.py' -exec touch {} +",
    "xargs -0 -I{} sh -c 'rm {}'",
    "cat <<EOF\n$(touch a)\nEOF",
    "src/../.git/config",
)


def urls(text: str) -> None:
    """URLs, hosts, and where a redirect leads."""
    from metaflow_agents.network import hosts

    base = hosts.parse("https://example.com/a/b?c=d")
    for act in (hosts.parse, hosts.parse_authority, lambda location: hosts.joined(base, location)):
        try:
            act(text)
        except MetaflowError:
            continue


URLS = (
    "https://example.com:8443/a/b;c?d=e&f#g",
    "http://[::ffff:127.0.0.1]/",
    "http://xn--bcher-kva.example/ü",
    "//user:pass@h/../x",
    "http://2130706433/",
    "HTTP://EXAMPLE.com./%2e%2e/%00",
    "http://a.b.c.d.e/?" + "q=1&" * 20,
    "http://１２７.0.0.1/",
    "bücher.example:80",
)


def shell(text: str) -> None:
    """Paths and patterns of files."""
    from metaflow_agents.schema import paths

    paths.refusal(text)
    for pattern in (text, "src/**/*.py"):
        for path in (text[:2000], "src/a/b.py"):
            try:
                paths.matches([pattern], path)
            except (MetaflowError, ValueError):
                continue


PATHS = (
    "src/**/*.py",
    "a/../b",
    "C:\\x",
    "docs/[a-z]*.{md,txt}",
    "*/*/*/*/*/*/x",
    "**/**/**/a",
    "a/" * 40,
    ".git/config",
    "GIT~1/x",
    "a\u0301/b",
)


# -- what servers say


def openapi(text: str) -> None:
    """The description of a service."""
    from metaflow_agents.schema.tools import ApiSpec
    from metaflow_agents.tools.openapi import OpenApiService
    from metaflow_agents.tools.port import Setting

    setting = Setting(Path(), lambda name: name, {})
    service = OpenApiService(
        "depot", ApiSpec.model_validate({"spec": "x.yaml", "operations": ["*"], "server": "https://a.b"}), loaded(text), setting
    )
    asyncio.run(service.tools())


@cache
def descriptions() -> tuple[str, ...]:
    """A whole description, and its paths one by one."""
    import yaml

    whole = yaml.safe_load((TESTS / "apis" / "depot.yaml").read_text(encoding="utf-8"))
    single = [{**whole, "paths": {path: item}} for path, item in whole["paths"].items()]
    return tuple(json.dumps(one) for one in (whole, *single))


def mcp(text: str) -> None:
    """What an MCP server lists and gives."""
    from mcp_types import CallToolResult, ListToolsResult
    from pydantic import ValidationError

    from metaflow_agents.tools.mcp_listing import Listing
    from metaflow_agents.tools.mcp_result import text_of

    listing = Listing()
    message = loaded(text)
    for tool in message if isinstance(message, list) else [message, {"name": "x", "inputSchema": message}]:
        listing.add(tool)
    listing.settle()
    for model in (CallToolResult, ListToolsResult):
        try:
            made = model.model_validate_json(raw(text))
        except ValidationError:
            continue
        if isinstance(made, CallToolResult):
            text_of(made)


MCP = (
    '[{"name": "stock", "description": "What is there", "inputSchema": {"type": "object", "properties": {"item": {"type": "string", '
    '"pattern": "^[a-z ]+$"}, "n": {"$ref": "#/$defs/n"}}, "required": ["item"], "$defs": {"n": {"type": "integer", "minimum": 0}}}}]',
    '{"content": [{"type": "text", "text": "4 kettles"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}], "isError": false, '
    '"structuredContent": {"result": [1, 2]}}',
    '{"tools": [{"name": "a", "inputSchema": {"type": "object"}}], "nextCursor": "b"}',
    '{"type": "object", "allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"properties": {"b": {"$ref": "#/$defs/a"}}}}}',
)


def endpoint(text: str) -> None:
    """The answer of an endpoint, whole and as a stream."""
    from metaflow_agents.models.endpoint.answer import Malformed, ToldError, Transcript, whole_answer

    body = raw(text)
    for act in (whole_answer, lambda data: _streamed(Transcript(), data)):
        try:
            act(body)
        except (Malformed, ToldError):
            continue


def _streamed(transcript: Any, data: bytes) -> None:
    size = max(1, len(data) // 200)
    for at in range(0, len(data), size):
        transcript.feed(data[at : at + size])
    transcript.answer()


@cache
def wires() -> tuple[str, ...]:
    """Recorded answers of real servers, without their headers."""
    return tuple(
        body.decode("utf-8", "replace")
        for file in sorted((TESTS / "wire").glob("*.http"))
        if (body := file.read_bytes().partition(b"\r\n\r\n")[2] or file.read_bytes().partition(b"\n\n")[2])
    )


# -- documents, reports, code


def junit(text: str) -> None:
    """A test report."""
    from metaflow_agents.sandbox.report import read_junit

    asyncio.run(read_junit(raw(text), 1, "the report"))


JUNIT = (
    '<?xml version="1.0"?><testsuites><testsuite name="pytest" tests="2"><testcase classname="tests.test_a" name="test_x" time="0.1"/>'
    '<testcase classname="tests.test_a.TestB" name="test_y[1]"><failure message="assert 1 == 2">def test_y():\nE   assert 1 == 2\n'
    "tests/test_a.py:3: AssertionError</failure></testcase></testsuite></testsuites>",
    '<testsuite><testcase name="a"><error message="ValueError: x" type="ValueError">a.py:1: in f\n</error><skipped/></testcase></testsuite>',
    '<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;&b;">]><testsuite>&d;</testsuite>',
)


def html(text: str) -> None:
    """A web page."""
    from metaflow_agents.documents.folder import read_folder

    asyncio.run(read_folder({"page.html": raw(text), "note.md": raw(text), "plain.txt": raw(text)}))


HTML = (
    "<!doctype html><title>T</title><h1>H</h1><p>Hello <b>you</b><table><tr><td>1<td>2</table><ul><li>a<li>b</ul><script>x</script>",
    "<div><pre>a\n b</pre><a href='x'>y</a><svg><style></svg></div>",
    "# Title\n\nText with *stars*, `code` and [a](b).\n\n- one\n- two\n",
)


def pdf(text: str) -> None:
    """A PDF document."""
    from metaflow_agents.documents.folder import read_folder

    asyncio.run(read_folder({"paper.pdf": b"%PDF-1.4\n" + text.encode("latin-1", "replace")}))


@cache
def pdfs() -> tuple[str, ...]:
    """A small document with text, whole and without its first line."""
    from io import BytesIO

    from pypdf import PdfWriter

    writer = PdfWriter()
    writer.add_blank_page(200, 200)
    writer.add_metadata({"/Title": "T"})
    made = BytesIO()
    writer.write(made)
    body = made.getvalue().decode("latin-1")
    page = (
        "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj "
        "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>endobj "
        "4 0 obj<</Length 40>>stream\nBT /F 12 Tf (Hello world) Tj ET\nendstream endobj "
        "5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\nxref\n0 1\ntrailer<</Root 1 0 R/Size 6>>\nstartxref\n0\n%%EOF"
    )
    return body, page


def quotations(text: str) -> None:
    """A report whose quotations are looked for in its sources, and set as a page."""
    from metaflow_agents.kits.research.quotations.verify import verify
    from metaflow_agents.schema.source import Source, SourcePage

    words = " ".join(f"word{number % 97}" for number in range(3000))
    verify(
        {"s": text},
        [Source(id="S1", path="a.txt", title="A", kind="text", words=3000, notes=(), pages=(SourcePage(number=None, text=words),))],
    )
    verify(
        {"s": "He said “word1 word2 word3 word5” [S1]."},
        [Source(id="S1", path="a.txt", title="A", kind="text", words=9, notes=(), pages=(SourcePage(number=None, text=text),))],
    )


QUOTATIONS = (
    "It is “word1 word2 word3 word4” [S1], and “word9 … word11 word12” [S1, p. 3].",
    'He said "word5 word6 word7 word9" [S2].',
    "## Heading\n\nA > quote\n\n> word1 word2\n\n“Nested ‘word3’ words” [S1; S2]",
)


def code(text: str) -> None:
    """Python that a model wrote, against its design: as the function of a step, in a thread."""
    from metaflow_agents.kits.python_package.verification import verify

    file = {
        "path": "p/a.py",
        "purpose": "x",
        "uses": [],
        "covers": [],
        "interface": [{"signature": "def f(a: int) -> int", "purpose": "y"}],
    }
    design = {"package": "p", "files": [file], "dependencies": [], "commands": []}
    beside(lambda: verify({"p/__init__.py": "", "p/a.py": text}, None, design))


CODE = (
    "def f(a: int) -> int:\n    return a + 1\n",
    "import os\nfrom p.a import f\nclass A(B):\n    x: int = 3\n    def m(self, *a, **k):\n        return [i for i in a]\n",
    "@dataclass\nclass C:\n    a: dict[str, list[int]]\n\nif True:\n    try:\n        f(1, b=2)\n    except* ValueError as e:\n        pass\n",
    "match x:\n    case {'a': [1, *_]} | C(b=2):\n        pass\n",
    "f'{a!r:>{width}} {b}'\n",
)


def packaging(text: str) -> None:
    """A `pyproject.toml` that a model wrote."""
    from metaflow_agents.kits.python_package.verification import verify

    verify({"p/__init__.py": ""}, {"pyproject.toml": text}, {"package": "p", "files": [], "dependencies": [], "commands": []})


TOML = (
    '[project]\nname = "p"\nversion = "1"\ndependencies = ["a>=1; python_version < \'3.12\'"]\n[project.scripts]\np = "p.a:f"\n',
    '[build-system]\nrequires = ["setuptools"]\n[tool.setuptools.packages.find]\nwhere = ["src"]\n',
    'a.b.c = [{x = 1}, """t"""]\n',
)


def plans(text: str) -> None:
    """Planning problems that a model wrote."""
    from metaflow_agents.kits.planning.domains import read_domain
    from metaflow_agents.kits.planning.executing import execute
    from metaflow_agents.kits.planning.problems import read_problem

    read_domain(text, "domain.pddl")
    domain, _ = read_domain(PDDL[0], "domain.pddl")
    assert domain is not None
    read_problem(text, "problem.pddl", domain)
    problem, _ = read_problem(PDDL[1], "problem.pddl", domain)
    assert problem is not None
    execute(domain, problem, text)


PDDL = (
    "(define (domain b) (:requirements :strips :typing) (:types block) (:predicates (on ?x ?y - block) (clear ?x - block))\n"
    "(:action move :parameters (?x ?y - block) :precondition (and (clear ?x) (clear ?y)) :effect (and (on ?x ?y) (not (clear ?y)))))",
    "(define (problem p) (:domain b) (:objects a c - block) (:init (clear a) (clear c)) (:goal (on a c)))",
    "(move a c)\n; cost = 1\n",
)

TARGETS = (
    Target("blocks", blocks, lambda: BLOCKS),
    Target("calls", calls, lambda: CALLS),
    Target("structured", structured, lambda: STRUCTURED),
    Target("expressions", expressions, lambda: EXPRESSIONS, most=60_000),
    Target("rendering", rendering, lambda: EXPRESSIONS, most=60_000),
    Target("sop", sop, sops, most=100_000),
    Target("policy", policy, lambda: POLICY, most=100_000),
    Target("urls", urls, lambda: URLS),
    Target("paths", shell, lambda: PATHS, most=20_000),
    Target("openapi", openapi, descriptions),
    Target("mcp", mcp, lambda: MCP),
    Target("endpoint", endpoint, wires),
    Target("junit", junit, lambda: JUNIT),
    Target("html", html, lambda: HTML),
    Target("pdf", pdf, pdfs),
    Target("quotations", quotations, lambda: QUOTATIONS, most=200_000),
    Target("code", code, lambda: CODE),
    Target("packaging", packaging, lambda: TOML),
    Target("plans", plans, lambda: PDDL),
)
