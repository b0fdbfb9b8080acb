"""What a check may cost: hostile files end within 1 s and 200 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAD = (b"sop: it\nroles: {writer: {profile: You write.}}\n"
        b"artifacts:\n  letter: {}\nsteps:\n  write: {role: writer, makes: letter}\n")
EXPRESSION = b"sop: it\ninputs: {x: string}\nartifacts: {letter: {}}\nsteps:\n  write: {needs: [x], makes: letter, value: '%s'}\n"


def nested_aliases() -> bytes:
    """Each level an alias of the one before, deep by itself: deep in total without deep text."""
    levels = [b"a0: &a0 " + b"[" * 30 + b"1" + b"]" * 30]
    levels += [b"a%d: &a%d " % (n, n) + b"[" * 30 + b"*a%d" % (n - 1) + b"]" * 30 for n in range(1, 50)]
    return HEAD + b"\n".join(levels)


def laughs() -> bytes:
    lines = [b"l0: &l0 [" + b", ".join([b"ha"] * 10) + b"]"]
    lines += [b"l%d: &l%d [" % (n, n) + b", ".join([b"*l%d" % (n - 1)] * 10) + b"]" for n in range(1, 12)]
    return HEAD + b"\n".join(lines)


def fields(count: int) -> bytes:
    return b"{" + b", ".join(b"f%d: string" % n for n in range(count)) + b"}"


HOSTILE: dict[str, Callable[[], bytes]] = {
    "aliases that multiply": laughs,
    "aliases that deepen": nested_aliases,
    "an alias inside itself": lambda: HEAD + b"x: &x [*x]\n",
    "deep brackets": lambda: b"sop: " + b"[" * 500_000,
    "deep braces": lambda: b"sop: " + b"{a: " * 200_000,
    "deep dashes": lambda: b"sop:\n" + b"- " * 400_000,
    "deep indentation": lambda: b"\n".join(b" " * n + b"k:" for n in range(1_300)),
    "over one mebibyte": lambda: HEAD + b"#" * (1 << 21),
    "one long line": lambda: HEAD + b"description: " + b"x" * 1_000_000,
    "very many values": lambda: HEAD + b"x: [" + b"1," * 500_000 + b"]",
    "very many keys": lambda: HEAD + b"\n".join(b"k%d: 1" % n for n in range(80_000)),
    "very many errors": lambda: HEAD + b"\n".join(
        b"  s%d: {role: nobody, makes: letter, needs: [n%d]}" % (n, n) for n in range(300)),
    "tags": lambda: HEAD + b"description: !!python/object/apply:os.system ['true']\n",
    "several documents": lambda: HEAD + b"---\n" * 200_000,
    "UTF-16": lambda: HEAD.decode().encode("utf-16"),
    "UTF-32": lambda: HEAD.decode().encode("utf-32"),
    "no text": lambda: bytes(range(256)) * 4_000,
    "null bytes": lambda: b"\0" * 1_000_000,
    "quotes without end": lambda: b"sop: '" + b"''" * 400_000,
    "anchors": lambda: HEAD + b"x: [" + b", ".join(b"&a%d 1" % n for n in range(20_000)) + b"]",
    "a deep expression": lambda: EXPRESSION % (b"(" * 5_000 + b"1" + b")" * 5_000),
    "a long expression": lambda: EXPRESSION % (b"x" + b" ~ x" * 50_000),
    "an endless constant": lambda: EXPRESSION.replace(b"value:", b"when: 'range(99999999) | list | length > 0', value:") % b"x",
    "a large power": lambda: EXPRESSION.replace(b"value:", b"when: '9 ** 9 ** 9 ** 9 > 0', value:") % b"x",
    "a deep template": lambda: HEAD.replace(b"makes: letter", b"makes: letter, task: '" + b"{% if 1 %}" * 4_000 + b"'"),
    "a wide schema": lambda: HEAD.replace(b"letter: {}", b"letter: {schema: " + fields(20_000) + b"}"),
    "a slow pattern": lambda: HEAD.replace(
        b"letter: {}", b"letter: {schema: {type: object, properties: {a: {type: string, pattern: '^(a+)+$'}}}, "
                      b"initial: {a: " + b"a" * 60 + b"b}}"),
    "wild file patterns": lambda: HEAD.replace(
        b"letter: {}", b"letter: {files: '" + b"*a" * 400 + b"'}\n  other: {files: '" + b"*b" * 400 + b"', initial: {}}"),
    "many patterns": lambda: HEAD.replace(
        b"letter: {}", b"letter: {}\n" + b"".join(b"  f%d: {files: 'd%d/**/*.py', initial: {}}\n" % (n, n) for n in range(150))),
    "endless references": lambda: HEAD.replace(
        b"letter: {}", b"letter: {schema: {$ref: '#/$defs/a', $defs: {a: {$ref: '#/$defs/b'}, b: {$ref: '#/$defs/a'}}}}"),
    "many steps in a row": lambda: (
        b"sop: it\nartifacts:\n" + b"".join(b"  a%d: {schema: integer}\n" % n for n in range(200))
        + b"steps:\n  s0: {value: '1', makes: a0}\n"
        + b"".join(b"  s%d: {value: a%d + 1, needs: [a%d], makes: a%d}\n" % (n, n - 1, n - 1, n) for n in range(1, 200))),
}

RUNNER = """
import json, os, re, resource, sys, time
from pathlib import Path
import networkx
from metaflow_agents.sop.check import check
folder, warm = Path(sys.argv[1]), Path(sys.argv[2])
check(warm.name, start=warm.parent)
for file in sorted(folder.glob("*.yaml")):
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        began = time.process_time()
        found = check(file.name, start=folder)
        taken = time.process_time() - began
        peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
        print(json.dumps([file.stem, taken, peak, found.ok,
                          [problem.code for problem in found.problems][:3]]), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(json.dumps([file.stem, 99, 0, False, [f"ended with {status}"]]), flush=True)
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[float, float, bool, list[str]]]:
    """Case → seconds of processor time, peak mebibytes, whether it passed, first codes. One warmed process forks for each."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, make in HOSTILE.items():
        (folder / f"{name}.yaml").write_bytes(make())
    warm = ROOT / "tests" / "sops" / "good" / "company.yaml"
    done = subprocess.run([sys.executable, "-c", RUNNER, str(folder), str(warm)], capture_output=True, text=True, cwd=ROOT,
                          check=True)
    return {name: (seconds, size, ok, codes) for name, seconds, size, ok, codes in map(json.loads, done.stdout.splitlines())}


HARMLESS = {"one long line", "an endless constant", "a slow pattern", "many patterns", "many steps in a row"}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_told_within_a_second_and_200_mb(name: str,
                                                           measured: dict[str, tuple[float, float, bool, list[str]]]) -> None:
    seconds, mebibytes, _, codes = measured[name]
    assert seconds < 1.0, (seconds, codes)
    assert mebibytes < 200, (mebibytes, codes)
    assert codes or name in HARMLESS
