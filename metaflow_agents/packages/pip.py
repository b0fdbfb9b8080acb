"""pip (https://pip.pypa.io) as the resolver, and as what fetches wheels: in a process of its own, with your own settings for the
index, in an empty folder, bounded in time and bytes. It takes wheels alone, and what it fetches is not run.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from metaflow_agents.errors import AttemptFailed, RunError
from metaflow_agents.packages.lock import MOST, Lock, Package
from metaflow_agents.packages.requirements import WantedPackage
from metaflow_agents.policy.subjects import canonical
from metaflow_agents.sandbox.interpreter import python_version
from metaflow_agents.sandbox.limits import sizes
from metaflow_agents.sandbox.process import ProcessGroup
from metaflow_agents.texts.strict_json import NotJSON, read

SECONDS = 300.0
FILE_BYTES = 300 << 20
"""Of one wheel."""
ALL_BYTES = 1 << 30
"""Of all that one call of pip writes."""
_REPORT_BYTES = 16 << 20
_QUIET = ("--disable-pip-version-check", "--no-input", "--no-color", "--progress-bar", "off", "--quiet")
_WHEELS = ("--only-binary", ":all:")
_MARKER = "SOP_PACKAGES_FOLDER"
_TOLD = 1500
_LOOK_SECONDS = 0.5
_KEYS = re.compile(r"//[^/@\s'\"]+@")


class Pip:
    """pip in one call after the other; `stop` ends the one that runs, from another thread. `environment`: what it gets of the
    user's.
    """

    def __init__(self, environment: Mapping[str, str], *, seconds: float = SECONDS) -> None:
        self._environment, self._seconds = dict(environment), seconds
        self._stopped = False
        self._group: ProcessGroup | None = None

    def stop(self) -> None:
        """End it; what was asked for raises RunError."""
        self._stopped = True
        group = self._group
        if group is not None:
            group.stop()

    def resolved(self, wanted: Sequence[WantedPackage]) -> Lock:
        """The packages that are wanted and all that they depend on, chosen by pip. Raises AttemptFailed with what pip said."""
        if not wanted:
            return Lock(python=python_version(), packages=())
        with _folder() as folder:
            report = folder / "report.json"
            self._run(folder, "install", "--dry-run", "--ignore-installed", *_WHEELS, "--report", str(report), "--",
                      *map(str, wanted))
            return _locked(report)

    def fetched(self, lock: Lock, into: Path) -> None:
        """The wheels of a lock, each with its hash. Raises AttemptFailed."""
        lines = [f"{one.name}=={one.version} --hash=sha256:{one.sha256}" for one in lock.packages]
        with _folder() as folder:
            listed = folder / "lock.txt"
            listed.write_text("\n".join(lines), encoding="ascii")
            self._run(folder, "download", "--no-deps", *_WHEELS, "--require-hashes", "--dest", str(into), "--requirement",
                      str(listed))

    def _run(self, folder: Path, *arguments: str) -> None:
        if find_spec("pip") is None:
            raise AttemptFailed(f"packages are resolved by pip, and this Python has none: {sys.executable} -m ensurepip")
        # Without HOME pip ends for a user whom the system does not know; its cache is then that of this call.
        here = str(folder)
        environment = {"HOME": here} | self._environment | {"TMPDIR": here, "PWD": here, _MARKER: here}
        group = _Watched((sys.executable, "-I", "-c", _script(), str(FILE_BYTES), arguments[0], *_QUIET, *arguments[1:]),
                         folder=folder, environment=environment, marker=f"{_MARKER}={folder}", timeout=self._seconds)
        self._group = group
        try:
            if self._stopped:
                group.stop()
            ended = group.run()
        finally:
            self._group = None
            group.close()
        if self._stopped:
            raise RunError("pip was stopped")
        told = _KEYS.sub("//****@", bytes(ended.stderr.kept).decode("utf-8", "replace").strip())[-_TOLD:]
        if ended.timed_out:
            raise AttemptFailed(f"pip did not end within {self._seconds:g} s; ask for fewer packages, or bound their versions. "
                                f"{told}")
        if ended.why:
            raise AttemptFailed(f"pip was ended: {ended.why}")
        if ended.exit_code:
            raise AttemptFailed(f"{_explained(told)}pip: {told}")


class _Watched(ProcessGroup):
    """Ended when it has written too much."""

    def _every(self) -> float | None:
        return _LOOK_SECONDS

    def _look(self) -> str:
        size = sum(sizes([self._folder]))
        return "" if size <= ALL_BYTES else f"the packages take more than {ALL_BYTES >> 20:,} MB to fetch; leave out the largest"


@contextmanager
def _folder() -> Iterator[Path]:
    """An empty folder for pip to work in: it reads no settings of the one that we are in."""
    with tempfile.TemporaryDirectory(prefix="sop-packages-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def _explained(told: str) -> str:
    """What pip's words mean here, where they don't say it."""
    if "taken as wheels alone" in told:
        return "a package names a source by its URL, which would have to be built; only wheels of the index are taken. "
    if "from versions: none" in told or "No matching distribution" in told:
        return ("the index has no wheel that fits: the name may be wrong, the version may not exist, or there is a source alone, "
                "which would have to be built. ")
    if "File too large" in told:
        return f"a wheel has more than {FILE_BYTES >> 20} MB. "
    return ""


def _locked(report: Path) -> Lock:
    """What pip would install. Raises AttemptFailed."""
    try:
        if report.stat().st_size > _REPORT_BYTES:
            raise AttemptFailed(f"pip's report has more than {_REPORT_BYTES >> 20} MB; ask for fewer packages")
        found = read(report.read_bytes())
        packages = [_package(one) for one in found["install"]]
        if len(packages) > MOST:
            raise AttemptFailed(f"with all that they depend on these are {len(packages)} packages; at most {MOST} are taken")
        return Lock(python=python_version(), packages=tuple(sorted(packages, key=lambda one: one.name)))
    except (OSError, NotJSON, KeyError, TypeError, ValueError) as error:
        raise AttemptFailed(f"pip's report can't be read: {str(error)[:300]}") from None


def _package(told: Any) -> Package:
    name, version, info = canonical(told["metadata"]["name"]), str(told["metadata"]["version"]), told["download_info"]
    if told["is_direct"]:
        raise AttemptFailed(f"`{name}` comes from a URL that another package names, not from the index: leave out what needs it")
    hashes = info.get("archive_info", {}).get("hashes", {})
    if "sha256" not in hashes:
        raise AttemptFailed(f"the index gives no SHA-256 for `{name}` {version}: use one that does (PEP 503)")
    return Package(name=name, version=version, sha256=hashes["sha256"],
                   file=unquote(urlsplit(info["url"]).path.rpartition("/")[2]))


@cache
def _script() -> str:
    return Path(__file__).with_name("quiet_pip.py").read_text(encoding="utf-8")
