"""What is handed over is tried by code: sound products have no fault, and each that was broken on purpose is told by name."""

from __future__ import annotations

import ast
import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deliveries import PLANTS, SOUND, Files, Plant, free_port, lay_out

from metaflow_agents.kits.company import probe_pack
from metaflow_agents.kits.company.probe import installed
from metaflow_agents.kits.company.probe.findings import TRACEBACK, crashed
from metaflow_agents.kits.company.probe.readme import Command, Readme


def probed(files: Files, kind: str, folder: Path) -> dict[str, Any]:
    """What the probe says of a product, as it is packed, as a process of its own in the product's folder."""
    pack = folder / "probe.zip"
    pack.write_bytes(base64.b64decode(probe_pack(kind)))
    ran = subprocess.run([sys.executable, pack, kind], cwd=lay_out(files, folder / "product", free_port()), capture_output=True,
                         text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize(("line", "shown", "left_out"), [
    ("tally sum YOURS.csv", "", True), ("tally sum FILE", "", True), ("tally sum <your file>", "", True),
    ("tally sum …", "", True), ("tally sum ...", "", True), ("tally sum [--unit EUR] a.csv", "", True),
    ("tally sum a.csv --by=COLUMN", "", True), ("tally start|stop", "", True), ("tally on YYYY-MM", "", True),
    ("pip install tally", "", True), ("python -m venv .venv", "", True), ("tally list a.csv | no-such-program", "", True),
    ("ls", "", True), ("cd tally", "", True), ("git clone x && tally sum", "", True), ("tally sum a.csv", "", False),
    ("tally sum README", "", False), ("UNIT=EUR tally sum", "", False), ("cd folder", "", False),
    ("python -m tally sum a.csv", "", False), ("tally sum a.csv --unit CHF", "7 CHF", False), ("cp a.csv b.csv", "", False),
    ("uvicorn tally.app:app", "", False), ("python -m http.server", "", True)])
def test_a_command_that_is_to_be_filled_in_or_of_others_is_left_out(
        line: str, shown: str, left_out: bool, tmp_path: Path) -> None:
    (tmp_path / "README").touch()
    (tmp_path / "folder").mkdir()
    assert Readme(tmp_path, frozenset({"tally"})).is_left_out(Command(1, line, (shown,)), tmp_path) is left_out


@pytest.mark.parametrize(("said", "is_one"), [
    ("", False), (f"{TRACEBACK}:\n  File \"a.py\"\nValueError: no", True),
    (f"{TRACEBACK}:\nBrokenPipeError: [Errno 32] Broken pipe", False),
    (f"{TRACEBACK}:\nKeyError: 1\n\nDuring handling …\n\n{TRACEBACK}:\nBrokenPipeError: [Errno 32] Broken pipe", True)])
def test_a_pipe_that_another_program_closes_is_no_crash(said: str, is_one: bool) -> None:
    assert crashed(said) is is_one


README = """# tally

Run `tally sum a.csv`:

```console
$ tally sum \\
>   a.csv
7 EUR
% tally list a.csv
```

    tally --help         what it can do
    three lines
    UNIT=EUR tally sum "a   b.csv"
    cat a.csv | tally sum -
    tally serve &

1. Then:

   ```shellsession
   (.venv) $ cat >a.csv <<'EOF'
   > day
   > EOF
   $ tally notes "milk   2 l"      keeps a note
   ```

~~~python
>>> tally.add(1, 2)
3
>>> tally.add("a")
Traceback (most recent call last):
TypeError: a number
~~~

`GET /a` gives all, `GET /a?n=9` 404, and `POST /a` 201 (401 for strangers); `GET /b` 401 without a token;
`GET /a/{id}` one, `GET /a/$ID`, `GET /a/*`. http://localhost:8123/start, or <http://127.0.0.1:80/>.
"""


def test_a_readme_is_read_as_who_follows_it_reads_it(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(README)
    readme = Readme(tmp_path, frozenset({"tally"}))
    assert readme.commands() == [
        [Command(6, "tally sum a.csv", ("7 EUR",)), Command(9, "tally list a.csv", ())],
        [Command(12, "tally --help", ("three lines",)), Command(14, 'UNIT=EUR tally sum "a   b.csv"', ()),
         Command(15, "cat a.csv | tally sum -", ()), Command(16, "tally serve", ())],
        [Command(21, "cat >a.csv <<'EOF'\nday\nEOF", ()), Command(24, 'tally notes "milk   2 l"', ())]]
    assert readme.spans() == [Command(3, "tally sum a.csv", ())]
    assert Readme(tmp_path, frozenset({"other"})).commands() == [] and list(readme.python()) == [(28, "tally.add(1, 2)\n")]
    assert [(one.method, one.path, one.demanded, set(one.named)) for one in readme.routes()] == [
        ("GET", "/a", None, set()), ("GET", "/a?n=9", 404, {404}), ("POST", "/a", 201, {201, 401}), ("GET", "/b", None, {401})]
    assert readme.addresses(README) == [("localhost", 8123, "/start"), ("127.0.0.1", 80, "/")]


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_product_has_no_fault(name: str, tmp_path: Path) -> None:
    kind, files = SOUND[name]
    found = probed(files, kind, tmp_path)
    assert found["faults"] == [] and (found["tried"] or name == "slugs")


@pytest.mark.one_in(8, always=False)
def test_what_tests_in_a_package_read_is_no_data_of_it(tmp_path: Path) -> None:
    kind, files = SOUND["slugs"]
    tests = {"src/slugs/tests/__init__.py": "", "src/slugs/tests/test_it.py": "NAME = 'words.txt'\n",
             "src/slugs/tests/words.txt": "a\n"}
    assert probed({**files, **tests}, kind, tmp_path)["faults"] == []


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize("optional", [True, False])
def test_what_an_optional_dependency_brings_and_pytest_for_its_plugins_are_declared(optional: bool, tmp_path: Path) -> None:
    kind, files = SOUND["slugs"]
    more = '[project.optional-dependencies]\nfast = ["fastslugs"]\n[project.entry-points.pytest11]\nslugs = "slugs.plugin"\n'
    modules = {"src/slugs/fast.py": "import fastslugs\nimport brought\n", "src/slugs/plugin.py": "from slugs import help\n",
               "src/slugs/help.py": "def check():\n    from _pytest.outcomes import Exit\n    return Exit\n"}
    found = probed({**files, "pyproject.toml": files["pyproject.toml"] + more * optional, **modules}, kind, tmp_path)
    told = {fault["why"].split("`")[1] for fault in found["faults"]}
    assert told == (set() if optional else {"fastslugs", "brought", "_pytest"})


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize(("said", "excused"), [
    ("no project in {desk}", True), ("no project in {desk}/x", False), ("no project", False)])
def test_a_command_that_wants_a_folder_of_the_readers_is_no_fault(said: str, excused: bool, tmp_path: Path) -> None:
    kind, files = SOUND["tally"]
    code = files["src/tally/cli.py"]
    ends = f"raise SystemExit(f'{said}')".replace("{desk}", "{os.getcwd()}")
    asked = code.replace("def main(", f"def main(argv=None):\n    import os\n    {ends}\n\n\ndef other(", 1)
    assert asked != code
    found = probed({**files, "src/tally/cli.py": asked, "README.md": "# tally\n\n```sh\ntally sum\n```\n"}, kind, tmp_path)
    assert ("readme" not in {fault["kind"] for fault in found["faults"]}) == excused, found


@pytest.mark.one_in(32, always=False)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda one: one.id)
def test_what_is_broken_is_told_by_name(plant: Plant, tmp_path: Path) -> None:
    found = probed(plant.files(), SOUND[plant.product][0], tmp_path)
    assert plant.kind in {one["kind"] for one in found["faults"]}, found


@pytest.mark.parametrize(("text", "found"), [
    ("import one\nfrom two.more import x\nfrom . import three\n", ["one", "two"]),
    ("def f():\n    import one\n", ["one"]),
    ("if PY_3_14_PLUS:\n    import one\nelse:\n    import two\n", []), ("if PYPY:\n    import one\n", ["one"]),
    ("if sys.version_info >= (3, 12):\n    import one\n", []), ("if sys.platform == 'win32':\n    import one\n", []),
    ("if TYPE_CHECKING:\n    import one\nelse:\n    import two\n", ["two"]), ("if settings.COPY_3:\n    import one\n", ["one"]),
    ("try:\n    import one\nexcept ImportError:\n    one = None\n", []),
    ("try:\n    import one\nfinally:\n    import two\n", ["one", "two"]),
])
def test_imports_of_some_pythons_and_machines_alone_are_nobodys_dependency(text: str, found: list[str]) -> None:
    assert sorted(name for _, name in installed.imported(ast.parse(text))) == found
