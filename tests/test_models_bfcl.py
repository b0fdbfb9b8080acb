"""The functions of the Berkeley Function-Calling Leaderboard as tools: each goes over the wire, each gold call comes back, and
what is wrong with a call is told so that it can be mended. `benchmarks/papers/function_calls.py` has the set, and counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from endpoint_calls import called, model_at, request_for, sending
from openai_server import OpenAIServer
from openai_tool_faults import Calling

from benchmarks.papers import function_calls
from metaflow_agents.models import text_form
from metaflow_agents.models.endpoint.tools import wire_names
from metaflow_agents.models.port import Reply

DATA = os.environ.get("SOP_TEST_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA does not name a folder with public data")


def questions(kind: str) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """The tools of each question, and one gold call of each that the answer has."""
    for question in function_calls.questions(Path(DATA or "."), (kind,)):
        tools = [{"name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"]}
                 for tool in question.tools]
        yield tools, [{"name": name, "arguments": {key: allowed[0] for key, allowed in arguments.items()}}
                      for name, arguments in question.gold]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("form", ["native", "streamed", "text"])
@pytest.mark.parametrize("kind", function_calls.KINDS)
async def test_every_function_is_a_tool_and_every_gold_call_comes_back(kind: str, form: str) -> None:
    asked: list[list[dict[str, Any]]] = []

    def answer(request: dict[str, Any]) -> Any:
        tools, calls = asked[-1]
        if "tools" not in request:
            return "So:\n" + "\n".join(f"```tool\n{json.dumps(call, indent=1)}\n```" for call in calls)
        wires = wire_names([tool["name"] for tool in tools])
        return Calling([{**call, "name": wires[call["name"]], "id": f"id{at}"} for at, call in enumerate(calls)], "So:")

    count = 0
    async with OpenAIServer(answer) as server:
        model = sending(model_at(server.url, max_tokens=2**15), streamed=form == "streamed")
        for tools, calls in questions(kind):
            asked.append([tools, calls])
            request = replace(request_for(model, watch=(lambda text: None) if form == "streamed" else None), tools=tuple(tools))
            reply = await called(model, text_form.in_text(request) if form == "text" else request)
            assert isinstance(reply, Reply), reply.told
            reply = text_form.called(reply, request) if form == "text" else reply
            assert [{"name": call.name, "arguments": call.arguments} for call in reply.calls] == calls
            count += 1
    assert count >= 80


@pytest.mark.one_in(8)
def test_every_schema_loads_every_answer_is_taken_and_every_wrong_call_is_told_how_to_be_right() -> None:
    """What `python -m benchmarks.papers function_calls` tells."""
    counts = function_calls.counted(Path(DATA or "."))
    assert counts.functions == 957 and counts.unusable == {}
    known = {name for found in function_calls.CONTRADICTING.values() for name in found}
    assert set(counts.refused) == known, "all that is refused contradicts its own schema, and is listed"
    assert (counts.answers, counts.refused.total()) == (1792, 16)
    assert set(counts.wrong) == {"missing", "extra", "name", "type", "value", "tool"} and min(counts.wrong.values()) >= 350
    assert counts.named == counts.wrong, "each refusal names the place, what stood there, and what is wanted"
    assert counts.mended == counts.wrong, "doing what the message says makes it right"
