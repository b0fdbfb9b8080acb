"""A real loopback HTTP server that speaks chat completions, keeps its own ledger, and fails on purpose.

    async with OpenAIServer(lambda asked: "hello") as server:       # in this event loop
        model = endpoint_model(EndpointModel(name="m", endpoint=server.url), None, None)

    with OpenAIServer(...).in_thread() as server: ...               # in a thread of its own
    with ServerProcess(answer="my_module:function", **options) as server: server.url; server.bills()      # in a process

`answer(asked)` is given the request's JSON and returns the answer's text, or a `Calling` with calls of tools (or a coroutine of
either); by default the smallest value of the asked schema, else `ok`. A text longer than the request's bound is cut there, with
`finish_reason: length`: one byte is one token, of messages, tools and response format going in, and of text coming out.

`bills` has one `Bill` for each chat request in order: what it cost, whether a usage block told so, and which fault it met.
What was cut is billed for all that went in and for the text that was sent; refusals (429, 4xx, 500, 503) cost nothing.

Faults: `plan` maps the number of a chat request (from 1) to the name of a fault in `openai_faults.FAULTS` (`{3: "cut"}`) or of a
way to tell calls in `openai_tool_faults.SHAPES`, or is a function of that number, or a `Chances` (probabilities by name, drawn
from a seed). What the endpoint takes: `formats` of `response_format` ("strict", "schema", "json"), `length_names`,
`stream_options`, `key`, `models`, `tools` ("any"; "alone": not with a `response_format`; else the words in which all are
refused), `parallel` (it knows `parallel_tool_calls`). Limits that it enforces itself, in any `window` seconds: `rpm` and `tpm`;
and `concurrency`. `latency`: seconds before it answers. `usage`: how it tells its counts ("plain", "none", "every", "groq",
"choice"). It embeds as well (`openai_embeddings.py`), by `vector(text)`, unless `embeds` is false.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import random
import subprocess
import sys
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from embedders import vector
from openai_embeddings import embed
from openai_faults import FAULTS, Bill, Out, bounded, bytes_in, error
from openai_tool_faults import SHAPES, Calling, unfit

from metaflow_agents.schema.minimal_example import smallest

Answer = Callable[[dict[str, Any]], Any]


@dataclass(slots=True)
class Chances:
    """A plan by chance: name of a fault → probability."""

    seed: int
    of: Mapping[str, float]
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def __call__(self, number: int) -> str:
        drawn = self._random.random()
        for name, chance in self.of.items():
            if drawn < chance:
                return name
            drawn -= chance
        return ""


Plan = Mapping[int, str] | Callable[[int], str]


class OpenAIServer:
    """See the module's text. An async context manager; `in_thread()` is a plain one."""

    def __init__(self, answer: Answer | None = None, *, plan: Plan | None = None,
                 formats: tuple[str, ...] = ("strict", "schema", "json"),
                 length_names: tuple[str, ...] = ("max_completion_tokens", "max_tokens"), stream_options: bool = True,
                 key: str | None = None, models: tuple[str, ...] = (), tools: str = "any", parallel: bool = True,
                 rpm: int | None = None, tpm: int | None = None,
                 concurrency: int | None = None, window: float = 60.0, latency: float = 0.0, usage: str = "plain",
                 chunk: int = 7, embeds: bool = True, vector: Callable[[str], Any] = vector) -> None:
        self.answer, self.formats = answer or default_answer, formats
        self.length_names, self.stream_options = length_names, stream_options
        self.tools, self.parallel, self.embeds, self.vector = tools, parallel, embeds, vector
        self.plan: Plan = {} if plan is None else plan
        self.key, self.models, self.usage, self.chunk = key, models, usage, chunk
        self.rpm, self.tpm, self.concurrency, self.window, self.latency = rpm, tpm, concurrency, window, latency
        self.bills: list[Bill] = []
        self.most_at_once = self.connections = self.port = 0
        self._under_way = 0
        self._recent: deque[tuple[float, int]] = deque()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def tokens(self) -> int:
        """All that was billed."""
        return sum(bill.tokens for bill in self.bills)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=4096, limit=2**24)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._shut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._open):
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def gone(self, seconds: float) -> None:
        """Nobody listens for a while."""
        await self._shut()
        await asyncio.sleep(seconds)
        await self.__aenter__()

    def later(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)

    @contextmanager
    def in_thread(self) -> Iterator[Self]:
        """The same in a thread with an event loop of its own."""
        up, down = threading.Event(), []

        async def main() -> None:
            stop = asyncio.Event()
            async with self:
                down.append((asyncio.get_running_loop(), stop))
                up.set()
                await stop.wait()

        thread = threading.Thread(target=lambda: asyncio.run(main()), name="openai server")
        thread.start()
        up.wait()
        try:
            yield self
        finally:
            loop, stop = down[0]
            loop.call_soon_threadsafe(stop.set)
            thread.join()

    # -- one connection

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self.connections += 1
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass                            # the client left, or the server ends
        finally:
            self._open.discard(writer)
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        out = Out(writer)
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            out.json(401, error("Incorrect API key provided: " + headers.get("authorization", "none"), "invalid_request_error",
                                "invalid_api_key"))
        elif path.endswith("/models") and method == "GET":
            out.json(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]})
        elif path.endswith("/bills"):
            out.json(200, {"bills": [{**asdict(bill), "request": {}} for bill in self.bills]})
        elif path.endswith("/embeddings") and method == "POST" and self.embeds:
            self.bills.append(Bill(len(self.bills) + 1, request=json.loads(body)))
            await embed(self, self.bills[-1].request, self.bills[-1], out)
        elif path.endswith("/chat/completions") and method == "POST":
            await self._chat(json.loads(body), out)
        else:
            out.json(404, {"detail": "Not Found"})
        if not out.closed:
            await writer.drain()
        return not out.closed

    # -- one chat request

    async def _chat(self, asked: dict[str, Any], out: Out) -> None:
        bill = Bill(len(self.bills) + 1, request=asked)
        self.bills.append(bill)
        bill.fault = self.plan(bill.number) if callable(self.plan) else self.plan.get(bill.number, "")
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            refusal = self._refusal(asked)
            if refusal is not None:
                bill.status = refusal[0]
                out.json(*refusal)
            else:
                await self._answered(asked, bill, out)
        finally:
            self._under_way -= 1

    async def _answered(self, asked: dict[str, Any], bill: Bill, out: Out) -> None:
        if self.latency:
            await asyncio.sleep(self.latency)
        if bill.fault in FAULTS and FAULTS[bill.fault].early:
            await FAULTS[bill.fault].make(self, asked, bill, out, "")
            return
        said = self.answer(asked)
        said = await said if inspect.isawaitable(said) else said
        text, bill.calls = (said.text, said.calls) if isinstance(said, Calling) else (str(said), [])
        bill.tokens_in = bytes_in(asked)
        if bill.fault in FAULTS:
            await FAULTS[bill.fault].make(self, asked, bill, out, text)
            return
        text, finish = bounded(asked, text)
        bill.tokens_out = len(text.encode()) + (len(json.dumps(bill.calls).encode()) if bill.calls else 0)
        bill.told = self.usage != "none"
        if asked.get("stream"):
            bill.told = bill.told and bool(asked.get("stream_options", {}).get("include_usage"))
            out.start_stream()
            for event in self.events(asked, text, finish, bill):
                out.event(event)
            out.done()
        else:
            out.json(200, self.whole(asked, text, finish, bill))

    def _refusal(self, asked: dict[str, Any]) -> tuple[int, Any, dict[str, str]] | None:
        """What this endpoint does not take."""
        if self.models and asked["model"] not in self.models:
            return 404, error(f"The model `{asked['model']}` does not exist", "invalid_request_error", "model_not_found"), {}
        names = [name for name in ("max_completion_tokens", "max_tokens") if name in asked]
        if len(names) != 1:
            return 400, error("exactly one of max_tokens and max_completion_tokens", "invalid_request_error"), {}
        if names[0] not in self.length_names:
            return 400, error(f"Unsupported parameter: '{names[0]}' is not supported with this model.", "invalid_request_error",
                              "unsupported_parameter"), {}
        if "stream_options" in asked and not self.stream_options:
            return 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"],
                                     "msg": "Extra inputs are not permitted"}]}, {}
        return self._untooled(asked) or self._unformed(asked.get("response_format")) or self._too_much(asked)

    def _untooled(self, asked: dict[str, Any]) -> tuple[int, Any, dict[str, str]] | None:
        told = ""
        if asked.get("tools") and self.tools == "alone" and "response_format" in asked:
            told = "json mode cannot be combined with tool/function calling"
        elif asked.get("tools") and self.tools not in ("any", "alone"):
            told = self.tools
        elif "parallel_tool_calls" in asked and not self.parallel:
            told = "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."
        told = told or next(unfit(asked), "")
        return (400, error(told, "invalid_request_error"), {}) if told else None

    def _unformed(self, wanted: Any) -> tuple[int, Any, dict[str, str]] | None:
        if not wanted:
            return None
        kind = "json" if wanted["type"] == "json_object" else "strict" if wanted["json_schema"].get("strict") else "schema"
        if kind not in self.formats:
            return 400, error(f"This response_format `{wanted['type']}` ({kind}) is unavailable now", "invalid_request_error"), {}
        faults = list(unstrict(wanted["json_schema"]["schema"])) if kind == "strict" else []
        if faults:
            return 400, error(f"Invalid schema for response_format 'answer': {faults[0]}", "invalid_request_error"), {}
        return None

    def _too_much(self, asked: dict[str, Any]) -> tuple[int, Any, dict[str, str]] | None:
        now, tokens = time.monotonic(), bytes_in(asked) + int(asked.get("max_completion_tokens") or asked["max_tokens"])
        while self._recent and self._recent[0][0] <= now - self.window:
            self._recent.popleft()
        full = self.rpm is not None and len(self._recent) >= self.rpm
        full = full or (self.tpm is not None and sum(count for _, count in self._recent) + tokens > self.tpm)
        if self.concurrency is not None and self._under_way > self.concurrency:
            return 429, error("too many requests at once", "rate_limit"), {"Retry-After": "0.05"}
        if full:
            wait = self._recent[0][0] + self.window - now if self._recent else self.window
            return 429, error("Rate limit reached", "rate_limit"), {"Retry-After": f"{wait:.3f}"}
        self._recent.append((now, tokens))
        return None

    # -- what answers look like

    def counts(self, bill: Bill) -> dict[str, Any]:
        return {"prompt_tokens": bill.tokens_in, "completion_tokens": bill.tokens_out, "total_tokens": bill.tokens}

    def whole(self, asked: dict[str, Any], text: str, finish: str, bill: Bill) -> dict[str, Any]:
        """An answer in one piece."""
        told = {"plain": {"usage": self.counts(bill)}, "every": {"usage": self.counts(bill)},
                "groq": {"x_groq": {"usage": self.counts(bill)}}}.get(self.usage, {})
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if bill.calls:
            shape = SHAPES[bill.fault or "plain"]
            message, finish = {"role": "assistant", "content": text or None, **shape.message(bill.calls)}, shape.finish
        choice = {"index": 0, "message": message, "finish_reason": finish}
        if self.usage == "choice":
            choice["usage"] = self.counts(bill)
        return {"id": f"c{bill.number}", "object": "chat.completion", "created": 1, "model": asked["model"], "choices": [choice],
                **told}

    def events(self, asked: dict[str, Any], text: str, finish: str, bill: Bill) -> Iterator[Any]:
        """The chunks of a stream, without its end."""
        base = {"id": f"c{bill.number}", "object": "chat.completion.chunk", "created": 1, "model": asked["model"]}
        told = {"usage": self.counts(bill)} if bill.told else {}

        def chunk(delta: Any, ended: str | None = None, **more: Any) -> dict[str, Any]:
            return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": ended}], **more}

        yield chunk({"role": "assistant", "content": ""}, **(told if self.usage == "every" else {}))
        for at in range(0, len(text), self.chunk):
            yield chunk({"content": text[at:at + self.chunk]}, **(told if self.usage == "every" else {}))
        if bill.calls:
            finish = SHAPES[bill.fault or "plain"].finish
            for delta in SHAPES[bill.fault or "plain"].deltas(bill.calls):
                yield chunk(delta, **(told if self.usage == "every" else {}))
        if self.usage == "groq":
            yield chunk({}, finish, **({"x_groq": told} if told else {}))
        elif self.usage == "every":
            yield chunk({}, finish, **told)
        else:
            yield chunk({}, finish)
            if told:
                yield {**base, "choices": [], **told}


