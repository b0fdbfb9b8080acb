"""Carries out the mutations of this folder: each one alone, in a copy of the tree, against the tests that it names.

    python tests/mutations/run.py [NAME …] [--jobs N] [--list] [--json FILE] [--timeout SECONDS]

NAME is (part of) a mutation's name or the name of a YAML file. Each case that one names (`test[case]`) has to turn red, and
of the tests that it names whole at least one. Ends with 1 where a mutation is not caught or does not work.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from listed import HERE, ROOT, Mutation, is_fast, read

LEFT_OUT = (".git", ".venv", "__pycache__", ".*_cache", "dist", "build", "workspace", ".hypothesis", "*.egg-info")
NO_CATCH = ("SyntaxError", "IndentationError", "ImportError", "ModuleNotFoundError", "NameError", "UnboundLocalError")
_CASE = re.compile(r"\[.*", re.DOTALL)
_PACKAGE = "metaflow_agents"


@dataclass(slots=True)
class Ran:
    """What a run of tests came to. Tests are named without their parameters; `failed` maps a case to its first line."""

    status: int | None = None                                     # of pytest; None: the time was up
    seconds: float = 0.0
    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)          # collection errors, and failures that are no catch
    output: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`outcome` is one of caught, timeout (caught, by a test that no longer ends), not caught, broken."""

    name: str
    outcome: str
    test: str = ""
    message: str = ""
    green: tuple[str, ...] = ()                                   # tests that the mutation names and that stayed green
    seconds: float = 0.0


