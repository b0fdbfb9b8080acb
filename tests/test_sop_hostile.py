"""Hostile files end in a problem, within a second and 200 MB, and never crash the process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1 << 20


def bomb(levels: int) -> str:
    """Nine aliases of nine aliases of …: nine to the power of `levels` values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines)


def chain(links: int) -> str:
    """Few levels each, but each alias stands at the bottom of the next one."""
    return "\n".join(f"a{i}: &a{i} {'[' * 30}{f'*a{i - 1}' if i else 1}{']' * 30}" for i in range(links))


HOSTILE: dict[str, tuple[str, str]] = {
    "brackets": ("[" * MIB, "yaml-depth"),
    "braces": ("{a: " * (MIB // 4), "yaml-depth"),
    "dashes": ("- " * (MIB // 2), "yaml-depth"),
    "questions": ("? " * (MIB // 2), "yaml-depth"),
    "nested blocks": ("".join(" " * i + "a:\n" for i in range(1000)), "yaml-depth"),
    "alias bomb": (bomb(12), "yaml-alias"),
    "alias chain": (chain(400), "yaml-depth"),
    "alias of itself": ("a: &a [*a]", "yaml-alias"),
    "anchors and aliases": ("&a *a " * (MIB // 6), "yaml-syntax"),
    "aliases of nothing": ("a: [" + "*x," * (MIB // 3 - 10), "yaml-alias"),
    "flat keys": ("".join(f"k{i}: 1\n" for i in range(100_000)), "yaml-size"),
    "long list": ("a: [" + "1," * (MIB // 2 - 10) + "]", "yaml-size"),
    "one key often": ("a: {" + "b: 1," * (MIB // 5 - 10) + "}", "yaml-duplicate-key"),
    "long line": ("a: " + "x" * (MIB - 3), "missing-key"),
    "long folded text": ("a:\n" + " x\n" * (MIB // 3 - 10), "missing-key"),
    "escapes": ('a: "' + "\\x41" * (MIB // 4 - 10) + '"', "missing-key"),
    "empty lines": ("\n" * MIB, "yaml-empty"),
    "comment": ("#" * MIB, "yaml-empty"),
    "comments behind": ("{a: 1}\n" + "#\n" * (MIB // 2 - 10) + "x", "yaml-syntax"),
    "spaces": (" " * (MIB - 1) + "a", "yaml-top"),
    "tabs": ("a:" + "\t" * (MIB - 2), "missing-key"),
    "commas": ("," * MIB, "yaml-syntax"),
    "colons": (":" * MIB, "yaml-syntax"),
    "documents": ("a: 1\n" + "---\n" * (MIB // 4 - 10), "yaml-documents"),
    "directives": ("%TAG !a! b\n" * (MIB // 11), "yaml-directive"),
    "directives behind": ("a: 1\n...\n" + "%TAG !a! b\n" * (MIB // 11 - 10), "yaml-documents"),
    "tags": ("a: [" + "!t x," * (MIB // 5 - 10), "yaml-tag"),
    "numbers": ("a: [" + "1e999," * (MIB // 6 - 10), "yaml-number"),
    "a long number": ("a: " + "9" * (MIB - 3), "missing-key"),
    "open quote": ('a: "' + "x\n" * (MIB // 2 - 10), "yaml-syntax"),
    "unknown keys": ("".join(f"k{i}: 1\n" for i in range(9_000)), "more-problems"),
    "unknown step keys": ("sop: x\nsteps:\n  a: {" + ",".join(f"k{i}: 1" for i in range(9_000)) + "}\n", "more-problems"),
    "many steps": ("sop: x\nsteps:\n" + "".join(f"  s{i}: [x]\n" for i in range(5_000)), "more-problems"),
    "many roles": ("sop: x\nroles:\n" + "".join(f"  r{i}: {{profile: x}}\n" for i in range(4_000)), "missing-key"),
    "many unknown roles": ("sop: x\nroles:\n" + "".join(f"  r{i}: {{}}\n" for i in range(6_000)), "more-problems"),
    "many unknown files": (
        "sop: x\nartifacts:\n" + "".join(f"  r{i}: {{schema: x{i}.yaml, render: y{i}}}\n" for i in range(3000)), "more-problems"),
    "many inputs": ("sop: x\ninputs:\n" + "".join(f"  r{i}: string\n" for i in range(9_000)), "missing-key"),
    "too large": ("a" * (MIB + 1), "yaml-size"),
}

# VmHWM and not ru_maxrss: the latter begins with what the test process held when it forked.
PROBE = """
import json, re, sys, time
from pathlib import Path
from metaflow_agents.sop.load import read_sop
told = {}
for file in sorted(Path(sys.argv[1]).glob("*.yaml")):
    began = time.process_time()
    reading = read_sop(file, start=Path(sys.argv[1]))
    seconds = time.process_time() - began
    assert reading.loaded is None or reading.problems
    told[file.stem] = [sorted({one.code for one in reading.problems}), len(reading.problems), seconds,
                       int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024]
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[str], int, float, float]]:
    folder: Path = tmp_path_factory.mktemp("hostile")
    for name, (text, _) in HOSTILE.items():
        (folder / f"{name}.yaml").write_text(text)
    done = subprocess.run([sys.executable, "-c", PROBE, str(folder)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, tuple[list[str], int, float, float]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_time_and_memory(name: str, told: dict[str, tuple[list[str], int, float, float]]) -> None:
    codes, count, seconds, megabytes = told[name]
    assert HOSTILE[name][1] in codes
    assert 1 <= count <= 201
    assert seconds < 1
    assert megabytes < 200
