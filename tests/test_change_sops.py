# ruff: noqa: E501
"""`change.yaml` and `code_review.yaml` on a repository under git: what the patch holds, that it applies to a fresh clone, where remarks lie."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from sandboxes import LACKING
from scripted import Scripted

from metaflow_agents import RunResult, run
from metaflow_agents.models.port import Reply, ToolCall

SOPS = Path(__file__).resolve().parent.parent / "sops"
SANDBOX = "none" if LACKING else "bubblewrap"

REPO = {
    "AGENTS.md": "Errors name the value that was wrong.\n",
    ".github/workflows/ci.yml": "on: push\n",
    "shop/__init__.py": "",
    "shop/cart.py": "def total(prices):\n    return sum(prices)\n",
    "shop/mail.py": "def letter(to):\n    return to\n",
    "tests/test_cart.py": "from shop.cart import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n",
}
CSV = "def as_csv(prices):\n    return ','.join(map(str, prices)) + '\\n'\n"
TEST = "from shop.cart import as_csv\n\n\ndef test_csv():\n    assert as_csv([1, 2]) == '1,2\\n'\n"
PLAN = {"title": "Export a cart as CSV", "changes": [{"kind": "edit", "path": "shop/cart.py", "what": "as_csv"},
                                                     {"kind": "new", "path": "tests/test_csv.py", "what": "its test"}], "refused": []}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "shop_repo"
    for path, text in REPO.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all")
    return folder


def git(folder: Path, *words: str, given: str | None = None) -> str:
    return subprocess.run(["git", *words], cwd=folder, input=given, text=True, capture_output=True, check=True).stdout


def edit(body: str) -> str:
    return ("=== edit: shop/cart.py ===\n<<<<<<< SEARCH\ndef total(prices):\n=======\n" + body + "\n\ndef total(prices):\n>>>>>>> REPLACE\n=== end ===\n"
            f"=== file: tests/test_csv.py ===\n{TEST}=== end ===\n")


async def changed(repo: Path, tmp_path: Path, model: Scripted) -> RunResult:
    return await run(SOPS / "change.yaml", repo=str(repo), idea="add CSV export of the cart", model=model, workspace=tmp_path / "w",
                     name="csv", sandbox=SANDBOX)


@pytest.mark.one_in(12, always=False)
async def test_a_change_passes_its_tests_touches_what_was_planned_and_applies_to_a_clone(repo: Path, tmp_path: Path) -> None:
    beside = edit(CSV) + "=== edit: shop/mail.py ===\n<<<<<<< SEARCH\n    return to\n=======\n    return str(to)\n>>>>>>> REPLACE\n=== end ===\n"
    model = Scripted(plan_it=[{**PLAN, "changes": [{"kind": "edit", "path": "shop/csv.py", "what": "x"}]}, PLAN],
                     make_change=[beside, "=== undo: shop/mail.py ===\n=== undo: shop/cart.py ===\n" + edit(CSV.replace("','", "';'"))],
                     mend=[Reply(text="", calls=(ToolCall("c", "read", {"path": "shop/cart.py"}),)),
                           "=== edit: shop/cart.py ===\n<<<<<<< SEARCH\n    return ';'\n=======\n    return ','\n>>>>>>> REPLACE\n=== end ===\n",
                           "=== edit: shop/cart.py ===\n<<<<<<< SEARCH\ndef as_csv(prices):\n=======\ndef as_csv(prices):\n"
                           "    '''One line.'''\n>>>>>>> REPLACE\n=== end ===\n"],
                     review_it=[Reply(text="", calls=(ToolCall("c", "read", {"path": "shop/mail.py"}),)),
                                {"accepted": False, "faults": ["shop/cart.py: as_csv has no docstring"]}, {"accepted": True, "faults": []}])
    before = git(repo, "status", "--porcelain", "--ignored")
    result = await changed(repo, tmp_path, model)
    assert result.ok and result["outcome"] == {"done": True, "why": "Export a cart as CSV"}
    assert model.steps == ["plan_it", "plan_it", "make_change", "make_change", "mend", "mend", "review_it", "review_it", "mend", "review_it"]
    looked = [str(request.messages) for request in model.requests if request.step == "review_it"][1]
    assert "return to" in looked and "there is no file" not in looked
    mending = [request.messages for request in model.requests if request.step == "mend"]
    assert "return ';'" in str(mending[1][-1]), "what it mends is what it changed, and not the repository as it was given"
    assert all("Carry out the plan" not in str(messages) for messages in mending)
    prompts = {request.step: str(request.messages) for request in model.requests}
    assert "Errors name the value" in prompts["make_change"] and "shop/cart.py:" in prompts["plan_it"], "the guide, and the map"
    assert "`shop/mail.py` is not in the plan" in prompts["make_change"] and "no docstring" in prompts["mend"]
    assert git(repo, "status", "--porcelain", "--ignored") == before == "", "the checkout is as it was"
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repo), str(clone))
    git(clone, "apply", "--index", "-", given=result["patch"])
    assert git(clone, "diff", "--cached", "--name-only").split() == ["shop/cart.py", "tests/test_csv.py"]
    assert (clone / "shop/cart.py").read_text() == result["tree"]["shop/cart.py"]
    made = tmp_path / "w/csv"
    assert (made / ".github/workflows/ci.yml").read_text() == "on: push\n"
    assert git(made, "diff", "--name-only", git(made, "log", "--format=%H", "--reverse", "--", "shop/cart.py").split()[0], "HEAD").split() == [
        "shop/cart.py", "tests/test_csv.py"], "the run's repository has the change as commits"


@pytest.mark.slow
async def test_a_change_that_breaks_a_test_is_no_success(repo: Path, tmp_path: Path) -> None:
    broken = "=== edit: shop/cart.py ===\n<<<<<<< SEARCH\n    return sum(prices)\n=======\n    return 0\n>>>>>>> REPLACE\n=== end ===\n"
    gone = "=== delete: tests/test_cart.py ===\n"
    plan = {**PLAN, "changes": [{"kind": "edit", "path": "shop/cart.py", "what": "x"}]}
    result = await changed(repo, tmp_path, Scripted(plan_it=plan, make_change=broken, mend=gone))
    assert not result.ok and not result["outcome"]["done"]
    assert "fewer tests pass" in result["outcome"]["why"] or "these tests fail" in result["outcome"]["why"]


@pytest.mark.one_in(4)
async def test_where_no_test_can_be_collected_no_model_is_asked(repo: Path, tmp_path: Path) -> None:
    (repo / "tests/test_cart.py").write_text("import not_there_at_all\n")
    model = Scripted()
    result = await changed(repo, tmp_path, model)
    assert not result.ok and not model.requests
    assert "No module named 'not_there_at_all'" in result["outcome"]["why"] and "--install true" in result["outcome"]["why"]


@pytest.mark.one_in(12, always=False)
async def test_a_file_of_tests_that_is_broken_hides_no_other_and_sources_lie_below_src(repo: Path, tmp_path: Path) -> None:
    (repo / "src").mkdir()
    (repo / "shop").rename(repo / "src/shop")
    (repo / "tests/test_mail.py").write_text("import not_there_at_all\n")
    plan = {**PLAN, "changes": [{"kind": "edit", "path": "src/shop/cart.py", "what": "x"}]}
    worse = "=== edit: src/shop/cart.py ===\n<<<<<<< SEARCH\n    return sum(prices)\n=======\n    return 0\n>>>>>>> REPLACE\n=== end ===\n"
    result = await changed(repo, tmp_path, Scripted(plan_it=plan, make_change=worse, mend=worse.replace("sum(prices)", "0").replace("=\n    return 0", "=\n    return 1")))
    assert not result.ok and result["outcome"]["why"] == "these tests fail: tests/test_cart.py::test_total"


DIFF = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f(x):\n-    return x\n+    return x / 0\n"


async def test_a_remark_outside_of_the_diff_goes_back_and_the_report_has_files_and_lines(tmp_path: Path) -> None:
    (tmp_path / "change.diff").write_text(DIFF)
    remark = {"file": "a.py", "line": 12, "side": "new", "severity": "must", "quote": "return x / 0", "text": "Divides by zero."}
    review = {"summary": "Divides.", "verdict": "change", "remarks": [remark]}
    model = Scripted(review_it=[review, {**review, "remarks": [{**remark, "line": 2}]}])
    result = await run(SOPS / "code_review.yaml", diff=str(tmp_path / "change.diff"), model=model, workspace=tmp_path / "w", name="r")
    assert result.ok and len(model.requests) == 2
    assert "line 12 of `a.py` (new) is not in the change; there are 1 to 2" in str(model.requests[1].messages)
    assert "     2 +     return x / 0" in model.requests[0].messages[-1]["content"]
    report = (tmp_path / "w/r/review.md").read_text()
    assert "## `a.py`, line 2: must" in report and "Divides by zero." in report


async def test_two_folders_are_a_change_and_nothing_is_none(repo: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    git(repo, "worktree", "add", "-q", str(base))
    (repo / "shop/mail.py").write_text("def letter(to):\n    return str(to)\n")
    model = Scripted(review_it={"summary": "Fine.", "verdict": "approve", "remarks": []})
    result = await run(SOPS / "code_review.yaml", repo=str(repo), base=str(base), model=model, workspace=None)
    shown = model.requests[0].messages[-1]["content"]
    assert result.ok and "shop/mail.py\n     1   def letter(to):\n     2 -     return to\n" in shown and "shop/cart.py" not in shown
    nothing = await run(SOPS / "code_review.yaml", model=model, workspace=None)
    assert not nothing.ok and "there is no change to review: give `--diff FILE`" in nothing.reason and len(model.requests) == 1
