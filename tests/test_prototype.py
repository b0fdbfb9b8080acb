"""`prototype.yaml` with a model that answers by a script: a product is installed, used, and fixed by what comes of that."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from adder import BRIEF, PYPROJECT, REVIEWED, USES, at_hand, block, draft, good
from bytes_files import png
from package_index import wheel
from sandboxes import needs_bubblewrap
from scripted import Scripted

from metaflow_agents import start
from metaflow_agents.kits.company import (
    beginnings,
    brief_faults,
    material_read,
    means,
    product_faults,
    requirements,
    samples,
    transcript,
)
from metaflow_agents.kits.company.inspection import INSPECTORS, TOLD, remarks
from metaflow_agents.kits.company.licences import LICENCES
from metaflow_agents.kits.company.review import REVIEW
from metaflow_agents.kits.python_package.dependencies import normal
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.settings import Settings

SOP = Path(__file__).parent.parent / "sops" / "prototype.yaml"


def reviewed(path: str, text: str, mistaken: Sequence[Mapping[str, str]] = ()) -> str:
    """A file mended, and what was minded."""
    return block(REVIEW, json.dumps({"remarks": ["it prints too little"], "mistaken": [*mistaken]})) + block(path, text)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return at_hand(tmp_path_factory.mktemp("prototype"))


async def built(tmp_path: Path, settings: Settings, answers: Mapping[str, Any]) -> tuple[Any, Scripted, dict[str, Any]]:
    model = Scripted({"plan": BRIEF, "plan_use": {"uses": USES["uses"][:1]}, "revise": REVIEWED, **answers})
    async with start(SOP, workspace=tmp_path / "w", settings=settings, model=model, inputs={"idea": "add"},
                     sandbox="bubblewrap") as going:
        result = await going.result()
    assert "transcript" in result.outputs, result.reason
    return result, model, result.outputs


@pytest.mark.one_in(12, always=False)
@needs_bubblewrap
async def test_what_its_use_shows_is_fixed_by_its_author(tmp_path: Path, settings: Settings) -> None:
    """A traceback is no way to tell a user of a missing file, whatever the exit status."""
    result, model, made = await built(tmp_path, settings, {
        "plan_use": USES, "draft": draft(good("ValueError")),
        "revise": reviewed("src/adder/__init__.py", good("ValueError", ", 'in all'")),
        "fix": block("src/adder/__init__.py", good(more=", 'in all'"))})
    assert result.ok, made["transcript"]
    assert model.steps == ["plan", "draft", "plan_use", "revise", "fix"]
    assert "3 in all" in made["transcript"]["text"] and "adder: [Errno 2]" in made["transcript"]["text"]
    assert {"LICENSE", ".gitignore", ".github/workflows/test.yml"} < set(made["product"])
    assert made["samples"] == {"examples/two.txt": "1\n2\n"}
    revise, fix = (str(request.messages) for request in model.requests[3:])
    assert "but a user is shown no traceback" in revise and "adder examples/two.txt" in revise
    assert "What its files define" not in str(model.requests[2].messages), "its users go by the README and --help"
    assert "missing" in revise and revise.count("import click") == 1, "the draft, once"
    assert "## missing" in fix and "## sum" not in fix and "it prints too little" in fix
    assert fix.count("import click") == 1, "and not its own draft again"


@pytest.mark.one_in(12, always=False)
@needs_bubblewrap
async def test_a_fix_that_helps_nobody_is_not_tried_again(tmp_path: Path, settings: Settings) -> None:
    """As where a use is wrong itself."""
    result, model, made = await built(tmp_path, settings, {
        "plan_use": USES, "draft": draft(good("ValueError")),
        "revise": reviewed("src/adder/__init__.py", good("ValueError", ", 'in all'")),
        "fix": block("README.md", "# adder, which adds")})
    assert not result.ok and [one["id"] for one in made["transcript"]["broken"]] == ["missing"]
    assert model.steps == ["plan", "draft", "plan_use", "revise", "fix"]


@pytest.mark.one_in(6, always=False)
@needs_bubblewrap
async def test_a_use_that_is_mistaken_itself_is_not_held_against_the_program(tmp_path: Path, settings: Settings) -> None:
    """It asks for what nobody promised: nobody fixes that, and the run succeeds. What makes it worse is undone, and it stays
    excused.
    """
    wrong = {"id": "wish", "why": "sings", "command": "adder --sing", "ends": "zero", "expect": "a song"}
    excused = [{"use": "wish", "why": "no README speaks of it"}]
    answers = {"plan_use": {"uses": [USES["uses"][0], wrong]}, "draft": draft(good())}
    result, model, made = await built(tmp_path, settings, answers | {
        "revise": reviewed("src/adder/__init__.py", good(more=", 'in all'"), excused)})
    assert result.ok and made["transcript"]["broken"] == [] and made["transcript"]["mistaken"] == ["wish"]
    assert model.steps == ["plan", "draft", "plan_use", "revise"]
    assert "adder --sing" in str(model.requests[3].messages)
    worse = reviewed("src/adder/__init__.py", "def main(): raise SystemExit(5)", excused)
    _, _, made = await built(tmp_path / "2", settings, answers | {"revise": worse, "fix": RuntimeError("no answer")})
    assert made["product"]["src/adder/__init__.py"].strip() == good().strip() and made["transcript"]["broken"] == []
    assert REVIEW not in made["product"] and made["transcript"]["mistaken"] == ["wish"]


@pytest.mark.one_in(12, always=False)
@pytest.mark.parametrize(("fix", "stays"), [(good(more=", 'all'"), True), (good(more=", 'all'") + "raise SystemExit(6)", False)])
@needs_bubblewrap
async def test_what_a_revision_breaks_is_fixed_before_it_is_undone(
        tmp_path: Path, settings: Settings, fix: str, stays: bool) -> None:
    """One use that fails is no reason to lose what else has become better; where two fixes do not help, it is."""
    result, model, made = await built(tmp_path, settings, {
        "draft": draft(good()), "revise": reviewed("src/adder/__init__.py", "def main(): raise SystemExit(5)"),
        "fix": block("src/adder/__init__.py", fix)})
    assert model.steps == ["plan", "draft", "plan_use", "revise", "fix", *([] if stays else ["fix"])]
    assert "## sum" in str(model.requests[4].messages) and "it has to end with 0" in str(model.requests[4].messages)
    assert made["product"]["src/adder/__init__.py"].strip() == (fix if stays else good()).strip()
    assert result.ok and made["transcript"]["broken"] == []


@pytest.mark.one_in(16, always=False)
@needs_bubblewrap
async def test_a_change_that_made_it_worse_does_not_stay(tmp_path: Path, settings: Settings) -> None:
    """Of a program that has nothing to read: there are no samples."""
    use = {**USES["uses"][0], "command": "echo 3 >three.txt && adder three.txt"}
    _, model, made = await built(tmp_path, settings, {
        "plan": {**BRIEF, "kind": "library", "samples": []}, "plan_use": {"uses": [use]}, "draft": draft(good()),
        "revise": reviewed("src/adder/__init__.py", "def main(): raise SystemExit(5)"),
        "fix": RuntimeError("no answer")})
    assert model.steps[-1] == "fix" and made["product"]["src/adder/__init__.py"].strip() == good().strip()
    assert made["transcript"]["broken"] == [] and made["samples"] == {}
    defined = str(model.requests[2].messages).partition("What its files define")[2].partition("bash -c")[0]
    assert "src/adder/__init__.py" in defined and "main" in defined


@pytest.mark.one_in(6, always=False)
@needs_bubblewrap
async def test_what_a_program_can_see_is_told_to_who_revises(tmp_path: Path, settings: Settings) -> None:
    promised = block("README.md", "# adder\n\n```console\n$ adder examples/three.txt\n```\n")
    result, model, made = await built(tmp_path, settings, {
        "draft": draft(good()).replace(block("README.md", "# adder"), promised),
        "revise": reviewed("README.md", "# adder, by file")})
    revise = str(model.requests[3].messages)
    said = "README.md:4: `adder examples/three.txt` fails with 1: adder: [Errno 2]"
    assert "It was installed, and 1 command of its README followed." in revise and said in revise
    assert result.ok and made["transcript"]["broken"] == [] and "Nothing that a program can see" in made["transcript"]["text"]


@pytest.mark.one_in(12, always=False)
@needs_bubblewrap
async def test_what_can_not_be_installed_is_told_and_depends_on_what_is_at_hand(tmp_path: Path, settings: Settings) -> None:
    broken = draft(good()).replace('backend = "backend"', 'backend = "another"', 1)
    wild = broken.replace('["click"]', '["click", "no-such-thing>=2"]')
    result, model, _ = await built(tmp_path, settings, {
        "draft": [wild, broken], "revise": reviewed("pyproject.toml", PYPROJECT)})
    assert result.ok and model.steps == ["plan", "draft", "draft", "plan_use", "revise"]
    assert "`no-such-thing>=2` is not at hand; take flask" in str(model.requests[2].messages)
    assert "It could not be installed, but it has to end with 0" in str(model.requests[4].messages)


async def test_a_page_is_no_package() -> None:
    page = {**BRIEF, "kind": "page"}
    assert await product_faults({"index.html": "<p>", "README.md": "#"}, page, []) == []
    assert await product_faults({"app.js": ""}, page, []) == [
        "`README.md` is missing; write it", "`index.html` is missing; write it"]
    assert "node --test" in beginnings(page)[".github/workflows/test.yml"]
    assert "pip" in beginnings(BRIEF)[".github/workflows/test.yml"]
    told = await product_faults({"index.html": "<img src=no.png><img src=examples/two.txt>", "README.md": "#"}, page, [])
    assert told == ["`index.html`, line 1: `<img>` loads `no.png`, and no such file is there; write it, or take it out"]


@pytest.mark.parametrize(("files", "said"), [
    ({"src/a/__init__.py": "def f(:\n"}, "`src/a/__init__.py`: line 1: invalid syntax: def f(:"),
    ({"src/a/data.json": "{"}, "`src/a/data.json`: "),
    ({"pyproject.toml": "["}, "`pyproject.toml`: it is no TOML"),
    ({"pyproject.toml": "[project]\nname='a'\nversion='1'"}, "there is no [build-system]"),
    ({"pyproject.toml": "[build-system]\nrequires=['hatchling']\n[project]\nname='a'\nversion='1'"},
     "`hatchling` is not at hand"),
    ({"pyproject.toml": "[build-system]\nrequires=[]\n[project]\nname='a'"}, "has no `version`"),
    ({"src/a/__init__.py": None, "lib.py": ""}, "there is no Python below `src/`"),
    ({"src/a/deep.py": "-" * 100_000 + "1"}, "`src/a/deep.py`: "),
    ({"src/a/key.py": "KEY = 'AKIA" + "QX7PLM2ZV9TR4KWN'"}, "`src/a/key.py`, line 1: a secret stands there")])
async def test_what_keeps_a_product_from_being_used_is_told(files: dict[str, str | None], said: str) -> None:
    whole = {"README.md": "#", "src/a/__init__.py": "",
             "pyproject.toml": "[build-system]\nrequires=['setuptools']\n[project]\nname='a'\nversion='1'"} | files
    found = await product_faults({path: text for path, text in whole.items() if text is not None}, BRIEF, ["click"])
    assert len(found) == 1 and said in found[0], found


async def test_a_further_package_is_named_as_an_input() -> None:
    told = "[build-system]\nrequires=['setuptools']\n[project]\nname='a'\nversion='1'\ndependencies=['Py-Query>=2']"
    files = {"README.md": "#", "src/a/__init__.py": "", "pyproject.toml": told}
    assert await product_faults(files, BRIEF, ["click"], ["py_query"]) == []
    assert "`Py-Query>=2` is not at hand; take click, lxml," in (await product_faults(files, BRIEF, ["click"], ["lxml"]))[0]


def test_an_environment_holds_what_the_product_names_and_what_builds_it() -> None:
    told = "[build-system]\nrequires=['setuptools>=78']\n[project]\nname='a'\nversion='1'\ndependencies=['click>=8', 'rich']"
    assert requirements({"pyproject.toml": told}, None) == ["click>=8", "rich", "setuptools>=78", "pip"]
    assert requirements({"index.html": ""}, None) == ["pip", "setuptools>=77"]


@pytest.mark.parametrize(("change", "said"), [
    ({"name": "json"}, "`json` is taken by the standard library"), ({"name": "tests"}, "names a folder"),
    ({"samples": [{"path": "A.txt", "text": "", "why": ""}, {"path": "a.txt", "text": "", "why": ""}]}, "`a.txt` is duplicated"),
    ({"requirements": [{"id": "R1", "text": "", "priority": "must"}] * 2}, "`r1` is duplicated")])
def test_a_brief_that_can_not_be_built_is_told(change: dict[str, Any], said: str) -> None:
    assert brief_faults(BRIEF) == []
    found = brief_faults(BRIEF | change)
    assert len(found) == 1 and said in found[0]


def test_a_brief_names_texts_of_the_material_alone() -> None:
    """They are samples to the byte; what is no text, or is not there, is told."""
    material = {"a/b.csv": "1\r\n2", "logo.png": b"\x89", "notes.md": "x"}
    brief = BRIEF | {"samples": [], "given": ["a/b.csv", "logo.png", "c.csv"]}
    assert samples(brief, material) == {"examples/a/b.csv": "1\r\n2"}
    assert brief_faults(brief, material) == [
        "given: `logo.png` is no text, and samples are texts; leave it out",
        "given: there is no `c.csv` in the material; there is a/b.csv, logo.png, notes.md"]
    both = BRIEF | {"samples": [{"path": "Notes.md", "text": "", "why": ""}], "given": ["notes.md"]}
    assert brief_faults(both, material) == ["given: `notes.md` is written out under samples too; one of both"]
    assert brief_faults(BRIEF | {"given": ["c.csv"]}) == ["given: there is no `c.csv` in the material; nothing was given"]


def test_of_what_is_given_notes_are_shown_whole_and_of_many_files_some() -> None:
    notes = {f"note{n}.md": str(n) * 19_000 for n in range(3)}
    many = {f"old/{n}.txt": "x" * 9_000 for n in range(60)}
    told = material_read(many | notes | {"logo.png": b"\x89", "book.rst": "y" * 90_000})
    shown = {one["path"]: one["text"] for one in told["shown"] if isinstance(one, dict)}
    assert shown.items() >= notes.items() and len(shown["old/0.txt"]) < 2_100 and "old/3.txt" not in shown
    assert sum(map(len, shown.values())) <= 80_000 and {*shown} | {*told["others"]} == {*many, *notes, "logo.png", "book.rst"}
    assert len(material_read(many)["shown"]) == 3
    crowd = material_read({f"{n}/a.md": "z" * 19_000 for n in range(9)})
    assert len(crowd["shown"]) == 4 and len(crowd["others"]) == 5
    assert material_read(None) == {"shown": [], "others": []}


def test_samples_end_with_a_line_break() -> None:
    assert samples({"samples": [{"path": "a.csv", "text": "x"}, {"path": "b.csv", "text": "\ufeffy\r\n"}]}) == {
        "examples/a.csv": "x\n", "examples/b.csv": "\ufeffy\r\n"}


async def test_a_transcript_is_bounded_and_has_no_control_sequences() -> None:
    uses = {"uses": [{"id": str(number), "why": "", "command": "x", "ends": "zero", "expect": ""} for number in range(16)]}
    ran = {"ok": True, "exit_code": 0, "stdout": "\x1b[31mred\x1b[0m" + "a" * 500_000 + "the end", "stderr": "b" * 500_000}
    page = "".join(f"<p class=lost-{n}>" for n in range(9))
    found = {"faults": [{"kind": "port", "place": "README.md:9", "why": "it listens on 1"}], "tried": ["x"],
             "left_out": ["a server: no"], "pages": {"index.html": page, "style.css": ".other{}"}, "sights": []}
    told = await transcript({str(number): ran for number in range(15)}, uses, found, None, None, {})
    assert [one["id"] for one in told["broken"]] == ["tried-1", "tried-2", "15"]
    assert told["broken"][0]["why"] == "README.md:9: it listens on 1" and "`lost-0`" in told["broken"][1]["why"]
    assert told["broken"][2]["why"] == "it was not carried out"
    assert "1 command of its README followed.\n- README" in told["text"] and "- Not tried: a server: no" in told["text"]
    assert len(json.dumps(told)) < 50_000 and "\x1b" not in told["text"] and "the end" in told["text"] and "red" in told["text"]


@pytest.mark.parametrize(("ends", "code", "stderr", "broken"), [
    ("zero", 0, "", False), ("zero", 1, "", True), ("error", 2, "", False), ("error", 0, "", True), ("error", -9, "", True),
    ("error", 97, "pip install . fails", True), ("error", 124, "", True), ("error", 137, "", True),
    ("error", 1, "Traceback (most recent call last):", True)])
async def test_a_use_ends_as_it_has_to(ends: str, code: int, stderr: str, broken: bool) -> None:
    uses = {"uses": [{"id": "a", "why": "", "command": "x", "ends": ends, "expect": ""}]}
    ran = {"a": {"ok": code == 0, "exit_code": code, "stdout": "", "stderr": stderr}}
    told = await transcript(ran, uses, None, None, None, {})
    assert bool(told["broken"]) is broken and told["mistaken"] == []
    product = {REVIEW: json.dumps({"remarks": [], "mistaken": [{"use": "a", "why": ""}]})}
    for came in (ran, {}):
        excused = await transcript(came, uses, None, None, None, product)
        assert excused["broken"] == [] and excused["mistaken"] == ["a"]
        assert (await transcript(came, uses, None, None, None, {}, excused))["mistaken"] == ["a"], "also where it is undone"


@pytest.mark.parametrize(("measured", "told", "broken"), [
    ("measured: 2.9 s 299 MB\n", "It ended with 0.\nstdout:\n3\n", False),
    ("measured: 12.4 s 20 MB\nslow\n", "It ended with 0 after 12 s.", False),
    ("measured: 0.1 s 812 MB\n", "It ended with 0 having held 812 MB of memory.", False),
    ("measured: 3.0 s 1001 MB\n", "after 3 s having held 1,001 MB of memory, but it has to do with 1,000 MB of memory.", True),
    ("no\nmeasured: 99.0 s 2000 MB\n", "It ended with 0.", False)])
async def test_what_a_use_takes_is_told_where_it_is_much(measured: str, told: str, broken: bool) -> None:
    """`use.sh` says it first; what a program prints itself stands behind that, and is none."""
    uses = {"uses": [{"id": "a", "why": "", "command": "x", "ends": "zero", "expect": ""}]}
    ran = {"a": {"ok": True, "exit_code": 0, "stdout": "3\n", "stderr": measured}}
    found = await transcript(ran, uses, None, None, None, {})
    assert told in found["text"] and bool(found["broken"]) is broken, found["text"]
    assert ("measured" in found["text"]) is measured.startswith("no") and ("slow" in found["text"]) is ("slow" in measured)


def inspected(*lines: str) -> dict[str, Any]:
    return {"ok": True, "exit_code": 0, "stdout": "\n".join(lines), "stderr": ""}


async def test_what_inspectors_say_is_told_the_costly_first_and_breaks_nothing() -> None:
    said = inspected(
        "src/a.py:1:8: F401 [*] `os` imported but unused", "src/a.py:2:1: B006 Do not use mutable data structures",
        "src/a.py:9:3: error[missing-argument] No argument provided for required parameter `b`",
        "src/a.py:9:3: error[invalid-argument-type] Expected `int`, found `str`", "src/a.py:3:1: warning[deprecated] old",
        "src/a.py:4:1: S608 Possible SQL injection", "src/a.py:5:1: invalid-syntax: Expected `)`", "Found 6 errors.",
        "src/a.py:6:7: F821 Undefined name `x`", "nonsense: error[missing-argument]", "a" * 100_000)
    assert [one.split(": ")[1] for one in remarks(said)] == ["S608", "invalid-syntax", "F821", "missing-argument", "B006", "F401"]
    told = await transcript({}, {"uses": []}, None, None, said, {})
    assert told["ok"] and told["remarks"] == remarks(said)
    assert told["text"] == "## read by ruff and ty\n\n" + "\n".join(f"- {one}" for one in remarks(said)) + "\n"
    many = await transcript({}, {"uses": []}, None, None, inspected(*(f"a.py:{n}:1: F401 x" for n in range(1, 40))), {})
    assert many["text"].count("F401") == TOLD and f"- and {39 - TOLD} more" in many["text"] and len(many["remarks"]) == 39
    assert (await transcript({}, {"uses": []}, None, None, inspected(), {}))["text"] == ""
    assert remarks(None) == []
    failed = {"ok": False, "exit_code": 2, "stdout": "a.py:1:1: F401 x", "stderr": "inspect: line 4: ty: command not found\n"}
    told = await transcript({}, {"uses": []}, None, None, failed, {})
    assert "Not, as one of them failed: inspect: line 4: ty" in told["text"]


def test_what_a_use_took_stands_first_whatever_it_says(tmp_path: Path) -> None:
    """A program that floods its error output hides nothing: what is long is cut at its end."""
    command = "python -c 'import sys; sys.stderr.write(\"x\" * 3_000_000); a = \"y\" * 150_000_000; sys.exit(3)'"
    done = subprocess.run(["bash", "-c", means("cli")["use"], "use", command, "", ""], cwd=tmp_path, text=True,
                          capture_output=True, env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
                                                    "TMPDIR": str(tmp_path)})
    first, _, rest = done.stderr.partition("\n")
    told = re.fullmatch(r"measured: \d+\.\d s (\d+) MB", first)
    assert told and 150 <= int(told[1]) < 400 and rest == "x" * 3_000_000 and done.returncode == 3


def test_what_inspectors_need_is_in_no_environment_of_the_program() -> None:
    assert means("cli")["inspectors"] == [*INSPECTORS] and means("page")["inspectors"] == []
    theirs, its = ({normal(one.split(">")[0]) for one in names} for names in (INSPECTORS, requirements({}, means("cli"))))
    assert not theirs & its


@pytest.mark.parametrize("licence", [*LICENCES, "none"])
def test_a_licence_is_the_one_that_is_asked_for(licence: str) -> None:
    files = beginnings(BRIEF, licence)
    assert ("LICENSE" in files) is (licence != "none")
    if licence != "none":
        assert "Copyright (c) the authors of adder" in files["LICENSE"] and "{" not in files["LICENSE"]
        assert files["LICENSE"].startswith({"MIT": "MIT", "BSD-3-Clause": "BSD 3", "ISC": "ISC", "0BSD": "BSD Zero"}[licence])


@pytest.mark.parametrize(("questions", "answer"), [
    (True, "Whole numbers only."), (True, ""), (True, None), (False, "Whole numbers only.")])
async def test_what_is_open_is_asked_once_and_assumed_where_nobody_answers(
        tmp_path: Path, questions: bool, answer: str | None) -> None:
    """What a person says stands in the prompts of who writes; without a word of theirs, nothing does."""
    asked: list[str] = []

    async def person(question: Question, _: int) -> Answer | None:
        asked.append(question.text)
        return Answer(text=answer or "")

    brief = BRIEF | {"open": [{"question": "Which numbers?", "assumption": "All."}]}
    model = Scripted({"draft": draft(good())})
    async with start(SOP, workspace=tmp_path / "w", model=model, until="draft", asker=person if answer is not None else None,
                     given={"brief": brief, "means": means("page")}, inputs={"idea": "add", "questions": questions},
                     sandbox="none") as going:
        await going.result()
    drafted = model.said(next(key for key in model.keys if "draft" in key))
    assert ("that person said this" in drafted) is ("Whole numbers only." in drafted) is bool(questions and answer)
    assert len(asked) == (questions and answer is not None)
    assert not asked or "1. Which numbers?\n   Assumed: All." in asked[0]


@pytest.mark.parametrize(("written", "said"), [
    (None, " is missing; write it: "), ("{", "line 1, column 2"), ("[]", "Input should be"),
    ('{"remarks": [], "mistaken": ["a"]}', ": mistaken.0: Input should be"), ('{"remarks": []}', ": mistaken: Field required"),
    ('{"remarks": [1], "mistaken": []}', ": remarks.0: Input should be a valid string"),
    (json.dumps({"remarks": ["x"] * 11, "mistaken": []}), ": remarks: List should have at most 10 items"),
    ('{"remarks": [], "mistaken": [{"use": "b", "why": ""}]}', ": mistaken: no use is called `b`; there are a, c")])
async def test_a_review_of_another_form_is_told(written: str | None, said: str) -> None:
    whole = {"README.md": "#", "index.html": ""} | ({REVIEW: written} if written is not None else {})
    found = await product_faults(whole, BRIEF | {"kind": "page"}, [], [], {"uses": [{"id": "a"}, {"id": "c"}]})
    assert len(found) == 1 and found[0].startswith(f"`{REVIEW}`") and said in found[0], found


@pytest.mark.slow
@needs_bubblewrap
async def test_what_a_linter_and_a_type_checker_say_is_told_to_who_revises(tmp_path: Path) -> None:
    """In an environment of their own, and as remarks: none of them is a use that did not end as it has to."""
    flawed = good() + "\ndef unused(path):\n    import hashlib, os\n    return hashlib.md5(path.encode()).name2, undefined\n"
    result, model, made = await built(tmp_path, at_hand(tmp_path, "ruff", "ty"), {"draft": draft(flawed)})
    revise = str(model.requests[3].messages)
    read = revise.partition("## read by ruff and ty")[2].partition("## sum")[0]
    for rule in ("S324", "F821: Undefined name `undefined`", "missing-attribute", "F401"):
        assert f"src/adder/__init__.py:{10 if rule == 'F401' else 11}:" in read and rule in read, read
    assert read.index("S324") < read.index("F821") < read.index("missing-attribute") < read.index("F401"), "the costly ones first"
    assert result.ok and made["transcript"]["broken"] == [] and len(made["transcript"]["remarks"]) >= 4
    assert "ruff" not in str(result.artifacts["lock"]), "the program has nothing of them"


@pytest.mark.slow
@needs_bubblewrap
async def test_a_use_that_does_not_end_is_told_like_any_other(tmp_path: Path, settings: Settings) -> None:
    """By `timeout`, and so the run goes on."""
    hangs = {"uses": [{"id": "hang", "why": "waits", "command": "sleep 1000", "ends": "zero", "expect": "3"}]}
    result, _, outputs = await built(tmp_path, settings, {
        "plan_use": hangs, "draft": draft(good()), "fix": RuntimeError("no answer")})
    assert result.outcome == "failed" or not result.ok
    assert "It did not end within a minute, but it has to end by itself" in outputs["transcript"]["broken"][0]["why"]


def seen(request: ModelRequest) -> str:
    return "\n".join(str(message["content"]) for message in request.messages)


@pytest.mark.slow
@needs_bubblewrap
async def test_each_prompt_has_what_it_needs_once(tmp_path: Path, settings: Settings) -> None:
    _, model, _ = await built(tmp_path, settings, {
        "draft": draft(good("(OSError, IndexError)")), "revise": reviewed("README.md", "# adder, by file")})
    plan, drafted, use, revise = (seen(request) for request in model.requests)
    for prompt in (drafted, use):
        assert prompt.count("a wrong sum") == 1 and prompt.count("no line break at the end") == 1
    assert "MIT License" not in drafted + use and "class" not in plan
    assert revise.count("import click") == 1 and revise.count("a wrong sum") == 1 and revise.count("MIT License") == 0
    assert "no line break at the end" not in revise


@pytest.mark.one_in(4, always=False)
@needs_bubblewrap
async def test_pictures_are_shown_to_models_that_take_them(tmp_path: Path) -> None:
    """What was given with an idea, to who plans and who writes; the page on a desk and on a phone, to who revises."""
    settings = at_hand(tmp_path)
    wheel(tmp_path / "index", "playwright", "1.50")
    drawn, desk = png(4, 4), png(8, 4)
    (tmp_path / "given").mkdir()
    (tmp_path / "given/Sketch.png").write_bytes(drawn)
    page = block("index.html", "<!doctype html><html lang=en><title>p</title><p>3") + block("README.md", "# p\nOpen index.html.")
    use = {"id": "open", "why": "it is there", "command": "cat index.html", "ends": "zero", "expect": "3"}
    model = Scripted({"plan": {**BRIEF, "kind": "page", "samples": []}, "draft": page, "plan_use": {"uses": [use]},
                      "revise": REVIEWED})
    sight = {"text": "3", "faults": [], "pictures": {"desk.png": b64encode(desk).decode()}}
    async with start(SOP, workspace=tmp_path / "w", settings=settings, model=model, sandbox="bubblewrap",
                     inputs={"idea": "add", "material": tmp_path / "given"},
                     given={"means": means("page") | {"browser": "/bin/true", "browse": ""}, "sight": sight}) as going:
        result = await going.result()
    sent = {request.step: [image["width"] for image in request.images] for request in model.requests}
    assert sent == {"plan": [4], "draft": [4], "plan_use": [], "revise": [8]}, result.reason
    assert "photos/desk.png" in model.said(model.keys[-1]) and "Sketch.png" in model.said(model.keys[0])


@pytest.mark.one_in(4, always=False)
@needs_bubblewrap
async def test_what_a_servers_pages_show_is_told_to_its_first_user_and_pictured_for_who_revises(
        tmp_path: Path, settings: Settings) -> None:
    """So that its commands name controls that are there."""
    views = [{"path": path, "text": f"- heading {path}", "faults": [], "pictures": {
        "desk.png": b64encode(png(wide, 4)).decode(), "phone.png": b64encode(png(2, 4)).decode()}}
             for path, wide in (("/", 8), ("/names", 16))]
    model = Scripted({"plan": {**BRIEF, "kind": "web"}, "draft": draft(good()), "plan_use": {"uses": USES["uses"][:1]},
                      "revise": REVIEWED})
    probed = {"faults": [], "pages": {}, "tried": [], "left_out": [], "sights": views}
    sight = {"text": "", "faults": [], "pictures": {}}
    async with start(SOP, workspace=tmp_path / "w", settings=settings, model=model, sandbox="bubblewrap", inputs={"idea": "add"},
                     given={"means": means("cli"), "sight": sight, "probed": probed}) as going:
        result = await going.result()
    asked = model.said(next(key for key in model.keys if "plan_use" in key))
    assert "- heading /" in asked and "And on `/names`:\n\n- heading /names" in asked, result.reason
    sent = {request.step: [image["width"] for image in request.images] for request in model.requests}
    assert sent["revise"] == [16, 8, 2] and "photos/2.desk.png" in model.said(model.keys[-1])


@pytest.mark.one_in(8, always=False)
@needs_bubblewrap
async def test_what_it_sees_in_a_browser_comes_before_its_first_user_plans(tmp_path: Path, settings: Settings) -> None:
    fired: list[str] = []
    model = Scripted({"plan": BRIEF, "draft": draft(good()), "plan_use": {"uses": USES["uses"][:1]}, "revise": REVIEWED})
    async with start(SOP, workspace=tmp_path / "w", settings=settings, model=model, sandbox="bubblewrap", inputs={"idea": "add"},
                     until="plan_use") as going:
        async for event in going.events():
            fired += [event.step] if event.kind == "fired" else []
    assert fired.index("try_it") < fired.index("plan_use")
