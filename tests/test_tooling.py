"""What the rules of a SOP open for its tools."""

from __future__ import annotations

import pytest

from metaflow_agents.runtime.toolsets import granted_literally
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.tools import PolicySpec


@pytest.mark.parametrize(("rule", "places"), [
    ("fetch(http://127.0.0.1:8080/a/*)", {"127.0.0.1:8080"}), ("fetch(http://localhost)", {"localhost:80"}),
    ("fetch(https://[::1]/*)", {"[::1]:443"}), ("connect(10.0.0.7:5432)", {"10.0.0.7:5432"}),
    ("  connect( LOCALHOST:5432 ) ", {"localhost:5432"}),
    ("connect(10.0.0.7)", set()), ("fetch(https://example.com/*)", set()), ("connect(example.com:443)", set()),
    ("fetch(https://*.localhost/*)", set()), ("fetch(https://*/*)", set()), ("fetch", set()), ("connect(**)", set()),
    ("run(curl http://127.0.0.1:8080/)", set()),
])
def test_only_what_a_rule_names_by_address_and_port_may_be_private(rule: str, places: set[str]) -> None:
    for policy in (PolicySpec(allow=(rule,)), PolicySpec(ask=(rule,))):
        assert granted_literally(SOP.model_construct(policy=policy)) == places
    assert granted_literally(SOP.model_construct(policy=PolicySpec(deny=(rule,)))) == frozenset()
    assert granted_literally(SOP.model_construct(policy=None)) == frozenset()


def test_the_tools_of_a_step_are_its_own_or_those_of_who_works() -> None:
    who = {"makes": "note", "task": "work"}
    sop = SOP.model_validate({
        "sop": "s", "artifacts": {"note": {}},
        "roles": {"a": {"profile": "A", "tools": ["read"]}, "b": {"profile": "B", "tools": ["write", "read"]}},
        "steps": {"fixed": {"role": "a", **who}, "any": {"role": "topic", **who},
                  "own": {"role": "topic", "tools": ["run"], **who}, "bare": {"role": "b", "tools": [], **who},
                  "none": {"value": "1", "makes": "note"}}})
    assert {name: sop.tools_of(step) for name, step in sop.steps.items()} == {
        "fixed": ("read",), "any": ("read", "write"), "own": ("run",), "bare": (), "none": ()}
    assert sop.tools_of(sop.steps["any"], "b") == ("write", "read")
    assert sop.tools_of(sop.steps["own"], "b") == ("run",)
    with pytest.raises(KeyError):
        sop.tools_of(sop.steps["any"], "nobody")        # never those of others
