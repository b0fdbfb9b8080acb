"""The software company on 82 problems of HumanEval: what the tests print is what mends the planted bug, and nothing else is.

The staff (`human_eval_desk.py`) sees its prompts only. With the feedback taken out of them nothing is ever mended.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest
from human_eval_desk import MODULE, Problem, Staff, problems
from tiers import some

from metaflow_agents import run
from metaflow_agents.sop.library import shipped_folder

DATA = os.environ.get("SOP_TEST_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA does not name a folder with public data")
AT_ONCE = 3
_TOLD = ("design_first.triage.md.j2", "design_first.fix_code.md.j2")
_FEEDBACK = re.compile(r"\n *\{% for failure in test_result\.failures %\}.*?\{% endfor %\}", re.DOTALL)


async def solved(problem: Problem, sop: Path | str, workspace: Path, *, build: bool) -> bool:
    """Whether the company's run succeeds, and with the canonical solution. Without `build` the wheel is taken as built."""
    result = await run(sop, idea=problem.prompt, model=Staff([problem]).answer, workspace=workspace,
                       given={} if build else {"build": {"ok": True, "exit_code": 0}})
    assert result.outcome in ("success", "failure"), f"{problem.task_id}: {result.reason}"
    return result.ok and result["source"][MODULE].rstrip().endswith(problem.canonical_solution.rstrip())


async def all_of(chosen: list[Problem], sop: Path | str, workspace: Path, *, builds: int = 10) -> list[str]:
    """The problems that were solved. A wheel takes longer than all the rest: it is built for every `builds`-th."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, problem: Problem) -> str | None:
        async with room:
            well = await solved(problem, sop, workspace / problem.task_id, build=number % builds == 0)
            return problem.task_id if well else None
    return [done for done in await asyncio.gather(*(one(*numbered) for numbered in enumerate(chosen))) if done is not None]


def without_feedback(folder: Path) -> Path:
    """The company, and in its prompts nothing of what the tests printed."""
    places = 0
    for file in shipped_folder("sops").glob("*"):
        if file.is_file():
            cut, found = _FEEDBACK.subn("", file.read_text(encoding="utf-8")) if file.name in _TOLD else (None, 0)
            places += found
            (folder / file.name).write_bytes(file.read_bytes() if cut is None else cut.encode())
    assert places == 2, "triage and fix_code tell what the tests printed"
    return folder / "design_first.yaml"


@pytest.mark.slow
async def test_every_planted_bug_is_mended(tmp_path: Path) -> None:
    """All 82 in the full tier; else every tenth, and one wheel."""
    assert len(problems(Path(DATA or ""))) == 82
    known = some(problems(Path(DATA or "")))
    done = await all_of(known, "design_first.yaml", tmp_path)
    assert sorted(done) == sorted(problem.task_id for problem in known)


@pytest.mark.one_in(10)
async def test_without_the_feedback_none_is(tmp_path: Path) -> None:
    chosen = some(problems(Path(DATA or ""))[::9], 5)
    (tmp_path / "sops").mkdir()
    assert await all_of(chosen, without_feedback(tmp_path / "sops"), tmp_path) == []


@pytest.mark.slow
async def test_every_planted_bug_is_mended_and_every_wheel_built(tmp_path: Path) -> None:
    assert len(await all_of(problems(Path(DATA or "")), "design_first.yaml", tmp_path, builds=1)) == 82


@pytest.mark.slow
async def test_without_the_feedback_none_of_all_is(tmp_path: Path) -> None:
    (tmp_path / "sops").mkdir()
    assert await all_of(problems(Path(DATA or "")), without_feedback(tmp_path / "sops"), tmp_path) == []
