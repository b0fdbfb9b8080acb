"""The sandbox called `none`: a fresh folder and a clean environment, and nothing that would hold a command back.

A command sees exactly the given files, no secrets of the user's environment, and an empty home. It is not confined:
it can reach the network and the rest of the disk. So it must be asked for, with `--sandbox none`.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from metaflow_agents.errors import AnswerInvalid, RunError
from metaflow_agents.sandbox.port import Completed
from metaflow_agents.sandbox.process import Ended, Output, ProcessGroup
from metaflow_agents.schema import paths
from metaflow_agents.threads import Threads

SHOWN_CHARACTERS = 200_000          # of each output
COLLECTED_BYTES = 64 * 1024 * 1024  # of each collected file
_MARKER = "SOP_COMMAND_FOLDER"


class Unconfined:
    """Commands on this machine, `parallel` of them at once; more wait for their turn, and their time does not run.

    `environment`: what commands get of the user's environment (name → value): PATH, and no secrets.
    """

    name = "none"

    def __init__(self, environment: Mapping[str, str], *, parallel: int = 32) -> None:
        self._environment = dict(environment)
        self._threads = Threads(parallel, "command")

    async def run(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes],
        timeout: float | None = None,  # noqa: ASYNC109  the command's own time, that it is told about
        collect: Sequence[str] = (),
    ) -> Completed:
        """See `Sandbox.run`. `python` and `python3` are the interpreter that runs this.

        In outputs and collected files the temporary folder stands as `.`, so that they are the same in every run.
        """
        _refuse(files, collect)
        command = _Command(tuple(argv), dict(files), self._environment, timeout, tuple(collect))
        return await self._threads.run(command.run, command.stop)


def _refuse(files: Mapping[str, bytes], collect: Sequence[str]) -> None:
    faults = [f"path `{path}` is refused: {why}" for path in (*files, *collect) if (why := paths.refusal(path))]
    pair = paths.clash(files)
    if pair:
        faults.append(f"`{pair[0]}` can't be a file and the folder of `{pair[1]}`")
    if faults:
        raise AnswerInvalid(faults)


class _Command:
    """One command from its folder's making to its removal; `run` blocks, `stop` may come from another thread."""

    def __init__(
        self, argv: tuple[str, ...], files: dict[str, bytes], environment: dict[str, str], timeout: float | None,
        collect: tuple[str, ...],
    ) -> None:
        self._argv, self._files, self._environment = argv, files, environment
        self._timeout, self._collect = timeout, collect
        self._group: ProcessGroup | None = None
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        if self._group is not None:
            self._group.stop()

    def run(self) -> Completed:
        try:
            base = Path(os.path.realpath(tempfile.mkdtemp(prefix="sop-")))
        except OSError as error:
            raise _no_room(error) from error
        try:
            work = self._laid_out(base)
            return self._completed(work, self._ended(base, work))
        finally:
            _removed(base)

    def _laid_out(self, base: Path) -> Path:
        try:
            for name in ("work", "home", "tmp"):
                (base / name).mkdir()
            for path, data in self._files.items():
                target = base / "work" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
                target.chmod(0o644)
        except OSError as error:
            raise _no_room(error) from error
        return base / "work"

    def _ended(self, base: Path, work: Path) -> Ended:
        program = sys.executable if self._argv[0] in ("python", "python3") else self._argv[0]
        environment = self._clean_environment(base)
        self._group = ProcessGroup((program, *self._argv[1:]), folder=work, environment=environment,
                                   marker=f"{_MARKER}={base}", timeout=self._timeout)
        try:
            if self._stopped:               # cancelled while the files were written
                self._group.stop()
            return self._group.run()
        finally:
            group, self._group = self._group, None
            group.close()

    def _clean_environment(self, base: Path) -> dict[str, str]:
        beside = str(Path(sys.executable).parent)
        return self._environment | {
            "PATH": os.pathsep.join((beside, self._environment.get("PATH", os.defpath))),
            "HOME": str(base / "home"),
            "TMPDIR": str(base / "tmp"),
            "PWD": str(base / "work"),
            _MARKER: str(base),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }

    def _completed(self, work: Path, ended: Ended) -> Completed:
        stdout, cut_out = _shown(ended.stdout, work)
        stderr, cut_err = _shown(ended.stderr, work)
        files = {} if self._stopped else _collected(work, self._collect)
        return Completed(ended.exit_code, stdout, stderr, ended.seconds, ended.timed_out, files, cut_out or cut_err)


def _relative(data: bytes, work: Path) -> bytes:
    """The same without the temporary folder: `.` for where the command ran, `..` for what lies around it."""
    return data.replace(os.fsencode(work), b".").replace(os.fsencode(work.parent), b"..")


def _shown(output: Output, work: Path) -> tuple[str, bool]:
    """Text of an output, and whether it was cut."""
    kept = _relative(bytes(output.kept), work)
    text = kept.decode("utf-8", "surrogateescape")      # keeps every byte, so that what is cut can be counted
    shown = text[:SHOWN_CHARACTERS]
    more = output.total - len(output.kept) + len(kept) - len(shown.encode("utf-8", "surrogateescape"))
    shown = shown.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return (f"{shown}\n… cut: {more} more bytes\n", True) if more else (shown, False)


def _collected(work: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Bytes of the named files that exist. Raises AnswerInvalid for links, folders and what is too large."""
    found: dict[str, bytes] = {}
    for name in names:
        path = work / name
        try:
            state = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        inside = path.parent.resolve().is_relative_to(work)
        if not stat.S_ISREG(state.st_mode) or not inside:
            raise AnswerInvalid([f"`{name}`, which the command made, is not a regular file"])
        if state.st_size > COLLECTED_BYTES:
            raise AnswerInvalid([f"`{name}`, which the command made, is larger than {COLLECTED_BYTES:,} bytes"])
        try:
            found[name] = _relative(path.read_bytes(), work)
        except OSError as error:
            raise AnswerInvalid([f"`{name}`, which the command made, can't be read: {error.strerror}"]) from error
    return found


def _no_room(error: OSError) -> RunError:
    return RunError(f"can't write the files of a command to the folder for temporary files: {error.strerror}; "
                    "make room there (TMPDIR names it), then `sop resume`")


def _removed(folder: Path) -> None:
    """Remove a folder, also where a command took away the right to."""
    try:
        try:
            shutil.rmtree(folder)
        except PermissionError:
            for where, folders, _ in os.walk(folder):
                for name in folders:            # before the walk goes down into them
                    if not os.path.islink(os.path.join(where, name)):
                        os.chmod(os.path.join(where, name), 0o700)
            shutil.rmtree(folder)
    except OSError as error:
        raise RunError(f"can't remove the temporary folder {folder} of a command: {error.strerror}") from error
