"""What Python itself says of a package: which of its modules can't be imported first."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

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
