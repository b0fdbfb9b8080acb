"""What runs pip: a script of its own, never imported by us. pip in this process starts no other program.

    python -I -c SCRIPT BYTES ARGUMENTS…

`--only-binary :all:` keeps pip from building what an index offers, but not what a wheel's metadata names by a URL: such a source
it would build, which runs its code. To build, it has to start a program; the hook refuses that, and can't be taken back.
BYTES: the largest file that pip may write.
"""

import resource
import runpy
import sys

_STARTS = frozenset({"subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.system"})


def refuse(event: str, arguments: object) -> None:
    """Raises PermissionError where a program would be started."""
    if event in _STARTS:
        raise PermissionError("packages are taken as wheels alone: nothing is built, and no program is started")


if __name__ == "__main__":
    most = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    sys.addaudithook(refuse)
    sys.argv[:] = ["pip", *sys.argv[2:]]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)
