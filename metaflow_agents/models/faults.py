"""How a try at a model call can fail over the wire, and what follows from it."""

from __future__ import annotations

from typing import Literal

from metaflow_agents.schema.event import Trouble

Then = Literal["again", "fail", "stop"]


class CallFailed(Exception):
    """One try at a call gave no reply. Models with an endpoint raise it; whoever asked journals it and decides.

    `then`: `again` where another try may help; `fail` where this attempt of the activation has failed; `stop` where every
    other call would fail in the same way (a wrong key, an unknown model): the run stops, and can be resumed.
    `charged`: tokens that the endpoint surely bills, 0 where it refused the request; None where nobody knows: the worst
    case is charged. `refused`: the endpoint did not take the request up at all, so that it is no call.
    `after`: seconds that the endpoint asked to wait. `busy`: it was refused for its rate, which concerns every other call too.
    `silent`: the endpoint said nothing for too long.
    """

    def __init__(self, told: str, *, then: Then, charged: int | None, after: float | None = None, refused: bool = False,
                 busy: bool = False, silent: bool = False) -> None:
        self.told, self.then, self.charged = told, then, charged
        self.after, self.refused, self.busy, self.silent = after, refused, busy, silent
        super().__init__(told)

    @property
    def trouble(self) -> Trouble:
        """What it was, in the journal's word."""
        return "rate" if self.busy else "silence" if self.silent else "refused" if self.refused else "failed"
