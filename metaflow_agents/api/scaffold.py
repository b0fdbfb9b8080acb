"""`sop new`: a SOP to start from, by a template, with its tests. What it writes passes `sop check` and `sop test`."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.schema.scalars import NAME_PATTERN

TEMPLATES = ("pipeline", "review-loop", "fan-out", "tools", "human-approval")
"""Folders of `scaffolds/`. `__NAME__` in their texts and paths is the SOP's name, `__PLACE__` its path; `X.txt` becomes `X`."""


def new_sop(name: str, folder: Path, template: str = TEMPLATES[0]) -> list[Path]:
    """Writes the files of a new SOP into a folder, and returns them, the SOP first.

    The JSON Schemas that its first line names for editors are written beside it, unless they are there already. Raises UsageError
    for a name that can't be a SOP's, a template that does not exist, and a file that is there already: nothing is written then.
    """
    if not re.match(NAME_PATTERN, name):
        fine = re.sub(r"\W+", "_", name).strip("_").lower()
        like = f", like `{fine}`" if re.match(NAME_PATTERN, fine) else ""
        raise UsageError(f"`{name}` can't be a SOP's name: letters, digits and `_`, not beginning with a digit{like}")
    if template not in TEMPLATES:
        raise UsageError(f"there is no template `{template}`: {did_you_mean(template, TEMPLATES)}")
    place = (folder / f"{name}.yaml").as_posix()
    texts = {folder / path.replace("__NAME__", name): text.replace("__NAME__", name).replace("__PLACE__", place)
             for path, text in _texts(files("metaflow_agents.api") / "scaffolds" / template)}
    there = [path for path in texts if path.exists() or path.is_symlink()]
    if there:
        raise UsageError(f"{there[0]} is there already: give another name, or another --folder; nothing was written")
    texts |= {path: text for path, text in _schemas(folder).items() if not path.exists() and not path.is_symlink()}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"can't write {error.filename or folder}: {error.strerror}; choose another --folder") from None
    return sorted(texts, key=lambda path: path != folder / f"{name}.yaml")


def _texts(folder: Traversable, above: str = "") -> list[tuple[str, str]]:
    """Path and text of each file of a template, in the order of their paths."""
    found: list[tuple[str, str]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _texts(entry, f"{above}{entry.name}/")
        else:
            found.append((f"{above}{entry.name}".removesuffix(".txt"), entry.read_text(encoding="utf-8")))
    return found


def _schemas(folder: Path) -> dict[Path, str]:
    """The schemas for editors; `sop schema` prints the same."""
    from metaflow_agents.sop.editor_schema import role_schema, sop_schema

    return {folder / f"{kind}.schema.json": json.dumps(schema, ensure_ascii=False, indent=2) + "\n"
            for kind, schema in (("sop", sop_schema()), ("role", role_schema()))}
