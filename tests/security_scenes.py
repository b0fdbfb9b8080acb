"""The cases of `tests/security/sandbox.yaml` that take more than one command. Each gives its outcome as a text."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest import mock

import yaml
from sandboxes import BWRAP, ENGINE, SETTINGS, comes, facts_of, gone, left_in, made, running

from metaflow_agents import run
from metaflow_agents.errors import RunError
from metaflow_agents.sandbox import bridging, landlock, probe, seccomp
from metaflow_agents.sandbox.carrier import Carrier
from metaflow_agents.sandbox.port import Completed, FileChanges
from metaflow_agents.settings import Settings

INSIDE = """
import ctypes, errno, os, platform, shutil, signal, socket, stat, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
NUMBERS = {                                                     # x86-64, arm64
    "setns": (308, 268), "syslog": (103, 116), "unshare": (272, 97), "clone": (56, 220), "clone3": (435, 435),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "keyctl": (250, 219),
    "add_key": (248, 217), "request_key": (249, 218), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "fsopen": (430, 430), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "reboot": (169, 142), "open_by_handle_at": (304, 265),
    "ioctl": (16, 29), "fchmodat2": (452, 452), "memfd_create": (319, 279), "shmget": (29, 194), "socketpair": (53, 199),
    "personality": (135, 92),
    "prctl": (157, 167), "msgget": (68, 186), "mq_open": (240, 180), "io_setup": (206, 0), "semget": (64, 190),
}
def tried(action):
    try:
        action()
    except Exception as error:
        return errno.errorcode.get(getattr(error, "errno", None), type(error).__name__)
    return "done"
def raw(name, *arguments):
    number = name if isinstance(name, int) else NUMBERS[name][platform.machine() == "aarch64"]
    ctypes.set_errno(0)
    return libc.syscall(ctypes.c_long(number), *(ctypes.c_long(one) if isinstance(one, int) else one for one in arguments))
def call(name, *arguments):
    return "done" if raw(name, *arguments) >= 0 else errno.errorcode[ctypes.get_errno()]
def forked(name, *arguments):
    child = raw(name, *arguments, 0, 0, 0)
    if child == 0: os._exit(0)
    return errno.errorcode[ctypes.get_errno()] if child < 0 else "done"
def facts():
    return dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
def end(*what):
    print(*what)
"""
Scene = Callable[[Path], Awaitable[str]]
SCENES: dict[str, Scene] = {}
SECRET = "7e1b-planted-c40d"
PRIORITY = os.getpriority(os.PRIO_PROCESS, os.getpid())


def scene(function: Scene) -> Scene:
    SCENES[function.__name__] = function
    return function


class Backend:
    """Which sandbox the scenes are about."""

    name = "bubblewrap"


def box(**limits: int) -> Carrier:
    return made(Backend.name, {}, **limits)


async def inside(code: str, *arguments: str, within: Carrier | None = None, timeout: float = 30,  # noqa: ASYNC109
                 ) -> Completed:
    return await (within or box()).run(["python", "-c", INSIDE + code, *arguments], files={}, timeout=timeout)


async def changed(code: str, files: dict[str, bytes] | None = None) -> FileChanges:
    given = {"a": b"own", "d/b": b"own"} if files is None else files
    ran = await box().run(["python", "-c", INSIDE + code], files=given, changes=True, timeout=60)
    assert ran.ok and ran.changes is not None, ran
    return ran.changes


def refused(changes: FileChanges, *names: str) -> str:
    """All of these are refused, and nothing came back."""
    return "refused" if not changes.written and set(names) <= changes.refused.keys() else repr(changes)


# --- network ---

async def _reaches(servers: list[socket.socket], code: str, *arguments: str) -> str:
    try:
        ran = await inside(code, *arguments)
        for server in servers:
            server.setblocking(False)
            try:
                server.accept()
            except BlockingIOError:
                continue
            return "reached"
    finally:
        for server in servers:
            server.close()
    return "unreached" if ran.ok and "done" not in ran.stdout and ran.stdout.strip() else repr(ran)


@scene
async def loopback_of_this_machine(folder: Path) -> str:
    servers = [socket.create_server(("127.0.0.1", 0))]
    if socket.has_dualstack_ipv6():
        servers.append(socket.create_server(("::1", 0), family=socket.AF_INET6))
    where = [server.getsockname()[:2] for server in servers]
    return await _reaches(servers, f"end([tried(lambda: socket.create_connection(one, 2)) for one in {where!r}])")


@scene
async def abstract_socket(folder: Path) -> str:
    name = f"\0sop-{os.getpid()}"
    server = socket.socket(socket.AF_UNIX)
    server.bind(name)
    server.listen()
    return await _reaches([server], f"end(tried(lambda: socket.socket(socket.AF_UNIX).connect({name!r})))")


@scene
async def unix_socket(folder: Path) -> str:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "s"))
    (folder / "s").chmod(0o666)
    server.listen()
    return await _reaches([server], "end(tried(lambda: socket.socket(socket.AF_UNIX).connect(sys.argv[1])))", str(folder / "s"))


@scene
async def unix_datagram(folder: Path) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(folder / "d"))
        (folder / "d").chmod(0o666)
        server.setblocking(False)
        code = """
