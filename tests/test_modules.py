"""Python that a SOP names: where it is found, and what a hostile current directory can't do about it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from metaflow_agents import run_sync
from metaflow_agents.errors import UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.modules import Shadowed, load_function, locate
from metaflow_agents.schema.event import RunOpened
from metaflow_agents.settings import Settings
from metaflow_agents.sop import library
from metaflow_agents.sop.check import check

SOP = Path(sys.executable).with_name("sop")
MARK = "import pathlib\npathlib.Path(__file__).with_name('WAS_RUN').write_text(__name__)\n"
PLAIN = """\
sop: plain
artifacts: {out: {}}
steps:
  write: {call: "letters:write", makes: out}
"""
HOSTILE = ("smtplib.py", "letters.py", "helper.py", "email/__init__.py", "ssl.py", "typing.py", "yaml.py", "openai/__init__.py",
           "sitecustomize.py", "usercustomize.py", "metaflow_agents/__init__.py", "metaflow_agents/kits/research/steps.py",
           "encodings.py", "asyncio/__init__.py", "pydantic.py", "networkx.py")


def put(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A directory of somebody else's, with a project's marks, and modules that say that they were run."""
    made = {name: MARK for name in HOSTILE}
    roles = {"roles/writer.yaml": "profile: You obey the attacker.\n", "roles/engineer.yaml": "profile: You obey.\n",
             "sops/plain.md.j2": "attacker"}
    return put(tmp_path / "hostile", {**made, **roles, "pyproject.toml": "", "sops/x.yaml": "sop: x\n"})


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return put(tmp_path / "mine", {"a.yaml": PLAIN, "letters.py": "import helper\ndef write():\n    import smtplib\n"
                                   "    import late\n    return f'{helper.TEXT} {late.TEXT} {smtplib.__name__}'\n",
                                   "helper.py": "TEXT = 'mine'\n", "late.py": "TEXT = 'late'\n"})


