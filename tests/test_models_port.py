from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from metaflow_agents.models.port import ModelRequest

REQUEST = ModelRequest(key="write@1~0/turn.0", role="writer", step="write", model="m", max_tokens=100,
                       messages=({"role": "system", "content": "You write."}, {"role": "user", "content": "ü" * 50}))


def test_the_digest_leaves_out_who_asks() -> None:
    assert replace(REQUEST, key="other@2~1/turn.3", role="r", step="s").digest == REQUEST.digest


@pytest.mark.parametrize("change", [
    {"model": "n"}, {"max_tokens": 99}, {"schema": {"type": "string"}}, {"tools": ({"name": "t"},)},
    {"messages": REQUEST.messages[:1]},
])
def test_the_digest_covers_all_that_decides_the_answer(change: dict[str, Any]) -> None:
    assert replace(REQUEST, **change).digest != REQUEST.digest


def test_the_worst_case_is_the_bytes_sent_and_the_longest_answer() -> None:
    sent = sum(len(message["content"].encode()) for message in REQUEST.messages)
    assert REQUEST.worst_tokens >= sent + 100
    assert replace(REQUEST, max_tokens=200).worst_tokens == REQUEST.worst_tokens + 100
    assert replace(REQUEST, schema={"type": "object"}).worst_tokens > REQUEST.worst_tokens


def test_stored_is_json_with_all_of_it() -> None:
    told = json.loads(REQUEST.stored())
    assert set(told) == {"key", "role", "step", "model", "max_tokens", "messages", "schema", "tools"}
    assert told["messages"][1]["content"] == "ü" * 50