for make in (lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
             lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]):
    tried(lambda: make().sendto(b"x", sys.argv[1])), tried(lambda: make().sendmsg([b"x"], [], 0, sys.argv[1]))
    tried(lambda: (one := make(), one.connect(sys.argv[1]), one.send(b"x")))
end("tried")
"""
        ran = await inside(code, str(folder / "d"))
        try:
            server.recv(10)
        except BlockingIOError:
            return "unreached" if ran.stdout == "tried\n" else repr(ran)
    return "reached"


@scene
async def unix_socket_raced(folder: Path) -> str:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "s"))
        (folder / "s").chmod(0o666)
        server.listen()
        server.setblocking(False)
        code = """
import threading
mine = socket.socket(socket.AF_UNIX)
mine.bind("mine"), mine.listen(1000)
address = ctypes.create_string_buffer(110)
texts = [struct.pack("=H", 1) + one.encode() + b"\\0" for one in (os.path.abspath("mine"), sys.argv[1])]
until = time.monotonic() + 1.5
def turn():
    while time.monotonic() < until:
        for text in texts:
            ctypes.memmove(address, text, len(text))
threading.Thread(target=turn).start()
done = 0
while time.monotonic() < until:
    with socket.socket(socket.AF_UNIX) as one:
        done += libc.connect(one.fileno(), address, 110) == 0
    mine.setblocking(False)
    tried(lambda: mine.accept()[0].close())
end("tried", done)
"""
        ran = await inside("import struct\n" + code, str(folder / "s"))
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return "unreached" if ran.stdout.startswith("tried") and int(ran.stdout.split()[1]) else repr(ran)
    return "reached"


BRIDGE = """
import os, socket, sys, threading
def pump(one, other):
    while data := one.recv(65536):
        other.sendall(data)
    other.shutdown(socket.SHUT_WR)
with socket.create_server(("127.0.0.1", int(sys.argv[2]))) as server:
    os.write(1, sys.argv[2].encode())
    for each in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), each)
    while True:
        inner = server.accept()[0]
        outer = socket.socket(socket.AF_UNIX)
        outer.connect(sys.argv[1])
        for pair in ((inner, outer), (outer, inner)):
            threading.Thread(target=pump, args=pair, daemon=True).start()
"""


@scene
async def proxy_bridge(folder: Path) -> str:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        text = asked.split(b"\r\n")[0]
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
        await writer.drain()
        writer.close()

    (folder / "bridge.py").write_text(BRIDGE)
    with socket.create_server(("127.0.0.1", 0)) as other:
        code = f"""
