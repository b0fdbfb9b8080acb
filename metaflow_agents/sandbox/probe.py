"""Whether bubblewrap holds here: looked at once in a process, by a command that tries to get out."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from metaflow_agents.errors import MetaflowError
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.copies import removed
from metaflow_agents.sandbox.limits import Limits
from metaflow_agents.sandbox.mends import install_line, unlock_line

_SECONDS = 30.0
_PROCESSES = 10             # that the canary may have; it tries to have 16 more, each of which ends by itself
_CANARY = """
import errno, importlib.util, json, os, socket, sys
planted, port, secret, out = sys.argv[1], int(sys.argv[2]), sys.argv[3][::-1].encode(), []
def tries(what, action):
    try:
        action()
    except OSError:
        return
    out.append(what)
tries("it reaches the network of this machine", lambda: socket.create_connection(("127.0.0.1", port), 2).close())
tries("it reads files of this machine", lambda: open(planted, "rb").read())
tries("it writes files of this machine", lambda: open(planted, "ab").write(b"x"))
tries("it writes outside its copy", lambda: open("/usr/.sop", "w").close())
tries("it writes outside its copy", lambda: open("/.sop", "w").close())
with open("/proc/net/dev") as devices:
    if [line for line in devices.read().splitlines()[2:] if line.split(":")[0].strip() != "lo"]:
        out.append("it sees the network of this machine")
with open("/proc/self/status") as status:
    facts = dict(line.rstrip("\\n").split(":\\t", 1) for line in status if ":\\t" in line)
if int(facts["CapEff"], 16) or int(facts["CapBnd"], 16) or facts["NoNewPrivs"] != "1":
    out.append("it has or may get privileges")
if facts["Seccomp"] != "2":
    out.append("its system calls are not filtered")
if os.getpid() > 9:
    out.append("it sees the processes of this machine")
def environment(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        if secret in file.read():
            raise ValueError
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        environment(pid)
    except OSError:
        continue
    except ValueError:
        out.append("it reads the environment of who started it")
tries("it may change the process that ends it", lambda: open("/proc/1/mem", "rb+").close())
try:
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) == 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        out.append("it makes user namespaces of its own")
except ImportError:
    out.append("it has no ctypes, to try system calls with: install a Python that has it")
if importlib.util.find_spec("pytest") is None:
    out.append("it has no pytest: install this package and pytest with the same Python")
with open("mine", "w") as mine:
    mine.write("x")
print(json.dumps(out), flush=True)
reading, writing = os.pipe()
children = []
for _ in range(16):
    try:
        child = os.fork()
    except OSError:
        break
    if not child:
        os.close(writing)
        import select
        select.select([reading], [], [], 3)
        os._exit(0)
    children.append(child)
if len(children) == 16:
    import time
    time.sleep(1)                           # who looks on from outside has the time to see them
os.close(writing)
for child in children:
    os.waitpid(child, 0)
print(len(children))
"""


@dataclass(frozen=True, slots=True)
class Holding:
    """What was found. `program`: bubblewrap, where it holds; else `why` it does not and the `mend`, a line to run or do."""

    program: str | None
    why: str = ""
    mend: str = ""


def bubblewrap_holds(path: str | None) -> Holding:
    """Whether commands can be confined by bubblewrap here. `path`: the PATH to look along."""
    return _holds(shutil.which("bwrap", path=path))


@cache
def _holds(program: str | None) -> Holding:
    if not sys.platform.startswith("linux"):
        return Holding(None, f"bubblewrap is there for Linux alone, and this is {sys.platform}",
                       "run it on Linux, or in a virtual machine with Linux")
    if program is None:
        return Holding(None, "bubblewrap is not installed", install_line())
    try:
        said = _tried(program)
    except MetaflowError as error:
        return Holding(None, str(error).partition("; mend it")[0], unlock_line())
    return Holding(None, f"{program} does not hold: {said}", unlock_line()) if said else Holding(program)


def _tried(program: str) -> str:
    """What the canary got away with; empty where it is held. Raises RunError where it can't be started."""
    folder = Path(tempfile.mkdtemp(prefix="sop-outside-"))
    try:
        folder.chmod(0o755)                             # what keeps it out must be the sandbox, not the mode of a file
        planted, text = folder / "planted", os.urandom(16).hex()
        planted.write_text(text, encoding="ascii")
        planted.chmod(0o666)
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            secret = os.urandom(16).hex()
            argv = ("python", "-c", _CANARY, str(planted), str(server.getsockname()[1]), secret[::-1])
            box = Bubblewrap(program, {"SOP_PLANTED": secret}, limits=Limits(processes=_PROCESSES))
            done = box.carry_out(argv, files={}, timeout=_SECONDS)
            reached = _called(server)
        told, _, forked = done.stdout.partition("\n")
        try:
            found = json.loads(told)
        except ValueError:
            said = (done.stderr or done.stdout).strip()[-300:] or f"exit code {done.exit_code}"
            return f"this Python does not run inside: {said}"
        if forked.strip() == "16":
            found.append("it starts more processes than it may")
        if reached:
            found.append("it reaches the network of this machine")
        if planted.read_text(encoding="ascii") != text:
            found.append("it writes files of this machine")
        return ", ".join(dict.fromkeys(map(str, found)))
    finally:
        removed(folder)


def _called(server: socket.socket) -> bool:
    """Whether somebody connected."""
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True
