"""The functions of the Berkeley Function-Calling Leaderboard as tools: each goes over the wire, and each gold call comes back.

Its schemas are in a dialect of Python's types (`dict`, `float`, `tuple`), which is translated as its own evaluation does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from endpoint_calls import called, model_at, request_for
from openai_server import OpenAIServer
from openai_tool_faults import Calling

from metaflow_agents.models import text_form
from metaflow_agents.models.endpoint.tools import wire_names
from metaflow_agents.models.port import Reply

DATA = os.environ.get("SOP_TEST_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA does not name a folder with public data")
FOLDER = Path(DATA or ".") / "bfcl"
KINDS = ("simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance")
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}


def in_json_schema(node: Any) -> Any:
    """A schema of the set as JSON Schema."""
    if isinstance(node, list):
        return [in_json_schema(each) for each in node]
    if not isinstance(node, dict):
        return node
    kind = node.get("type")
    found = {name: in_json_schema(each) for name, each in node.items()}
    if isinstance(kind, str):
        found["type"] = _TYPES.get(kind, kind)
        if found["type"] is None:
            del found["type"]
    return found


def questions(kind: str) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """The tools of each question, and one gold call of each that the answer has."""
    answers = FOLDER / "possible_answer" / f"{kind}.jsonl"              # there is none where no function helps
    lines = answers.read_text().splitlines() if answers.exists() else ()
    gold = {one["id"]: one["ground_truth"] for one in map(json.loads, lines)}
    for one in map(json.loads, (FOLDER / f"{kind}.jsonl").read_text().splitlines()):
        tools = [{**function, "parameters": in_json_schema(function["parameters"])} for function in one["function"]]
        yield tools, [{"name": name, "arguments": {key: allowed[0] for key, allowed in arguments.items()}}
                      for call in gold.get(one["id"], ()) for name, arguments in call.items()]


@pytest.mark.parametrize("form", ["native", "streamed", "text"])
@pytest.mark.parametrize("kind", KINDS)
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
        model = model_at(server.url, max_tokens=2**15)
        for tools, calls in questions(kind):
            asked.append([tools, calls])
            request = replace(request_for(model, watch=(lambda text: None) if form == "streamed" else None), tools=tuple(tools))
            reply = await called(model, text_form.in_text(request) if form == "text" else request)
            assert isinstance(reply, Reply), reply.told
            reply = text_form.called(reply, request) if form == "text" else reply
            assert [{"name": call.name, "arguments": call.arguments} for call in reply.calls] == calls
            count += 1
    assert count >= 80