import urllib.request
told = urllib.request.urlopen("http://example.test/x", timeout=5).read().decode()
direct = [tried(lambda: socket.create_connection(one, 2)) for one in (("192.0.2.1", 80), {other.getsockname()!r})]
end(told, direct, tried(lambda: os.listdir({str(folder)!r})))
"""
        server = await asyncio.start_unix_server(answer, folder / "proxy")
        async with server:
            with mock.patch.object(bridging, "BRIDGE", folder / "bridge.py"):
                marked = made(Backend.name, {"TERM": str(folder)})
                ran = await marked.run(["python", "-c", INSIDE + code], files={}, timeout=30, proxy=folder / "proxy")
    told, _, tries = ran.stdout.strip().partition(" HTTP/1.1 ")
    fine = told == "GET http://example.test/x" and tries.startswith("['ENETUNREACH', 'E") and "done" not in tries
    return "proxy alone" if fine and not with_variable(f"TERM={folder}") else repr(ran)


def with_variable(variable: str) -> list[str]:
    """Processes that were started with it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found += [process.name] if variable.encode() in (process / "environ").read_bytes().split(b"\0") else []
        except OSError:
            continue
    return found


# --- system calls ---

@scene
async def refused_calls(folder: Path) -> str:
    """Each with arguments that do nothing. Two of the kernel's own pass every filter, and end who makes them."""
    calls = yaml.safe_load((Path(__file__).parent / "security/syscalls.yaml").read_text(encoding="utf-8"))
    column = platform.machine() == "aarch64"
    spare = "ENOSYS" if Backend.name == "container" else ""         # what the program's library has no name for yet
    wanted = {numbers[column]: answer for answer in ("EPERM", "ENOSYS", "ENOTSUP") for name, numbers in calls[answer].items()
              if name not in ("uprobe", "uretprobe") and numbers[column] is not None}
    code = f"spare = {spare!r}\nfound = [(one, answer, call(one, 0, 0, 0, 0, 0, 0)) for one, answer in {wanted!r}.items()]\n"
    code += "end({number: got for number, answer, got in found if got not in (answer, spare)})"
    ran = await inside(code)
    return "as the table says" if ran.stdout.strip() == "{}" and len(wanted) > 100 else repr(ran)


# --- files and secrets of this machine ---

@scene
async def planted_file_read(folder: Path) -> str:
    planted = folder / "planted"
    planted.write_text(SECRET)
    planted.chmod(0o666)
    return (await inside("end(tried(lambda: open(sys.argv[1]).read()))", str(planted))).stdout.strip()


@scene
async def planted_file_written(folder: Path) -> str:
    planted = folder / "planted"
    planted.write_text(SECRET)
    planted.chmod(0o666)
    os.chmod(folder, 0o777)
    before = sorted(left_in(folder))
    await inside("end(*(tried(lambda: open(one, 'a').write('x')) for one in (sys.argv[1], sys.argv[1] + '2')))", str(planted))
    return "unchanged" if planted.read_text() == SECRET and sorted(left_in(folder)) == before else "changed"


@scene
async def planted_file_changed(folder: Path) -> str:
    planted, code = _of_the_command(folder), """
place = sys.argv[1]
os.symlink(place, "link")
os.symlink(os.path.dirname(place), "around")
files = []
tried(lambda: files.append(os.open(place, os.O_PATH)))
ways = [place, "link", "around/planted", *(f"/proc/{who}/fd/{one}" for one in files for who in ("self", os.getpid()))]
for way in ways:
    tried(lambda: os.chmod(way, 0o777)), tried(lambda: os.utime(way, (1, 1)))
    tried(lambda: os.chown(way, os.getuid(), os.getgid()))
    tried(lambda: os.setxattr(way, "user.sop", b"x")), tried(lambda: os.truncate(way, 0)), tried(lambda: os.rename(way, "mine"))
    for dirfd in (-100, *files):
        raw("fchmodat2", dirfd, way.encode() if dirfd == -100 else b"", 0o777, 0 if dirfd == -100 else 0x1000)
    tried(lambda: os.utime(way, (1, 1), follow_symlinks=False)), tried(lambda: os.chown(way, -1, -1, follow_symlinks=False))
end("tried", len(ways))
"""
    before = planted.stat()
    ran = await inside(code, str(planted))
    return "unchanged" if ran.stdout.startswith("tried") and _same(before, planted) else repr((ran, before, planted.stat()))


