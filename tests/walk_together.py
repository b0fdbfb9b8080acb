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
    """The smallest answer, which refuses where it is a verdict."""
    return await DryModel().ask(request)


Shows = Literal["journal", "check", "tests", "people"]
Row = tuple[str, Any, str, Shows, Any, dict[str, Any]]
"""Place, value, base, where it shows, the value of the other side (None: left out), what both sides have."""

TOGETHER: list[Row] = [
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
