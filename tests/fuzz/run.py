"""Feeds hostile inputs to every parser of foreign bytes, and names what must not happen.

    python tests/fuzz/run.py --seconds 60 [--seed N] [--target NAME …] [--index N]

A fault is: an exception that the parser does not name (`Target.raises`), more than one second of processor time in the main
thread, which is what an event loop stands still, more than 1 GB of memory beyond what the process held before, or no end within two minutes. Each target runs in a child
process. An input follows from the seed, the target and its index: `--target NAME --seed N --index I` feeds that one alone, and
`--keep FOLDER` writes it there. Exit status 1 where there was a fault.
"""

from __future__ import annotations

import argparse
import gc
import mmap
import os
import resource
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent.parent))

from fuzz.inputs import hostile
from fuzz.targets import TARGETS, Target

STANDSTILL = 1.0  # seconds of processor time in the main thread
MEMORY = 1 << 20  # KiB: 1 GB
PATIENCE = 120.0  # seconds of wall time for one input: a PDF may have 10 s of processor time and 20 s more for each MiB
MOST_FAULTS = 3  # of one target: then it is left


@dataclass(frozen=True)
class Fault:
    """What happened to which input."""

    target: str
    index: int
    what: str


def text_of(target: Target, seed: int, index: int) -> str:
    """The input of that number."""
    return hostile(Random(f"{seed}/{target.name}/{index}"), target.corpus(), target.most)


def fed(target: Target, text: str, standstill: float = STANDSTILL) -> str:
    """What must not have happened; empty where all is well."""
    Path("/proc/self/clear_refs").write_text("5")       # the most memory that was held counts from here
    began, before = time.thread_time(), held("VmRSS")
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            target.feed(text)
    except target.raises:
        pass
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:200]!r} at {Path(last.filename).name}:{last.lineno}"
    took = time.thread_time() - began
    if took > standstill:
        return f"it stood still for {took:.1f} s of processor time"
    if (most := held("VmHWM") - before) > MEMORY:
        return f"{most >> 10} MB of memory"
    return ""


def held(what: str) -> int:
    """KiB that this process holds (`VmRSS`), or has held at most (`VmHWM`)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def child(target: Target, seed: int, at: mmap.mmap, until: float, say: Callable[[Fault], None], first: int,
          standstill: float) -> None:
    """Feeds one input after the other until the time is over; its number stands in shared memory while it is worked on."""
    index, found = first, 0
    while time.monotonic() < until and found < MOST_FAULTS:
        at[:16] = struct.pack("qd", index, time.monotonic())
        if what := fed(target, text_of(target, seed, index), standstill):
            say(Fault(target.name, index, what))
            found += 1
            if what.endswith("MB of memory"):
                return  # its memory does not shrink again: the next input is fed by another child
        index += 1
    at[:16] = struct.pack("qd", index, 0.0)


def fuzzed(target: Target, seed: int, seconds: float, say: Callable[[Fault], None], standstill: float) -> int:
    """Runs a target for so long, in as many children as it takes. The number of inputs that were fed."""
    until, first, faults = time.monotonic() + seconds, 0, 0
    while time.monotonic() < until and faults < MOST_FAULTS:
        at = mmap.mmap(-1, 16)
        reading, writing = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
            gc.freeze()

            def tell(fault: Fault, writing: int = writing) -> None:
                os.write(writing, f"{fault.index}\t{fault.what}\n".encode("utf-8", "backslashreplace")[:4000])

            status = 0
            try:
                child(target, seed, at, until, tell, first, standstill)
            except BaseException:
                traceback.print_exc()
                status = 3
            finally:
                os._exit(status)
        os.close(writing)
        ended = _waited(pid, at)
        told = b"".join(iter(lambda reading=reading: os.read(reading, 1 << 16), b"")).decode()
        os.close(reading)
        index, _ = struct.unpack("qd", at[:16])
        for line in told.splitlines():
            number, _, what = line.partition("\t")
            say(Fault(target.name, int(number), what))
            faults += 1
        if ended:
            say(Fault(target.name, index, ended))
            faults += 1
        first = index + 1
    return first


def _waited(pid: int, at: mmap.mmap) -> str:
    """How the child ended, where that is a fault."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return "" if code == 0 else f"the process ended with {code}"
        _, began = struct.unpack("qd", at[:16])
        if began and time.monotonic() - began > PATIENCE:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return f"no end within {PATIENCE:.0f} s"
        time.sleep(0.02)


def faults(seed: int, seconds: float, targets: tuple[Target, ...], say: Callable[[str], None],
           standstill: float = STANDSTILL) -> Iterator[Fault]:
    """Shares the time among the targets, one after the other."""
    for target in targets:
        found: list[Fault] = []
        count = fuzzed(target, seed, seconds / len(targets), found.append, standstill)
        say(f"{target.name:12} {count:7,} inputs, {len(found)} faults")
        yield from found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="shared among the targets")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--target", action="append", choices=[target.name for target in TARGETS])
    parser.add_argument("--index", type=int, help="that input of one target alone, in this process")
    parser.add_argument("--standstill", type=float, default=STANDSTILL, help="seconds of processor time in the main thread")
    parser.add_argument("--keep", type=Path, help="a folder for the inputs of faults")
    options = parser.parse_args()
    targets = tuple(target for target in TARGETS if not options.target or target.name in options.target)
    by_name = {target.name: target for target in targets}
    print(f"seed {options.seed}")
    if options.index is not None:
        text = text_of(targets[0], options.seed, options.index)
        if options.keep:
            _kept(options.keep, targets[0].name, options.index, text)
        print(f"{len(text):,} characters: {text[:300]!r}")
        print(fed(targets[0], text, options.standstill) or "no fault")
        return 0
    found = []
    for fault in faults(options.seed, options.seconds, targets, lambda line: print(line, flush=True), options.standstill):
        found.append(fault)
        text = text_of(by_name[fault.target], options.seed, fault.index)
        print(
            f"  FAULT {fault.what}\n    --target {fault.target} --seed {options.seed} --index {fault.index}: "
            f"{len(text):,} characters {text[:100]!r}",
            flush=True,
        )
        if options.keep:
            _kept(options.keep, fault.target, fault.index, text)
    print(f"{len(found)} faults, seed {options.seed}")
    return 1 if found else 0


def _kept(folder: Path, target: str, index: int, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{target}-{index}").write_bytes(text.encode("utf-8", "surrogatepass"))


if __name__ == "__main__":
    sys.exit(main())