@scene
async def planted_file_raced(folder: Path) -> str:
    planted, code = _of_the_command(folder), """
import threading
open("own", "w").close(), os.mkdir("d"), open("d/planted", "w").close()
os.symlink("own", "a"), os.symlink(sys.argv[1], "b")
os.symlink("d", "c"), os.symlink(os.path.dirname(sys.argv[1]), "e")
until = time.monotonic() + 1.5
def turn():
    while time.monotonic() < until:
        for one, other in (("a", "b"), ("c", "e")):
            tried(lambda: os.rename(one, "x")), tried(lambda: os.rename(other, one)), tried(lambda: os.rename("x", other))
threading.Thread(target=turn).start()
done = 0
while time.monotonic() < until:
    for way in ("a", "c/planted"):
        done += tried(lambda: os.chmod(way, 0o777)) == "done"
        tried(lambda: os.utime(way, (1, 1)))
end("tried", done)
"""
    before = planted.stat()
    ran = await inside(code, str(planted))
    return "unchanged" if int(ran.stdout.split()[1]) > 20 and _same(before, planted) else repr((ran, before, planted.stat()))


def _of_the_command(folder: Path) -> Path:
    """A file of the user by whom commands run, in a folder that it may enter."""
    planted = folder / "planted"
    planted.write_text(SECRET)
    planted.chmod(0o644)
    owner = box().owner
    if owner is not None:
        os.chown(planted, owner, owner)
    return planted


def _same(before: os.stat_result, planted: Path) -> bool:
    now = planted.stat()
    kept = all(getattr(now, name) == getattr(before, name) for name in ("st_mode", "st_uid", "st_gid", "st_mtime_ns"))
    return kept and planted.read_text() == SECRET and not os.listxattr(planted)


@scene
async def folder_watched(folder: Path) -> str:
    watched = folder / "watched"
    watched.mkdir(mode=0o755)
    task = asyncio.create_task(inside("""
libc.inotify_init1.restype = ctypes.c_int
watching = libc.inotify_init1(0o4000)
said = libc.inotify_add_watch(watching, sys.argv[1].encode(), 0xFFF)
deadline = time.monotonic() + 3
heard = b""
while said >= 0 and not heard and time.monotonic() < deadline:
    time.sleep(0.05)
    try:
        heard = os.read(watching, 4096)
    except BlockingIOError:
        pass
end("told" if heard else "untold")
""", str(watched)))
    while not task.done():
        (watched / f"secret-{time.monotonic_ns()}").touch()
        await asyncio.sleep(0.05)
    return (await task).stdout.strip()


@scene
async def environments(folder: Path) -> str:
    code = """
secret, found, looked = sys.argv[1][::-1].encode(), [], 0
try:
    pids = [pid for pid in os.listdir("/proc") if pid.isdigit()]
except PermissionError:                         # but their names can be guessed
    pids = [sys.argv[2], *range(max(1, os.getpid() - 500), os.getpid() + 20)]
for pid in pids:
    for name in ("environ", "cmdline", "maps", "mem"):
        try:
            looked += 1
            text = open(f"/proc/{pid}/{name}", "rb").read(1 << 20)
        except OSError:
            continue
        if secret in text and not (name == "cmdline" and pid == str(os.getpid())):
            found.append((pid, name))
end(looked, found + [name for name, value in os.environ.items() if value.encode() == secret])
"""
    with mock.patch.dict(os.environ, {"OPENAI_API_KEY": SECRET}):
        within = made(Backend.name, {"OPENAI_API_KEY": SECRET, "PATH": "/usr/bin:/bin"})
        ran = await inside(code, SECRET[::-1], str(os.getpid()), within=within)
    looked, _, found = ran.stdout.strip().partition(" ")
    return "nowhere" if int(looked) >= 8 and found == "[]" else repr(ran)


