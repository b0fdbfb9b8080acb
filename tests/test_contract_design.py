"""Designs: what their schema can't say, the diagrams drawn from them, and the check as a step of a SOP."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from contract_cases import HERE, PYPROJECT, designed, entry
from scripted import Scripted, write

from metaflow_agents import run
from metaflow_agents.kits.python_package import design_faults
from metaflow_agents.kits.python_package.declared import BadSignature, declared
from metaflow_agents.kits.python_package.designing import designed as looked
from metaflow_agents.prompts import render
from metaflow_agents.schema.validation import validator

ROOT = Path(__file__).parent.parent
SCHEMA: dict[str, Any] = yaml.safe_load((ROOT / "sops/design.schema.yaml").read_text(encoding="utf-8"))
EXAMPLE: dict[str, Any] = SCHEMA["examples"][0]
COMPANY: dict[str, Any] = yaml.safe_load((ROOT / "tests/company/design.yaml").read_text(encoding="utf-8"))
TEMPLATE = (ROOT / "sops/design.md.j2").read_text(encoding="utf-8")


def test_the_example_of_the_schema_is_a_design_without_fault() -> None:
    check = validator(SCHEMA, "design")
    for design in (EXAMPLE, COMPANY):
        assert check.validate(design) == design
        assert design_faults(design) == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(a: int) -> str",
        "def f(a: int) -> str:",
        "def f(a: int) -> str: ...",
        "async def f()",
        "class A",
        "class A(B):",
        "class A: ...",
        "@dataclass(frozen=True) class A(B)",
        "@dataclass(frozen=True)\nclass A",
        "@property def p(self) -> int",
        "@a @b.c(1) async def f()",
        "X: int = 100",
        "X = 'class a'",
        "X",
        "from .rules import parse, show",
        "class A:\n    x: int\n    def f(self): ...",
    ],
)
def test_signatures_as_people_write_them(text: str) -> None:
    assert declared({"signature": text, "does": ""}, "here").names


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the signature is empty"),
        (
            "parse(line: str) -> Expense",
            "`parse(line: str) -> Expense` has no keyword before the name: write `def parse(line: str) -> Expense`",
        ),
        ("parse(line)", "write `def parse(line)`"),
        ("def f(a", "`def f(a` is no Python; write `def name(parameter: type) -> type`"),
        ("def f(a=1, b): ...", "is no Python"),
        ("parses a line", "is no Python"),
        ("1 + 1", "`1 + 1` declares nothing"),
        ("return 1", "declares nothing"),
        ("def f(): ...\ndef g(): ...", "is no Python"),
    ],
)
def test_signatures_that_are_none_are_told(text: str, told: str) -> None:
    with pytest.raises(BadSignature) as raised:
        declared({"signature": text, "does": ""}, "here")
    assert told in str(raised.value)


def changed(change: Callable[[dict[str, Any]], Any]) -> list[str]:
    design = copy.deepcopy(COMPANY)
    change(design)
    return looked(design, None, HERE)


MODEL, ROOT_FILE, STORE, FORMATS, REPORTS, CLI = range(6)
CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a package of the standard library": (
        lambda d: d.update(package="json"),
        "`package`: `json` is the name of something else already",
    ),
    "a path outside": (
        lambda d: d["files"][STORE].update(path="other/store.py"),
        "`files[2].path`: `other/store.py` does not lie in the package; fix: begin it with `expenses/`",
    ),
    "a path twice": (lambda d: d["files"].append(d["files"][STORE]), "`files[7].path`: `expenses/store.py` is duplicated"),
    "a path that is no module": (lambda d: d["files"][STORE].update(path="expenses/my-store.py"), "`my-store` in"),
    "a word of Python": (
        lambda d: d["files"][STORE].update(path="expenses/import.py"),
        "`import` in `expenses/import.py` can't be imported",
    ),
    "no __init__": (
        lambda d: d["files"].append({**d["files"][STORE], "path": "expenses/kept/x.py"}),
        "`expenses/kept/__init__.py` is missing",
    ),
    "a use of nothing": (
        lambda d: d["files"][CLI]["uses"].append("expenses/stroe.py"),
        "`files[5].uses`: there is no file `expenses/stroe.py`; did you mean `expenses/store.py`?",
    ),
    "a use of itself": (lambda d: d["files"][CLI]["uses"].append("expenses/cli.py"), "uses itself"),
    "a circle": (
        lambda d: d["files"][MODEL]["uses"].append("expenses/reports.py"),
        "uses in a circle: expenses/model.py → expenses/reports.py → expenses/model.py; no file of it can be written first",
    ),
    "a use of an empty interface": (
        lambda d: d["files"][FORMATS].update(interface=[]),
        "`expenses/cli.py` uses `expenses/formats.py`, whose interface is empty",
    ),
    "no Python": (
        lambda d: d["files"][STORE]["interface"].append(entry("load(path)")),
        "`files[2].interface[4]` (expenses/store.py): `load(path)` is a call: write `def load(path)`, or `class Name(Base)`",
    ),
    "a name twice": (
        lambda d: d["files"][FORMATS]["interface"].append(entry("def money()")),
        "`money` is declared before, in `files[3].interface[1]`",
    ),
    "members of a function": (
        lambda d: d["files"][FORMATS]["interface"].append(entry("def x()", "a: int")),
        "has members and is no class",
    ),
    "a method without self": (
        lambda d: d["files"][FORMATS]["interface"].append(entry("class X", "def m(a)")),
        "`def m(a)` is a method and does not take `self`",
    ),
    "a class method without cls": (
        lambda d: d["files"][FORMATS]["interface"].append(entry("class X", "@classmethod def m()")),
        "does not take `cls`",
    ),
    "a member twice": (
        lambda d: d["files"][FORMATS]["interface"].append(entry("class X", "a: int", "a: str")),
        "`X.a` is declared twice",
    ),
    "fields in an order that Python refuses": (
        lambda d: d["files"][FORMATS]["interface"].append(entry("@dataclass class X", "a: int = 1", "b: int")),
        "the field `b` without a default follows `a`, which has one",
    ),
    "an exception of nobody": (
        lambda d: d["files"][STORE]["interface"][2]["members"][5].update(raises=["StoreErr: x"]),
        "`StoreErr` is no exception of Python and no class of the design; did you mean `StoreError`?",
    ),
    "a class that it may not import": (
        lambda d: d["files"][FORMATS]["interface"].append(entry("def f(e: Expense)")),
        "names `Expense`, which stands in `expenses/model.py`; fix: add `expenses/model.py` to `uses` of `expenses/formats.py`",
    ),
    "a class in other letters": (
        lambda d: d["files"][STORE]["interface"].append(entry("def f(e: EXpense)")),
        "fix: write `Expense`",
    ),
    "a script of no module": (
        lambda d: d["scripts"][0].update(target="expenses.clo:main"),
        "there is no module `expenses.clo`; did you mean `expenses.cli`?",
    ),
    "a script of no function": (
        lambda d: d["scripts"][0].update(target="expenses.cli:start"),
        "the interface of `expenses/cli.py` has no `start`",
    ),
    "a script that needs something": (
        lambda d: d["scripts"][0].update(target="expenses.cli:run"),
        "needs `store`, `given`, `today`; fix: give them defaults",
    ),
    "a flow from nowhere": (
        lambda d: d["flows"][0]["steps"][1].update({"from": "cli.py"}),
        "`flows[0].steps[1].from`: there is no file `cli.py`",
    ),
    "a flow that calls nothing": (
        lambda d: d["flows"][0]["steps"][1].update(call="parse_sum(text)"),
        "`flows[0].steps[1].call`: the interface of `expenses/model.py` has no `parse_sum`",
    ),
    "a dependency that is not here": (
        lambda d: d["dependencies"].append({"name": "leftpad", "why": ""}),
        "`dependencies[0].name`: `leftpad` is not in the environment in which the tests run",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_faults_of_designs_are_told_with_their_mend(name: str) -> None:
    change, why = CHANGES[name]
    found = changed(change)
    assert any(why in one for one in found), found
    assert all("fix: " in one or "write `" in one for one in found)


def test_requirements_are_covered() -> None:
    prd = {"requirements": [{"id": "R1"}, {"id": "R7"}]}
    found = design_faults(COMPANY, prd)
    assert "`files`: no file covers `R7`; fix: add each id to `covers` of the file that serves it" in found
    assert any("there is no requirement `R2`" in one for one in found)


def test_a_file_in_another_language_is_left_alone() -> None:
    design = designed({"app/__init__.py": [], "app/page.js": ["function show(rows)"]})
    assert looked(design, None, HERE) == []


# --- the page


def diagrams(design: dict[str, Any]) -> list[str]:
    return re.findall(r"```mermaid\n(.*?)```", render(TEMPLATE, {"design": design}), re.S)


def test_the_page_shows_classes_and_calls() -> None:
    classes, sequence = diagrams(COMPANY)
    for line in (
        'class f0["expenses/model.py"] {',
        "+parse_day(text: str, *, today: date) Decimal".replace("Decimal", "date"),
        'class f0c3["Expense"] {',
        "f0 *-- f0c3",
        "f2 ..> f0 : uses",
        "f0c0 <|-- f0c1",
        "f0c0 <|-- f2c0",
        "f4c1 <|-- f4c2",
    ):
        assert line in classes, line
    for line in (
        "actor user",
        "participant f2 as expenses/store.py",
        "f5->>f2: Store.add(day, amount, category, note)",
        "f2-->>f5: Expense",
        "f5->>user: the line #96;added 1: 12.50 € Food#96;",
    ):
        assert line in sequence, line


NASTY = [
    "a{b}",
    "#x; y",
    '<b>"q"</b>',
    "end",
    "~T~",
    "`x`",
    "100%",
    "$x",
    "a\\nb",
    "--> x: y",
    "%% c",
    "a|b",
    "é 漢",
    "direction TB",
    "{{ x }}",
    "loop",
    "&amp;",
    "<<file>>",
    "title: x",
    "namespace x {",
    "subgraph end;",
    "x\ny",
]


def test_mermaid_reads_the_diagrams() -> None:
    """With Mermaid's own parser, where it is installed: `npm install mermaid jsdom`, and NODE_MODULES_BESIDE names the folder."""
    folder = os.environ.get("NODE_MODULES_BESIDE", "")
    if not folder:
        pytest.skip("NODE_MODULES_BESIDE names no folder in which `npm install mermaid jsdom` was run")
    drawn = [*diagrams(EXAMPLE), *diagrams(COMPANY)]
    for text in NASTY:
        design = copy.deepcopy(COMPANY)
        quoted = json.dumps(text, ensure_ascii=False)
        design["files"][0]["interface"].append(entry(f"def nasty(text: str = {quoted}) -> str"))
        design["files"][0]["interface"].append(
            entry("class Nasty(Base)", f"x: str = {quoted}", f"def f(self, y={quoted}) -> None")
        )
        design["flows"][0]["steps"][1].update(call=f"parse_amount({text})", returns=text)
        drawn += diagrams(design)
    done = subprocess.run(
        ["node", str(Path(__file__).parent / "mermaid_check.mjs")],
        input=json.dumps(drawn),
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)
    assert len(told) == len(drawn) >= 40
    assert [(text, why) for text, why in zip(drawn, told, strict=True) if why] == []
    # The parser itself can say no.
    assert json.loads(
        subprocess.run(
            ["node", str(Path(__file__).parent / "mermaid_check.mjs")],
            input='["classDiagram\\n class {"]',
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    ) != [""]


# --- as steps of a SOP

SOP = """
    sop: small_company
    inputs: {idea: string}
    roles: {architect: {profile: designs}}
    artifacts:
      design: {schema: design.schema.yaml}
      source: {files: "{{ design.package }}/**"}
      packaging: {files: pyproject.toml}
      contract: {schema: {ok: boolean, faults: [{path: string, why: string}], unchecked: [string]}}
    steps:
      design_it:
        role: architect
        needs: [idea]
        makes: design
        check: {call: "metaflow_agents.contract:design_faults", repairs: 1}
      write_it: {role: architect, needs: [design], makes: source}
      pack_it: {role: architect, needs: [design], makes: packaging}
      check_contract: {call: "metaflow_agents.contract:verify", needs: [source, packaging, design], makes: contract}
    outputs: [contract]
    success: contract.ok
"""


def files(**texts: str) -> str:
    return "\n".join(f"=== file: {name} ===\n{text}\n=== end ===" for name, text in texts.items())


async def test_both_checks_are_steps_of_a_sop(tmp_path: Path) -> None:
    """The architect hears of a design that does not hold together; what breaks the design is told file by file."""
    design = designed({"app/__init__.py": [], "app/a.py": ["def f(a: int) -> int"], "app/page.html": []})
    for file in design["files"]:
        for one in file["interface"]:
            del one["members"]
    wrong = copy.deepcopy(design)
    wrong["files"][1]["interface"][0]["signature"] = "f(a: int) -> int"
    source = files(
        **{"app/__init__.py": '"""The package."""', "app/a.py": "def f(b: int) -> int: return b", "app/page.html": "<p>"}
    )
    model = Scripted({"design_it": [wrong, design], "write_it": source, "pack_it": files(**{"pyproject.toml": PYPROJECT})})
    (tmp_path / "design.schema.yaml").write_text((ROOT / "sops/design.schema.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    result = await run(write(tmp_path, SOP), idea="x", model=model, workspace=None)
    repair = next(request for request in model.requests if request.key.endswith("check.1") or "repair" in request.key)
    assert "has no keyword before the name: write `def f(a: int) -> int`" in json.dumps([str(one) for one in repair.messages])
    assert result["contract"]["unchecked"] == ["app/page.html"]
    assert not result["contract"]["ok"]
    assert [fault["path"] for fault in result["contract"]["faults"]] == ["app/a.py"]
    assert "the parameter `a` is missing" in result["contract"]["faults"][0]["why"]
