"""What tries a product, made ready for the environment that it runs in: the probe, a browser, and what runs its tests."""

from __future__ import annotations

import base64
import io
import shutil
import zipfile
from importlib.resources import files
from typing import Any

from metaflow_agents.kits.company.inspection import INSPECTORS, LINTED, NOT_LINTED

_HERE = "metaflow_agents/kits/company/probe"
BROWSERS = ("/usr/lib/chromium/chromium", "/usr/lib/chromium-browser/chromium-browser", "google-chrome", "google-chrome-stable",
            "chromium", "chromium-browser", "microsoft-edge")
"""Debian's programs first: its command is a script that reads what is not there for confined commands."""
_MAIN = f"import runpy\nrunpy.run_module({_HERE.replace('/', '.')!r}, run_name='__main__')\n"


def probe_pack(kind: str) -> str:
    """A program in base64, to be run as `python FILE.zip KIND` in a product's repository; empty for a kind that is not tried.

    The same each time, to the byte. The packages around it are empty in there, so that it needs nothing else of this project.
    """
    if kind == "page":
        return ""
    held = {"__main__.py": _MAIN, "metaflow_agents/__init__.py": "", "metaflow_agents/kits/__init__.py": "",
            "metaflow_agents/kits/company/__init__.py": ""}
    for source in files("metaflow_agents.kits.company.probe").iterdir():
        if source.name.endswith(".py"):
            held[f"{_HERE}/{source.name}"] = source.read_text("utf-8")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as pack:
        for path in sorted(held):
            pack.writestr(zipfile.ZipInfo(path), held[path], zipfile.ZIP_DEFLATED)
    return base64.b64encode(data.getvalue()).decode()


def browser_path() -> str:
    """The browser of this machine in which pages can be tried; empty where there is none. Whether it starts where commands are
    confined, a look at a page shows.
    """
    return next((path for one in BROWSERS if (path := shutil.which(one))), "")


def checkup() -> tuple[str, str]:
    """For `sop doctor`: the browser in which `prototype.yaml` tries the pages that it makes."""
    if path := browser_path():
        return "ok", path
    names = " or ".join(dict.fromkeys(one.rpartition("/")[2] for one in BROWSERS))
    return "note", (f"no {names} is installed: pages that `prototype.yaml` makes are tried without one; "
                    "`apt-get install chromium` has one")


def means(kind: str) -> dict[str, Any]:
    """By what a product of this kind is tried. `probe`: `probe_pack`. `browser`: a browser for its pages, empty where there is
    none or the kind has none, and `browse`, the module that opens pages in it (`browse.py`). `use`: what goes through a use
    (`use.sh`). `inspect`: what reads the program (`inspect.sh`), for the rules `linted` but for those `not_linted`, by the
    packages `inspectors`, none where there is no Python.
    """
    path = browser_path() if kind in ("page", "web") else ""
    return {"probe": probe_pack(kind), "browser": path, "browse": _text("browse.py") if path else "",
            "use": _text("use.sh"), "inspect": _text("inspect.sh"),
            "linted": ",".join(LINTED), "not_linted": ",".join(NOT_LINTED),
            "inspectors": [] if kind == "page" else [*INSPECTORS]}


def script_of_tests() -> str:
    """What runs the tests of a program, also while it is changed: a script for bash (`tests.sh`)."""
    return _text("tests.sh")


def _text(name: str) -> str:
    return files("metaflow_agents.kits.company").joinpath(name).read_text("utf-8")
