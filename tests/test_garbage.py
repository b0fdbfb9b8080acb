"""A run that is over leaves nothing that only the garbage collector frees: many runs take no more memory than a few."""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from metaflow_agents import prepare, run

INNER = """\
sop: inner
inputs: {what: string}
roles: {writer: {profile: somebody, goal: good work}}
artifacts: {said: {schema: string}}
steps: {say: {role: writer, needs: [what], makes: said, task: "Say {{ what }}."}}
outputs: [said]
"""
OUTER = """\
sop: outer
inputs: {idea: string}
roles:
  writer: {profile: somebody, goal: good work, tools: [read, write, search], memory: {window: 2 turns}}
  judge: {profile: somebody else, goal: good judgement}
artifacts:
  plan: {schema: {parts: [string]}}
  app: {files: ["src/*.py"]}
  words: {schema: string}
  verdict: {file: verdict.md}
steps:
  plan_it: {role: writer, needs: [idea], makes: plan}
  build: {role: writer, needs: [plan], makes: {app: "src/{{ part }}.py"}, foreach: {in: plan.parts, as: part, key: part}}
  inside: {sop: inner.yaml, needs: [idea], inputs: {what: idea}, makes: words}
  talk: {role: judge, strategy: {debate: {roles: [writer, judge], rounds: 1}}, needs: [words, app], makes: verdict}
outputs: [app, verdict]
"""


def _ours(found: list[Any]) -> Counter[str]:
    names = (f"{one.__module__}.{one.__qualname__}" if callable(one) and hasattr(one, "__qualname__")
             else f"{type(one).__module__}.{type(one).__qualname__}" for one in found)
    return Counter(name for name in names if name.startswith("metaflow_agents"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("durable", [False, True])
async def test_a_run_leaves_no_cycles(tmp_path: Path, durable: bool) -> None:
    (tmp_path / "inner.yaml").write_text(INNER, encoding="utf-8")
    (tmp_path / "outer.yaml").write_text(OUTER, encoding="utf-8")
    async with prepare(tmp_path / "outer.yaml", model="dry", workspace=tmp_path / "runs" if durable else None) as prepared:
        for _ in range(2):                      # what is made once is made
            assert (await run(prepared, idea="a calculator")).ok
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(3):
                assert (await run(prepared, idea="a calculator")).ok
            gc.collect()
            left = _ours(gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert not left
