"""Questions to people, with all that is needed to decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metaflow_agents.questions.answering import WANTS, wanted
from metaflow_agents.questions.inbox import Open
from metaflow_agents.views.event_log import spoken
from metaflow_agents.views.questions import ways

_LONGEST = 20_000                   # characters of one text of a question


def question_json(one: Open, where: str = "") -> dict[str, Any]:
    """One open question. `ways`: the commands that answer it; `where`: the option that names the workspace. Texts longer than
    20,000 characters are cut, which `cut` says; `sop inbox RUN NUMBER` has all of it.
    """
    asked = one.question
    texts = {"text": asked.text, "action": asked.action, "rule": asked.rule, "untrusted": asked.untrusted}
    return {
        "run": one.run, "number": one.number, "key": asked.key, "place": spoken(asked.key), "step": asked.step,
        "role": asked.role, "kind": asked.kind, **{name: text[:_LONGEST] for name, text in texts.items()},
        "tool": asked.tool, "arguments": _bounded(asked.arguments), "choices": list(asked.choices), "default": asked.default,
        "answer_schema": asked.answer_schema, "wants": wanted(asked) if asked.kind == "text" or asked.needs_result
        else WANTS[asked.kind], "needs_result": asked.needs_result, "effect": asked.effect, "assumption": asked.assumption,
        "on_no_answer": asked.on_no_answer, "earlier": asked.earlier, "at": one.at, "why": one.why, "given": one.given,
        "cut": any(len(text) > _LONGEST for text in texts.values()) or _bounded(asked.arguments) != asked.arguments,
        "ways": ways(one, where)}


def _bounded(value: Any) -> Any:
    match value:
        case str():
            return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
        case list():
            return [_bounded(one) for one in value]
        case Mapping():
            return {str(name): _bounded(one) for name, one in value.items()}
    return value
