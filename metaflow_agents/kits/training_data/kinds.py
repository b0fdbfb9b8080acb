"""The data sets, each filtered as its paper filters, as far as a journal can tell.

Sources: `finetune`: Zelikman et al., "STaR" (NeurIPS 2022) and Patil et al., "Gorilla" (2023): answers that were right, with
what was retrieved in the prompt. `tool_calls`: Parisi et al., "TALM" (2022): conversations whose outcome was right; the filter of
Schick et al., "Toolformer" (NeurIPS 2023), by how much a call's result lowers the model's loss, needs that model, and no journal
holds it. `hindsight`: Liu et al., "Chain of Hindsight" (ICLR 2024): answers with what was said of them, the better last.
`episodes`: Laskin et al., "Algorithm Distillation" (ICLR 2023): whole histories of learning, in order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from metaflow_agents.kits.training_data.lived import RecordedActivation, chat
from metaflow_agents.schema.model import canonical

_SECRET = re.compile(r"\[secret [A-Za-z_]\w*\]")
_FEWEST = 2                         # episodes of a history of learning

Line = dict[str, Any]


@dataclass(slots=True)
class DataSet:
    """The lines of a data set, and how many activations were left out, by reason."""

    lines: list[Line] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def dataset(kind: str, lived: Iterable[RecordedActivation], *, untrusted: bool = False) -> DataSet:
    """The data set of that kind (one of `KINDS`). `untrusted`: with what came from outside the user.

    What a tool redacted as a secret leaves its conversation out in any case.
    """
    made, clean = DataSet(), []
    for one in lived:
        if one.untrusted and not untrusted:
            made.left_out["from outside the user"] += 1
        elif _holds_secret(one):
            made.left_out["held a secret"] += 1
        else:
            clean.append(one)
    made.lines += KINDS[kind](clean, made.left_out)
    return made


def _finetune(lived: list[RecordedActivation], left_out: Counter[str]) -> Iterator[Line]:
    """Prompt and accepted answer of activations of runs that ended well."""
    for one in lived:
        if _right(one, left_out) and one.asked is not None and one.last is not None:
            yield _line([*chat(one.asked.messages), _answer(one.last.reply.said)], one.asked.tools)


def _tool_calls(lived: list[RecordedActivation], left_out: Counter[str]) -> Iterator[Line]:
    """Conversations with tool calls that all went well, and led to an accepted answer in a run that ended well."""
    for one in lived:
        last = one.last
        if last is None or not any(message.get("calls") for message in last.messages):
            left_out["called no tool"] += 1
        elif one.failed:
            left_out["a call was refused or failed"] += 1
        elif _right(one, left_out):
            yield _line([*chat(last.messages), _answer(last.reply.said)], last.tools)


def _hindsight(lived: list[RecordedActivation], left_out: Counter[str]) -> Iterator[Line]:
    """Answers to one prompt, the worse before the better: those that were turned down, each with what was said of it, then the
    one that was taken.
    """
    for one in lived:
        if one.asked is None or one.last is None or not one.turned_down:
            left_out["no answer was turned down"] += 1
            continue
        messages = chat(one.asked.messages)
        for answer, told in one.turned_down:
            messages += [_answer(answer), {"role": "user", "content": told}]
        yield _line([*messages, _answer(one.last.reply.said)], one.asked.tools)


def _episodes(lived: list[RecordedActivation], left_out: Counter[str]) -> Iterator[Line]:
    """Of each step and item, its attempts and rounds in the order in which they happened, each with its outcome; histories that
    end better than they began.
    """
    histories: dict[tuple[tuple[str, str | None], ...], list[RecordedActivation]] = {}
    for one in lived:
        histories.setdefault(one.place, []).append(one)
    for history in histories.values():
        if len(history) < _FEWEST or not history[-1].accepted or history[0].accepted:
            left_out["no history that gets better"] += len(history)
            continue
        messages = [*chat((history[0].asked or history[0].calls[0]).messages), _tried(history[0])]
        for before, one in pairwise(history):
            own = chat((one.asked or one.calls[0]).messages)[-1]
            messages += [{**own, "content": f"{_outcome(before)}\n\n{own['content']}"}, _tried(one)]
        yield _line(messages, ())


KINDS: Mapping[str, Callable[[list[RecordedActivation], Counter[str]], Iterator[Line]]] = {
    "finetune": _finetune, "tool_calls": _tool_calls, "hindsight": _hindsight, "episodes": _episodes}
"""Kind → what makes its lines of what an activation went through."""


def _right(one: RecordedActivation, left_out: Counter[str]) -> bool:
    if not one.accepted:
        left_out["its answer was not taken"] += 1
    elif not one.succeeded:
        left_out["its run did not end with success"] += 1
    elif one.asked is None:
        left_out["no single answer became its artifact"] += 1
    else:
        return True
    return False


def _outcome(one: RecordedActivation) -> str:
    return "The last answer was taken." if one.accepted else f"The last answer was not taken: {one.error}"


def _tried(one: RecordedActivation) -> Line:
    """What an attempt came to say: its accepted answer, or its last one."""
    return _answer((one.last or one.calls[-1]).reply.said)


def _holds_secret(one: RecordedActivation) -> bool:
    told = (message for call in one.calls for message in (*call.messages, call.reply.message))
    return any(_SECRET.search(canonical(dict(message)).decode()) for message in told)


def _answer(text: str) -> Line:
    return {"role": "assistant", "content": text}


def _line(messages: list[Line], tools: Iterable[Mapping[str, Any]]) -> Line:
    told = [{"type": "function", "function": dict(tool)} for tool in tools]
    return {"messages": messages, **({"tools": told} if told else {})}
