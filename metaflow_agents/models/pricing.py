"""What a call costs, in picodollars (10⁻¹² US dollars): whole numbers, so that sums are exact and a cap is a cap."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from metaflow_agents.schema.endpoint import Price

PICO = 10**12                       # picodollars in a US dollar


class Tariff(Protocol):
    """The prices of one model."""

    def cost(self, tokens_in: int, tokens_out: int, cached: int = 0) -> int:
        """Picodollars for a call; `cached` of the tokens in came from the endpoint's cache."""
        ...

    def worst(self, tokens_in: int, tokens_out: int) -> int:
        """No call with at most so many tokens costs more."""
        ...


@dataclass(frozen=True, slots=True)
class Flat:
    """One price a token each way, in picodollars, whatever the length."""

    in_: int
    out: int
    cached: int

    @classmethod
    def of(cls, price: Price) -> Flat:
        """The tariff of a written price."""
        cached = price.in_ if price.cached is None else price.cached
        return cls(rounded(price.in_), rounded(price.out), rounded(cached))

    def cost(self, tokens_in: int, tokens_out: int, cached: int = 0) -> int:
        """See `Tariff.cost`."""
        cached = min(cached, tokens_in)
        return (tokens_in - cached) * self.in_ + cached * self.cached + tokens_out * self.out

    def worst(self, tokens_in: int, tokens_out: int) -> int:
        """See `Tariff.worst`: a cached token may be the dearer one."""
        return tokens_in * max(self.in_, self.cached) + tokens_out * self.out


def rounded(a_million: float | Decimal) -> int:
    """US dollars for a million tokens as picodollars a token; rounded up: a journal never tells less than what is paid."""
    exact = Decimal(str(a_million)) * 10**6
    return int(exact.to_integral_value(rounding="ROUND_CEILING"))


def picodollars(usd: float) -> int:
    """US dollars as they were written, as picodollars; a cap is never more than what was written."""
    return int((Decimal(str(usd)) * PICO).to_integral_value(rounding="ROUND_FLOOR"))


def at_least(cost: int) -> str:
    """Picodollars as a number of US dollars to be written as a cap: no less, and no longer than needed."""
    amount = Decimal(cost) / PICO
    return format(amount.quantize(Decimal(1).scaleb(min(-2, amount.adjusted() - 2)), rounding="ROUND_CEILING"), "f")


def exact(cost: int) -> str:
    """Picodollars as a number of US dollars, to the last of them: what a person wrote as a cap."""
    amount = (Decimal(cost) / PICO).normalize()
    return format(amount.quantize(Decimal("0.01")) if amount == amount.quantize(Decimal("0.01")) else amount, "f")


def dollars(cost: int) -> str:
    """Picodollars as people read them: `$1.20`, `$0.0042`, `$0`."""
    if not cost:
        return "$0"
    amount = Decimal(cost) / PICO
    if amount >= 1:
        return f"${amount:,.2f}"
    return "$" + format(amount.quantize(Decimal(1).scaleb(amount.adjusted() - 1)), "f")
