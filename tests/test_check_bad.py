"""One file for each code in `tests/sops/bad/`, beside exactly the message that it must get.

After a change of a message, read the new one as a user would (is it true, does it name the nearest, is the mend
right?), then write the files anew with `python tests/test_check_bad.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from metaflow_agents.sop import library
from metaflow_agents.sop.check import CheckReport, check
from metaflow_agents.sop.codes import CODES, page
from metaflow_agents.tools.known import known_tools

BAD = Path(__file__).parent / "sops" / "bad"
DOCS = Path(__file__).parent.parent / "docs" / "reference" / "errors.md"
FILES = sorted(file for file in [*BAD.glob("*.yaml"),
                                 *BAD.glob("*/*.yaml")] if file.parent == BAD or file.stem == file.parent.name)
NAMES = [file.stem for file in FILES]
FROM_THE_LIBRARY = {                 # they list what ships
    "sop-not-found", "role-not-found", "template-not-found", "schema-not-found", "openapi-not-found"}
PLAIN = ("sop: it\nroles: {writer: {profile: You write.}}\n"
         "artifacts:\n  letter: {}\nsteps:\n  write: {role: writer, makes: letter}\n")


def report(file: Path) -> CheckReport:
    return check(str(file.relative_to(BAD)), start=BAD, tools=known_tools)


def told(found: CheckReport) -> str:
    return "".join(f"{problem}\n" for problem in found.problems)


def without_library(text: str) -> str:
    if any(f"[{code}]" in text for code in FROM_THE_LIBRARY):
        return re.sub(r"there is: .*", "there is: …", text)
    return text


def code_of(name: str) -> str:
    """`unknown-artifact-watched` is a second example of `unknown-artifact`."""
    return max((code for code in CODES if name == code or name.startswith(f"{code}-")), key=len)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_a_bad_file_gets_exactly_its_message(file: Path) -> None:
    found = report(file)
    assert without_library(told(found)) == without_library(file.with_suffix(".txt").read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_a_bad_file_gets_its_own_code_alone_with_place_and_mend(file: Path) -> None:
    found = report(file)
    assert [problem.code for problem in found.problems] == [code_of(file.stem)]
    problem = found.problems[0]
    assert problem.line >= 1 and problem.column >= 1
    assert problem.mend
    assert problem.severity == CODES[problem.code].severity
    assert found.ok == (problem.severity == "warning")
    assert (found.program is None) == (not found.ok)


def _pages(folder: Path) -> None:
    for number in range(201):
        (folder / f"t{number}.md.j2").write_text(f"{{% include 't{number + 1}.md.j2' %}}")
    (folder / "t201.md.j2").write_text("end")


def too_large(folder: Path) -> None:
    (folder / "it.yaml").write_text(PLAIN + "# " + "x" * (1 << 20))


def many_templates(folder: Path) -> None:
    _pages(folder)
    (folder / "it.yaml").write_text(PLAIN.replace("letter: {}", "letter: {file: letter.md, render: t0.md.j2}"))


def large_template(folder: Path) -> None:
    (folder / "t.md.j2").write_text("x" * ((1 << 20) + 1))
    (folder / "it.yaml").write_text(PLAIN.replace("letter: {}", "letter: {file: letter.md, render: t.md.j2}"))


def broken_module(folder: Path) -> None:
    (folder / "broken.py").write_text("def write(topic:\n    return topic\n")
    (folder / "it.yaml").write_text(PLAIN.replace("role: writer",
                                                  "call: 'broken:write'").replace("roles: {writer: {profile: You write.}}\n", ""))


def shadowing_module(folder: Path) -> None:
    (folder / "json.py").write_text("def write(topic):\n    return topic\n")
    (folder / "it.yaml").write_text(PLAIN.replace("role: writer",
                                                  "call: 'json:write'").replace("roles: {writer: {profile: You write.}}\n", ""))


def many_problems(folder: Path) -> None:
    (folder / "it.yaml").write_text(PLAIN.replace("makes: letter",
                                                  "makes: letter, " + ", ".join(f"key{number}: 1" for number in range(300))))


def unreadable(folder: Path) -> None:
    unreadable_file = Path("/proc/self/mem")              # a regular file whose first byte nobody may read, root included
    if not unreadable_file.exists():
        pytest.skip("this system has no file that root can't read")
    (folder / "letter.schema.yaml").symlink_to(unreadable_file)
    (folder / "it.yaml").write_text(PLAIN.replace("letter: {}", "letter: {schema: letter.schema.yaml}"))


def outside(folder: Path) -> None:
    elsewhere = folder.with_name(f"{folder.name}-elsewhere.j2")
    elsewhere.touch()
    (folder / "t.md.j2").symlink_to(elsewhere)
    (folder / "it.yaml").write_text(PLAIN.replace("letter: {}", "letter: {file: letter.md, render: t.md.j2}"))


GENERATED: dict[str, tuple[Callable[[Path], None], str]] = {
    "file-outside": (outside, "a link that leads out of the SOP's project"),
    "yaml-size": (too_large, "at most 1,048,576 are read"),
    "template-count": (many_templates, "more than 200 templates"),
    "template-size": (large_template, "the template has more than 1,048,576 bytes"),
    "call-broken": (broken_module, "the module `broken` is no valid Python: broken.py:1"),
    "call-shadowed": (shadowing_module, "two modules are called `json`: "),
    "more-problems": (many_problems, "only 200 problems are shown"),
    "file-unreadable": (unreadable, "can't read"),
}


OF_PACKAGES = {"plugin-parameter", "plugin-broken"}
"""Codes of what an installed package adds, and the tests in which one is installed."""
TOLD_THERE = (Path(__file__).parent / "test_plugins.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", GENERATED)
def test_what_is_too_large_to_store_is_made_here(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, message = GENERATED[code]
    make(tmp_path)
    if code == "file-unreadable":                           # of a project's own files root can read all
        monkeypatch.setattr(library.Folders, "roots", [tmp_path.resolve(), Path("/proc/self").resolve()])
    problems = check(tmp_path / "it.yaml", start=tmp_path).problems
    matching = [problem for problem in problems if problem.code == code]
    assert len(matching) == 1
    assert message in matching[0].message and matching[0].mend
    assert code == "more-problems" or len(problems) == 1


def test_every_code_has_its_file_and_every_file_its_code() -> None:
    assert {code_of(name) for name in NAMES} | set(GENERATED) | OF_PACKAGES == set(CODES)
    for code in OF_PACKAGES:
        assert f'"{code}"' in TOLD_THERE or f"[{code}]" in TOLD_THERE
    assert len(CODES) >= 60
    assert {file.stem for file in BAD.glob("**/*.txt")} == set(NAMES)


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "it.yaml").write_text(
        "sop: it\nroles: {writer: {profile: You write.}}\ninputs: {topic: string}\nartifacts: {letter: {}, copy: {}}\nsteps:\n"
        "  write: {role: writr, needs: [topik], makes: letter, when: round > 0 and nothing}\n"
        "  again: {role: writer, needs: [letter], makes: copy, task: '{{ leter | uper }}', strategy: sngle}\n"
        "success: coppy != ''\n")
    problems = check("it.yaml", start=tmp_path).problems
    assert [(problem.code, problem.line, problem.column) for problem in problems] == [
        ("unknown-role", 6, 17), ("unknown-artifact", 6, 32), ("unknown-name", 6, 75), ("unknown-name", 7, 65),
        ("unknown-filter", 7, 73), ("unknown-strategy", 7, 93), ("unknown-name", 8, 10)]


def test_nothing_of_the_users_is_imported_or_run(tmp_path: Path) -> None:
    trap = tmp_path / "trap.txt"
    (tmp_path / "letters.py").write_text(f"open({str(trap)!r}, 'w')\ndef write(): pass\nclass Letter: pass\n")
    (tmp_path / "it.yaml").write_text(
        "sop: it\nmodels: {default: 'python:letters.py:write'}\n"
        "roles: {writer: {profile: You write., model: 'python:letters:write'}}\n"
        "artifacts: {letter: {schema: {python: 'letters:Letter'}, initial: {}}, log: {}, copy: {}}\nsteps:\n"
        f"  write: {{call: 'letters:write', makes: letter}}\n  touch: {{run: touch {trap}, makes: log}}\n"
        "  again: {role: writer, needs: [log, letter], makes: copy, check: {call: 'letters:write'}}\nsuccess: log.ok\n")
    assert not check("it.yaml", start=tmp_path).problems
    assert not trap.exists()


def test_the_page_of_codes_is_in_step() -> None:
    assert DOCS.read_text(encoding="utf-8") == page()


def freeze() -> None:
    """Writes every message beside its file, and the page of codes."""
    for file in FILES:
        file.with_suffix(".txt").write_text(told(report(file)), encoding="utf-8")
    DOCS.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    freeze()
