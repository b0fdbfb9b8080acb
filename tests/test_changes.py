# ruff: noqa: E501
"""Changes of a repository: patches that git applies, remarks that lie in a diff, what a change may touch, and what counts as green."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tiers import some

from metaflow_agents.kits.changes import (
    change_of,
    compared,
    diagnosis_faults,
    fix_faults,
    guide,
    make_patch,
    numbered,
    plan_faults,
    remark_faults,
    scope_faults,
)
from metaflow_agents.kits.changes.diffs import lines_of
from metaflow_agents.kits.changes.scope import is_test

PIECES = [b"", b"\n", b"x = 1\n", b"y\r\n", b"-- z\n", b"++ q\n", b"@@ -1 +1 @@\n", b"\x0c\n", "é\u2028ü\n".encode(), b"last", b"\0\1", b"\xff\n",
          b"a\rb\n", b"\\ No newline at end of file\n"]
NAMES = ["a.py", "b c/d e.txt", "Über uns.txt", 'say "hi".md', "x/y/z.py", "-dash", "a b"]


def laid(folder: Path, files: dict[str, bytes]) -> None:
    for path, held in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(held)


def applied(folder: Path, patch: str) -> dict[str, bytes]:
    """What `git apply` makes of the files of a fresh repository."""
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    done = subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=folder, input=patch.encode(), capture_output=True, check=False)
    assert done.returncode == 0, f"{done.stderr.decode()}\n{patch}"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and ".git" not in path.relative_to(folder).parts}


@pytest.mark.parametrize("seed", some(range(60)))
def test_git_applies_every_patch(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)

    def file() -> bytes:
        return b"".join(rng.choice(PIECES[1:9] if rng.random() < 0.8 else PIECES) for _ in range(rng.randint(0, 30)))

    before = {name: file() for name in NAMES if rng.random() < 0.7}
    after = {name: held for name, held in before.items() if rng.random() < 0.8}
    for name in NAMES:
        if name in after and rng.random() < 0.6:
            pieces = after[name].split(b"\n")
            pieces[rng.randrange(len(pieces))] = rng.choice([b"new", b"", b"two\nlines", b"\0"])
            after[name] = b"\n".join(pieces)
        elif name not in after and rng.random() < 0.3:
            after[name] = file()
    patch = make_patch(before, after)
    laid(tmp_path, before)
    assert (applied(tmp_path, patch) if patch else before) == after, patch
    if patch:
        changed = {line.path for line in lines_of(patch)}
        assert changed <= {name for name in NAMES if before.get(name) != after.get(name)}


@pytest.mark.parametrize(("before", "after"), [(b"a", b"b"), (b"a\n", b"a"), (b"a", b"a\n"), (None, b"a"), (b"a", None),
                                              (b"a\nb", b"c\nb"), (b"a\nb", b"a\nb\nc")])
def test_a_last_line_without_a_line_feed_stays_one(tmp_path: Path, before: bytes | None, after: bytes | None) -> None:
    files = [{} if held is None else {"a.txt": held} for held in (before, after)]
    laid(tmp_path, files[0])
    assert applied(tmp_path, make_patch(*files)) == files[1]


def test_a_patch_is_small_where_a_change_is_and_large_files_end(tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % number for number in range(5_000))
    patch = make_patch({"a.txt": text}, {"a.txt": text.replace(b"line 2500\n", b"changed\n")})
    assert patch.count("\n") == 3 + 1 + 8
    worst = b"a\n" * 4_000
    other = b"b\na\n" * 4_000
    laid(tmp_path, {"a.txt": worst})
    assert applied(tmp_path, make_patch({"a.txt": worst}, {"a.txt": other})) == {"a.txt": other}
    assert make_patch({"a": b"1"}, {"a": b"1"}) == ""


DIFF = """diff --git a/src/a.py b/src/a.py
--- a/src/a.py
+++ b/src/a.py
@@ -1,4 +1,4 @@ def f():
 def f():
-    return 1
+    return 2
 
