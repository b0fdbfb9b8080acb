"""The spans of model calls and tool calls, and what goes around them."""

from __future__ import annotations

import re

from metaflow_agents.schema import event as events
from metaflow_agents.schema.keys import EMBED
from metaflow_agents.views.spans import names
from metaflow_agents.views.spans.activations import Activations
from metaflow_agents.views.spans.metrics import Meters
from metaflow_agents.views.spans.open import Open
from metaflow_agents.views.spans.span import Attributes
from metaflow_agents.views.spans.steps import Providers

PICO = 10**12
_LOOKS = frozenset({"search", "map"})           # tools that retrieve
_NAME = re.compile(r"[\w.-]{1,64}")             # of a tool: a model may have made it up
_TOOL = "/tool."


class Calls:
    """Takes in what happens to calls. `meters` counts."""

    def __init__(self, activations: Activations, providers: Providers, meters: Meters) -> None:
        self._activations, self._spans, self._content = activations, activations.spans, activations.content
        self._providers, self._meters = providers, meters
        self._known: dict[tuple[str, str, str], tuple[str, Attributes, Attributes]] = {}

    def reserved(self, event: events.Reserved, at: float) -> None:
        """A call is about to be sent, or sent again."""
        call = self._spans.children.get(event.key)
        if call is not None:
            call.tries += 1
            call.tell(names.RETRIED, at, {names.TRIES: call.tries})
            return
        owner = self.owner(event.key, at)
        self._activations.named(owner.activation, event.role)
        operation = names.EMBEDDINGS if EMBED in event.key else names.CHAT
        name, usual = self._usual(operation, event.model, event.role)
        told = {**usual, names.EVENT: self._spans.number}
        if self._content is not None:
            told[names.KEY] = self._content.text(event.key)
            told.update(self._content.request(event.request))
        wrapper = self._wrapper(event, operation, owner, at)
        self._spans.child(owner, event.key, name, at, told, kind="client", wrapper=wrapper)

    def _usual(self, operation: str, model: str, role: str) -> tuple[str, Attributes]:
        """Name and attributes of all calls of a role to a model."""
        provided = self._providers.of(model)
        found = self._known.get((operation, model, role))
        if found is None or found[2] is not provided:       # other models since a resume
            told: Attributes = {names.OPERATION: operation, **provided, **({names.AGENT: role} if role else {})}
            found = self._known[operation, model, role] = f"{operation} {provided[names.MODEL]}", told, provided
        return found[:2]

    def _wrapper(self, event: events.Reserved, operation: str, owner: Open, at: float) -> Open | None:
        """What goes around a call: `plan`, or `search_memory`."""
        kind, place = "", owner.activation.place
        if operation == names.EMBEDDINGS:
            kind = names.SEARCH_MEMORY
        elif place is not None and (plans := self._activations.steps.of(place.steps).plans) is not None \
                and plans.match(event.key[len(place.activation) + 1:]):
            kind = names.PLAN
        if not kind:
            return None
        name = f"{names.PLAN} {event.role}".rstrip() if kind == names.PLAN else kind
        told: Attributes = {names.OPERATION: kind, names.EVENT: self._spans.number}
        if event.role:
            told[names.AGENT] = event.role
        return self._spans.child(owner, f"{event.key}/{kind}", name, at, told)

    def settled(self, event: events.Settled, at: float) -> None:
        """A try came back, or failed."""
        call = self._spans.children.get(event.key)
        if call is None:                        # nothing settles what was not reserved
            return
        self._spent(call, event)
        trouble = "" if event.error is None else event.trouble or "failed"
        words = "" if self._content is None or event.error is None else self._content.text(event.error)
        if event.again:
            call.tell(names.TRIED, at, {names.ERROR: trouble, **({names.WORDS: words} if words else {})})
            return
        if event.reply is not None and self._content is not None and call.attributes[names.OPERATION] == names.CHAT:
            call.attributes.update(self._content.reply(event.reply))
        self._meters.call(call, at - call.start, trouble)
        self._spans.end(call, at, trouble, words)
        if call.wrapper is not None:
            self._spans.end(call.wrapper, at, trouble)

    def _spent(self, call: Open, event: events.Settled) -> None:
        """What a try cost counts for its call and its activation."""
        told, owner = call.attributes, call.activation
        for one in (call, owner):
            one.tokens_in += event.tokens_in
            one.tokens_out += event.tokens_out
        told[names.INPUT_TOKENS], told[names.OUTPUT_TOKENS] = call.tokens_in, call.tokens_out
        if event.tokens_cached:
            told[names.CACHED_TOKENS] = event.tokens_cached
        if event.cost:
            call.cost += event.cost
            told[names.COST] = call.cost / PICO
            if event.estimated:
                told[names.ESTIMATED] = True
        if call.tries > 1:
            told[names.TRIES] = call.tries
        self._meters.spent(call, event)

    def owner(self, key: str, at: float) -> Open:
        """The span below which a key lies: that of a tool call, or of its activation."""
        owner = self._activations.at(key, at)
        if _TOOL in key:
            for call in _tool_calls(key, len(owner.key)):
                if call != key:
                    owner = self._tool(call, at, owner)
        return owner

    def around(self, key: str, at: float) -> Open:
        """The same, where the key itself may be that of a tool call."""
        owner = self.owner(key, at)
        calls = _tool_calls(key, len(owner.activation.key)) if _TOOL in key else []
        return self._tool(calls[-1], at, owner) if calls else owner

    def _tool(self, key: str, at: float, owner: Open) -> Open:
        """The span of a tool call, which begins with the first sign of it."""
        call = self._spans.children.get(key)
        if call is None:
            told: Attributes = {names.OPERATION: names.EXECUTE_TOOL, names.EVENT: self._spans.number}
            if self._content is not None:
                told[names.KEY] = self._content.text(key)
            call = self._spans.child(owner, key, names.EXECUTE_TOOL, at, told)
        return call

    def decided(self, event: events.Decided, at: float) -> None:
        """The policy decided about an action."""
        told: Attributes = {names.VERDICT: event.verdict, names.RULE: event.rule, names.TOOL: _fine(event.tool)}
        if event.untrusted:
            told[names.UNTRUSTED] = True
        if self._content is not None:
            told[names.ACTION] = self._content.text(event.action)
        self.around(event.key, at).tell(names.DECIDED, at, told)

    def intended(self, event: events.Intended, at: float) -> None:
        """A tool is about to be called."""
        call, tool = self._tool(event.key, at, self.owner(event.key, at)), _fine(event.tool)
        told = call.attributes
        told[names.TOOL], told[names.EFFECT], call.name = tool, event.effect, f"{names.EXECUTE_TOOL} {tool}"
        if tool in _LOOKS:
            told[names.OPERATION], told[names.DATA_SOURCE], call.name = names.RETRIEVAL, "files", f"{names.RETRIEVAL} files"
        if event.taken is not None:
            told[names.REUSED] = event.taken.source.partition(":")[0]
        if self._content is not None:
            told.update(self._content.held(names.ARGUMENTS, event.arguments))

    def done(self, event: events.Done, at: float) -> None:
        """A tool call is over."""
        call = self._tool(event.key, at, self.owner(event.key, at))
        call.start = min(call.start, at - event.seconds)
        if event.staged:
            call.attributes[names.DRY] = True
        if event.untrusted:
            call.attributes[names.UNTRUSTED] = True
        if self._content is not None:
            call.attributes.update(self._content.held(names.RESULT, event.payload))
        error = "denied" if event.refused else "tool_error" if event.error else ""
        self._meters.tool(call, event.seconds, error)
        self._spans.end(call, at, error)


def _tool_calls(key: str, after: int) -> list[str]:
    """The tool calls that a key leads through, itself included, the outermost first; `after` characters are looked past."""
    found = []
    place = key.find(_TOOL, after)
    while place >= 0:
        end = place + len(_TOOL)
        while end < len(key) and key[end].isdigit():
            end += 1
        if end > place + len(_TOOL) and (end == len(key) or key[end] == "/"):
            found.append(key[:end])
        place = key.find(_TOOL, end)
    return found


def _fine(tool: str) -> str:
    """A tool's name, where it looks like one: a model may have made it up."""
    return tool if _NAME.fullmatch(tool) else "unknown"
