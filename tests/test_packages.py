"""Packages of a run's commands: what may be asked for, how it is locked, and what comes of wheels that mean harm."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from package_index import only, package, wheel

from metaflow_agents.errors import AnswerInvalid, AttemptFailed, RunError
from metaflow_agents.packages import environments, wheels
from metaflow_agents.packages.declared import outside
from metaflow_agents.packages.environments import Environments
from metaflow_agents.packages.lock import Lock, parse_lock
from metaflow_agents.packages.pip import Pip
from metaflow_agents.packages.requirements import MOST, wanted
from metaflow_agents.packages.wheels import Room, unpack
from metaflow_agents.sandbox.limits import sizes

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_requirements_are_names_extras_and_versions() -> None:
    given = ["Flask>=3,<4", "rich[Jupyter] == 13.*", "typing_Extensions", "flask>=3,<4"]
    assert [str(one) for one in wanted(given)] == ["flask<4,>=3", "rich[jupyter]==13.*", "typing-extensions"]
    assert wanted([]) == []


@pytest.mark.parametrize(("text", "why"), [
    ("evil @ https://example.com/evil-1.tar.gz", "a URL"), ("evil @ file:///etc/passwd", "a URL"),
    ("git+https://example.com/x.git", "no requirement"), ("https://example.com/x.whl", "no requirement"),
    ("./here", "no requirement"),
    ("../there", "no requirement"), ("/abs/x.whl", "no requirement"), ("-r other.txt", "no requirement"),
    ("--index-url=https://example.com", "no requirement"), ("-e .", "no requirement"), ("flask --pre", "no requirement"),
    ("flask>=3\n--index-url=https://example.com", "printable"), ("flask\x00", "printable"), ("flаsk", "ASCII"),
    ("", "no requirement"),
    ('old; python_version < "3.0"', "a marker"), ("flask; extra == 'x'", "a marker"), ("flask\r\n-r x", "printable"),
    ("flask===3", "==="), ("f" * 300, "more than 200"), ("flask; os.system('x')", "no requirement"), ("a,b", "no requirement"),
    ("flask[", "no requirement"), ("flask==3 --hash=sha256:00", "no requirement"), ("${HOME}", "no requirement")])
def test_what_is_no_name_is_refused(text: str, why: str) -> None:
    with pytest.raises(AnswerInvalid, match="is refused") as refused:
        wanted(["flask", text])
    assert why in str(refused.value)


def test_the_number_of_requirements_is_bounded() -> None:
    wanted([f"p{number}" for number in range(MOST)])
    with pytest.raises(AnswerInvalid, match=f"at most {MOST}"):
        wanted([f"p{number}" for number in range(MOST + 1)])


def test_a_name_of_a_file_is_no_file(tmp_path: Path) -> None:
    """pip takes `evil.zip` for a file where one lies there; the canonical name is none."""
    assert [str(one) for one in wanted(["evil.zip", "evil.whl==1"])] == ["evil-whl==1", "evil-zip"]


GOOD = {"name": "alpha", "version": "1.0", "file": "alpha-1.0-py3-none-any.whl", "sha256": "0" * 64}


@pytest.mark.parametrize(("changed", "why"), [
    ({"file": "../alpha-1.0-py3-none-any.whl"}, "not that of|no name"), ({"file": "beta-1.0-py3-none-any.whl"}, "not that of"),
    ({"file": "alpha-1.0.tar.gz"}, "no name of a wheel"), ({"sha256": "0" * 63}, "pattern"), ({"version": "2.0"}, "not that of"),
    ({"name": "--index-url=x"}, "no lock"), ({"version": "1.0 --pre"}, "no lock"), ({"url": "https://x"}, "Extra"),
    ({"file": "alpha-1.0-cp27-cp27m-win32.whl"}, "another machine")])
def test_a_lock_is_read_strictly(changed: dict[str, str], why: str) -> None:
    assert parse_lock({"python": PYTHON, "packages": [GOOD]}, "lock").packages[0].name == "alpha"
    with pytest.raises(AttemptFailed, match=why):
        parse_lock({"python": PYTHON, "packages": [GOOD | changed]}, "lock")


@pytest.mark.parametrize(("value", "why"), [
    ("text", "no lock"), ({"python": "2.7", "packages": []}, "for Python 2.7"), ({"python": PYTHON}, "no lock"),
    ({"python": PYTHON, "packages": [GOOD, GOOD]}, "twice"),
    ({"python": PYTHON, "packages": [{**GOOD, "name": f"a{n}", "file": f"a{n}-1.0-py3-none-any.whl"} for n in range(201)]},
     "200")])
def test_what_is_no_lock_is_told(value: object, why: str) -> None:
    with pytest.raises(AttemptFailed, match=why):
        parse_lock(value, "lock")


# Wheels that mean harm: each is unpacked here as it stands, and what it would do is looked for.


def unpacked(folder: Path, made: Path, name: str = "") -> tuple[Path, list[str]]:
    environment = folder / "environment"
    site = environment / "lib" / f"python{PYTHON}" / "site-packages"
    site.mkdir(parents=True, exist_ok=True)
    (environment / "bin").mkdir(exist_ok=True)
    return environment, unpack(made, package(made), environment, site, Room())


@pytest.mark.parametrize("name", ["../out.py", "a/../../out.py", "/tmp/sop-out.py", "C:/out.py", "a\\..\\out.py", "a//b.py",
                                  "./a.py",
                                  "a\nb.py", "evil-1.0.data/purelib/../../../out.py", "evil-1.0.data/data/../../out.py",
                                  "evil-1.0.data/scripts/../x", "x" * 300])
def test_names_that_lead_elsewhere_refuse_the_wheel(name: str, tmp_path: Path) -> None:
    made = wheel(tmp_path / "index", "evil", files={"evil.py": "", name: "bad"})
    with pytest.raises(AttemptFailed, match="can't be unpacked"):
        unpacked(tmp_path, made)
    assert not list(tmp_path.rglob("out.py")) and not Path("/tmp/sop-out.py").exists()


@pytest.mark.parametrize(("name", "why"), [
    ("evil.pth", "as it starts"), ("EVIL.PTH", "as it starts"), ("sitecustomize.py", "as it starts"),
    ("usercustomize/__init__.py", "as it starts"), ("sitecustomize.cpython-311-x86_64-linux-gnu.so", "as it starts"),
    ("evil-1.0.data/purelib/evil.pth", "as it starts"), ("evil-1.0.data/platlib/evil.pth", "as it starts"),
    ("pytest.py", "of pytest"), ("_pytest/junitxml.py", "of pytest"), ("evil-1.0.data/scripts/python", "Python or pytest"),
    ("evil-1.0.data/scripts/python3.11", "Python or pytest"), ("evil-1.0.data/scripts/pytest", "Python or pytest"),
    ("evil-1.0.data/scripts/a/b", "no name of a script"), ("evil-1.0.data/data/bin/python", "data lie below"),
    ("evil-1.0.data/data/pyvenv.cfg", "data lie below"),
    (f"evil-1.0.data/data/lib/python{PYTHON}/site-packages/x.pth", "data lie"),
    ("evil-1.0.data/headers/x.h", "of no use")])
def test_what_would_act_by_lying_there_is_left_out(name: str, why: str, tmp_path: Path) -> None:
    made = wheel(tmp_path / "index", "evil", files={"evil.py": "", name: "bad"})
    environment, left_out = unpacked(tmp_path, made)
    assert len(left_out) == 1 and why in left_out[0] and left_out[0].startswith("evil: ")
    found = {path.relative_to(environment).as_posix() for path in environment.rglob("*") if path.is_file()}
    site = f"lib/python{PYTHON}/site-packages"
    assert {one for one in found if ".dist-info/" not in one} == {f"{site}/evil.py"}


def test_entry_points_scripts_and_data_are_kept(tmp_path: Path) -> None:
    made = wheel(tmp_path / "index", "tool", files={
        "tool.py": "def main(): print('hello')\n", "tool-1.0.data/scripts/old": "#!python\nprint('old')\n",
        "tool-1.0.data/data/share/tool/x.txt": "x", "pkg/deep.pth": "no line of a folder that Python looks into"},
        scripts="tool = tool:main\npython = tool:main")
    environment, left_out = unpacked(tmp_path, made)
    assert left_out == ["tool: python: it would stand in place of Python or pytest"]
    assert (environment / "share/tool/x.txt").read_text() == "x"
    (environment / "bin/python").symlink_to(sys.executable)
    for script, said in (("tool", "hello"), ("old", "old")):
        done = subprocess.run([environment / "bin" / script], capture_output=True, text=True, check=False, env={
            "PYTHONPATH": str(environment / "lib" / f"python{PYTHON}" / "site-packages"), "PATH": "/usr/bin:/bin"})
        assert (done.stdout.strip(), done.stderr) == (said, ""), "a moved environment has no absolute path in its scripts"


def test_a_link_in_a_wheel_is_a_file(tmp_path: Path) -> None:
    made = wheel(tmp_path / "index", "evil", files={"evil.py": ""})
    link = zipfile.ZipInfo("link.py")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    environment, _ = unpacked(tmp_path, made)
    assert not [path for path in environment.rglob("*") if path.is_symlink()]


def test_a_huge_wheel_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = wheel(tmp_path / "index", "bomb", files={"bomb.txt": b"\0" * 3_000_000})
    assert made.stat().st_size < 10_000
    monkeypatch.setattr(wheels, "BYTES", 2_000_000)
    with pytest.raises(AttemptFailed, match="take more than"):
        unpacked(tmp_path, made)
    assert not list(tmp_path.rglob("bomb.txt"))
    monkeypatch.setattr(wheels, "BYTES", 4_000_000)
    monkeypatch.setattr(wheels, "FILES", 3)
    with pytest.raises(AttemptFailed, match="take more than"):
        unpacked(tmp_path, made)


def test_what_is_no_wheel_is_told(tmp_path: Path) -> None:
    made = wheel(tmp_path / "index", "bad", files={"bad.py": "x"})
    for data in (b"no zip", made.read_bytes()[:-30], b"PK\5\6" + b"\xff" * 18, b""):
        made.write_bytes(data)
        with pytest.raises(AttemptFailed, match="can't be unpacked"):
            unpacked(tmp_path / hashlib.sha256(data).hexdigest(), made)


def test_another_file_than_the_locked_one_is_refused(tmp_path: Path) -> None:
    made = wheel(tmp_path / "index", "alpha")
    locked = package(made)
    wheel(tmp_path / "index", "alpha", files={"alpha.py": "bad"})
    with pytest.raises(AttemptFailed, match="not the file of the lock"):
        unpack(made, locked, tmp_path, tmp_path, Room())


# pip


def resolve(index: Path, *texts: str, seconds: float = 60.0, **more: str) -> Lock:
    return Pip(only(index) | more, seconds=seconds).resolved(wanted(texts))


@pytest.mark.one_in(4)
def test_what_a_package_needs_is_locked_with_it(tmp_path: Path) -> None:
    wheel(tmp_path, "alpha", requires=["beta>=1", 'gamma; extra == "more"'])
    newest = [wheel(tmp_path, "beta", version) for version in ("0.9", "1.2", "1.1")][1]
    lock = resolve(tmp_path, "alpha")
    assert [(one.name, one.version) for one in lock.packages] == [("alpha", "1.0"), ("beta", "1.2")]
    assert lock.packages[1] == package(newest)
    assert lock.python == PYTHON


def sdist(folder: Path, name: str, marker: Path) -> Path:
    """A source whose building leaves a mark, and needs nothing but itself."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, text in (("backend.py", f"open({str(marker)!r}, 'w')\n"), ("setup.py", f"open({str(marker)!r}, 'w')\n"),
                           ("pyproject.toml", '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'),
                           ("PKG-INFO", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")):
            info = tarfile.TarInfo(f"{name}-1.0/{file}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


@pytest.mark.one_in(4)
def test_a_source_is_never_built(tmp_path: Path) -> None:
    """Neither one that an index offers, nor one that a wheel names by its URL, which `--only-binary` lets through."""
    index, mark = tmp_path / "index", tmp_path / "built"
    sdist(index, "alone", mark)
    with pytest.raises(AttemptFailed, match="a source alone"):
        resolve(index, "alone")
    source = sdist(tmp_path / "elsewhere", "evil", mark)
    wheel(index, "direct", requires=[f"evil @ {source.as_uri()}"])
    with pytest.raises(AttemptFailed, match="names a source by its URL"):
        resolve(index, "direct")
    assert not mark.exists()


@pytest.mark.one_in(4)
def test_a_wheel_by_its_url_is_refused(tmp_path: Path) -> None:
    other = wheel(tmp_path / "elsewhere", "other")
    wheel(tmp_path / "index", "direct", requires=[f"other @ {other.as_uri()}"])
    with pytest.raises(AttemptFailed, match="`other` comes from a URL"):
        resolve(tmp_path / "index", "direct")


@pytest.mark.one_in(4)
def test_a_wheel_for_another_machine_is_not_taken(tmp_path: Path) -> None:
    wheel(tmp_path, "alien", tag="cp311-cp311-win_amd64")
    with pytest.raises(AttemptFailed, match="no wheel that fits"):
        resolve(tmp_path, "alien")


@pytest.mark.one_in(4)
def test_an_index_that_says_nothing_ends_at_the_limit(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
        pip = Pip({"PATH": os.defpath, "PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": url, "PIP_RETRIES": "0"}, seconds=2)
        with pytest.raises(AttemptFailed, match="did not end within 2 s"):
            pip.resolved(wanted(["alpha"]))


@pytest.mark.one_in(4)
def test_pip_reads_nothing_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, mark = tmp_path / "here", tmp_path / "mark"
    here.mkdir()
    for name in ("pip.py", "sitecustomize.py", "logging.py", "setup.py"):
        (here / name).write_text(f"open({str(mark)!r}, 'w')\n")
    (here / "pip.conf").write_text("[global]\nno-binary = :all:\n")
    (here / "alpha").mkdir()
    (here / "alpha/setup.py").write_text(f"open({str(mark)!r}, 'w')\n")
    wheel(tmp_path / "index", "alpha")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", str(here))
    assert [one.name for one in resolve(tmp_path / "index", "alpha", PYTHONPATH=str(here)).packages] == ["alpha"]
    assert not mark.exists()


@pytest.mark.one_in(4)
def test_keys_in_the_address_of_the_index_are_not_told(tmp_path: Path) -> None:
    with pytest.raises(AttemptFailed) as failed:
        Pip({"PATH": os.defpath, "PIP_CONFIG_FILE": "/dev/null", "PIP_RETRIES": "0", "PIP_TIMEOUT": "1",
             "PIP_INDEX_URL": "http://someone:hushhush@127.0.0.1:9/simple"}, seconds=60).resolved(wanted(["alpha"]))
    assert "hushhush" not in str(failed.value)


@pytest.mark.parametrize(("dependencies", "said"), [
    ('["alpha"]', ""), ('["Alpha >= 1", "beta[more]<3"]', ""), ("[]", ""), ("5", ""), ('[5]', ""),
    ('["gamma; python_version < \'3.0\'"]', ""), ('["gamma; extra == \'dev\'"]', ""),
    ('["gamma"]', "`gamma` is not in the lock"), ('["alpha", "Gam_ma>=2"]', "`Gam_ma>=2` is not in the lock"),
    ('["alpha>=2"]', "`alpha>=2` does not fit 1.0 of the lock"), ('["not a name"]', "`not a name` is no requirement"),
    ('["gamma @ https://example.com/gamma.whl"]', "is not in the lock"), ("[", ""), ("[" * 9999, "")])
def test_what_a_product_declares_is_held_against_the_lock(dependencies: str, said: str) -> None:
    beta = {**GOOD, "name": "beta", "file": "beta-1.0-py3-none-any.whl"}
    lock = parse_lock({"python": PYTHON, "packages": [GOOD, beta]}, "lock")
    found = outside({"pyproject.toml": f"[project]\nname = 'x'\ndependencies = {dependencies}\n".encode()}, lock)
    assert (said in found) if said else not found
    assert not outside({"src/pyproject.toml": b"[project]\ndependencies = ['gamma']"}, lock)


# Environments


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Path]:
    wheel(tmp_path / "index", "alpha", requires=["beta"])
    wheel(tmp_path / "index", "beta", files={"beta.py": "", "beta.pth": "import os"})
    yield tmp_path / "index"


def seen(environment: Path) -> dict[str, bool]:
    code = ("import importlib.util as u, json\n"
            "names = ('alpha', 'beta', 'pytest', 'pydantic', 'metaflow_agents', 'pip')\n"
            "print(json.dumps({name: bool(u.find_spec(name)) for name in names}))")
    done = subprocess.run([environment / "bin/python", "-I", "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, bool] = json.loads(done.stdout)
    return found


@pytest.mark.one_in(8)
async def test_an_environment_has_the_lock_pytest_and_nothing_else(tmp_path: Path, index: Path) -> None:
    there = Environments(tmp_path / "cache", only(index))
    lock = await there.resolved(wanted(["alpha"]))
    assert lock.left_out == ("beta: beta.pth: Python runs it as it starts",)
    async with there.held(lock) as environment:
        assert seen(environment) == {"alpha": True, "beta": True, "pytest": True, "pydantic": False,
                                           "metaflow_agents": False, "pip": False}
        modes = {path.lstat().st_mode & 0o222 for path in (environment, *environment.rglob("*")) if not path.is_symlink()}
        assert modes <= {0, 0o200}, "nothing but the note that it is whole may be written"
    async with there.held(Lock(python=PYTHON, packages=())) as empty:
        assert seen(empty)["alpha"] is False


@pytest.mark.one_in(8, always=False)
async def test_it_is_made_once_and_again_where_it_is_gone_or_damaged(
        tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Path] = []
    fetched = Pip.fetched

    def counted(self: Pip, lock: Lock, into: Path) -> None:
        calls.append(into)
        fetched(self, lock, into)

    monkeypatch.setattr(Pip, "fetched", counted)
    there = Environments(tmp_path / "cache", only(index))
    lock = await there.resolved(wanted(["alpha"]))

    async def used() -> Path:
        async with there.held(lock) as environment:
            assert seen(environment)["alpha"]
            return environment

    places = await asyncio.gather(used(), used(), used())
    assert len(set(places)) == 1 and len(calls) == 1
    environment = places[0]
    environments._remove(environment)
    await used()
    assert len(calls) == 2
    (environment / "lib" / f"python{PYTHON}" / "site-packages/alpha.py").chmod(0o600)
    (environment / "lib" / f"python{PYTHON}" / "site-packages/alpha.py").write_text("")
    environments._looked_at.cache_clear()               # another process
    await used()
    assert len(calls) == 3


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Code in another process, which imports what this one can."""
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, errors="replace", check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def test_what_pip_removes_while_its_bytes_are_counted_counts_for_nothing(tmp_path: Path) -> None:
    """Once the first is counted the others go: two files, and a folder that was still to be looked into."""
    for path in ("one/below", "two", "three"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"x" * 5000)
    found = sizes([tmp_path])
    assert next(found) > 0
    shutil.rmtree(tmp_path / "one")
    for path in ("two", "three"):
        (tmp_path / path).unlink()
    assert list(found) == []


@pytest.mark.one_in(16, always=False)
@pytest.mark.parametrize("at", ["_complete", "unpack", "_counted"])
async def test_a_kill_while_it_is_made_leaves_nothing_that_is_used(tmp_path: Path, index: Path, at: str) -> None:
    lock = await Environments(tmp_path / "other", only(index)).resolved(wanted(["alpha"]))
    code = ("import asyncio, json, os, sys\nfrom pathlib import Path\nfrom metaflow_agents.packages import environments as made\n"
            "from metaflow_agents.packages.lock import Lock\n"
            "setattr(made, sys.argv[1], lambda *_: os.kill(os.getpid(), 9))\n"
            "async def main():\n"
            "    there = made.Environments(Path(sys.argv[2]), json.loads(sys.argv[3]))\n"
            "    async with there.held(Lock(**json.loads(sys.argv[4]))):\n        print('made')\nasyncio.run(main())\n")
    cache = tmp_path / "cache"
    done = python(code, at, str(cache), json.dumps(only(index)), lock.model_dump_json())
    assert done.returncode == -9 and not done.stdout, done.stderr
    assert [one.suffix for one in sorted(cache.iterdir())] == [".begun", ".lock"]
    async with Environments(cache, only(index)).held(lock) as environment:
        assert seen(environment)["alpha"]
    assert not list(cache.glob("*.begun"))


@pytest.mark.one_in(8)
def test_two_processes_make_it_once(tmp_path: Path, index: Path) -> None:
    lock = Pip(only(index)).resolved(wanted(["alpha"]))
    script = ("import asyncio, json, sys\nfrom pathlib import Path\n"
              "from metaflow_agents.packages.environments import Environments\n"
              "from metaflow_agents.packages.lock import Lock\n"
              "async def main():\n    lock = Lock.model_validate(json.loads(sys.argv[3]))\n"
              "    async with Environments(Path(sys.argv[1]), json.loads(sys.argv[2])).held(lock) as place:\n"
              "        print(place.stat().st_ino)\nasyncio.run(main())\n")
    arguments = [str(tmp_path / "cache"), json.dumps(only(index)), lock.model_dump_json()]
    racing = [subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
              for _ in range(2)]
    inodes = {process.communicate()[0] for process in racing}
    assert len(inodes) == 1 and inodes != {""}
    assert not list((tmp_path / "cache").glob("*.begun"))


@pytest.mark.one_in(4)
async def test_one_that_was_begun_by_a_killed_process_is_made_anew(tmp_path: Path, index: Path) -> None:
    there = Environments(tmp_path / "cache", only(index))
    lock = Pip(only(index)).resolved(wanted(["alpha"]))
    half = tmp_path / "cache" / f"{environments._key(lock)}.begun"
    (half / "bin").mkdir(parents=True)
    (half / "bin/python").write_text("half")
    other = tmp_path / "cache" / "0123.begun"
    other.mkdir()
    async with there.held(lock) as environment:
        assert seen(environment)["alpha"]
    assert not half.exists() and not other.exists()


@pytest.mark.one_in(8, always=False)
async def test_a_wheel_that_was_replaced_on_the_index_is_refused(tmp_path: Path, index: Path) -> None:
    there = Environments(tmp_path / "cache", only(index))
    lock = await there.resolved(wanted(["alpha"]))
    environments._remove(tmp_path / "cache" / environments._key(lock))
    wheel(index, "alpha", files={"alpha.py": "bad"}, requires=["beta"])
    with pytest.raises(AttemptFailed, match=r"(?i)hash"):
        async with there.held(lock):
            pass
    assert not [one for one in (tmp_path / "cache").iterdir() if one.suffix != ".lock"]


@pytest.mark.one_in(8, always=False)
async def test_the_cache_is_bounded_and_what_is_in_use_stays(
        tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "MOST", 1)
    there = Environments(tmp_path / "cache", only(index))
    locks = [Pip(only(index)).resolved(wanted(texts)) for texts in ([], ["beta"], ["alpha"])]
    async with there.held(locks[0]) as used:
        async with there.held(locks[1]) as idle:
            pass
        async with there.held(locks[2]) as newest:
            assert used.exists() and newest.exists() and not idle.exists()


async def test_who_waits_for_an_environment_can_be_stopped(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
        there = Environments(tmp_path / "cache", {"PATH": os.defpath, "PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": url})
        task = asyncio.ensure_future(there.resolved(wanted(["alpha"])))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises((asyncio.CancelledError, RunError)):
            await task


@pytest.mark.one_in(8)
async def test_a_container_lays_the_packages_out_for_its_own_python(tmp_path: Path, index: Path) -> None:
    """What runs first in a container, done here: no container can be had in every place where this is tested."""
    there = Environments(tmp_path / "cache", only(index))
    async with there.held(await there.resolved(wanted(["alpha"]))) as environment:
        code = ("import os, subprocess, sys\nfrom metaflow_agents.sandbox import contained\ncontained.lay_out(*sys.argv[1:])\n"
                "subprocess.run(['python', '-I', '-c', 'import alpha, sys; print(sys.prefix)'], check=True)\n"
                "subprocess.run(['pytest', '--version'], check=True)\n")
        for version, said in ((PYTHON, f"{tmp_path / 'laid'}\npytest "), ("2.7", "for Python 2.7, and this image has")):
            done = python(code, str(environment), str(tmp_path / "laid"), version)
            assert said in done.stdout, (done.stdout, done.stderr)