class Copy:
    """A copy of the tree for one worker, with temporary files of its own, and a copy of this environment in which it is
    installed: processes that leave PYTHONPATH aside (`python -I`, `sop`) are mutated, too.
    """

    def __init__(self, root: Path, place: Path) -> None:
        self.place, self.tree, self._round = place, place / "tree", 0
        shutil.copytree(root, self.tree, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        (place / "t").mkdir()
        self.python = self._environment_of_its_own()
        self.imported(_PACKAGE)

    def _environment_of_its_own(self) -> str:
        """The Python of a copy of this virtual environment, its files linked, where this is one; else this Python."""
        if sys.prefix == sys.base_prefix:
            return sys.executable
        mine, own = str(Path(sys.prefix)), self.place / "environment"
        shutil.copytree(mine, own, symlinks=True, copy_function=os.link)
        for entry in own.glob(f"lib/*/site-packages/*{_PACKAGE}*.pth"):
            entry.unlink()
            entry.write_text(f"{self.tree}\n", encoding="utf-8")
        command = own / "bin" / "sop"
        text = command.read_text(encoding="utf-8")
        command.unlink()
        command.write_text(text.replace(mine, str(own), 1), encoding="utf-8")
        command.chmod(0o755)
        return str(own / "bin" / Path(sys.executable).name)

    def _environment(self, *, mutated: bool) -> dict[str, str]:
        known = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_") and name != "SOP_TESTS_HOME"}
        # What tests leave is not looked for: /dev/shm is shared with whatever runs beside them.
        known.update(PYTHONPATH=str(self.tree), TMPDIR=str(self.place / "t"), SOP_TESTS_MUTATED="1")
        if mutated:
            known["PYTHONDONTWRITEBYTECODE"] = "1"
        return known

    def imported(self, module: str, *, mutated: bool = False) -> None:
        """Raises ValueError unless the module can be imported, and the package is that of this copy."""
        code = f"import importlib, {_PACKAGE}; importlib.import_module({module!r}); print({_PACKAGE}.__file__)"
        ran = subprocess.run([self.python, "-I", "-c", code], cwd=self.place, env=self._environment(mutated=mutated),
                             capture_output=True, text=True, timeout=120, check=False)
        if ran.returncode:
            raise ValueError(f"can't import {module}: {(ran.stderr.strip().splitlines() or ['no message'])[-1]}")
        if not Path(ran.stdout.strip()).is_relative_to(self.tree):
            raise ValueError(f"tests would import {ran.stdout.strip()}, which is not in the copy {self.tree}")

    def mutate(self, mutation: Mutation) -> bytes:
        """Applies it, and gives what stood there. Raises ValueError."""
        path = self.tree / mutation.file
        before = path.read_bytes()
        changed = mutation.applied(before.decode())
        self._write(path, changed.encode())
        return before

    def restore(self, mutation: Mutation, before: bytes) -> None:
        """Puts back what stood there."""
        self._write(self.tree / mutation.file, before)

    def _write(self, path: Path, data: bytes) -> None:
        """With a time of its own, and without what Python compiled of it, which is taken where size and second agree."""
        path.write_bytes(data)
        self._round += 1
        os.utime(path, (path.stat().st_atime, time.time() - 1_000_000 + self._round * 10))
        for stale in path.parent.glob(f"__pycache__/{path.stem}.*"):
            stale.unlink(missing_ok=True)

    def test(self, tests: Sequence[str], limit: float, *, mutated: bool, workers: int = 0) -> Ran:
        """Runs these tests in the copy, at most `limit` seconds."""
        report = self.place / "report.xml"
        report.unlink(missing_ok=True)
        side_by_side = ("-n", str(workers), "--dist", "loadfile") if workers else ("-p", "no:xdist")
        command = [self.python, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", f"--junitxml={report}", "-o",
                   "junit_family=xunit1", *side_by_side, *tests]
        began = time.monotonic()
        with open(self.place / "output.txt", "w+b") as output:
            process = subprocess.Popen(command, cwd=self.tree, env=self._environment(mutated=mutated), stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status: int | None = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                _end(process, self.place)
            output.seek(0)
            told = output.read().decode(errors="replace")
        ran = Ran(status, time.monotonic() - began, output=told)
        if report.exists():
            _read_report(report, ran)
        shutil.rmtree(self.place / "t", ignore_errors=True)
        (self.place / "t").mkdir(exist_ok=True)
        return ran


def _end(process: subprocess.Popen[bytes], place: Path) -> None:
    """The tests and whatever they started: in their session, and of the copy in sessions of their own, which nothing ends where
    just that was taken out.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{place}/".encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


def _read_report(report: Path, ran: Ran) -> None:
    for case in ET.parse(report).iter("testcase"):
        file, name = case.get("file") or "", case.get("name") or ""
        test = f"{file}::{name}"
        wrong = [found for found in case if found.tag in ("failure", "error")]
        if not wrong:
            if case.find("skipped") is None:
                ran.passed.add(_CASE.sub("", test))
            continue
        message = _first_line(wrong[0].get("message") or wrong[0].text or "")
        no_catch = message.startswith(NO_CATCH) or "collection failure" in message
        (ran.broken if no_catch else ran.failed)[test] = message
    ran.passed -= {_CASE.sub("", test) for test in (*ran.failed, *ran.broken)}


def _first_line(message: str) -> str:
    return next((line.strip() for line in message.splitlines() if line.strip()), "")[:200]


def judged(mutation: Mutation, ran: Ran) -> Verdict:
    """What a run of its tests says of a mutation."""
    red = {*ran.failed, *(_CASE.sub("", test) for test in ran.failed)}
    green = tuple(test for test in mutation.caught_by if test not in red) if ran.status is not None else ()
    if ran.broken:
        test, message = next(iter(ran.broken.items()))
        return Verdict(mutation.name, "broken", test, message, seconds=ran.seconds)
    cases = [test for test in green if "[" in test]
    if ran.failed and cases:
        return Verdict(mutation.name, "not caught", message=f"these cases stayed green: {', '.join(cases)}", green=green,
                       seconds=ran.seconds)
    if ran.failed:
        test, message = next(iter(ran.failed.items()))
        return Verdict(mutation.name, "caught", test, message, green, ran.seconds)
    if ran.status is None:
        still = f"still running after {ran.seconds:.0f} s"
        return Verdict(mutation.name, "timeout", mutation.caught_by[0], still, seconds=ran.seconds)
    if ran.status == 0:
        return Verdict(mutation.name, "not caught", message="all of its tests passed", green=green, seconds=ran.seconds)
    last = [line for line in ran.output.splitlines() if line.strip()][-1:]
    return Verdict(mutation.name, "broken", message=f"pytest ended with {ran.status}: {''.join(last)}", seconds=ran.seconds)


def carried_out(mutation: Mutation, copy: Copy, limit: float) -> Verdict:
    """The verdict on one mutation; the copy is as before when it ends."""
    try:
        before = copy.mutate(mutation)
    except (OSError, ValueError) as error:
        return Verdict(mutation.name, "broken", message=str(error))
    try:
        if mutation.file.endswith(".py") and mutation.file.startswith(f"{_PACKAGE}/"):    # a SOP imports its own
            copy.imported(mutation.file.removesuffix(".py").removesuffix("/__init__").replace("/", "."), mutated=True)
        return judged(mutation, copy.test(mutation.caught_by, limit, mutated=True))
    except ValueError as error:
        return Verdict(mutation.name, "broken", message=str(error))
    finally:
        copy.restore(mutation, before)


def unfit(mutation: Mutation, whole: Ran) -> str:
    """Why the tests of a mutation can't catch it: what is red or missing without it. Empty: they can."""
    for test in mutation.caught_by:
        name = _CASE.sub("", test)
        for case, message in (whole.failed | whole.broken).items():
            if _CASE.sub("", case) == name:
                return f"red without the mutation: {case}: {message}"
        if name not in whole.passed:
            return f"did not run without the mutation (skipped, slow, or no such test): {test}"
    return ""


def chosen(mutations: Iterable[Mutation], names: Sequence[str]) -> list[Mutation]:
    """Those that a name means; all, where none is given. Raises ValueError for a name that means none."""
    everything = list(mutations)
    if not names:
        return everything
    found: list[Mutation] = []
    for name in names:
        meant = [one for one in everything if one.listed_in in (name, f"{name}.yaml") or name in one.name]
        if not meant:
            raise ValueError(f"no mutation is called `{name}`; --list names all")
        found += [one for one in meant if one not in found]
    return found


def run(mutations: Sequence[Mutation], root: Path, jobs: int, limit: float) -> list[Verdict]:
    """Carries all of them out, several at a time; tells each verdict as it comes."""
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        os.chmod(folder, 0o755)                                   # an ordinary user's tests walk through it
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        made = [Copy(root, Path(folder) / str(number)) for number in range(jobs)]
        tests = sorted({test for mutation in mutations for test in mutation.caught_by if is_fast(root, test)})
        print(f"{len(mutations)} mutations, {len(tests)} tests; first without any", flush=True)
        whole = made[0].test(tests, 3600, mutated=False, workers=jobs if jobs > 1 else 0)
        if whole.status not in (0, 1):
            raise SystemExit(f"{whole.output[-3000:]}\nwithout any mutation pytest ended with {whole.status}")
        print(f"  {len(whole.passed)} passed, {len(whole.failed) + len(whole.broken)} red, {whole.seconds:.0f} s", flush=True)
        for copy in made:
            copies.put(copy)

        def one(mutation: Mutation) -> Verdict:
            why = unfit(mutation, whole)
            copy = copies.get()
            try:
                verdict = Verdict(mutation.name, "broken", message=why) if why else carried_out(mutation, copy, limit)
            finally:
                copies.put(copy)
            print(line(verdict), flush=True)
            return verdict

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, mutations))


