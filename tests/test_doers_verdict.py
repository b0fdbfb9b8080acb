"""A verdict of tests that run somebody's code: what is noticed of a forged one, and what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metaflow_agents import run
from metaflow_agents.sandbox.testing import disagreement, guarded
from metaflow_agents.settings import Settings

SOP = """
sop: tested
artifacts: {source: {files: "**"}, result: {}}
steps:
  make: {call: "making:make", makes: source}
  test: {run: python -m pytest -q, parse: junit, needs: [source], makes: result, timeout: 60s}
"""
TESTS = """
import product

def test_one():
    assert product.double(2) == 4

def test_two():
    assert product.double(3) == 6
"""
GREEN = '<testsuites><testsuite><testcase classname="tests.test_a" name="test_zero"/></testsuite></testsuites>'
WRONG = "def double(x):\n    return x\n"
WRITE = f"open('.sop-junit.xml', 'w').write({GREEN!r})"
FORGED = {
    "exit in the middle": {"product.py": "import os\ndef double(x):\n    os._exit(0)\n"},
    "exit at import": {"product.py": "import os\nos._exit(0)\n"},
    "exit by sys": {"product.py": "import sys\ndef double(x):\n    sys.exit(0)\n"},
    "a report, then exit": {"product.py": f"import os\ndef double(x):\n    {WRITE}\n    os._exit(0)\n"},
    "a report at exit": {"product.py": WRONG + f"import atexit, os\natexit.register(lambda: ({WRITE}, os._exit(0)))\n"},
    "a pytest of its own": {"pytest.py": f"{WRITE}\nraise SystemExit(0)\n", "product.py": WRONG},
    "a pytest package of its own": {"_pytest/__init__.py": WRITE, "pytest/__init__.py": "", "pytest/__main__.py": WRITE,
                                    "product.py": WRONG},
    "a pluggy of its own": {"pluggy.py": f"{WRITE}\nimport os\nos._exit(0)\n", "product.py": WRONG},
    "an interpreter's own module": {"json.py": f"{WRITE}\nimport os\nos._exit(0)\n", "product.py": WRONG},
    "a process left behind": {"product.py": WRONG + "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', "
                              f"{f'import time; time.sleep(1); {WRITE}'!r}], start_new_session=True)\n"},
    "only the number of results": {"product.py": WRONG + "import atexit, os\natexit.register(lambda: (open('.sop-junit.xml', "
                                   f"'w').write({GREEN.replace('<testcase', '<testcase/><testcase')!r}), os._exit(0)))\n"},
}


async def verdict(tmp_path: Path, files: dict[str, str]) -> dict[str, object]:
    made = {"tests/test_a.py": TESTS, **files}
    (tmp_path / "sop.yaml").write_text(SOP)
    (tmp_path / "making.py").write_text(f"def make():\n    return {made!r}\n")
    result = await run(tmp_path / "sop.yaml", workspace=None, settings=Settings())
    found: dict[str, object] = result["result"]
    return found


FIRST = ("a report, then exit", "a report at exit", "a pytest of its own")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [name if name in FIRST else pytest.param(name, marks=pytest.mark.slow) for name in FORGED])
async def test_a_forged_verdict_is_noticed(name: str, tmp_path: Path) -> None:
    assert (await verdict(tmp_path, FORGED[name]))["ok"] is False


@pytest.mark.one_in(8)
async def test_an_honest_verdict_is_believed(tmp_path: Path) -> None:
    tests = TESTS + "import pytest\n@pytest.mark.parametrize('x', ['a::b', '[', '<&>'])\ndef test_three(x): ...\n" \
        "class TestIn:\n    def test_in(self): ...\n@pytest.mark.skip\ndef test_skipped(): ...\n"
    found = await verdict(tmp_path, {"product.py": "def double(x):\n    return 2 * x\n", "tests/test_a.py": tests,
                                     "tests/conftest.py": "import sys\nassert sys.path[0]\n",
                                     "tests/test_no.py": "import pytest\npytest.skip('no', allow_module_level=True)\n"})
    assert found["ok"] is True and found["passed"] == 6, found


@pytest.mark.one_in(8)
async def test_what_is_not_promised(tmp_path: Path) -> None:
    """Code that knows the names of all tests, and writes a report of them: told in `docs/security.md`."""
    case = '<testcase classname="tests.test_a" name="test_zero"/>'
    whole = GREEN.replace(case, case.replace("zero", "one") + case.replace("zero", "two"))
    forging = f"import atexit, os\natexit.register(lambda: (open('.sop-junit.xml', 'w').write({whole!r}), os._exit(0)))\n"
    assert (await verdict(tmp_path, {"product.py": WRONG + forging}))["ok"] is True


def test_commands() -> None:
    assert guarded(["make", "test"]) is None and guarded(["python3.9", "-m", "pytest"]) is None
    by_module = guarded(["python", "-Werror", "-m", "pytest", "-q"]) or ()
    assert (by_module[:4], by_module[5:]) == (("python", "-Werror", "-P", "-c"), ("module", "-", "-q"))
    apart = guarded(["pytest", "--junitxml=x", "-q"], "ids") or ()
    assert apart[:2] == ("python", "-P") and apart[4:] == ("program", "ids", "--collect-only", "-p", "no:cacheprovider", "-q")


@pytest.mark.parametrize("collected", [None, b"", b"{", b"{}", b"[1]"])
def test_without_a_collection_nothing_is_believed(collected: bytes | None) -> None:
    assert "could not be collected apart" in disagreement(b"", collected)
    assert disagreement(b'<testcase classname="a" name="t"/>', json.dumps(["a.py::t"]).encode()) == ""
    assert "1 results for 2" in disagreement(b'<testcase classname="a" name="t[1]"/>', b'["a.py::t[1]", "a.py::t[2]"]')
