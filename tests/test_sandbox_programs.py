"""What ordinary programs do works in the sandbox: the other half of a list of what is allowed."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from patience import PATIENCE
from sandboxes import BWRAP, needs_bubblewrap

from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.port import Completed

PROGRAMS: dict[str, Mapping[str, Any]] = {
    row["id"]: row for row in yaml.safe_load((Path(__file__).parent / "security/programs.yaml").read_text(encoding="utf-8"))}


def there(row: Mapping[str, Any]) -> bool:
    programs, packages = row.get("needs", ()), row.get("packages", ())
    return all(map(shutil.which, programs)) and all(importlib.util.find_spec(one) is not None for one in packages)


async def carried_out(row: Mapping[str, Any]) -> Completed:
    words = ["sh", "-c", row["shell"]] if "shell" in row else ["python", "main.py"]
    files = {name: text.encode() for name, text in row.get("files", {}).items()}
    files |= {"main.py": row["python"].encode()} if "python" in row else {}
    return await Bubblewrap(BWRAP, {}).run(words, files=files, timeout=PATIENCE)


@pytest.fixture(scope="module")
def ended() -> dict[str, Completed]:
    """Each of them, four at a time."""
    async def all_of_them() -> dict[str, Completed]:
        turns = asyncio.Semaphore(4)

        async def one(name: str) -> tuple[str, Completed]:
            async with turns:
                return name, await carried_out(PROGRAMS[name])
        return dict(await asyncio.gather(*(one(name) for name, row in PROGRAMS.items() if there(row))))

    return asyncio.run(all_of_them())


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_works(name: str, ended: dict[str, Completed]) -> None:
    if name not in ended:
        pytest.skip(f"what `{name}` needs is not installed")
    assert ended[name].exit_code == 0, ended[name]
    if "expected" in PROGRAMS[name]:
        assert ended[name].stdout.strip() == PROGRAMS[name]["expected"], ended[name]
