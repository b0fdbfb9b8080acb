"""What the policy says of each action of `authorisation.yaml`. A row that is not run is an error here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiers

from metaflow_agents.policy.action import Action
from metaflow_agents.policy.policy import Policy
from metaflow_agents.policy.rules import split
from metaflow_agents.schema.tools import PolicySpec

TABLE = tiers.table(Path(__file__).with_name("authorisation.yaml"))
CASES: list[dict[str, Any]] = TABLE["cases"]
KEYS = {"id", "owasp", "what", "sop", "role", "action", "argv", "untrusted", "lookup", "answers_yes", "repeat", "expected",
        "rule"}


def spec(name: str | None) -> PolicySpec | None:
    return None if name is None else PolicySpec.model_validate(TABLE["policies"][name])


def action(case: dict[str, Any]) -> Action:
    if "argv" in case:
        argv = tuple(case["argv"]) * case.get("repeat", 1)
        return Action("run", " ".join(argv), argv)
    verb, target = split(case["action"])
    return Action(verb, (target or "") * case.get("repeat", 1))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_an_action_gets_its_verdict(case: dict[str, Any]) -> None:
    policy = Policy(spec(case.get("sop")), spec(case.get("role")), role_name="writer")
    said = policy.decide(action(case), untrusted=case.get("untrusted", ""), lookup=case.get("lookup", False))
    assert (said.verdict, case["rule"] in said.rule) == (case["expected"], True), said
    assert said.rule.startswith(said.verdict)
    if case.get("answers_yes"):
        assert said.verdict != "ask", "`--yes` answers what is asked: this must never be"


def test_the_table_is_whole() -> None:
    assert len(CASES) == len({case["id"] for case in CASES}) >= 60
    assert all(case.keys() <= KEYS and case["owasp"] and case["what"] for case in CASES)
    assert {case["expected"] for case in CASES} == {"allow", "ask", "deny"}
    used = {case[key] for case in CASES for key in ("sop", "role") if key in case}
    assert used == set(TABLE["policies"])
