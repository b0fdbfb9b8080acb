"""What Python itself says of a package: which of its modules can't be imported first; and so, which mutants are none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from contract_mutants import Mutant, told

PROGRAM = """
import importlib, json, sys
names, before, failed = json.loads(sys.argv[1]), set(sys.modules), []
for name in names:
    for loaded in set(sys.modules) - before:
        if loaded.partition(".")[0] == names[0].partition(".")[0]:
            del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except Exception as error:
        failed.append([name, f"{type(error).__name__}: {error}"])
print(json.dumps(failed))
"""


def failing_imports(files: Mapping[str, str], folder: Path) -> list[tuple[str, str]]:
    """(module, what it raised) of each module that fails when it is the first of its package to be imported."""
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    names = [path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in files if path.endswith(".py")]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(names)], cwd=folder, capture_output=True, text=True, check=True
    )
    return [(name, why) for name, why in json.loads(done.stdout)]


def judged(
    mutants: Iterable[Mutant], verified: Callable[[Mutant], list[dict[str, str]]], folder: Path
) -> tuple[Counter[str], list[str]]:
    """(kind → how many were caught by name, the names of those that were not).

    A circle of imports counts where Python itself fails on it; on any other a fault would be a false alarm.
    """
    kinds, survivors = Counter[str](), []
    for number, mutant in enumerate(mutants):
        faults = verified(mutant)
        if mutant.kind == "circular import" and not failing_imports(mutant.source, folder / str(number)):
            survivors += [f"false alarm: {mutant.name}"] if faults else []
        elif told(mutant, faults):
            kinds[mutant.kind.partition(",")[0]] += 1
        else:
            survivors.append(mutant.name)
    return kinds, survivors


MEANT = ("renamed", "removed", "changed signature", "missing file", "circular import", "undeclared dependency")
"""Kinds of mutants of which each has to be there."""