--- not a header
\\ No newline at end of file
+++ not a header either
diff --git a/old.py b/old.py
deleted file mode 100644
--- a/old.py
+++ /dev/null
@@ -7 +0,0 @@
-gone = True
"""


def remark(**told: Any) -> dict[str, Any]:
    return {"remarks": [{"file": "src/a.py", "line": 2, "side": "new", "quote": "return 2", "text": "why?", **told}]}


@pytest.mark.parametrize("told, fault", [
    ({}, ""), ({"side": "old", "quote": "return 1"}, ""), ({"line": 1, "quote": "def f"}, ""), ({"line": 3, "quote": ""}, ""),
    ({"file": "old.py", "line": 7, "side": "old", "quote": "gone = True"}, ""), ({"side": "old", "line": 4, "quote": "-- not a header"}, ""),
    ({"line": 4, "quote": "++ not a header either"}, ""),
    ({"line": 9}, "line 9 of `src/a.py` (new) is not in the change; there are 1 to 4"),
    ({"file": "src/b.py"}, "the change does not touch `src/b.py`; it touches old.py, src/a.py"),
    ({"file": "old.py", "line": 7}, "line 7 of `old.py` (new) is not in the change; there are none"),
    ({"line": 1}, "line 1 of `src/a.py` (new) is `def f():`, and `return 2` does not stand in it; it stands in 2"),
    ({"quote": ""}, "is `return 2`, and `` does not stand in it"),
])
def test_a_remark_lies_in_the_change(told: dict[str, Any], fault: str) -> None:
    faults = remark_faults(remark(**told), DIFF)
    assert (faults == []) if not fault else (len(faults) == 1 and fault in faults[0])


def test_lines_are_numbered_as_remarks_name_them() -> None:
    assert numbered(DIFF) == ("src/a.py\n     1   def f():\n     2 -     return 1\n     2 +     return 2\n     3   \n     4 - -- not a header\n"
                              "     4 + ++ not a header either\n\nold.py\n     7 - gone = True\n")
    with pytest.raises(ValueError, match="holds no line of a text file"):
        numbered("nothing of a diff")
    with pytest.raises(ValueError, match="says more lines than follow"):
        numbered("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n")


def test_a_change_is_a_diff_or_two_folders() -> None:
    assert change_of(DIFF, None, None) == DIFF
    assert "+b" in change_of(None, {"x": b"a\n"}, {"x": b"b\n"})
    for base, repo, told in ((None, {"x": b""}, "give `--diff FILE`"), ({"x": b""}, {"x": b""}, "hold the same files")):
        with pytest.raises(ValueError, match=told):
            change_of(" \n", base, repo)


def test_what_is_a_test() -> None:
    assert all(map(is_test, ("tests/a.py", "test_a.py", "a_test.py", "x/a_test.go", "a.test.ts", "a.spec.jsx", "conftest.py", "ATest.java")))
    assert not any(map(is_test, ("latest.py", "contest.py", "testing.py", "src/protest/a.py", "attest.java", "spec.py")))


REPO: dict[str, str | bytes] = {"a.py": "x = 1\n", "test_a.py": "def test(): ...\n", "logo.png": b"\0"}


@pytest.mark.parametrize("files, test, told", [
    (["a.py"], "test_b.py", ""), (["b.py"], "test_b.py", "there is no file `b.py`"), (["logo.png"], "test_b.py", "can't be edited"),
    (["test_a.py"], "test_b.py", "holds tests"), (["a.py"], "test_a.py", "is there already"), (["a.py"], "b.py", "not named like a test"),
    (["a.py"], "../test_b.py", "is refused"), ([], "test_b.py", "names no file"),
])
def test_a_diagnosis_names_what_can_be_changed(files: list[str], test: str, told: str) -> None:
    faults = diagnosis_faults({"files": [{"path": path} for path in files], "test_file": test}, REPO)
    assert (faults == []) if not told else (len(faults) == 1 and told in faults[0])


def test_a_fix_leaves_tests_and_a_change_what_is_not_planned() -> None:
    assert fix_faults({"a.py": "x = 2\n", "test_a.py": "def test(): ...\n", "test_new.py": ""}, REPO) == []
    assert "changes none" in fix_faults({"test_a.py": ""}, REPO)[0]
    plan = {"changes": [{"path": "a.py"}]}
    assert scope_faults({"a.py": "", "test_a.py": "def test(): ...\n"}, REPO, plan) == []
    assert scope_faults({"b.py": ""}, REPO, plan) == ["`b.py` is not in the plan: take back what you did to it"]


@pytest.mark.parametrize("kind, path, told", [
    ("edit", "a.py", ""), ("new", "b.py", ""), ("delete", "logo.png", ""), ("new", "a.py", "is an `edit`"), ("edit", "b.py", "there is no file"),
    ("delete", "b.py", "there is no file"), ("edit", "logo.png", "no text"), ("new", ".git/config", "is refused"),
])
def test_a_plan_can_be_carried_out(kind: str, path: str, told: str) -> None:
    faults = plan_faults({"changes": [{"kind": kind, "path": path}], "refused": []}, REPO)
    assert (faults == []) if not told else (len(faults) == 1 and told in faults[0])
    twice = {"kind": "edit", "path": "a.py"}
    assert "planned twice" in plan_faults({"changes": [twice, twice], "refused": []}, REPO)[0]
    assert "neither" in plan_faults({"changes": [], "refused": []}, REPO)[0]


def results(passed: int, *failures: str, code: int | None = None) -> dict[str, Any]:
    return {"total": passed + len(failures), "passed": passed, "failures": [{"id": name} for name in failures],
            "exit_code": (1 if failures else 0) if code is None else code}


@pytest.mark.parametrize("before, after, green, new", [
    (results(3), results(4), True, []), (results(3), results(3, "a"), False, ["a"]), (results(3, "a"), results(3, "a"), True, []),
    (results(3, "a"), results(4), True, []), (results(3), results(2), False, []), (results(0), results(0), False, []),
    (results(3), results(3, code=2), False, []), (results(3, "a"), results(2, "a", "b"), False, ["b"]),
    (results(0, "collected"), results(0, "collected"), False, []),
])
def test_what_is_green(before: dict[str, Any], after: dict[str, Any], green: bool, new: list[str]) -> None:
    found = compared(before, after)
    assert (found["green"], found["new"]) == (green, new)


def test_the_guide_is_what_the_repository_says() -> None:
    assert "no AGENTS.md" in guide({"a.py": "x"})
    assert guide({"sub/AGENTS.md": "in sub", "AGENTS.md": "at the top", "CONTRIBUTING.md": "no"}) == "AGENTS.md:\n\nat the top\n\nsub/AGENTS.md:\n\nin sub\n"
    assert guide({"CONTRIBUTING.md": "yes", "AGENTS.md": b"\0"}) == "CONTRIBUTING.md:\n\nyes\n"
    assert len(guide({"AGENTS.md": "x" * 100_000})) < 13_000
