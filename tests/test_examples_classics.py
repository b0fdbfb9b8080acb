"""The classic agents as SOPs: each is short, checks, passes its own tests, and fails them without its strategy."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from metaflow_agents import check
from metaflow_agents.api.sop_test import try_out

FOLDER = Path(__file__).parent.parent / "examples" / "classics"
SOPS = sorted(FOLDER.glob("*.yaml"))
LONGEST = 120                       # lines


def loaded(sop: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(sop.read_text())
    return found


@pytest.mark.parametrize("sop", SOPS, ids=lambda sop: sop.stem)
def test_each_is_short(sop: Path) -> None:
    assert len(sop.read_text().splitlines()) <= LONGEST


@pytest.mark.one_in(4)
@pytest.mark.parametrize("sop", SOPS, ids=lambda sop: sop.stem)
async def test_each_checks_and_passes_its_tests(sop: Path) -> None:
    assert list(check(sop).problems) == []
    verdicts = [verdict async for verdict in try_out(sop, sandbox="none")]
    assert "walks_through" in [verdict.case for verdict in verdicts]
    assert [(verdict.case, verdict.why) for verdict in verdicts if not verdict.ok] == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("sop", [sop for sop in SOPS if "python:desk.py" in sop.read_text()], ids=lambda sop: sop.stem)
async def test_it_is_the_strategy_that_does_it(tmp_path: Path, sop: Path) -> None:
    """Without it (of GPT-Engineer: without the check that runs the program; of Generative Agents: without reflections) the same
    model does not get there.
    """
    folder = Path(shutil.copytree(FOLDER, tmp_path / "classics"))
    data = loaded(sop)
    for step in data["steps"].values():
        step.pop("strategy", None)
        step.pop("check", None)
    for role in data["roles"].values():
        role.get("memory", {}).pop("reflect", None)
    (folder / sop.name).write_text(json.dumps(data))                    # JSON is YAML
    assert check(folder / sop.name).ok
    cases = [case for case, told in data["tests"].items() if case != "walks_through" and told["expect"] != "not success"]
    verdicts = [verdict async for verdict in try_out(folder / sop.name, cases, sandbox="none")]
    assert verdicts and [verdict.case for verdict in verdicts if verdict.ok] == []


def test_the_index_names_them_all() -> None:
    told = (FOLDER / "README.md").read_text()
    rows = re.findall(r"^\| \[.*?\]\(https://\S+\).*?\| \[`(\w+\.yaml)`\]\(\1\) \|", told, re.MULTILINE)
    assert sorted(rows) == [sop.name for sop in SOPS]
