"""Two roles that talk in turns and see all that was said before: how large their journal becomes, beside what they said."""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmarks.large_journal import text_of
from metaflow_agents import ModelRequest, RunResult, run

SAID = 2000                         # characters of an answer
SOP = """\
sop: talk
inputs: {idea: string}
roles:
  ann: {profile: You ask., memory: {window: 1000000 turns}, watches: [heard]}
  bob: {profile: You answer., memory: {window: 1000000 turns}, watches: [said]}
artifacts: {said: {}, heard: {}}
steps:
  say: {role: ann, needs: [idea], wants: [heard], makes: said, rounds: ROUNDS, task: Go on.}
  hear: {role: bob, needs: [said], makes: heard, task: Answer.}
outputs: [heard]
"""


def talk(home: Path, rounds: int, sent: dict[str, bytes] | None = None) -> float:
    """Bytes of the journal of such a run, for each byte that was said. `sent`: there goes each request, as the journal has it."""
    home.mkdir(parents=True)
    sop = home / "talk.yaml"
    sop.write_text(SOP.replace("ROUNDS", str(rounds)), encoding="utf-8")

    async def model(request: ModelRequest) -> str:
        if sent is not None:
            sent[request.key] = request.stored()
        return text_of(request.key, SAID)

    result: RunResult = asyncio.run(run(sop, model=model, workspace=home, name="talk", idea="tea"))
    if not result.ok:
        raise RuntimeError(f"the run ended with {result.outcome}: {result.reason}")
    return (home / ".journals/talk.db").stat().st_size / (2 * rounds * SAID)
