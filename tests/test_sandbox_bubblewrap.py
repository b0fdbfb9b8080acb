"""What a command inside bubblewrap can't do, and what it can. All of it is done once more as an ordinary user."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sandboxes import BWRAP, by_an_ordinary_user, facts_of, left_in, needs_bubblewrap, running, temporary_in

from metaflow_agents.errors import AnswerInvalid, RunError
from metaflow_agents.sandbox import bubblewrap
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.interpreter import interpreter_places
from metaflow_agents.sandbox.junit import parse_junit
from metaflow_agents.sandbox.limited import OUTSIDER
from metaflow_agents.sandbox.port import Completed
from metaflow_agents.sandbox.unconfined import Unconfined

pytestmark = needs_bubblewrap
SECRET = "5f1c-planted-0b9e"
AS_ROOT = os.geteuid() == 0


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, to see that nothing stays in it."""
    return temporary_in(tmp_path, monkeypatch)


@pytest.fixture
def box(temporary: Path) -> Bubblewrap:
    return Bubblewrap(BWRAP, {"PATH": "/usr/bin:/bin", "TERM": "dumb"})


async def python(box: Bubblewrap | Unconfined, code: str, *arguments: str, files: dict[str, bytes] | None = None,
                 **options: Any) -> Completed:
    return await box.run(["python", "-c", code, *arguments], files=files or {}, **options)


async def tried(box: Bubblewrap, actions: Sequence[str]) -> dict[str, str]:
    """What became of each of these expressions inside: `done`, or the name of the exception."""
    code = f"""
import json, os, socket, subprocess, sys
found = {{}}
for action in {list(actions)!r}:
    try:
        eval(action)
        found[action] = "done"
    except BaseException as error:
        found[action] = type(error).__name__
print(json.dumps(found))
"""
    ran = await python(box, code)
    assert ran.exit_code == 0, ran
    return dict(json.loads(ran.stdout))


@pytest.fixture
def listening() -> Iterator[list[socket.socket]]:
    """Servers on the loopback of this machine: TCP over IPv4 and IPv6, and a socket of the abstract namespace."""
    found = [socket.create_server(("127.0.0.1", 0))]
    try:
        found.append(socket.create_server(("::1", 0), family=socket.AF_INET6))
    except OSError:
        pass                                    # a machine without IPv6
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0sop-{os.getpid()}")
    abstract.listen()
    found.append(abstract)
    yield found
    for server in found:
        server.close()


async def test_no_network_is_reached_and_the_own_loopback_works(box: Bubblewrap, listening: list[socket.socket]) -> None:
    actions = [f"socket.create_connection({server.getsockname()[:2]!r}, 2)" if server.family != socket.AF_UNIX
               else f"socket.socket(socket.AF_UNIX).connect('\\0sop-{os.getpid()}')" for server in listening]
    actions += ["socket.create_connection(('192.0.2.1', 80), 2)", "socket.getaddrinfo('example.org', 80)"]
    found = await tried(box, actions)
    assert "done" not in found.values(), found
    for server in listening:
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    own = "s = socket.create_server(('localhost', 0)); socket.create_connection(s.getsockname()).close(); print('reached')"
    assert (await python(box, f"import socket; {own}")).stdout == "reached\n"


