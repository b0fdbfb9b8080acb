"""A stranger's distribution (`tests/plugins/acme`), built as a wheel and installed in a folder that PYTHONPATH names."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli_desk import environment

from metaflow_agents import plugins

SOURCE = Path(__file__).parent / "plugins" / "acme"
VERSION = "1.2"


def wheel(folder: Path, version: str = VERSION, source: Path = SOURCE) -> Path:
    """The wheel of a stranger's source, built in a folder. No network is needed: what builds it is installed."""
    copy = folder / f"source-{version}"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    about = copy / "pyproject.toml"
    about.write_text(re.sub(r'^version = ".*"$', f'version = "{version}"', about.read_text("utf-8"), flags=re.M), "utf-8")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder / f"wheel-{version}"), str(copy))
    (made,) = (folder / f"wheel-{version}").glob("*.whl")
    return made


def install(made: Path, target: Path) -> None:
    """The wheel, unpacked with its metadata into a folder; what was there before is gone."""
    shutil.rmtree(target, ignore_errors=True)
    pip("install", "--no-deps", "--no-index", "--target", str(target), str(made))


def pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *words], check=True, timeout=120,
                   env={**environment(), "PIP_NO_INDEX": "1"}, stdin=subprocess.DEVNULL)


def beside(target: Path) -> dict[str, str]:
    """The environment of a process in which that folder is installed too."""
    return {**environment(), "PYTHONPATH": str(target)}


@contextmanager
def acme_installed(target: Path) -> Iterator[None]:
    """Within it, this process has what lies in the folder installed."""
    sys.path.insert(0, str(target))
    forget()
    try:
        yield
    finally:
        sys.path.remove(str(target))
        for name in [name for name in sys.modules if name.partition(".")[0] == "acme_sop"]:
            del sys.modules[name]
        forget()


def forget() -> None:
    """What is installed is looked up anew."""
    plugins._points.cache_clear()
    plugins.installed.cache_clear()
