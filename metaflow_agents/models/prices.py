"""What models cost: the `price:` that a person wrote, else the published price, from data that genai-prices brings along.

Nothing is asked over the network. The data takes a quarter of a second to load and is loaded when a price is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from metaflow_agents.models.pricing import PICO, Flat, Tariff, rounded
from metaflow_agents.schema.endpoint import Price

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

OPENAI = "https://api.openai.com/v1"
"""The endpoint where none is named."""
_NONE: Mapping[str, Any] = MappingProxyType({})
_CHEAPER = ("auto", "default", "standard", "flex")      # service tiers that cost no more than the plain price
_DAY = timedelta(days=1)                                # no call takes longer
_ALWAYS = -1                                            # tokens that every request has more of


def tariff_for(name: str, endpoint: str | None, price: Price | None, parameters: Mapping[str, Any] = _NONE, *,
               embeds: bool = False) -> Tariff | None:
    """What a model costs at an endpoint (a base URL; None: OpenAI's own); None where nobody knows.

    `price` wins. `parameters` go with every request: a `service_tier` has a price of its own. `embeds`: what embedding with it
    costs, where nothing comes out that is paid for.
    """
    if price is not None:
        return Flat.of(price)
    if endpoint is not None and _private(endpoint):
        return None
    from genai_prices.data_snapshot import get_snapshot

    try:
        provider, info = get_snapshot().find_provider_model(name, None, None, endpoint or OPENAI)
    except LookupError:
        return None
    own = any(info is model for model in provider.models)       # else another provider's, sold on: its variants are not there
    variants = (info.price_variants or []) if own else []
    tier = parameters.get("service_tier", "default")
    if tier not in _CHEAPER and not any(variant.when.get("service_tier") == tier for variant in variants):
        return None                             # dearer than the plain price, and nobody knows by how much
    context = {key: value for key, value in parameters.items() if isinstance(value, str)} if variants else {}
    now = _sheet(info, info.get_prices(datetime.now(UTC), context), embeds=embeds)
    return None if now is None else Published(info, context, now, embeds=embeds)


@dataclass(frozen=True, slots=True)
class Rates:
    """Picodollars a token for requests of more than `above` tokens; all tokens of such a request cost that."""

    above: int
    in_: int
    out: int
    cached: int

    def cost(self, tokens_in: int, tokens_out: int, cached: int) -> int:
        """Of one request."""
        return (tokens_in - cached) * self.in_ + cached * self.cached + tokens_out * self.out


@dataclass(frozen=True, slots=True)
class Sheet:
    """The prices of one moment: by the length of the request, the shortest first; `request` picodollars for itself."""

    tiers: tuple[Rates, ...]
    request: int

    def cost(self, tokens_in: int, tokens_out: int, cached: int) -> int:
        """Of one request."""
        tier = next(tier for tier in reversed(self.tiers) if tokens_in > tier.above)
        return tier.cost(tokens_in, tokens_out, min(cached, tokens_in)) + self.request

    def worst(self, tokens_in: int, tokens_out: int) -> int:
        """Of any request with at most so many tokens: a shorter one may be the dearer, as may a cached token."""
        return max(tokens_in * max(tier.in_, tier.cached) + tokens_out * tier.out
                   for tier in self.tiers if tokens_in > tier.above) + self.request


class Published:
    """A published price, which may depend on the length of a request, the day and the hour."""

    def __init__(self, info: ModelInfo, context: Mapping[str, str], first: Sheet, *, embeds: bool = False) -> None:
        self._info, self._context, self._first, self._embeds = info, context, first, embeds
        self._constraints = _constraints(info)

    def cost(self, tokens_in: int, tokens_out: int, cached: int = 0) -> int:
        """See `Tariff.cost`. Reasoning costs as the rest of the answer."""
        return self._at(datetime.now(UTC)).cost(tokens_in, tokens_out, cached)

    def worst(self, tokens_in: int, tokens_out: int) -> int:
        """See `Tariff.worst`: by the prices of now and of whatever changes until the call has surely ended."""
        return max(self._at(moment).worst(tokens_in, tokens_out) for moment in self._moments(datetime.now(UTC)))

    def _at(self, moment: datetime) -> Sheet:
        if not self._constraints:
            return self._first
        return _sheet(self._info, self._info.get_prices(moment, self._context), embeds=self._embeds) or self._first

    def _moments(self, now: datetime) -> Iterator[datetime]:
        """Now, and each moment of the day to come at which the price may change."""
        yield now
        for constraint in self._constraints:
            if hasattr(constraint, "start_date"):
                starts = datetime.combine(constraint.start_date, time(), UTC)
                if now < starts <= now + _DAY:
                    yield starts
            else:
                for hour in (constraint.start_time, constraint.end_time):
                    at = datetime.combine(now.date(), hour if hour.tzinfo else hour.replace(tzinfo=UTC)).astimezone(UTC)
                    yield at + _DAY * ((now - at) // _DAY + 1)


def _private(endpoint: str) -> bool:
    """Whether an endpoint is on this machine or in a local network: nobody publishes its price, and no data need be loaded."""
    host = urlsplit(endpoint).hostname or ""
    return "." not in host or host.endswith((".local", ".lan", ".internal")) or host.replace(".", "").isdigit()


def _constraints(info: ModelInfo) -> tuple[Any, ...]:
    """What decides when each price of a model holds."""
    written = info.prices if isinstance(info.prices, list) else []
    every = [one.constraint for one in (*written, *(info.price_variants or ()))]
    return tuple(one for one in every if one is not None)


def _sheet(info: ModelInfo, prices: ModelPrice, *, embeds: bool) -> Sheet | None:
    """A model's prices as whole picodollars; None where tokens are not all that a plain call of it is paid for."""
    out = Decimal(0) if embeds and prices.output_mtok is None else prices.output_mtok
    if prices.input_mtok is None or out is None or prices.output_citation_mtok is not None:
        return None
    # Where caching needs no asking, a token that is not read from the cache may be written to it, which no usage block tells.
    writes = None if "claude" in info.id else prices.cache_write_mtok
    keys = {"in": (prices.input_mtok, writes), "out": (out, prices.output_reasoning_mtok),
            "cached": (prices.cache_read_mtok if prices.cache_read_mtok is not None else prices.input_mtok,)}
    starts = {_ALWAYS} | {tier.start for row in keys.values() for price in row for tier in getattr(price, "tiers", ())}
    tiers = []
    for above in sorted(starts):
        found = {key: max(_price(price, above) for price in row if price is not None) for key, row in keys.items()}
        tiers.append(Rates(above, rounded(found["in"]), rounded(found["out"]), rounded(found["cached"])))
    thousand = prices.requests_kcount
    return Sheet(tuple(tiers), 0 if thousand is None else int(_price(thousand, _ALWAYS) * PICO / 1000))


def _price(price: Any, above: int) -> Decimal:
    """US dollars for a million tokens of a request that is longer than `above`."""
    if isinstance(price, Decimal):
        return price
    found: Decimal = next((tier.price for tier in reversed(price.tiers) if above >= tier.start), price.base)
    return found
