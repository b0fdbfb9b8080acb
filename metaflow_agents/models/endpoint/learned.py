"""What the process has found out about a model at an endpoint: what it refused once is not asked for again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

Form = Literal["strict", "schema", "json", "none"]
FORMS: tuple[Form, ...] = get_args(Form)
_TOLD: dict[Form, str] = {
    "strict": "strict JSON schema", "schema": "JSON schema", "json": "JSON mode", "none": "instructions in the prompt"}


@dataclass(slots=True)
class Learned:
    """`form`: the best way to ask for structured answers that was not refused; `schemas` the same for single schemas.

    `tools`: how it is told of tools; `tools_with_form`: it takes them together with a form of the answer; `parallel_calls`: it
    knows `parallel_tool_calls`. `length` is the name of the parameter that bounds an answer; `usage` whether streams may be
    asked for their counts; `stream` and `stream_with_tools`: it streams its answers, and where it is told of tools as well;
    `uncounted_stream` and `uncounted_whole`: an answer came without counts, streamed or in one piece; `answered` whether it ever
    answered at all; `unreached` how often in a row nobody was there; `refused` what it said.
    """

    form: Form = "strict"
    schemas: dict[str, Form] = field(default_factory=dict)
    tools: Literal["native", "text"] = "native"
    tools_with_form: bool = True
    parallel_calls: bool = True
    length: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    usage: bool = True
    stream: bool = True
    stream_with_tools: bool = True
    uncounted_stream: bool = False
    uncounted_whole: bool = False
    answered: bool = False
    unreached: int = 0
    refused: list[str] = field(default_factory=list)

    def form_for(self, schema: str, best: Form) -> Form:
        """The way to ask for answers of one schema (its fingerprint); `best`: what the schema itself allows."""
        return max(best, self.form, self.schemas.get(schema, "strict"), key=FORMS.index)

    def streams(self, *, tools: bool) -> bool:
        """Whether an answer is asked for in a stream, which shows that the endpoint is at work, so that silence means something.

        Who tells counts in whole answers alone is asked for these: without counts a call costs its worst case.
        """
        if not self.stream or (tools and not self.stream_with_tools):
            return False
        return not self.uncounted_stream or self.uncounted_whole

    def heard(self, *, streamed: bool, counted: bool) -> None:
        """An answer came, with its counts or without."""
        if streamed:
            self.uncounted_stream = not counted
        else:
            self.uncounted_whole = not counted

    def told(self) -> str:
        """A line for people: `structured answers by JSON mode; max_tokens`."""
        known = f"structured answers by {_TOLD[self.form]}{'' if self.tools == 'native' else '; tools in the text form'}"
        return known if self.length == "max_completion_tokens" else f"{known}; longest answer as `max_tokens`"


_KNOWN: dict[tuple[str, str], Learned] = {}


def learned(url: str, model: str) -> Learned:
    """What is known of a model at a base URL, in this process."""
    return _KNOWN.setdefault((url, model), Learned())


def everything() -> dict[tuple[str, str], Learned]:
    """All that was found out so far: (base URL, model) → what."""
    return dict(_KNOWN)


def weaker(form: Form) -> Form:
    """The next way to ask, once one was refused."""
    return FORMS[min(FORMS.index(form) + 1, len(FORMS) - 1)]


def named(form: Form) -> str:
    """A way to ask, for people."""
    return _TOLD[form]
