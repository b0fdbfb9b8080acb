"""The recorded runs that ship: replayed with the engine, the sandbox and the tests for real.

A red test here says which of two things happened. "stale": a prompt is another one than was recorded, since a template, a role,
a schema or a step was edited; it is mended by recording anew, last of all. "broken": the same prompts and answers no longer lead
to the same end, which is a fault of the framework.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from contract_mutants import Mutant, mutants
from contract_truth import MEANT, judged
from sandboxes import needs_bubblewrap

from metaflow_agents import run_sync
from metaflow_agents.api.demo import demonstration
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.run_summary import RawJournal, unwrapped
from metaflow_agents.kits.python_package import verify
from metaflow_agents.runtime.handle import RunResult
from metaflow_agents.schema.event import Committed
from metaflow_agents.sop.library import shipped_demonstrations
from metaflow_agents.sop.load import load_sop

pytestmark = needs_bubblewrap


def replay(name: str, home: Path) -> RunResult:
    shown = demonstration(load_sop(f"{name}.yaml").program)
    return run_sync(f"{name}.yaml", model=f"replay:{shown.recording}", inputs=shown.inputs, workspace=home, name="demo",
                    recorded=shown.recording)


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, Path]:
    home = tmp_path_factory.mktemp("company")
    return replay("design_first", home), home


def verdict(result: RunResult) -> str:
    """`fine`, or which of the two it is, and what to do."""
    if result.reason.startswith("stale: "):
        return f"stale, record it anew: {result.reason}"
    return "fine" if result.ok else f"broken: {result.outcome}: {result.reason}"


def test_what_ships_says_what_was_asked_who_answered_and_when() -> None:
    assert shipped_demonstrations() == ["design_first", "research_report", "software_company"]
    told = [demonstration(load_sop(f"{name}.yaml").program).told for name in shipped_demonstrations()]
    assert re.match(r'question "Should the town bring back its night ferry\?"; answers recorded on [-\d]{10}, by Claude', told[1])
    assert all(told[place].startswith('idea "a command that merges two edited versions of a text ') for place in (0, 2))


@pytest.mark.one_in(4)
def test_the_report_comes_to_its_recorded_end(tmp_path: Path) -> None:
    assert verdict(replay("research_report", tmp_path)) == "fine"


@pytest.mark.one_in(8)
def test_the_company_comes_to_its_recorded_end(company: tuple[RunResult, Path]) -> None:
    assert verdict(company[0]) == "fine"


def test_the_software_company_comes_to_its_recorded_end_and_runs_nothing_again(tmp_path: Path) -> None:
    """What its commands and tools gave stands for them: it ends in seconds, without an index of packages. What it made is tested
    here, by itself.
    """
    assert verdict(replay("software_company", tmp_path)) == "fine"
    with RawJournal(journal_path(tmp_path, "demo")) as journal:
        ended = [unwrapped(event)[1] for _, event in journal.events("inner")]
    costly = [one for one in ended if re.match(r"(resolve|use|try_it|map_it|run_tests|try_changes)@", one.get("activation", ""))
              and one["kind"] == "finished"]
    assert len(costly) > 20 and [one["activation"] for one in costly if not one.get("reused_from")] == []
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path / "demo",
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(tmp_path / "demo" / "src")})
    assert done.returncode == 0 and re.search(r"\b\d{2,} passed", done.stdout), done.stdout


@pytest.mark.one_in(4)
def test_an_edited_prompt_is_stale_and_a_broken_check_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = demonstration(load_sop("research_report.yaml").program)
    whole = (Path(__file__).parent.parent / "sops" / "research_report.yaml").read_text()
    for edit, said in ((("Plan a report", "Plan a short report"), "stale, record it anew: stale: this prompt changed: "),
                       (("success: report.ok", "success: not report.ok"), "broken: failure: ")):
        (tmp_path / "edited.yaml").write_text(whole.replace(*edit).replace("sop: research_report", "sop: edited"))
        for beside in ("report.md.j2", "report.html.j2"):
            (tmp_path / beside).write_text((Path(__file__).parent.parent / "sops" / beside).read_text())
        result = run_sync(tmp_path / "edited.yaml", model=f"replay:{shown.recording}", inputs=shown.inputs,
                          workspace=tmp_path / said[:5])
        assert verdict(result).startswith(said)


def made(home: Path, artifact: str) -> list[Any]:
    """Every version of an artifact, in order."""
    with Journal.read(journal_path(home, "demo")) as journal:
        found = [version.payload for _, event in journal.events(Committed) for version in event.versions
                 if version.artifact == artifact]
        return [json.loads(journal.blob(digest))["value"] for digest in found]


@pytest.mark.one_in(4)
def test_the_company_tests_what_it_wrote(company: tuple[RunResult, Path]) -> None:
    """The tests are run for real; in this run nothing was red, and nothing mended (`test_company_human_eval.py` plants bugs)."""
    (results,) = made(company[1], "test_result")
    assert results["ok"] and results["total"] == results["passed"] > 100
    assert made(company[1], "faults") == []


@pytest.mark.one_in(8)
def test_what_the_company_made_passes_its_tests_by_itself(company: tuple[RunResult, Path]) -> None:
    """Outside of the run, with pytest alone; in an environment of its own `.ci/run` does so."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=company[1] / "demo",
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_mutants_of_the_recorded_repository_are_caught_by_name(company: tuple[RunResult, Path], tmp_path: Path) -> None:
    """At least 200: one definition, file, import or dependency of what the company made is broken in each."""
    home = company[1]
    design = made(home, "design")[-1]
    text = {path.relative_to(home / "demo").as_posix(): path.read_text(encoding="utf-8")
            for path in sorted((home / "demo").rglob("*")) if path.suffix in (".py", ".toml", ".md")}
    source = {path: content for path, content in text.items() if path.startswith(f"{design['package']}/")}
    packaging = {path: text[path] for path in ("pyproject.toml", "README.md")}

    def verified(mutant: Mutant) -> list[dict[str, str]]:
        faults: list[dict[str, str]] = verify(
            dict(mutant.source), None if mutant.packaging is None else dict(mutant.packaging), design)["faults"]
        return faults

    assert verify(source, packaging, design) == {"ok": True, "faults": [], "unchecked": []}
    kinds, survivors = judged(mutants(source, packaging, design), verified, tmp_path)
    assert survivors == []
    assert kinds.total() >= 200, kinds
    assert all(kinds[kind] for kind in MEANT), kinds
