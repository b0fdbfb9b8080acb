"""The minutes of a run: one line an event, saying who did, asked or told what to whom."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from metaflow_agents.journal.run_summary import unwrapped
from metaflow_agents.models.pricing import dollars
from metaflow_agents.schema import pictures
from metaflow_agents.schema.address import Address, address_of
from metaflow_agents.schema.keys import EMBED, LOOK, REPAIRED, split_inner, steps_in
from metaflow_agents.views.gave import RUN, done_told, is_check, observed_told
from metaflow_agents.views.page import Page, columns, cut, safe
from metaflow_agents.views.wording import amount, clock, duration, listed, money

Raw = Mapping[str, Any]
"""An event as it stands in the journal: JSON, without the fields that are at their defaults."""

KINDS = ("run_opened", "resumed", "fired", "reserved", "settled", "observed", "decided", "intended", "done", "asked", "answered",
         "finished", "failed", "committed", "documented", "sent", "run_ended")
_WORDS_SHOWN = 160          # columns of what was called, asked or answered
_STYLES = {"failed": "red", "committed": "green", "documented": "green", "run_ended": "bold", "run_opened": "bold",
           "resumed": "bold", "asked": "yellow", "reserved": "dim", "settled": "dim", "observed": "dim"}


@dataclass(frozen=True, slots=True)
class Minute:
    """One line: `who` is a firing, an activation, a role or the run."""

    at: float
    kind: str
    who: str
    what: str

    def line(self, page: Page) -> str:
        """As the minutes print it."""
        head = f"{clock(self.at)}  " if self.at else ""
        who, what = safe(self.who), safe(self.what)
        if page.width is not None and columns(head + who + what) + 2 > page.width:
            who = cut(who, max(page.width // 3, page.width - columns(head + what) - 2))
        text = page.fitted(f"{head}{who}: {what}")
        return page.paint(text, _STYLES.get(self.kind, ""))


def minute(event: Raw, read_by: Mapping[str, list[str]], blob: Callable[[str], Any] | None = None,
           commands: Container[str] = ()) -> Minute:
    """An event in words. `read_by`: see `readers`. `blob` gives the JSON stored under a digest: with it the first words of what
    was called, asked, answered, or went wrong stand there too, and what a check said and the steps `commands` gave.
    """
    ran = blob is not None and event["kind"] in ("committed", "finished", "inner") and step_of(event) in commands
    inside, event = unwrapped(event)
    if inside:
        path = "/".join(steps_in(inside)) + "/"
        read_by = {name.removeprefix(path): steps for name, steps in read_by.items() if name.startswith(path)}
    who, what = _WORDS[event["kind"]](event, read_by)
    if blob is not None:
        what += _first_words(event, blob) or (done_told(event, blob) if ran else "")
    if inside and event["kind"] == "committed" and event.get("firing") is None:
        who, what = spoken(inside), f"is given {what}"
    elif inside:
        who = f"{spoken(inside)}/{who}"
    return Minute(event.get("at", 0.0), event["kind"], who, what)


def _first_words(event: Raw, blob: Callable[[str], Any]) -> str:
    match event["kind"]:
        case "intended":
            given = blob(event["arguments"])["value"]
            return f" {_beginning(json.dumps(given, ensure_ascii=False))}" if given else ""
        case "done" if event.get("error"):
            return f": {_beginning(_payload(blob(event['payload'])))}"
        case "observed" if event["key"].endswith(REPAIRED):
            return f": {_beginning(repair_told(blob(event['payload'])['value']))}"
        case "observed" if is_check(event["key"]) or event["key"].endswith(RUN):
            told = observed_told(event["key"], blob(event["payload"]))
            return f": {told}" if told else ""
        case "asked":
            question = blob(event["question"])
            return f": {_beginning(question.get('text') or question.get('action', ''))}"
        case "answered" if event.get("by") != "assumed":
            answer = blob(event["answer"])
            scope = f", for this {answer['scope']}" if answer.get("scope", "once") != "once" else ""
            changed = f"with {json.dumps(answer['arguments'], ensure_ascii=False)} instead" if "arguments" in answer else ""
            said = ", ".join(part for part in (answer.get("verdict", "") + scope, changed, answer.get("text", "")) if part)
            return f": {_beginning(said)}"
    return ""


def repair_told(found: Raw) -> str:
    """What a repair changed in an answer, or why there was none."""
    return f"none: {found['refused']}" if "refused" in found else "; ".join(found["changes"])


def _beginning(text: str) -> str:
    return cut(" ".join(text.split()), _WORDS_SHOWN)


def place_of(event: Raw) -> tuple[Address, ...]:
    """The firing or activation that an event belongs to, inside of those that it lies in; empty: to the run as a whole."""
    inside, event = unwrapped(event)
    key = event.get("activation") or event.get("firing") or event.get("key") or ""
    own = (Address(str(event["step"]), event.get("round")),) if "step" in event else address_of(str(key))
    return (*address_of(inside), *own)


def step_of(event: Raw) -> str | None:
    """The step that an event belongs to, `write/draft` inside of a sub-SOP; None where it belongs to the run as a whole."""
    return "/".join(part.step for part in place_of(event)) or None


def readers(program: Raw) -> dict[str, list[str]]:
    """Artifact → the steps that read it, from a stored program (its plain JSON); `write/text` for what a step that is a SOP
    makes inside.
    """
    found: dict[str, list[str]] = {}
    for name, step in program.get("sop", {}).get("steps", {}).items():
        entries = [entry for key in ("needs", "wants", "sees") for entry in step.get(key, ())]
        for artifact in dict.fromkeys(entry.partition(".")[0] for entry in entries):
            found.setdefault(artifact, []).append(name)
        inner = readers(program.get("sops", {}).get(step.get("sop"), {}))
        found.update((f"{name}/{artifact}", steps) for artifact, steps in inner.items())
    return found


def steps_of(program: Raw) -> list[str]:
    """The steps of a stored program by name, those of its sub-SOPs as `write/draft`."""
    found: list[str] = []
    for name, step in program.get("sop", {}).get("steps", {}).items():
        found += [name, *(f"{name}/{one}" for one in steps_of(program.get("sops", {}).get(step.get("sop"), {})))]
    return [*found, LOOK] if program.get("sop", {}).get("progress") else found


def models_told(models: Mapping[str, str]) -> str:
    """Who is asked: `dry`, or `dry, strong=python:…`."""
    return ", ".join(model if name in ("*", "default") else f"{name}={model}" for name, model in models.items())


def sandbox_told(sandbox: str) -> str:
    """Where commands run; nothing where a run has none."""
    return {"": "", "none": "commands unconfined"}.get(sandbox, f"commands in {sandbox}")


def _opened(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    models = models_told(event.get("models", {}))
    confined = f", {sandbox_told(event['sandbox'])}" if event.get("sandbox") else ""
    until = f", until {event['until']}" if event.get("until") else ""
    reuse = f", reusing {event['reused_from']}" if event.get("reused_from") else ""
    return event["run"], f"begins {event['entry']}{f' with {models}' if models else ''}{confined}{until}{reuse}"


def _resumed(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    forked = f", forked from {event['forked_from']}" if event.get("forked_from") else ""
    changed = f", with {amount(len(event['changes']), 'change')} of its SOP: {listed(event['changes'])}" if event.get(
        "changes") else ""
    confined = f", {sandbox_told(event['sandbox'])}" if event.get("sandbox") else ""
    replaced = f", with {listed(event['replaced'])}" if event.get("replaced") else ""
    return "run", f"goes on{confined}{forked}{changed}{replaced}"


def _fired(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    read = [f"{name}@{number}" if number else f"no {name}" for name, number in event.get("read", {}).items()]
    items = "" if event.get("items") is None else f", for {amount(len(event['items']), 'item')}: {listed(event['items'])}"
    if event.get("items") == []:
        items = ", for no item"
    return f"{event['step']}@{event['round']}", f"starts{' on ' + ', '.join(read) if read else ''}{items}"


def _reserved(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    again = f", try {event['try'] + 1}" if event.get("try") else ""
    cost = f", {dollars(event['cost'])}" if event.get("cost") else ""
    return spoken(event["key"]), (f"{event.get('role') or 'it'} asks {event['model']} "
                                   f"(at most {event['tokens']:,} tokens{cost}{again})")


def _settled(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    cost = f", {money(event['cost'], event.get('estimated', False))}" if event.get("cost") else ""
    if event.get("error"):
        wait = f" in {duration(event['wait'])}" if event.get("wait") else ""
        again = f", tries again{wait}" if event.get("again") else ""
        return spoken(event["key"]), f"no answer{again}{cost}: {event['error']}"
    cached = f", {event['tokens_cached']:,} of them cached" if event.get("tokens_cached") else ""
    return spoken(event["key"]), (f"is answered ({event.get('tokens_in', 0):,} tokens in{cached}, "
                                   f"{event.get('tokens_out', 0):,} out{cost})")


def _observed(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    seconds = f" in {duration(event['seconds'])}" if event.get("seconds") else ""
    if event["key"].endswith(REPAIRED):
        return spoken(event["key"].removesuffix(REPAIRED)), "repair of its answer"
    if is_check(event["key"]):
        return spoken(event["key"].rpartition("/")[0]), f"its check ran{seconds}"
    told = f"learns what tools it has{seconds}" if _lists_tools(event) else f"ran{seconds}"
    return spoken(event["key"].removesuffix("/tools")), told


def _lists_tools(event: Raw) -> bool:
    """Whether it was servers and services that were asked what they offer: the activation's key, or a call's, and `/tools`."""
    return bool(event["key"].endswith("/tools"))


def _decided(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    words = {"allow": "may", "ask": "needs approval for", "deny": "may not"}[event["verdict"]]
    return spoken(event["key"]), f"{words} {event['action']}: {event['rule']}"


def _intended(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    if event.get("taken"):
        return spoken(event["key"]), f"does not call {event['tool']}: takes what {event['taken']['source']} gave"
    return spoken(event["key"]), f"calls {event['tool']}"


def _done(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    how = "staged" if event.get("staged") else "an error" if event.get("error") else "done"
    source = f"; {event['untrusted']}" if event.get("untrusted") else ""
    return spoken(event["key"]), f"{how}{source}"


def _asked(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    why = f" anew: {event['why']}" if event.get("why") else ""
    return spoken(event["key"]), f"asks a person{why}"


_BY = {"terminal": "at the terminal", "answer": "with `sop answer`", "--yes": "by `--yes`"}


def _answered(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    by = event.get("by", "")
    if by == "assumed":
        return spoken(event["key"]), "nobody answers: goes on with an assumption"
    return spoken(event["key"]), f"is answered {_BY.get(by, f'by {by}' if by else '')}".rstrip()


def _finished(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    if event.get("reused_from"):
        return spoken(event["activation"]), f"taken over from {event['reused_from']}"
    why = f"; anew, since {listed([_reason(part) for part in event['why']])}" if event.get("why") else ""
    assumed = f"; assumed: {listed(list(event['assumed']))}" if event.get("assumed") else ""
    return spoken(event["activation"]), f"is done in {duration(event.get('seconds', 0.0))}{assumed}{why}"


_PARTS = {"step": "its step changed", "policy": "what the SOP's policy allows changed", "role": "its role changed",
          "model": "its model is another", "memory": "its role remembers something else", "item": "its item changed",
          "round": "its round is another", "run": "the run's name or inputs differ",
          "untrusted": "what it reads is trusted otherwise", "unlifted": "what it remembers is trusted otherwise",
          "given": "the value given for it differs", "dry": "one of the two runs was dry"}


def _reason(part: str) -> str:
    """Why an activation was not taken over, from the name of the part that differs (`engine/attempts.py`)."""
    kind, _, name = part.partition(":")
    if not name:
        return _PARTS.get(part, part)
    return {"after": f"what {name!r} made changed", "history": f"earlier versions of {name} differ"}.get(kind, f"{name} changed")


def _failed(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    word = "stops the run" if event.get("stops") else "failed for good" if event.get("final") else "failed, tries again"
    return spoken(event["activation"]), f"{word}: {event['error']}"


def _committed(event: Raw, read_by: Mapping[str, list[str]]) -> tuple[str, str]:
    told = []
    for version in event.get("versions", ()):
        names = read_by.get(version["artifact"], [])
        told.append(f"{version['artifact']}@{version['number']}{_untrusted(version)}{' for ' + listed(names) if names else ''}")
    reused = event.get("reused", ())
    kept = f" ({amount(len(reused), 'item')} unchanged)" if reused else ""
    if event.get("firing") is None:
        return "given", ", ".join(told) or "nothing"
    return event["firing"], (f"makes {'; '.join(told)}" if told else "makes nothing new") + kept


def _documented(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    return "documents", f"of {event['artifact']}@{event['number']} are made anew"


def _untrusted(said: Raw) -> str:
    """What of a version or a message came from outside the user."""
    return f" (untrusted: {said['untrusted']})" if said.get("untrusted") else ""


def _sent(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    return event["sender"], f"writes to {event.get('to') or 'all'}{_untrusted(event)}"


def _ended(event: Raw, _: Mapping[str, list[str]]) -> tuple[str, str]:
    word = OUTCOMES[event["outcome"]]
    return "run", f"ends: {word}{'; ' + event['reason'] if event.get('reason', '') not in ('', word) else ''}"


OUTCOMES = {"success": "success", "failure": "no success", "stopped": "stopped", "interrupted": "interrupted",
            "until": "at the step asked for", "waiting": "a person has to answer", "budget": "a cap is reached",
            "endpoint": "no model answers", "running": "running", "killed": "killed", "damaged": "damaged"}
"""How a run stands → in words."""

_WORDS: dict[str, Callable[[Raw, Mapping[str, list[str]]], tuple[str, str]]] = {
    "run_opened": _opened, "resumed": _resumed, "fired": _fired, "reserved": _reserved, "settled": _settled,
    "observed": _observed, "decided": _decided, "intended": _intended, "done": _done, "asked": _asked, "answered": _answered,
    "finished": _finished, "failed": _failed, "committed": _committed, "documented": _documented, "sent": _sent,
    "run_ended": _ended,
}


def spoken(key: str) -> str:
    """A key as people read it: the item as it was written, and no attempt where it is the first."""
    inner = split_inner(key)
    if inner is not None:
        return f"{spoken(inner[0])}/{spoken(inner[1])}"
    head, slash, call = key.partition("/") if "]" not in key else _after_item(key)
    return unquote(head.removesuffix("~0")) + slash + call


def _after_item(key: str) -> tuple[str, str, str]:
    item, bracket, rest = key.rpartition("]")
    attempt, slash, call = rest.partition("/")
    return item + bracket + attempt, slash, call


def full(event: Raw, blob: Callable[[str], Any], page: Page) -> Iterator[str]:
    """What was said and made, word for word, indented under its line. `blob` gives the JSON stored under a digest."""
    _, event = unwrapped(event)
    for title, text in _said(event, blob):
        if title:
            yield page.paint(f"    {safe(title)}", "cyan")
        for line in safe(text, lines=True).splitlines() or [""]:
            yield f"      {line}".rstrip()


def _said(event: Raw, blob: Callable[[str], Any]) -> Iterator[tuple[str, str]]:
    match event["kind"]:
        case "reserved":
            yield from _messages(blob(event["request"]))
        case "settled" if event.get("reply"):
            yield from _reply(blob(event["reply"]), embeds=EMBED in event["key"])
        case "observed" if _lists_tools(event):
            for tool in blob(event["payload"])["value"]:
                yield "", f"{tool['name']}: {' '.join(tool['description'].split())}"
        case "observed" | "finished" | "sent" | "intended" | "done":
            yield "", _payload(blob(event["arguments" if event["kind"] == "intended" else "payload"]))
            if event.get("patch"):
                yield "writes", _payload(blob(event["patch"]))
        case "committed":
            for version in event.get("versions", ()):
                yield f"{version['artifact']}@{version['number']}", _payload(blob(version["payload"]))
        case "asked":
            yield from _question(blob(event["question"]))
        case "answered":
            yield from _answer(blob(event["answer"]))
        case "resumed" | "failed":
            yield from ((title, text) for title, text in (
                ("traceback", event.get("trace")), ("", "\n".join(event.get("changes", ())))) if text)


def _messages(request: Raw) -> Iterator[tuple[str, str]]:
    for message in request["messages"]:
        calls = _json(message["calls"]) if message.get("calls") else ""
        yield message["role"], "\n".join(part for part in (message["content"], calls, *pictures.told(message)) if part)


def _reply(reply: Raw, *, embeds: bool) -> Iterator[tuple[str, str]]:
    if embeds:
        yield "answer", f"{amount(len(reply['value']), 'embedding')} (numbers, which nobody reads)"
    elif reply["text"] or not reply.get("calls"):
        yield "answer", reply["text"] if reply["text"] is not None else _json(reply["value"])
    for call in reply.get("calls", ()):
        given = call["arguments"]
        yield f"call of {call['name']}", given if isinstance(given, str) else _json(given)


def _question(question: Raw) -> Iterator[tuple[str, str]]:
    choices = [f"({' | '.join(question['choices'])})"] if question.get("choices") else []
    yield "", "\n".join([question.get("text", ""), *choices])
    if question.get("arguments"):
        yield "with", _json(question["arguments"])
    told = [question.get("rule", ""), f"read: {question['untrusted']}" if question.get("untrusted") else ""]
    if any(told):
        yield "why", "\n".join(part for part in told if part)


def _answer(answer: Raw) -> Iterator[tuple[str, str]]:
    scope = {"run": ", and so every equal one in this run", "rule": ", and so all that the rule covers"}
    said = answer.get("verdict", "") + scope.get(answer.get("scope", ""), "")
    yield "", "\n".join(part for part in (said, answer.get("text", "")) if part)
    if answer.get("arguments") is not None:
        yield "with", _json(answer["arguments"])


def _payload(stored: Any) -> str:
    """A stored payload in short: data as it is; of files and collections the paths and keys."""
    match stored:
        case {"kind": "data", "value": value}:
            return value if isinstance(value, str) else _json(value)
        case {"kind": "files", "files": files}:
            return "\n".join(files) or "no file"
        case {"kind": "patch", "written": written, "deleted": deleted}:
            return "\n".join([*written, *(f"deleted: {path}" for path in deleted)]) or "no file"
        case {"kind": "collection", "items": items}:
            return "\n".join(key for key, _ in items) or "no item"
        case _:
            return _json(stored)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
