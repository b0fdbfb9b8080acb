"""Documents of a Markdown text (HTML, PDF, DOCX, EPUB): what is run in the sandbox, and on which files.

pandoc (https://pandoc.org) and typst (https://typst.app) do the work, in a process of their own; the styles lie beside this file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path, PurePosixPath

from metaflow_agents import plugins

FORMATS = {".html": "html", ".pdf": "pdf", ".docx": "docx", ".epub": "epub"}
"""Ending of a file → the format that it is written in."""
SECONDS = 120.0
"""The longest time of one text's documents."""
FAULTY = 3
"""What the process ends with where the text asks for what can't be; its words say it all."""
_WANTED = {"pypandoc_binary": (1, 15), "typst": (0, 13)}
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp")
_HERE = Path(__file__).parent


def format_of(path: str) -> str | None:
    """The format of a file by its ending; None for an ending that is none of a document."""
    return FORMATS.get(PurePosixPath(path).suffix.lower())


def missing() -> str:
    """What of the extra `documents` is not installed, with the fix; empty where all of it is."""
    return plugins.missing("documents", _WANTED)


def installed() -> dict[str, str]:
    """Program → its version, where all of them are installed. pandoc is asked for its own, by running it."""
    import pypandoc

    return {"pandoc": pypandoc.get_pandoc_version(), "typst": version("typst")}


def command() -> tuple[str, ...]:
    """The arguments to run."""
    return (sys.executable, "-P", "convert.py")


def files(text: str, name: str, documents: Sequence[str], tree: Mapping[str, bytes]) -> dict[str, bytes]:
    """What it runs on: path → bytes. `text` is Markdown, `name` stands for a title where it has none, `documents` are the paths
    to write, and of `tree` the pictures come along that the text may show.
    """
    pictures = {path: data for path, data in tree.items() if PurePosixPath(path).suffix.lower() in _PICTURES}
    job = {"documents": {path: format_of(path) for path in documents}, "name": name, "pictures": sorted(pictures)}
    return {**pictures, **_own(), "source.md": text.encode(), "job.json": json.dumps(job).encode()}


@cache
def _own() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (_HERE / "convert.py", *sorted((_HERE / "styles").iterdir()))}
