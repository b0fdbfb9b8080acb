"""Tries the product in the current folder; its kind (`cli`, `web`, …) is the argument, behind it the module that looks at pages
in a browser, where there is one. Prints JSON, see `findings.py`.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from metaflow_agents.kits.company.probe.desk import ProbeDesk
from metaflow_agents.kits.company.probe.findings import Findings
from metaflow_agents.kits.company.probe.following import Following
from metaflow_agents.kits.company.probe.installed import Installed, NotInstalled
from metaflow_agents.kits.company.probe.readme import Readme


def probed(root: Path, kind: str, place: Path, browse: Path | None = None) -> Findings:
    """All that is tried, in the order in which a user meets it; `place` is an empty folder. `browse`: `browse.py`, or None."""
    findings = Findings()
    try:
        installed = Installed(root, place / "source", place / "prefix")
    except NotInstalled as error:
        findings.fault("install", "pyproject.toml", f"`pip install .` fails: {error}")
        return findings
    findings.trying("its data", lambda: installed.missing_data(findings))
    findings.trying("its imports", lambda: installed.undeclared_imports(findings))
    desk = ProbeDesk(place / "user", place / "prefix", installed.site)
    if (root / "examples").is_dir():
        shutil.copytree(root / "examples", desk.place / "samples/examples")
        desk.take(desk.place / "samples")
    following = Following(Readme(root, installed.names), desk, findings, kind, browse)
    try:
        findings.trying("its README", following.commands)
        findings.trying("the Python of its README", lambda: following.python(installed.roots))
    finally:
        desk.kill()
    return findings


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        told = probed(Path.cwd(), sys.argv[1], Path(folder).resolve(), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    found = {"faults": told.faults, "pages": told.pages, "tried": told.tried, "left_out": told.left_out,
             "sights": told.sights}
    sys.stdout.buffer.write(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
