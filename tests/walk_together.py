"""Keys of roles that work together, with what makes each of them show: for `walk_pairs.py`."""

from __future__ import annotations

from typing import Any, Literal

from metaflow_agents.models.dry import DryModel
from metaflow_agents.models.port import ModelRequest

JUDGED = """
sop: walk
roles: {writer: {profile: You write.}, critic: {profile: You judge.}, other: {profile: You judge too.}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter}}
"""
REVIEWED = JUDGED.replace("makes: letter", "makes: letter, review: {role: critic}")
SCORED = REVIEWED.replace("critic}}", "critic, verdict: {score: integer}, accept: verdict.score > 0}}")


async def severe(request: ModelRequest) -> Any:
    """The smallest answer, which refuses where it is a verdict; a look at the run replans it where it may."""
    if request.step == "progress":
        return {"action": "replan" if "`replan`" in request.messages[-1]["content"] else "continue", "why": "again"}
    return await DryModel().ask(request)


Shows = Literal["journal", "check", "tests", "people"]
Row = tuple[str, Any, str, Shows, Any, dict[str, Any]]
"""Place, value, base, where it shows, the value of the other side (None: left out), what both sides have."""

LED = JUDGED.replace("artifacts: {letter: {}}", "artifacts: {letter: {}, advice: {}}").replace(
    "makes: letter", "wants: [advice], makes: letter").replace(
    "sop: walk", "sop: walk\nprogress: {every: 1 call, goal: a letter, role: critic, makes: advice}")


TOGETHER: list[Row] = [
    ("progress", {"every": 1, "goal": "a letter", "role": "critic"}, JUDGED, "journal", None, {}),
    ("progress.every", "2 calls", LED, "journal", "1 call", {}),
    ("progress.goal", "a song", LED, "journal", "a letter", {}),
    ("progress.role", "other", LED, "journal", "critic", {}),
    ("progress.makes", "advice", LED, "check", None, {}),
    ("progress.replans", 1, LED, "journal", None, {}),
    ("steps.write.review", {"role": "critic"}, JUDGED, "journal", None, {}),
    ("steps.write.review.role", "other", REVIEWED, "journal", "critic", {}),
    ("steps.write.review.verdict", {"score": "integer"}, SCORED, "journal", {"score": "integer", "why": "string"}, {}),
    ("steps.write.review.accept", "true", SCORED, "journal", "verdict.score > 0", {}),
    ("steps.write.stuck", {"then": ["stop"]}, REVIEWED, "journal", None, {}),
    ("steps.write.stuck.after", 3, REVIEWED, "journal", 2, {}),
    ("steps.write.stuck.then", ["reflect"], REVIEWED, "journal", ["hint"], {}),
    ("steps.write.talks_to", ["critic"], JUDGED, "journal", ["other"], {}),
    ("steps.write.review.repairs", 1, REVIEWED, "journal", None, {}),
]