async def test_planted_secrets_are_nowhere(box: Bubblewrap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    planted = tmp_path / "planted"
    planted.write_text(SECRET)
    planted.chmod(0o666)
    code = """
import os, sys
found = {}
for folder, folders, files in os.walk("/"):
    if folder in ("/usr", "/dev", "/proc/sys") or folder.startswith(tuple(sys.argv[2:])):
        folders.clear(), files.clear()
    for name in files:
        path = os.path.join(folder, name)
        if folder.startswith("/proc/") and name not in ("environ", "cmdline", "mountinfo", "status"):
            continue
        try:
            found[path] = open(path, "rb").read(1 << 20)
        except OSError:
            found[path] = b""
secret = sys.argv[1][::-1].encode()             # so that the argument itself is not what is found
print(len(found), sorted(path for path, text in found.items() if secret in text))
print(os.path.exists(sys.argv[-1]), "OPENAI_API_KEY" in os.environ)
"""
    ran = await python(box, code, SECRET[::-1], *interpreter_places(), str(planted))
    count, hits = ran.stdout.splitlines()[0].split(" ", 1)
    assert int(count) > 10 and hits == "[]", ran
    assert ran.stdout.splitlines()[1] == "False False"


async def test_nothing_outside_the_copy_is_written(box: Bubblewrap, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    places = ["/x", "/etc/x", "/etc/passwd", "/usr/x", "/dev/x", "/root/x", "/sop/x", f"{sys.prefix}/lib/x",
              f"{sys.base_prefix}/x", str(outside / "x"), "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches",
              "/proc/sysrq-trigger"]
    found = await tried(box, [f"open({place!r}, 'w').write('x')" for place in places])
    assert "done" not in found.values(), found
    assert left_in(outside) == [] and "x" not in left_in(Path(sys.prefix, "lib"))
    fine = await tried(box, [f"open({place!r}, 'w').write('x')" for place in ("x", "/sop/home/x", "/sop/tmp/x", "/tmp/x",
                                                                              "/dev/shm/x", "/dev/null")])
    assert set(fine.values()) == {"done"}, fine


async def test_what_may_be_written_is_mounted_so_and_nothing_else(box: Bubblewrap) -> None:
    """Whoever owns the files: the rights of a user are not what keeps a command from them."""
    ran = await box.run(["cat", "/proc/self/mounts"], files={})
    mounts = [line.split() for line in ran.stdout.splitlines()]
    written = {place for _, place, _, options, *_ in mounts if "rw" in options.split(",")}
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "pts")}
    assert written - devices == {"/proc", "/dev/shm", "/tmp", ".", "../home", "../tmp"}
    assert all({"nosuid"} <= set(options.split(",")) for _, _, _, options, *_ in mounts)


async def test_it_has_no_rights_and_can_get_none(box: Bubblewrap) -> None:
    marker = f"59.{os.getpid()}"
    task = asyncio.create_task(box.run(["sleep", marker], files={}))
    seen: list[dict[str, str]] = []
    while not seen and not task.done():
        await asyncio.sleep(0.02)
        seen = [facts for pid in running(marker) if (facts := facts_of(pid)).get("Name") == "sleep"]
    assert set(seen[0]["Uid"].split()) == {str(OUTSIDER if AS_ROOT else os.getuid())}
    assert int(seen[0]["CapEff"], 16) == int(seen[0]["CapPrm"], 16) == int(seen[0]["CapBnd"], 16) == 0
    assert seen[0]["NoNewPrivs"] == "1"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    others = ["open('/proc/1/mem')", "os.readlink('/proc/1/root')"] if AS_ROOT else []     # else it is the same user
    found = await tried(box, [*others, "os.setuid(0)", "os.chroot('.')", "os.chown('/sop/work', 0, 0)",
                              "subprocess.run(['unshare', '-U', 'true'], check=True)", "os.mknod('d', 0o60600, 1793)",
                              "subprocess.run(['mount', '-t', 'tmpfs', 'x', '/sop/tmp'], check=True)"])
    assert "done" not in found.values(), found


