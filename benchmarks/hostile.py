"""SOP files that are written to hang, fill or break whoever checks them: what each must be told, and what telling it costs.

Each is checked in a process of its own, forked from one that has checked an ordinary file. The tests hold that each ends in
its problem; how soon is a row of `benchmarks/worst.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
HEAD = (b"sop: it\nroles: {writer: {profile: You write.}}\n"
        b"artifacts:\n  letter: {}\nsteps:\n  write: {role: writer, makes: letter}\n")
EXPRESSION = b"sop: it\ninputs: {x: string}\nartifacts: {letter: {}}\nsteps:\n  write: {needs: [x], makes: letter, value: '%s'}\n"


def bomb(levels: int) -> str:
    """Nine aliases of nine aliases of …: nine to the power of `levels` values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines)


def chain(links: int) -> str:
    """Few levels each, but each alias stands at the bottom of the next one."""
    return "\n".join(f"a{i}: &a{i} {'[' * 30}{f'*a{i - 1}' if i else 1}{']' * 30}" for i in range(links))


def fields(count: int) -> bytes:
    """A schema of that many fields."""
    return b"{" + b", ".join(b"f%d: string" % n for n in range(count)) + b"}"


FILES: dict[str, tuple[Callable[[], str | bytes], str]] = {
    "brackets": (lambda: "[" * MIB, "yaml-depth"),
    "braces": (lambda: "{a: " * (MIB // 4), "yaml-depth"),
    "dashes": (lambda: "- " * (MIB // 2), "yaml-depth"),
    "questions": (lambda: "? " * (MIB // 2), "yaml-depth"),
    "nested blocks": (lambda: "".join(" " * i + "a:\n" for i in range(1000)), "yaml-depth"),
    "alias bomb": (lambda: bomb(12), "yaml-alias"),
    "alias chain": (lambda: chain(400), "yaml-depth"),
    "alias of itself": (lambda: "a: &a [*a]", "yaml-alias"),
    "anchors and aliases": (lambda: "&a *a " * (MIB // 6), "yaml-syntax"),
    "aliases of nothing": (lambda: "a: [" + "*x," * (MIB // 3 - 10), "yaml-alias"),
    "flat keys": (lambda: "".join(f"k{i}: 1\n" for i in range(100_000)), "yaml-size"),
    "long list": (lambda: "a: [" + "1," * (MIB // 2 - 10) + "]", "yaml-size"),
    "one key often": (lambda: "a: {" + "b: 1," * (MIB // 5 - 10) + "}", "yaml-duplicate-key"),
    "long line": (lambda: "a: " + "x" * (MIB - 3), "missing-key"),
    "long folded text": (lambda: "a:\n" + " x\n" * (MIB // 3 - 10), "missing-key"),
    "escapes": (lambda: 'a: "' + "\\x41" * (MIB // 4 - 10) + '"', "missing-key"),
    "empty lines": (lambda: "\n" * MIB, "yaml-empty"),
    "comment": (lambda: "#" * MIB, "yaml-empty"),
    "comments behind": (lambda: "{a: 1}\n" + "#\n" * (MIB // 2 - 10) + "x", "yaml-syntax"),
    "spaces": (lambda: " " * (MIB - 1) + "a", "yaml-top"),
    "tabs": (lambda: "a:" + "\t" * (MIB - 2), "missing-key"),
    "commas": (lambda: "," * MIB, "yaml-syntax"),
    "colons": (lambda: ":" * MIB, "yaml-syntax"),
    "documents": (lambda: "a: 1\n" + "---\n" * (MIB // 4 - 10), "yaml-documents"),
    "directives": (lambda: "%TAG !a! b\n" * (MIB // 11), "yaml-directive"),
    "directives behind": (lambda: "a: 1\n...\n" + "%TAG !a! b\n" * (MIB // 11 - 10), "yaml-documents"),
    "tags": (lambda: "a: [" + "!t x," * (MIB // 5 - 10), "yaml-tag"),
    "numbers": (lambda: "a: [" + "1e999," * (MIB // 6 - 10), "yaml-number"),
    "a long number": (lambda: "a: " + "9" * (MIB - 3), "missing-key"),
    "open quote": (lambda: 'a: "' + "x\n" * (MIB // 2 - 10), "yaml-syntax"),
    "unknown keys": (lambda: "".join(f"k{i}: 1\n" for i in range(9_000)), "more-problems"),
    "unknown step keys": (lambda: "sop: x\nsteps:\n  a: {" + ",".join(f"k{i}: 1" for i in range(9_000)) + "}\n", "more-problems"),
    "many steps": (lambda: "sop: x\nsteps:\n" + "".join(f"  s{i}: [x]\n" for i in range(5_000)), "more-problems"),
    "many roles": (lambda: "sop: x\nroles:\n" + "".join(f"  r{i}: {{profile: x}}\n" for i in range(4_000)), "missing-key"),
    "many unknown roles": (lambda: "sop: x\nroles:\n" + "".join(f"  r{i}: {{}}\n" for i in range(6_000)), "more-problems"),
    "many unknown files": (
        lambda: "sop: x\nartifacts:\n" + "".join(f"  r{i}: {{schema: x{i}.yaml, render: y{i}}}\n" for i in range(3000)),
        "more-problems"),
    "many inputs": (lambda: "sop: x\ninputs:\n" + "".join(f"  r{i}: string\n" for i in range(9_000)), "missing-key"),
    "too large": (lambda: "a" * (MIB + 1), "yaml-size"),
    "one long line": (lambda: HEAD + b"description: " + b"x" * 1_000_000, ""),
    "very many errors": (lambda: HEAD + b"\n".join(
        b"  s%d: {role: nobody, makes: letter, needs: [n%d]}" % (n, n) for n in range(300)), "unknown-role"),
    "a tag of Python": (lambda: HEAD + b"description: !!python/object/apply:os.system ['true']\n", "yaml-tag"),
    "UTF-16": (lambda: HEAD.decode().encode("utf-16"), "yaml-encoding"),
    "UTF-32": (lambda: HEAD.decode().encode("utf-32"), "yaml-encoding"),
    "no text": (lambda: bytes(range(256)) * 4_000, "yaml-encoding"),
    "null bytes": (lambda: b"\0" * 1_000_000, "yaml-encoding"),
    "quotes without end": (lambda: b"sop: '" + b"''" * 400_000, "yaml-syntax"),
    "anchors": (lambda: HEAD + b"x: [" + b", ".join(b"&a%d 1" % n for n in range(20_000)) + b"]", "yaml-size"),
    "a deep expression": (lambda: EXPRESSION % (b"(" * 5_000 + b"1" + b")" * 5_000), "expression-syntax"),
    "a long expression": (lambda: EXPRESSION % (b"x" + b" ~ x" * 50_000), "expression-syntax"),
    "an endless constant": (
        lambda: EXPRESSION.replace(b"value:", b"when: 'range(99999999) | list | length > 0', value:") % b"x",
        ""),
    "a large power": (lambda: EXPRESSION.replace(b"value:", b"when: '9 ** 9 ** 9 ** 9 > 0', value:") % b"x", "when-constant"),
    "a deep template": (
        lambda: HEAD.replace(b"makes: letter", b"makes: letter, task: '" + b"{% if 1 %}" * 4_000 + b"'"),
        "template-syntax"),
    "a wide schema": (lambda: HEAD.replace(b"letter: {}", b"letter: {schema: " + fields(20_000) + b"}"), "yaml-size"),
    "a slow pattern": (lambda: HEAD.replace(
        b"letter: {}", b"letter: {schema: {type: object, properties: {a: {type: string, pattern: '^(a+)+$'}}}, "
                      b"initial: {a: " + b"a" * 60 + b"b}}"), ""),
    "wild file patterns": (lambda: HEAD.replace(
        b"letter: {}", b"letter: {files: '" + b"*a" * 400 + b"'}\n  other: {files: '" + b"*b" * 400 + b"', initial: {}}"),
        "path-refused"),
    "many patterns": (lambda: HEAD.replace(
        b"letter: {}", b"letter: {}\n" + b"".join(b"  f%d: {files: 'd%d/**/*.py', initial: {}}\n" % (n, n) for n in range(150))),
        ""),
    "endless references": (lambda: HEAD.replace(
        b"letter: {}", b"letter: {schema: {$ref: '#/$defs/a', $defs: {a: {$ref: '#/$defs/b'}, b: {$ref: '#/$defs/a'}}}}"),
        "schema-endless"),
    "many steps in a row": (lambda: (
        b"sop: it\nartifacts:\n" + b"".join(b"  a%d: {schema: integer}\n" % n for n in range(200))
        + b"steps:\n  s0: {value: '1', makes: a0}\n"
        + b"".join(b"  s%d: {value: a%d + 1, needs: [a%d], makes: a%d}\n" % (n, n - 1, n - 1, n) for n in range(1, 200))), ""),
}
"""Name → what makes the file, and a code that it must be told; empty where the file is odd and harmless."""

_RUNNER = """
import json, os, re, resource, sys, time
from pathlib import Path
import networkx
from metaflow_agents.sop.check import check
folder, seconds = Path(sys.argv[1]), int(sys.argv[2])
check("ordinary.yaml", start=folder / "ordinary")
for file in sorted(folder.glob("*.yaml")):
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        began = time.process_time()
        found = check(file.name, start=folder)
        taken = time.process_time() - began
        # VmHWM and not ru_maxrss: the latter begins with what the process held that forked.
        peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
        codes = sorted({problem.code for problem in found.problems})
        print(json.dumps([file.stem, codes, len(found.problems), found.ok, taken, peak]), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(json.dumps([file.stem, [f"ended with {status}"], 0, False, seconds, 0]), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Told:
    """What a check told of a file, and what that took: seconds of processor time, and at most so many mebibytes."""

    codes: list[str]
    problems: int
    ok: bool
    seconds: float
    mebibytes: float


def told(folder: Path, *, seconds: int = 60) -> dict[str, Told]:
    """Every file checked. A check that takes more than so many seconds of processor time is ended, and tells that as its code."""
    for name, (make, _) in FILES.items():
        made = make()
        (folder / f"{name}.yaml").write_bytes(made if isinstance(made, bytes) else made.encode())
    (folder / "ordinary").mkdir()
    (folder / "ordinary/ordinary.yaml").write_bytes(HEAD)
    done = subprocess.run([sys.executable, "-c", _RUNNER, str(folder), str(seconds)], capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parent.parent)
    return {name: Told(*rest) for name, *rest in map(json.loads, done.stdout.splitlines())}
