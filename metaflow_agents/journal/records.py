"""Single facts in the state of a run: a version, an item's result, a tool call, a model call, what was spent."""

from __future__ import annotations

from dataclasses import dataclass, fields

from metaflow_agents.schema.event import Done, Intended, Reserved, Settled


@dataclass(frozen=True, slots=True)
class Made:
    """A version of an artifact: its number, its payload's digest, and the firing that made it (None: given)."""

    number: int
    payload: str
    firing: str | None
    untrusted: str = ""                                           # `schema/trust.py`; empty: nothing of it is from outside


@dataclass(frozen=True, slots=True)
class Result:
    """What an item of a firing gave: its payload, and the digest by which it is reused.

    `before` are the payloads that it gave when its step fired earlier: the files that they wrote are still its own.
    """

    payload: str
    digest: str
    before: tuple[str, ...] = ()
    untrusted: str = ""
    assumed: tuple[str, ...] = ()


@dataclass(slots=True)
class Act:
    """A tool call: intended, and what came of it (None: nobody knows, it is under way or a crash cut it off).

    `times`: how often it was intended. Once more means that what was cut off before had not happened.
    """

    intended: Intended
    done: Done | None = None
    times: int = 1

    @property
    def stands(self) -> bool:
        """Whether its effect may not happen again and has happened, or may have."""
        done = self.done
        return self.intended.effect == "once" and (done is None or not (done.error or done.refused or done.staged))

    @property
    def doubt(self) -> str:
        """The key of the question whether what was cut off this time has happened: another one each time."""
        return f"{self.intended.key}/happened" + (f".{self.times}" if self.times > 1 else "")


@dataclass(slots=True)
class Call:
    """A model call: the digest of what was asked, and what came back."""

    digest: str
    role: str
    try_: int
    worst: int
    worst_cost: int = 0                                            # picodollars
    unpriced: bool = False                                         # nobody knows what it costs
    reply: str | None = None
    failure: str | None = None                                     # why the attempt fails; it is not asked a second time
    request: str = ""                                              # what was asked, by digest


@dataclass(slots=True)
class Spending:
    """Calls, tokens and money: what was answered, and beside it what was reserved and is not answered, at its worst case.

    A call is not answered while it is under way, or when its process died meanwhile: it stays charged against the caps.
    """

    calls: int = 0
    tokens: int = 0
    out: int = 0                                                   # of these tokens, those of answers
    cached: int = 0                                                # of those in, what endpoints had cached
    cost: int = 0                                                  # picodollars (10⁻¹² US dollars)
    estimated: int = 0                                             # of these, settled at no more than an upper bound
    unpriced: int = 0                                              # calls that cost money, nobody knows how much
    open_calls: int = 0                                            # reserved and not answered
    open_tokens: int = 0
    open_cost: int = 0                                             # picodollars

    @property
    def charged(self) -> tuple[int, int, int]:
        """Calls, tokens and picodollars that stand against the caps."""
        return self.calls + self.open_calls, self.tokens + self.open_tokens, self.cost + self.open_cost

    def reserve(self, event: Reserved) -> None:
        """A call is about to be sent."""
        self.open_calls += 1
        self.open_tokens += event.tokens
        self.open_cost += event.cost
        self.unpriced += event.unpriced

    def settle(self, event: Settled, tokens: int, cost: int, *, unpriced: bool) -> None:
        """A call that was reserved at so many tokens and picodollars came back, or failed."""
        self.open_calls -= 1
        self.open_tokens -= tokens
        self.open_cost -= cost
        self.calls += event.calls
        self.tokens += event.tokens_in + event.tokens_out
        self.out += event.tokens_out
        self.cached += event.tokens_cached
        self.cost += event.cost
        self.estimated += event.cost * event.estimated
        self.unpriced -= unpriced and not event.calls

    def __add__(self, other: Spending) -> Spending:
        return Spending(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def __sub__(self, other: Spending) -> Spending:
        return Spending(*(getattr(self, one.name) - getattr(other, one.name) for one in fields(self)))