async def test_what_it_sees_is_the_same_on_every_machine(box: Bubblewrap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETHING", "else")
    code = ("import os, json, pwd, socket, sys, time; print(json.dumps({'env': dict(os.environ), 'cwd': os.getcwd(), "
            "'who': pwd.getpwuid(os.getuid())[0], 'host': socket.gethostname(), 'zone': time.tzname[0], "
            "'in': sys.stdin.read(), 'open': sorted(map(int, os.listdir('/proc/self/fd')))[:-1], "
            "'hash': hash('x'), 'pids': [int(p) for p in os.listdir('/proc') if p.isdigit()]}))")
    one, two = [json.loads((await python(box, code)).stdout) for _ in range(2)]
    assert one == two
    path = one["env"].pop("PATH")
    assert path == "~python/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
    assert one["env"].pop("SHLVL", "0") == "0"              # where /bin/sh is bash
    one["env"].pop("_", None)
    assert one["env"] == {"TERM": "dumb", "HOME": "../home", "TMPDIR": "../tmp", "PWD": ".", "LANG": "C.UTF-8", "TZ": "UTC",
                          "USER": "sop", "LOGNAME": "sop", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    assert (one["cwd"], one["who"], one["host"], one["zone"], one["in"]) == (".", "sop", "sop", "UTC", "")
    assert one["open"] == [0, 1, 2] and one["pids"] in ([1, 2], [1, 2, 3])


async def test_how_it_ends_is_data(box: Bubblewrap, temporary: Path) -> None:
    files = {"x": b"echo", "sub dir/ünï.txt": b"1", "sub dir/a": b"2"}
    code = "import os, sys; os.mkdir('o'); open('o/ä b', 'w').write(os.getcwd()); print('é', file=sys.stderr); sys.exit(3)"
    ran = await python(box, code, files=files, collect=["o/ä b", "never", "sub dir/ünï.txt", "x/y"])
    assert (ran.exit_code, ran.ok, ran.stderr, ran.timed_out, ran.cut) == (3, False, "é\n", False, False)
    assert ran.files == {"o/ä b": b".", "sub dir/ünï.txt": b"1"} and files["x"] == b"echo"
    for argv, code_, said in [(["no-such-command"], 127, "no-such-command: command not found\n"),
                              (["./none"], 127, "./none: command not found\n"), (["./x"], 126, "./x: Permission denied\n"),
                              (["./sub dir"], 126, "./sub dir: Permission denied\n"),
                              (["a\0b"], 126, "a\0b: an argument holds a NUL character\n"),
                              (["sh", "-c", "kill -9 $$"], -9, ""),
                              (["sh", "-c", "exit 200"], 200, ""), (["true"], 0, ""), (["echo", "-n"], 0, "")]:
        ran = await box.run(argv, files=files)
        assert (ran.exit_code, ran.stderr) == (code_, said), argv
    ran = await box.run(["python", "-c", "pass", "x" * 300_000], files={})
    assert ran.exit_code == 126
    assert left_in(temporary) == []


@pytest.mark.parametrize("code", ["os.symlink('/etc/passwd', 'x')", "os.mkdir('x')", "os.mkfifo('x')", "os.symlink('y', 'x')"])
async def test_only_regular_files_are_collected(box: Bubblewrap, code: str) -> None:
    with pytest.raises(AnswerInvalid, match="not a regular file"):
        await python(box, f"import os; open('y', 'w'); {code}", collect=["x"])


async def test_links_lead_nowhere(box: Bubblewrap, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    for code in (f"os.symlink({str(tmp_path)!r}, 'd')", "os.symlink('/etc', 'd')", "os.mkdir('e'); os.symlink('e', 'd')"):
        with pytest.raises(AnswerInvalid, match="`d` is a link"):
            await python(box, f"import os; {code}", collect=["d/secret"])
    with pytest.raises(AnswerInvalid, match="larger than"):
        await python(box, "open('x', 'wb').truncate(65 * 1024 * 1024)", collect=["x"])


@pytest.mark.one_in(8)
async def test_what_a_command_locked_or_buried_is_removed(box: Bubblewrap, temporary: Path) -> None:
    code = """
import os
os.makedirs('d/e'); open('d/e/f', 'w'); os.chmod('d/e', 0o500); os.chmod('d', 0)
for depth in range(1200):
    os.mkdir('deep-enough-to-be-longer-than-any-path'); os.chdir('deep-enough-to-be-longer-than-any-path')
os.chmod('/sop/work', 0); os.chmod('/sop/tmp', 0)
"""
    assert (await python(box, code)).exit_code == 0
    assert left_in(temporary) == []


async def test_many_at_once(box: Bubblewrap, temporary: Path) -> None:
    results = await asyncio.gather(*(box.run(["sh", "-c", f"cat n; echo {n} > n"], files={"n": b"%d" % n}, collect=["n"])
                                     for n in range(20)))
    assert [(ran.stdout, ran.files["n"]) for ran in results] == [(str(n), b"%d\n" % n) for n in range(20)]
    assert left_in(temporary) == []


TESTS = b"""
import json, os, tempfile
def test_good(tmp_path):
    (tmp_path / "x").write_text(str(tmp_path))
    assert os.getcwd()
def test_bad():
    assert tempfile.gettempdir() == os.getcwd()
def test_ugly():
    json.loads("")
"""


@pytest.mark.one_in(8, always=False)
async def test_pytest_tells_the_same_as_unconfined_and_nothing_of_this_machine(box: Bubblewrap, temporary: Path) -> None:
    argv = "python -m pytest -p no:cacheprovider -p no:randomly --junitxml=r.xml -o junit_family=xunit1".split()
    files = {"tests/test_a.py": TESTS, "a b/ü.py": b""}
    seen = [await sandbox.run(argv, files=files, collect=["r.xml"]) for sandbox in (box, Unconfined({"PATH": "/usr/bin:/bin"}))]
    confined, unconfined = [parse_junit(ran.files["r.xml"], ran.exit_code) for ran in seen]
    assert (confined["passed"], confined["failed"], confined["exit_code"]) == (1, 2, 1)
    assert [failure["place"] for failure in confined["failures"]] == ["tests/test_a.py:7", "tests/test_a.py:9"]
    for failure, same in zip(confined.pop("failures"), unconfined.pop("failures"), strict=True):
        assert failure == same | {"message": failure["message"]}          # pytest cuts long paths in it
        assert "/sop" not in failure["message"]
    assert confined == unconfined
    for ran in seen:
        shown = ran.stdout + ran.stderr + ran.files["r.xml"].decode()
        for place in (sys.prefix, sys.base_prefix, str(temporary)):
            assert place == "/usr" or place not in shown, place
        assert "rootdir: .\n" in ran.stdout and "~python/json/decoder.py" in ran.stdout
    assert "/sop" not in seen[0].stdout


async def test_a_strict_umask_changes_nothing(box: Bubblewrap) -> None:
    before = os.umask(0o077)
    try:
        ran = await box.run(["sh", "-c", "id -un; cat d/f; touch d/g"], files={"d/f": b"x"})
    finally:
        os.umask(before)
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, "sop\nx", "")


async def test_an_old_bubblewrap_does_with_what_it_has(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "features", lambda _: frozenset())
    box = Bubblewrap(BWRAP, {})
    code = "import os; open('/tmp/x', 'w'); open('/dev/shm/y', 'w'); print({'x', 'y'} <= set(os.listdir('/sop/tmp')))"
    ran = await python(box, code)
    assert ran.stdout == "True\n", ran


async def test_bubblewrap_that_is_gone_or_broken_is_a_run_error(temporary: Path, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    shutil.copy(BWRAP, program)
    box = Bubblewrap(str(program), {})
    assert (await box.run(["echo", "x"], files={})).ok
    program.unlink()
    with pytest.raises(RunError, match=r"bubblewrap is gone from .*sop resume"):
        await box.run(["echo", "x"], files={})
    for text, said in (("#!/bin/sh\necho no userns >&2\nexit 1\n", "no userns"), ("#!/bin/sh\nexit 0\n", "exit 0")):
        program.write_text(text)
        program.chmod(0o755)
        with pytest.raises(RunError, match=rf"can't confine `echo` any more \({said}\), so it was not run"):
            await box.run(["echo", "x"], files={})
    assert left_in(temporary) == []


@pytest.mark.skipif(not AS_ROOT, reason="this is an ordinary user already")
@pytest.mark.slow
def test_all_of_it_holds_for_an_ordinary_user() -> None:
    """These tests once more, by a user who is let through to this Python and its packages, and is nobody else."""
    here = Path(__file__).parent
    tests = [str(here / f"test_sandbox_{name}.py") for name in ("bubblewrap", "collecting", "endings", "limits", "session")]
    with tempfile.TemporaryDirectory(prefix="sop-ordinary-") as home:
        done = by_an_ordinary_user(["-m", "pytest", "-q", "-x", "-rs", "-p", "no:cacheprovider", f"--rootdir={here.parent}",
                                    f"--basetemp={home}/pytest", "--deselect",
                                    "tests/test_sandbox_bubblewrap.py::test_all_of_it_holds_for_an_ordinary_user", *tests],
                                   Path(home))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "SKIPPED" not in done.stdout, done.stdout