@scene
async def the_runs_own_files(folder: Path) -> str:
    """A real run, whose command knows where everything lies."""
    sop, home = folder / "try.yaml", folder / "runs"
    places = [sop, home / ".journals/one.db", home / "one/.git/HEAD", home / "one/.git/config", folder / "new"]
    code = ("import os, sys\n"
            "for place in [*sys.argv[1:], '.git/config', '.git/hooks/pre-commit']:\n"
            "    try:\n"
            "        os.makedirs(os.path.dirname(place), exist_ok=True)\n"
            "        open(place, 'a').write('x: 1')\n"
            "    except OSError as error: print(error.errno)\n")
    text = yaml_of(code, [str(place) for place in places])
    sop.write_text(text)
    os.chmod(folder, 0o777)
    result = await run(sop, workspace=home, name="one", sandbox=Backend.name,
                       settings=Settings(command_environment={"PATH": os.defpath + ":/usr/bin:/bin"}, container=ENGINE.program,
                                         container_image=ENGINE.image, container_environment=SETTINGS.container_environment))
    done = result.ok and sop.read_text() == text and not (folder / "new").exists()
    in_git = [path for path in home.rglob("*") if ".git" in path.parts and path.is_file() and b"x: 1" in path.read_bytes()]
    return "unchanged" if done and not in_git else repr((result, in_git))


def yaml_of(code: str, arguments: list[str]) -> str:
    import json

    argv = json.dumps(["python", "-c", code, *arguments])
    return f"sop: attempt\nartifacts: {{seen: {{}}}}\nsteps:\n  attempt: {{run: {argv}, makes: seen}}\noutputs: [seen]\n"


@scene
async def user_seen_from_outside(folder: Path) -> str:
    marker = f"57.{os.getpid()}"
    task = asyncio.create_task(box().run(["sleep", marker], files={}))
    try:
        await comes(marker)
        users: set[str] = set()
        while not users:
            await asyncio.sleep(0.02)
            facts = [facts_of(pid) for pid in running(marker)]
            users = {user for one in facts if one.get("Name") == "sleep" for user in (one["Uid"] + "\t" + one["Gid"]).split()}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return "another" if "0" not in users else f"{users}"


@scene
async def signal_to_the_orchestrator(folder: Path) -> str:
    return (await inside("end(tried(lambda: os.kill(int(sys.argv[1]), 0)))", str(os.getpid()))).stdout.strip()


@scene
async def limits_of_the_orchestrator(folder: Path) -> str:
    code = """
import resource
pid = int(sys.argv[1])
ways = (lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)), lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
        lambda: os.setpriority(os.PRIO_USER, 0, 19), lambda: os.sched_setaffinity(pid, {0}),
        lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)),
        lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE))
end([tried(way) for way in ways])
"""
    ran = await inside(code, str(os.getpid()))
    others = os.getpriority(os.PRIO_PROCESS, os.getpid()) == PRIORITY
    # Of a user of its own (bubblewrap's is one, in its own namespace) all are its own.
    return "refused" if ran.ok and others and ran.stdout.count("done") <= (1 if Backend.name != "landlock" else 0) else repr(ran)


# --- how much it takes ---

@scene
async def forks(folder: Path) -> str:
    code = """
reading, writing = os.pipe()
def child():
    if os.fork() == 0:
        os.close(writing), os.read(reading, 1), os._exit(0)
said = [tried(child) for _ in range(16)]
time.sleep(1)
end("done" if set(said) == {"done"} else (set(said) - {"done"}).pop())
"""
    ran = await inside(code, within=box(processes=8))
    return "ended" if "more than 8 processes" in ran.stderr else ran.stdout.strip()


@scene
async def output_flood(folder: Path) -> str:
    ran = await box().run(["sh", "-c", "yes & yes >&2"], files={}, timeout=1)
    return "cut" if ran.cut and ran.timed_out and len(ran.stdout) + len(ran.stderr) < 500_000 else repr(ran)[:500]


# --- what comes back ---

@scene
async def links_back(folder: Path) -> str:
    code = "os.unlink('a'); os.symlink('/etc/passwd', 'a'); shutil.rmtree('d'); os.symlink('/etc', 'd'); os.symlink('a', 'e')"
    return refused(await changed(code), "a", "d", "e")


@scene
async def pipes_back(folder: Path) -> str:
    code = "os.unlink('a'); os.mkfifo('a'); os.mkfifo('p'); socket.socket(socket.AF_UNIX).bind('s')"
    return refused(await changed(code), "a", "p", "s")


@scene
async def huge_file_back(folder: Path) -> str:
    return refused(await changed("open('huge', 'wb').truncate(200 << 20); open('a', 'wb').truncate(17 << 20)"), "huge", "a")


