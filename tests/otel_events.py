"""A run told by hand: an event of every kind, with the blobs that they name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from metaflow_agents.schema import event as events
from metaflow_agents.schema.model import digest
from metaflow_agents.sop.load import load_sop
from metaflow_agents.views.spans import Content, Span, Spans

SOP = """
sop: letters
inputs: {topic: string}
roles: {writer: {profile: a writer, tools: [search]}, critic: {profile: a critic}}
artifacts: {letter: {}, notes: {each: string}, sent: {}}
models: {default: {name: gpt-9, endpoint: "http://127.0.0.1:8123/v1"}}
steps:
  write: {role: writer, needs: [topic], makes: letter, retries: 1, strategy: plan_and_execute}
  note: {role: critic, needs: [letter], makes: notes, foreach: {in: "['a', 'b']"}}
  post: {sop: post, needs: [notes], makes: sent}
"""
POST = """
sop: post
artifacts: {stamped: {}}
steps: {stamp: {value: "'x'", makes: stamped}}
"""
BEGAN = 1_790_000_000.0


class Told:
    """Events in their order, a second apart, and blobs by digest."""

    def __init__(self, folder: Any) -> None:
        (folder / "letters.yaml").write_text(SOP)
        (folder / "post.yaml").write_text(POST)
        program = load_sop(folder / "letters.yaml").program
        self.blobs = {digest(program.stored()): program.stored()}
        self.compiled = digest(program.stored())
        self.events: list[events.Event] = []

    def add(self, *more: events.Event) -> None:
        """The next ones. An `at` that is set already stays."""
        for event in more:
            at = event.at or BEGAN + len(self.events)
            self.events.append(event.model_copy(update={"at": at}))

    def blob(self, value: Any) -> str:
        """Stores JSON, and gives its digest."""
        data = json.dumps(value).encode()
        self.blobs[digest(data)] = data
        return digest(data)

    def request(self, text: str, *, system: str = "be kind") -> str:
        """A request's digest."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        return self.blob({"key": "k", "max_tokens": 99, "messages": messages, "model": "openai:gpt-9", "role": "writer",
                          "schema": None, "step": "write", "tools": []})

    def reply(self, text: str) -> str:
        """A reply's digest."""
        return self.blob({"text": text, "value": None, "tokens_in": 1, "tokens_out": 1})

    def call(self, key: str, role: str, text: str = "hello", **settled: Any) -> list[events.Event]:
        """A call that is answered."""
        return [events.Reserved(key=key, role=role, digest="d", request=self.request(text), model="openai:gpt-9", tokens=500),
                events.Settled(key=key, **{"reply": self.reply("hi"), "tokens_in": 100, "tokens_out": 20, "cost": 5 * 10**9,
                                           **settled})]

    def spans(self, *, content: Callable[[str], str] | None = None, upto: int | None = None) -> tuple[list[Span], Spans]:
        """What becomes of them, or of the first ones."""
        spans = Spans(self.blobs.__getitem__, None if content is None else Content(self.blobs.__getitem__, content))
        return heard(spans, self.events[:upto]), spans

    def beginning(self) -> None:
        """A run begins and is given its input."""
        self.add(events.RunOpened(run="one", sop="f", compiled=self.compiled, sources={}, entry="letters.yaml", package="0.1.0"),
                 events.Committed(versions=(events.Version(artifact="topic", number=1, payload="p"),)))

    def whole(self) -> None:
        """A run with an event of every kind, to its end."""
        data = self.blob({"kind": "data", "value": {"q": "tea"}})
        self.beginning()
        self.add(events.Fired(step="write", round=1, read={"topic": 1}), *self.call("write@1~0/plan.0", "writer"))
        self.add(events.Reserved(key="write@1~0/turn.0", role="writer", digest="d", request=self.request("x"),
                                 model="openai:gpt-9", tokens=9),
                 events.Settled(key="write@1~0/turn.0", error="busy", again=True, trouble="rate", calls=0, wait=1.0),
                 events.Reserved(key="write@1~0/turn.0", **{"try": 1}, role="writer", digest="d", request=self.request("x"),
                                 model="openai:gpt-9", tokens=9),
                 events.Settled(key="write@1~0/turn.0", **{"try": 1}, reply=self.reply("call"), tokens_in=7, tokens_out=3,
                                tokens_cached=2),
                 events.Decided(key="write@1~0/turn.0/tool.0", role="writer", tool="search", action="read(**)", verdict="ask",
                                rule="a rule"),
                 events.Asked(key="write@1~0/turn.0/tool.0/may", question=self.blob({"text": "May it?"})),
                 events.Answered(key="write@1~0/turn.0/tool.0/may", answer=self.blob({"verdict": "yes"}), by="terminal"),
                 events.Intended(key="write@1~0/turn.0/tool.0", tool="search", arguments=data, effect="none"),
                 events.Done(key="write@1~0/turn.0/tool.0", payload=data, seconds=0.5, untrusted="from a page"),
                 events.Observed(key="write@1~0/checked.0", payload=data, seconds=0.25),
                 events.Sent(sender="writer", to="critic", payload=data, key="write@1~0/turn.0/tool.1"),
                 events.Failed(activation="write@1~0", error="no letter", seconds=9.0),
                 *self.call("write@1~1/turn.0", "writer"),
                 events.Finished(activation="write@1~1", payload="p", seconds=2.0,
                                 memory=events.Entry(role="writer", activation="write@1~1", asked="a", answered="b"),
                                 besides=(events.Entry(role="writer", kind="reflection", activation="write@1~1", asked="a",
                                                       answered="b"),)),
                 events.Committed(firing="write@1", versions=(events.Version(artifact="letter", number=1, payload="p"),)))
        self.add(events.Documented(artifact="letter", number=1, payload="q"),
                 events.Fired(step="note", round=1, read={"letter": 1}, items=("a", "b")),
                 *self.call("note@1[b]~0/turn.0", "critic"), *self.call("note@1[a]~0/embed.0123", "critic"),
                 events.Finished(activation="note@1[b]~0", payload="p", seconds=1.0),
                 events.Finished(activation="note@1[a]~0", payload="p", seconds=1.0),
                 events.Committed(firing="note@1", versions=(events.Version(artifact="notes", number=1, payload="p"),)),
                 events.Fired(step="post", round=1, read={"notes": 1}),
                 events.Inner(activation="post@1~0", event=events.Committed()),
                 events.Inner(activation="post@1~0", event=events.Fired(step="stamp", round=1, read={})),
                 events.Inner(activation="post@1~0", event=events.Finished(activation="stamp@1~0", payload="p", seconds=0.5)),
                 events.Inner(activation="post@1~0", event=events.Committed(firing="stamp@1", versions=(
                     events.Version(artifact="stamped", number=1, payload="p"),))),
                 events.Finished(activation="post@1~0", payload="p", seconds=4.0),
                 events.Committed(firing="post@1", versions=(events.Version(artifact="sent", number=1, payload="p"),)),
                 events.RunEnded(outcome="until", reason="it came there"),
                 events.Resumed(sop="f", compiled=self.compiled, sources={}), events.RunEnded(outcome="success"))


def heard(spans: Spans, told: Iterable[events.Event], first: int = 1) -> list[Span]:
    """The spans that events end; the first has this number."""
    return [span for number, event in enumerate(told, first) for span in spans.hear(number, event)]


def only(spans: Sequence[Span], name: str) -> Span:
    """The one span of this name."""
    (found,) = [span for span in spans if span.name == name]
    return found