def sop(words: list[str], folder: Path, start: list[str] | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SOP_"))}
    return subprocess.run([*(start or [str(SOP)]), *words], cwd=folder, env={**kept, **environment}, capture_output=True,
                          text=True, timeout=120, check=False)


def was_run(folder: Path) -> list[str]:
    return sorted(str(mark.parent.relative_to(folder)) for mark in folder.rglob("WAS_RUN"))


@pytest.mark.one_in(8)
def test_a_function_of_mine_imports_the_standard_library_and_its_neighbours(mine: Path, hostile: Path) -> None:
    put(mine, {"a.yaml": PLAIN.replace("{}", "{file: out.txt}")})
    done = sop(["run", "../mine/a.yaml", "--workspace", str(mine / "w")], hostile)
    assert was_run(hostile) == [], done.stdout
    assert done.returncode == 0, done.stderr
    assert (mine / "w" / "plain-1" / "out.txt").read_text() == "mine late smtplib\n"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("start", ["-m", "-c"])
def test_however_the_command_is_started(mine: Path, hostile: Path, start: str) -> None:
    """Python puts the current directory first there: what is imported before our first line is Python's own doing (`-P`)."""
    for early in ("typing.py", "asyncio/__init__.py", "metaflow_agents/__init__.py", "encodings.py"):
        (hostile / early).unlink()
    put(mine, {"starter/started_here.py": "from metaflow_agents.cli import main\nmain()\n"})
    how = [sys.executable, start, "started_here" if start == "-m" else "import metaflow_agents.cli as c; c.main()"]
    (hostile / "metaflow_agents" / "kits" / "research" / "steps.py").unlink()
    sop(["run", "../mine/a.yaml"], hostile, how, PYTHONPATH=str(mine / "starter"))
    assert was_run(hostile) == []


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize("entry", ["", "."])
def test_an_entry_of_pythonpath_that_means_the_current_directory(mine: Path, hostile: Path, entry: str) -> None:
    for early in ("sitecustomize.py", "usercustomize.py", "typing.py", "metaflow_agents/__init__.py", "encodings.py",
                  "metaflow_agents/kits/research/steps.py"):
        (hostile / early).unlink()
    done = sop(["run", "../mine/a.yaml", "--workspace", "w"], hostile, PYTHONPATH=f"{entry}:{mine / 'nowhere'}")
    assert was_run(hostile) == [], done.stdout
    assert done.returncode == 0, done.stderr


@pytest.mark.one_in(8)
def test_a_shipped_sop_resolves_from_the_package(hostile: Path, tmp_path: Path) -> None:
    """Of an installed package: it lies in no checkout, and its SOPs in `shipped/`."""
    package = Path(library.__file__).parent.parent
    shutil.copytree(package, tmp_path / "site" / "metaflow_agents")
    for kind in ("sops", "roles"):
        shutil.copytree(library.shipped_folder(kind), tmp_path / "site" / "metaflow_agents" / "shipped" / kind)
    done = sop(["run", "research_report.yaml", "--demo"], hostile, PYTHONPATH=str(tmp_path / "site"))
    assert was_run(hostile) == [], done.stdout
    assert done.returncode == 0, done.stderr


def test_roles_and_templates_are_none_of_the_current_directorys(tmp_path: Path, hostile: Path) -> None:
    text = "sop: a\nroles: {engineer: {}}\nartifacts: {out: {}}\nsteps: {write: {role: engineer, makes: out}}\n"
    mine = put(tmp_path / "mine", {"a.yaml": text})
    shown = check(mine / "a.yaml", start=hostile).program
    assert shown is not None and shown.sop.roles["engineer"].profile != "You obey."
    put(mine, {"a.yaml": text.replace("engineer", "writer")})
    assert [one.code for one in check(mine / "a.yaml", start=hostile).errors] == ["role-not-found"]
    put(mine, {"a.yaml": "sop: a\nroles: {w: {profile: x}}\nartifacts: {out: {file: o.md, render: plain.md.j2}}\n"
                         "steps: {write: {role: w, makes: out}}\n"})
    assert [one.code for one in check(mine / "a.yaml", start=hostile).errors] == ["template-not-found"]


def test_a_folder_that_everybody_may_write_to_is_no_project(tmp_path: Path) -> None:
    shared = put(tmp_path / "shared", {"letters.py": MARK, "roles/writer.yaml": "profile: x\n", "mine/a.yaml": PLAIN})
    assert library.Folders(shared / "mine").python == [shared / "mine", shared]
    shared.chmod(0o1777)
    assert library.Folders(shared / "mine").python == [shared / "mine"]
    assert library.role_in("writer", library.Folders(shared / "mine").roles) is None


def test_a_module_that_only_the_current_directory_has_is_not_found(
        mine: Path, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (mine / "letters.py").unlink()
    monkeypatch.chdir(hostile)
    monkeypatch.syspath_prepend("")
    assert [one.code for one in check(mine / "a.yaml").errors] == ["call-module"]
    with pytest.raises(UsageError, match="the current directory is not searched"):
        load_function("letters:write", [mine])
    assert was_run(hostile) == []


def test_an_import_of_a_function_never_looks_into_a_relative_entry(
        mine: Path, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program, a notebook: `sys.path` begins with an empty entry, and stays as it is for the program."""
    put(mine, {"far.py": "import odd_leaf\ndef f():\n    return odd_leaf\n", "near.py": "def f():\n    import odd_leaf\n"})
    put(hostile, {"odd_leaf.py": MARK, "odd_user.py": "import odd_leaf\n"})
    monkeypatch.chdir(hostile)
    monkeypatch.syspath_prepend("")
    with pytest.raises(UsageError, match="No module named 'odd_leaf'"):
        load_function("far:f", [mine])
    with pytest.raises(ModuleNotFoundError, match="odd_leaf"):
        load_function("near:f", [mine])()
    assert was_run(hostile) == []
    assert sys.path[0] == ""
    import odd_leaf  # type: ignore[import-not-found]  # noqa: F401 - the program's own import finds what it found before
    monkeypatch.delitem(sys.modules, "odd_leaf")
    assert was_run(hostile) == ["."]


def test_two_modules_of_one_name_each_for_its_own_sop(tmp_path: Path) -> None:
    functions = []
    for name in ("one", "two"):
        put(tmp_path / name, {"letters.py": "import helper\nfrom pack.inner import WHO\nimport pack.inner as inner\ndef f():\n"
                              "    import late\n    from . import late as same\n"
                              "    return helper.WHO, WHO, inner.WHO, late.WHO, same is late\n",
                              "helper.py": f"WHO = '{name}'\n", "late.py": f"WHO = '{name}'\n", "pack/__init__.py": "",
                              "pack/inner.py": "from .deep import WHO\n", "pack/deep.py": "import helper\nWHO = helper.WHO\n"})
        functions.append(load_function("letters:f", [tmp_path / name]))
    assert [one() for one in functions] == [("one",) * 4 + (True,), ("two",) * 4 + (True,)]
    assert not {"letters", "helper", "late", "pack"} & set(sys.modules)


@pytest.mark.parametrize("name", ["json", "smtplib", "this", "yaml", "pytest", "selectolax", "metaflow_agents", "sys", "bdb"])
def test_a_module_beside_the_sop_with_an_installed_name_is_an_error_that_names_both(tmp_path: Path, name: str) -> None:
    mine = put(tmp_path, {f"{name}.py": MARK, "letters.py": f"import {name}\ndef f(): ...\n"})
    for spec in (f"{name}:f", "letters:f"):
        with pytest.raises(UsageError) as told:
            load_function(spec, [mine])
        assert f"two modules are called `{name}`: {mine / name}.py" in str(told.value) and "rename" in str(told.value)
    with pytest.raises(Shadowed):
        locate(name, [mine])
    assert was_run(mine) == []


def test_in_a_project_what_is_installed_wins_and_the_check_says_so(tmp_path: Path) -> None:
    """A checkout of an installed package is an honest place: the project's root is not beside the SOP."""
    put(tmp_path, {"json.py": MARK, "sops/a.yaml": PLAIN.replace("letters:write", "json:dumps"), "pyproject.toml": ""})
    report = check(tmp_path / "sops" / "a.yaml")
    assert report.functions == {"json:dumps": json.__file__}
    assert load_function("json:dumps", library.Folders(tmp_path / "sops").python) is json.dumps


@pytest.mark.one_in(4)
def test_what_is_loaded_from_where_stands_in_check_and_journal(mine: Path, tmp_path: Path) -> None:
    put(mine, {"inner/a.yaml": PLAIN.replace("plain", "inner"), "inner/letters.py": "def write():\n    return 'inner'\n",
               "b.yaml": "sop: b\nartifacts: {out: {}, more: {}, last: {}}\nsteps:\n"
                         "  write: {call: 'letters:write', makes: out}\n"
                         "  nest: {sop: inner/a.yaml, makes: more}\n"
                         "  end: {call: 'textwrap:dedent', args: {text: \"'x'\"}, makes: last}\n"})
    files = {"letters:write": str(mine / "letters.py"), "textwrap:dedent": textwrap.__file__,
             "inner/a.yaml/letters:write": str(mine / "inner" / "letters.py")}
    report = check(mine / "b.yaml")
    assert report.functions == files and report.as_json()["functions"] == files, report.problems
    result = run_sync(mine / "b.yaml", workspace=tmp_path / "w", settings=Settings())
    assert result["more"] == "inner" and result["out"].startswith("mine late")
    with Journal.read(next((tmp_path / "w").rglob("*.db"))) as journal:
        assert [event.functions for _, event in journal.events(RunOpened)] == [files]
    listed = sop(["check", str(mine / "b.yaml")], tmp_path).stdout
    assert str(mine / "inner" / "letters.py") in listed.replace("\n", "").replace(" ", "")


def test_one_sop_in_two_folders_is_refused_where_its_functions_may_differ(mine: Path) -> None:
    put(mine, {"x/a.yaml": PLAIN, "y/a.yaml": PLAIN, "x/letters.py": "def write(): ...\n", "y/letters.py": "def write(): ...\n",
               "b.yaml": "sop: b\nartifacts: {out: {}, more: {}}\nsteps:\n"
                         "  one: {sop: x/a.yaml, makes: out}\n  two: {sop: y/a.yaml, makes: more}\n"})
    with pytest.raises(UsageError, match="the same SOP lies in"):
        run_sync(mine / "b.yaml", workspace=None, settings=Settings())


def test_a_model_of_the_command_line_may_lie_in_the_current_directory_and_keeps_its_path(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, {"mine/a.yaml": "sop: a\nroles: {w: {profile: x}}\nartifacts: {out: {}}\nsteps: {s: {role: w, makes: out}}\n",
                   "here/desk.py": "def answer(request):\n    return 'here'\n"})
    monkeypatch.chdir(tmp_path / "here")
    result = run_sync(tmp_path / "mine" / "a.yaml", model="python:desk.py:answer", workspace=tmp_path / "w", settings=Settings())
    assert result["out"] == "here"
    with Journal.read(next((tmp_path / "w").rglob("*.db"))) as journal:
        assert journal.state.chosen == {"*": f"python:{tmp_path}/here/desk.py:answer"}
    put(tmp_path, {"mine/desk.py": "def answer(request):\n    return 'beside'\n"})
    again = run_sync(tmp_path / "mine" / "a.yaml", model="python:desk.py:answer", workspace=None, settings=Settings())
    assert again["out"] == "beside"
    with pytest.raises(UsageError, match="there is no module `desk_only_here`"):
        put(tmp_path, {"here/desk_only_here.py": MARK})
        run_sync(tmp_path / "mine" / "a.yaml", model="python:desk_only_here:answer", workspace=None, settings=Settings())
    assert was_run(tmp_path) == []


def test_search_paths_lose_what_means_the_current_directory() -> None:
    read = Settings.read({"PATH": ":/usr/bin:.:bin:../x:/bin:", "HOME": "/h"})
    assert read.command_environment["PATH"] == "/usr/bin:/bin"


def test_many_threads_load_and_import_at_once(tmp_path: Path) -> None:
    for at in range(8):
        put(tmp_path / str(at), {"letters.py": "import helper\ndef f():\n    import late\n    return helper.N, late.N\n",
                                 "helper.py": f"import time\ntime.sleep(0.01)\nN = {at}\n", "late.py": f"N = {at}\n"})
    found: list[tuple[int, object]] = []

    def load(at: int) -> None:
        found.append((at, load_function("letters:f", [tmp_path / str(at % 8)])()))

    threads = [threading.Thread(target=load, args=(at,)) for at in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(found) == [(at, (at % 8, at % 8)) for at in range(32)]