def line(verdict: Verdict) -> str:
    """A row of the table."""
    green = f" (stayed green: {', '.join(verdict.green)})" if verdict.green and verdict.outcome == "caught" else ""
    told = ": ".join(part for part in (verdict.test, verdict.message) if part)
    return f"{verdict.outcome:<10} {verdict.seconds:5.1f} s  {verdict.name}\n{'':20}{told}{green}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    signal.signal(signal.SIGINT, signal.default_int_handler)      # a shell's background job is begun with Ctrl-C ignored
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(description="Carries out the mutations, each against the tests that must catch it.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="(part of) a mutation's name, or a YAML file of them")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many at a time (1)")
    parser.add_argument("--list", action="store_true", help="name them, and run nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts there")
    parser.add_argument("--timeout", type=float, default=180, metavar="SECONDS", help="for the tests of one mutation (180)")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    try:
        mutations = chosen(read(given.root / HERE.relative_to(ROOT)), given.names)
    except ValueError as error:
        parser.error(str(error))
    if given.list:
        for mutation in mutations:
            print(f"{mutation.listed_in:<20} {mutation.name:<70} {' '.join(mutation.caught_by)}")
        return 0
    verdicts = run(mutations, given.root, max(given.jobs, 1), given.timeout)
    if given.json:
        given.json.write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=2) + "\n", encoding="utf-8")
    missed = [verdict for verdict in verdicts if verdict.outcome not in ("caught", "timeout")]
    print(f"{len(verdicts) - len(missed)} of {len(verdicts)} caught")
    for verdict in missed:
        print(line(verdict))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