@scene
async def many_files_back(folder: Path) -> str:
    changes = await changed("[open(f'f{number:05}', 'wb').write(b'x') for number in range(9000)]")
    large = await changed("[open(f'f{number:05}', 'wb').truncate(15 << 20) for number in range(60)]")
    few = len(changes.written) <= 2000 and len(changes.refused) < 300 and "more" in changes.refused["…"]
    small = sum(map(len, large.written.values())) <= 64 << 20 and "together" in large.refused["f00059"]
    return "refused" if few and small else repr((len(changes.written), changes.refused, large.refused))


@scene
async def git_back(folder: Path) -> str:
    names = [".git", ".GIT", "d/.git", "git~1", ".git ", ".git."]
    changes = await changed(f"for name in {names!r}:\n    os.makedirs(name + '/hooks'); open(name + '/hooks/pre-commit', 'w')")
    return refused(changes, *names)


@scene
async def odd_names_back(folder: Path) -> str:
    names = [b"x\ny", b"a\\b", b"\xff", b"~x", b"end.", b"C:x", "d/a\u202eb".encode()]
    changes = await changed(f"for name in {names!r}: open(name, 'w')")
    return "refused" if not changes.written and len(changes.refused) == len(names) else repr(changes)


@scene
async def hard_links_back(folder: Path) -> str:
    changes = await changed("os.link('a', 'n'); os.link('a', 'd/m')")
    return "bytes" if changes == FileChanges({"d/m": b"own", "n": b"own"}) else repr(changes)


@scene
async def rewritten_in_secret(folder: Path) -> str:
    code = """
for name in ("a", "d/b"):
    was = os.stat(name)
    with open(name, "r+b") as file:
        file.write(b"NEW")
    os.utime(name, ns=(was.st_atime_ns, was.st_mtime_ns))
"""
    changes = await changed(code)
    return "seen" if changes.written == {"a": b"NEW", "d/b": b"NEW"} else repr(changes)


@scene
async def buried_back(folder: Path) -> str:
    code = """
os.makedirs("locked/in"); open("locked/in/file", "w"); os.chmod("locked", 0)
for _ in range(300):
    os.mkdir("deep-enough-to-be-longer-than-any-path"); os.chdir("deep-enough-to-be-longer-than-any-path")
"""
    changes = await changed(code)
    fine = set(changes.written) <= {"locked/in/file"} and any("deep" in path for path in changes.refused)      # root may look
    return "removed" if fine and left_in(folder / "copies") == [] else repr(changes)


@scene
async def swapped_while_collected(folder: Path) -> str:
    """By a process that does not end with its parent."""
    code = """
if os.fork() == 0:
    os.setsid()
    while True:
        for how in (lambda: os.symlink("/etc/passwd", "x"), lambda: open("x", "w").write("own")):
            how(), os.rename("x", "a")
time.sleep(0.05)
"""
    for _ in range(10):
        changes = await changed(code)
        if any(data not in (b"own", b"") for data in changes.written.values()):
            return repr(changes)
    return "own"


# --- the end of it ---

@scene
async def daemon(folder: Path) -> str:
    marker = f"marker-{os.getpid()}-security"
    code = f"""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3): os.close(fd)
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(30)", {marker!r}])
    os._exit(0)
os.wait()
time.sleep(0.2)
"""
    ran = await inside(code)
    return "gone" if ran.ok and not running(marker) and left_in(folder / "copies") == [] else "left behind"


@scene
async def chain_of_forks(folder: Path) -> str:
    marker = f"marker-{os.getpid()}-chain"
    code = """
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        while True:
            if os.fork():
                os._exit(0)
time.sleep(0.3)
"""
    ran = await inside(code, marker)
    return "gone" if ran.ok and not running(marker) and left_in(folder / "copies") == [] else repr((ran, running(marker)))


@scene
async def held_pipe(folder: Path) -> str:
    code = "subprocess.Popen(['sleep', '50'], start_new_session=True); os.kill(os.getpid(), 9)"
    ran = await asyncio.wait_for(inside(code), 20)
    return "returned" if ran.exit_code == -signal.SIGKILL else repr(ran)


