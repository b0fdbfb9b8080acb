# ruff: noqa: E501
"""Planted faults that the probe of deliveries tells by name, and false alarms on packages as their authors publish them.

    python -m benchmarks.delivered                  # both; packages come from the index that pip is set to, some minutes
    python -m benchmarks.delivered --planted        # the planted ones alone
    python -m benchmarks.delivered NAME …           # these packages

A package is its source distribution, in an environment of its own with what it depends on and what builds it. Its README was written for
people, so what the probe says of it is a false alarm unless it is true; each is printed, to be judged. Ends with 1 where a planted fault is missed.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

from metaflow_agents.kits.company import probe_pack

TESTS = Path(__file__).parent.parent / "tests"
BUILD = ["pip", "setuptools", "wheel", "hatchling", "flit-core", "poetry-core", "hatch-vcs", "setuptools-scm", "hatch-fancy-pypi-readme",
         "pdm-backend", "uv-build"]


def probed(root: Path, kind: str, python: str, place: Path) -> dict[str, Any]:
    """What the probe says of a product."""
    pack = place / "probe.zip"
    pack.write_bytes(base64.b64decode(probe_pack(kind)))
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"         # `python` of a README is this one
    ran = subprocess.run([python, pack, kind], cwd=root, capture_output=True, text=True, check=True, env={**os.environ, "PATH": path})
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def planted(folder: Path) -> int:
    """Each planted fault; how many are missed."""
    sys.path.insert(0, str(TESTS))
    from deliveries import PLANTS, SOUND, free_port, lay_out

    missed = 0
    for number, one in enumerate(PLANTS):
        place = folder / str(number)
        place.mkdir()
        found = probed(lay_out(one.files(), place / "product", free_port()), SOUND[one.product][0], sys.executable, place)
        kinds = sorted({fault["kind"] for fault in found["faults"]})
        missed += one.kind not in kinds
        print(f"{'told' if one.kind in kinds else 'MISSED':7}{one.kind:13}{one.product:8}{one.id:45}{', '.join(kinds)}")
    return missed


def package(name: str, folder: Path) -> dict[str, Any]:
    """A package from the index."""
    folder.mkdir()
    python = folder / "env/bin/python"
    venv.create(folder / "env", with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--upgrade", name, *BUILD], check=True)
    subprocess.run([python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary", ":all:",
                    "--dest", folder, name], check=True)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder / "source", filter="data")
    subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", name], check=True)
    return probed(next((folder / "source").iterdir()), "library", str(python), folder)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--planted", action="store_true")
    told = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        if not told.names:
            missed = planted(Path(folder))
        if not told.planted:
            sys.path.insert(0, str(TESTS))
            from contract_packages import CANDIDATES

            for name in told.names or CANDIDATES:
                begun = time.monotonic()
                found = package(name, Path(folder) / name)
                print(f"{name}: {len(found['faults'])} faults, {len(found['tried'])} commands tried, {time.monotonic() - begun:.0f} s")
                for fault in found["faults"]:
                    print(f"    {fault['kind']}: {fault['place']}: {fault['why']}")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