def default_answer(asked: dict[str, Any]) -> str:
    form = asked.get("response_format", {})
    if form.get("type") == "json_schema":
        return json.dumps(smallest(form["json_schema"]["schema"], "answer"))
    return "{}" if form else "ok"


def unstrict(node: Any, at: str = "()") -> Iterator[str]:
    """What strict mode refuses in a schema."""
    if at == "()" and node.get("type") != "object":
        yield "schema must be a JSON Schema of 'type: \"object\"'"
    if node.get("type") == "object":
        if node.get("additionalProperties") is not False:
            yield f"In context={at}, 'additionalProperties' is required to be supplied and to be false."
        if sorted(node.get("required", ())) != sorted(node.get("properties", {})):
            yield f"In context={at}, 'required' is required to be supplied and to be an array including every key in properties."
    elif not any(word in node for word in ("type", "$ref", "anyOf")):
        yield f"In context={at}, schema must have a 'type' key."
    for word in ("oneOf", "allOf", "default", "examples", "minLength", "maxLength", "uniqueItems", "not"):
        if word in node:
            yield f"In context={at}, '{word}' is not permitted."
    inner = [*node.get("properties", {}).items(), *node.get("$defs", {}).items(), *enumerate(node.get("anyOf", ()))]
    for name, child in [*inner, *([("items", node["items"])] if "items" in node else [])]:
        yield from unstrict(child, f"{at} {name}")


class ServerProcess:
    """The server in a process of its own: `answer` names a function (`module:function`, found beside this file)."""

    def __init__(self, answer: str = "", **options: Any) -> None:
        self._arguments = [sys.executable, str(Path(__file__)), json.dumps({"answer": answer, **options})]
        self.url = ""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._arguments, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()         # its end is the sign to leave
        self._process.wait(10)
        self._process.stdout.close()

    def bills(self) -> list[Bill]:
        with urllib.request.urlopen(f"{self.url}/bills") as told:
            return [Bill(**bill) for bill in json.load(told)["bills"]]


async def _main(options: dict[str, Any]) -> None:
    where, _, name = options.pop("answer").partition(":")
    answer = getattr(importlib.import_module(where), name) if where else None
    chances, plan = options.pop("chances", None), options.pop("plan", None)
    made: Plan | None = Chances(**chances) if chances else {int(number): fault for number, fault in (plan or {}).items()}
    async with OpenAIServer(answer, plan=made, **{name: tuple(value) if isinstance(value, list) else value
                                                  for name, value in options.items()}) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1])))