ORCHESTRATOR = """
import asyncio, sys
sys.path.insert(0, sys.argv[3])
from sandboxes import made
script = '''
import ctypes, os, signal, sys, time
for number in range(1, 32):
    try: signal.signal(number, signal.SIG_IGN)
    except OSError: pass
ctypes.CDLL(None).prctl(1, 0)
os.fork(), os.setsid() if os.fork() == 0 else None
time.sleep(40)
'''
asyncio.run(made(sys.argv[1], {}).run(["python", "-c", script, sys.argv[2]], files={}))
"""


def started(argv: list[str], temporary: Path) -> subprocess.Popen[bytes]:
    about = {"SOP_CONTAINER": ENGINE.program, "SOP_CONTAINER_IMAGE": ENGINE.image, "HOME": os.environ.get("HOME")}
    given = {name: value for name, value in about.items() if value} if Backend.name == "container" else {}
    return subprocess.Popen(argv, env={"PATH": os.defpath + ":/usr/bin:/bin", "TMPDIR": str(temporary), **given})


@scene
async def orchestrator_killed(folder: Path) -> str:
    marker = f"marker-{os.getpid()}-orchestrator"
    process = started([sys.executable, "-c", ORCHESTRATOR, Backend.name, marker, str(Path(__file__).parent)], folder / "copies")
    try:
        deadline = time.monotonic() + 20
        while sum(facts_of(pid).get("Name", "").startswith("python") for pid in running(marker)) < 3:       # itself and two more
            assert time.monotonic() < deadline, "it did not start"
            await asyncio.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    return "gone" if await gone(marker) else "left behind"


async def _not_started(carrier: Carrier) -> str:
    try:
        ran = await carrier.run(["sh", "-c", "echo started"], files={})
    except RunError as error:
        return "not started" if "sop doctor" in str(error) else str(error)
    return "not started" if ran.exit_code == 126 and not ran.stdout else repr(ran)


@scene
async def argument_with_nul(folder: Path) -> str:
    ran = await box().run(["echo", "a\0b"], files={})
    return "not started" if ran.exit_code == 126 and not ran.stdout else repr(ran)


@scene
async def backend_gone(folder: Path) -> str:
    carrier = box()
    if Backend.name == "landlock":
        with mock.patch.object(landlock, "KEEPER", "metaflow_agents.sandbox.gone"):
            return await _not_started(carrier)
    program = folder / "program"
    shutil.copy(BWRAP if Backend.name == "bubblewrap" else probe.container_holds(ENGINE).program or "", program)
    carrier.program = str(program)
    first = await carrier.run(["echo", "x"], files={})
    program.unlink()
    return await _not_started(carrier) if first.stdout == "x\n" else repr(first)


@scene
async def filter_not_loaded(folder: Path) -> str:
    with (mock.patch.object(seccomp, "program", lambda: b"\xff" * 16),
          mock.patch("metaflow_agents.sandbox.container.profile", lambda: '{"defaultAction": "SCMP_ACT_NONE"}')):
        return await _not_started(box())


@scene
async def interpreter_forgery(folder: Path) -> str:
    code = """
import gc, json, os, socket, struct, sys
def forge(one):
    text = json.dumps({"id": one, "value": "forged", "error": False, "cut": False}).encode()
    return struct.pack(">I", len(text)) + text
ours = [one for one in gc.get_objects() if isinstance(one, socket.socket)]
frame = sys._getframe()
while frame and "asked" not in frame.f_locals: frame = frame.f_back
known = frame.f_locals["asked"]["id"] if frame else "?"
for one in ours:
    one.sendall(forge(known) * 2 + forge("0" * 32) * 3)
print("sent", len(ours))
"""
    async with box().interpreter(files={}) as python:
        first = await python.execute(code, 20)
        told = [await python.execute("1 + 1", 20) for _ in range(4)]
    honest = all(one.value == "2" or (one.error and one.value is None) for one in told) and told[-1].value == "2"
    return "not believed" if honest and (first.stdout == "sent 1\n" or first.value == "forged") else repr((first, told))
