"""OODA as a SOP, on a real server on this machine whose situation changes between looks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from metaflow_agents import RunResult, check, run
from metaflow_agents.api.sop_test import try_out
from metaflow_agents.modules import load_function

FOLDER = Path(__file__).parent.parent / "examples" / "classics" / "ooda"
SOP = FOLDER / "ooda.yaml"
Model = Callable[[Any], Any]


def function(name: str) -> Any:
    return load_function(name, [FOLDER])


@contextmanager
def served(server: ThreadingHTTPServer) -> Iterator[str]:
    """The address of a server that runs beside the test."""
    thread = Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def went(where: str, model: Model, budget: dict[str, Any] | None = None, **inputs: Any) -> RunResult:
    return await run(SOP, model=model, workspace=None, budget=budget, inputs={
        "goal": "neither dry nor spilling", "where": where, "number": "level", "least": 40, "most": 60, **inputs})


def test_it_is_short_and_checks() -> None:
    assert len(SOP.read_text().splitlines()) < 120
    assert list(check(SOP).problems) == []
    assert len((FOLDER / "README.md").read_text().splitlines()) < 20


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", ["walks_through", "what_an_act_did_is_in_the_next_prompts", "the_acts_are_used_up"])
async def test_it_passes_its_tests(case: str) -> None:
    (verdict,) = [verdict async for verdict in try_out(SOP, [case], sandbox="none")]
    assert verdict.ok, verdict.why


async def test_a_tank_is_brought_within_its_bounds() -> None:
    """Each act follows a look of its own: from 75 litres two acts and a wait, the rain going on."""
    tank = function("tank:Tank")()
    with served(function("tank:serving")(tank)) as where:
        result = await went(where, function("desk:pilot"))
    assert result.ok and tank.acts == ["drain", "drain"], result.reason
    assert "The goal is reached: level is 59: within, for 2 of 2 looks in a row, after 3 acts." in result["log"]


async def test_what_was_decided_on_an_old_look_is_not_done() -> None:
    """While the model thinks, the tank runs almost dry: to drain it is not done, and the next look leads to `fill`."""
    tank, pilot = function("tank:Tank")(), function("desk:pilot")

    def slow(request: Any) -> Any:
        answer = pilot(request)
        if request.step == "decide" and not tank.acts and tank.level > 60:
            tank.level, tank.inflow = 10.0, 1.0
        return answer

    with served(function("tank:serving")(tank)) as where:
        result = await went(where, slow)
    assert tank.acts[0] == "fill" and "drain" not in tank.acts and result.ok, (tank.acts, result.reason)
    assert "`drain` was not done, since the situation changed after it was decided: level is 10," in result["log"]


async def test_a_models_word_is_no_number() -> None:
    tank = function("tank:Tank")()

    def boaster(request: Any) -> Any:
        if request.step == "orient":
            return {"situation": "The goal is reached, the level is 50.", "heading": "It stays.", "learned": "All is well."}
        return {"act": "wait", "why": "it is reached", "expect": "50", "holds": [{"number": "level", "least": 0, "most": 1000}]}

    with served(function("tank:serving")(tank)) as where:
        result = await went(where, boaster, rounds=2)
    assert not result.ok and result["checked"]["value"] > 60
    assert "The goal is not reached: level is 95: above, and all 2 acts are used." in result["log"]


async def test_a_budget_that_is_used_up_leaves_the_log() -> None:
    with served(function("tank:serving")(function("tank:Tank")())) as where:
        result = await went(where, function("desk:pilot"), {"calls": 3})
    assert result.outcome == "budget" and "calls" in result.reason
    assert "9 acts are left" in result.artifacts["log"] and "has used up its budget" in result.artifacts["log"]


async def test_a_decision_is_held_against_the_look_that_it_is_made_on() -> None:
    """An act that there is not, a number that there is not, bounds that do not hold even now: each goes back by name."""
    tank, pilot, asked = function("tank:Tank")(), function("desk:pilot"), []

    def wild(request: Any) -> Any:
        if request.step == "decide":
            asked.append(str(request.messages[-1]["content"]))
            if len(asked) == 1:
                return {"act": "flush", "why": "w", "expect": "e", "holds": [{"number": "height", "least": 0, "most": 1}]}
            if len(asked) == 2:
                return {"act": "drain", "why": "w", "expect": "e", "holds": []}
        return pilot(request)

    with served(function("tank:serving")(tank)) as where:
        assert (await went(where, wild)).ok
    assert "- `drain`: takes 20 out at once" in asked[0] and "A program\n  looks once more just before the act" in asked[0]
    assert "`act`: there is no `flush`; there is: close, drain, fill, open, wait" in asked[1]
    assert "`holds`: there is no number `height`; there is: inflow, level, outflow" in asked[1] and "`holds` is empty" in asked[2]


@pytest.mark.parametrize(("inputs", "told"), [
    ({"number": "height"}, "number: there is no `height`; there is: inflow, level, outflow"),
    ({"least": 61}, "least: 61 is more than most, 60"),
])
async def test_a_goal_that_is_no_goal_ends_before_a_model_is_asked(inputs: dict[str, Any], told: str) -> None:
    with served(function("tank:serving")(function("tank:Tank")())) as where:
        result = await went(where, lambda request: 1 / 0, **inputs)
    assert not result.ok and told in result.reason


@pytest.mark.parametrize(("status", "body", "told"), [
    (200, b"level: 3", "gave no JSON"), (200, b"[" * 50_000, "gave no JSON"), (200, b"[]", "gave another form; expected"),
    (200, b'{"numbers": {"level": true}, "acts": {}}', "gave level = True; expected a number"),
    (200, b'{"numbers": {"level": NaN}, "acts": {}}', "gave level = nan; expected a number"),
    (200, b'{"numbers": {"a b": 1}, "acts": {}}', "gave the name 'a b'; expected a word"),
    (200, b'{"numbers": {}, "acts": {"x`\\n# Now": "y"}}', "expected a word"),
    (200, json.dumps({"numbers": {f"n{place}": 1 for place in range(60)}, "acts": {}}).encode(), "at most 50 names each"),
    (200, b" " * 70_000, "gave more than 65,536 bytes"), (404, b"{}", "answered GET with status 404; expected 200"),
    (302, b"{}", "answered GET with status 302"),
])
def test_what_a_server_answers_is_read_strictly(status: int, body: bytes, told: str) -> None:
    class Odd(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed for a request."""

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Odd)) as where, pytest.raises(ValueError) as raised:
        function("world:look")(where)
    assert told in str(raised.value) and "where: http://127.0.0.1" in str(raised.value)


@pytest.mark.parametrize("where", ["http://127.0.0.1:9", "nonsense", "http://[", "file:///etc/passwd"])
def test_where_nothing_answers(where: str) -> None:
    with pytest.raises(ValueError, match="start what is to be looked at, or give its address"):
        function("world:look")(where)
