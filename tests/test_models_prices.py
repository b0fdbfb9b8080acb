"""Prices: what a person writes, what is published, and that the worst case is one."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from datetime import time as hour
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from genai_prices import Usage, calc_price
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import (
    ClauseEquals,
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    StartDateConstraint,
    Tier,
    TieredPrices,
    TimeOfDateConstraint,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from metaflow_agents.models import prices
from metaflow_agents.models.prices import Published, tariff_for
from metaflow_agents.models.pricing import PICO, Flat, Tariff, dollars
from metaflow_agents.schema.endpoint import Price

ENDPOINTS = {
    "openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com/v1/", "openrouter": "https://openrouter.ai/api/v1",
    "google": "https://generativelanguage.googleapis.com/v1beta/openai/", "deepseek": "https://api.deepseek.com",
    "mistral": "https://api.mistral.ai/v1", "groq": "https://api.groq.com/openai/v1", "x-ai": "https://api.x.ai/v1",
    "perplexity": "https://api.perplexity.ai", "moonshotai": "https://api.moonshot.ai/v1"}


@cache
def known() -> list[tuple[str, str]]:
    """Endpoint and name of every model that has a price there. It takes seconds, so that no worker asks that does not need it."""
    return sorted((ENDPOINTS[provider.id], info.id) for provider in get_snapshot().providers if provider.id in ENDPOINTS
                  for info in provider.models if tariff_for(info.id, ENDPOINTS[provider.id], None) is not None)


KNOWN = st.deferred(lambda: st.sampled_from(known()))
tokens = st.integers(0, 3000) | st.integers(0, 1_500_000)


def published(endpoint: str, name: str, tokens_in: int, tokens_out: int, cached: int) -> Decimal:
    """What genai-prices itself says, in picodollars."""
    usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out, cache_read_tokens=cached)
    return calc_price(usage, name, provider_api_url=endpoint).total_price * PICO


def tariff(name: str, endpoint: str | None = None, **parameters: Any) -> Tariff:
    found = tariff_for(name, endpoint, None, parameters)
    assert found is not None
    return found


@pytest.mark.one_in(4)
def test_hundreds_of_models_have_a_price() -> None:
    assert len(known()) > 500 and {endpoint for endpoint, _ in known()} == set(ENDPOINTS.values())


@settings(max_examples=examples(400), deadline=None)
@given(KNOWN, tokens, tokens, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_worst_case_is_never_less_than_any_call_within_it_costs(
    model: tuple[str, str], most_in: int, most_out: int, share_in: float, share_out: float, cached: float
) -> None:
    found = tariff(model[1], model[0])
    tokens_in, tokens_out = int(most_in * share_in), int(most_out * share_out)
    from_cache = int(tokens_in * cached)
    cost = found.cost(tokens_in, tokens_out, from_cache)
    assert published(*model, tokens_in, tokens_out, from_cache) <= cost <= found.worst(most_in, most_out)


@settings(max_examples=examples(300), deadline=None)
@given(KNOWN, tokens, tokens, st.floats(0, 1))
def test_a_published_cost_is_exact_where_the_usage_block_says_all(
    model: tuple[str, str], tokens_in: int, tokens_out: int, cached: float
) -> None:
    info = get_snapshot().find_provider_model(model[1], None, None, model[0])[1]
    sheet = info.get_prices(datetime.now(UTC))
    if (sheet.cache_write_mtok is not None and "claude" not in info.id) or sheet.output_reasoning_mtok is not None:
        return                                          # an upper bound: see below
    from_cache = int(tokens_in * cached)
    cost = tariff(model[1], model[0]).cost(tokens_in, tokens_out, from_cache)
    rounding = tokens_in + tokens_out                   # less than a picodollar a token, where a price has that many digits
    assert 0 <= cost - published(*model, tokens_in, tokens_out, from_cache) <= rounding


def info(price: Any) -> ModelInfo:
    return ModelInfo(id="a-model", match=ClauseEquals("a-model"), prices=price)


def tariff_of(price: Any, monkeypatch: pytest.MonkeyPatch) -> Tariff:
    """The tariff of a model that is published with these prices."""
    class Snapshot:
        def find_provider_model(self, *_: Any) -> Any:
            made = info(price)
            return type("Provider", (), {"models": [made]}), made

    monkeypatch.setattr("genai_prices.data_snapshot.get_snapshot", Snapshot)
    return tariff("a-model")


def test_long_requests_cost_more_a_token_for_all_their_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tariff_of(ModelPrice(
        input_mtok=TieredPrices(Decimal(1), [Tier(200_000, Decimal(2))]), cache_read_mtok=Decimal("0.1"),
        output_mtok=TieredPrices(Decimal(5), [Tier(200_000, Decimal("7.5"))])), monkeypatch)
    assert found.cost(200_000, 1000) == 205_000 * 10**6
    assert found.cost(200_001, 1000, cached=100_000) == 100_001 * 2 * 10**6 + 100_000 * 10**5 + 7500 * 10**6
    assert found.worst(200_000, 1000) == found.cost(200_000, 1000)
    assert found.worst(200_001, 1000) == 400_002 * 10**6 + 7500 * 10**6


def test_a_longer_request_that_is_cheaper_does_not_lower_the_worst_case(monkeypatch: pytest.MonkeyPatch) -> None:
    price = TieredPrices(Decimal(4), [Tier(1000, Decimal(1))])
    found = tariff_of(ModelPrice(input_mtok=price, output_mtok=Decimal(1)), monkeypatch)
    assert found.worst(1001, 0) >= found.cost(1000, 0) > found.cost(1001, 0)


def test_a_token_that_may_be_written_to_the_cache_is_charged_as_if(monkeypatch: pytest.MonkeyPatch) -> None:
    price = ModelPrice(input_mtok=Decimal(4), cache_write_mtok=Decimal(5), cache_read_mtok=Decimal("0.4"), output_mtok=Decimal(9))
    assert tariff_of(price, monkeypatch).cost(1000, 0, 400) == 600 * 5 * 10**6 + 400 * 4 * 10**5


def test_where_writes_to_the_cache_are_asked_for_they_cost_nothing_as_nobody_asks() -> None:
    assert tariff("claude-sonnet-4-5", ENDPOINTS["anthropic"]).cost(1000, 0) == 1000 * 3 * 10**6


def test_reasoning_and_the_request_itself_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    price = ModelPrice(
        input_mtok=Decimal(1), output_mtok=Decimal(2), output_reasoning_mtok=Decimal(3), requests_kcount=Decimal(5))
    found = tariff_of(price, monkeypatch)
    assert found.cost(0, 10) == 30 * 10**6 + 5 * 10**9 == found.worst(0, 10)


@pytest.mark.parametrize("price", [
    ModelPrice(input_mtok=Decimal(1)), ModelPrice(output_mtok=Decimal(1)), ModelPrice(),
    ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(1), output_citation_mtok=Decimal(1)),
])
def test_a_model_that_is_not_paid_by_tokens_in_and_out_has_no_known_price(price: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        tariff_of(price, monkeypatch)


def test_hours_and_days_change_the_price_and_the_worst_case_looks_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(dollars_: int) -> ModelPrice:
        return ModelPrice(input_mtok=Decimal(dollars_), output_mtok=Decimal(dollars_))

    class Clock(datetime):
        at = datetime(2027, 3, 1, 10, tzinfo=UTC)

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.at

    monkeypatch.setattr(prices, "datetime", Clock)
    found = tariff_of([
        ConditionalPrice(prices=plain(1)), ConditionalPrice(StartDateConstraint(date(2027, 3, 3)), prices=plain(9)),
        ConditionalPrice(TimeOfDateConstraint(hour(22, tzinfo=UTC), hour(4, tzinfo=UTC)), prices=plain(2))], monkeypatch)
    assert isinstance(found, Published)
    seen = {}
    for hours in (0, 13, 20, 40, 55):
        Clock.at = datetime(2027, 3, 1, 10, tzinfo=UTC) + timedelta(hours=hours)
        seen[hours] = found.cost(1, 0) // 10**6, found.worst(1, 0) // 10**6
    assert seen == {0: (1, 2), 13: (2, 2), 20: (1, 9), 40: (2, 9), 55: (9, 9)}


@pytest.mark.parametrize(("name", "endpoint"), [
    ("llama3.3", "http://localhost:11434/v1"), ("gpt-4o", "http://localhost:8000/v1"), ("no-such-model", None),
    ("text-embedding-3-small", None),
])
def test_what_nobody_published_has_no_price(name: str, endpoint: str | None) -> None:
    assert tariff_for(name, endpoint, None) is None


def test_a_written_price_wins() -> None:
    price = Price.model_validate({"in": 2, "out": 8, "cached": 0.5})
    for name, endpoint in (("gpt-4o", None), ("llama3.3", "http://localhost:11434/v1")):
        found = tariff_for(name, endpoint, price)
        assert found is not None and found.cost(1000, 100, 400) == (600 * 2 + 400 // 2 + 800) * 10**6


def test_a_service_tier_has_its_own_price() -> None:
    plain, fast = tariff("gpt-5.2"), tariff("gpt-5.2", service_tier="priority")
    assert fast.cost(1000, 1000) > plain.cost(1000, 1000) == tariff("gpt-5.2", service_tier="auto", seed=7).cost(1000, 1000)
    assert tariff_for("gpt-4o", ENDPOINTS["openrouter"], None, {"service_tier": "priority"}) is None


@settings(max_examples=examples(200), deadline=None)
@given(*[st.floats(0, 1000)] * 2, st.none() | st.floats(0, 1000), *[st.integers(0, 10**6)] * 3)
def test_a_flat_price_is_never_less_than_what_is_paid(
    in_: float, out: float, cached: float | None, tokens_in: int, tokens_out: int, hit: int
) -> None:
    flat = Flat.of(Price.model_validate({"in": in_, "out": out, **({} if cached is None else {"cached": cached})}))
    hit = min(hit, tokens_in)
    a_cached = in_ if cached is None else cached
    exact = Decimal(str(in_)) * (tokens_in - hit) + Decimal(str(a_cached)) * hit + Decimal(str(out)) * tokens_out
    cost = flat.cost(tokens_in, tokens_out, hit)
    assert exact * 10**6 <= cost <= exact * 10**6 + tokens_in + tokens_out
    assert cost <= flat.worst(tokens_in, tokens_out)


@pytest.mark.parametrize(("cost", "told"), [
    (0, "$0"), (PICO, "$1.00"), (1234567 * PICO // 100, "$12,345.67"), (PICO // 100 * 42, "$0.42"), (4_200_000_000, "$0.0042"),
    (1, "$0.0000000000010"), (PICO - 1, "$1.00"),
])
def test_dollars_as_people_read_them(cost: int, told: str) -> None:
    assert dollars(cost) == told


@pytest.mark.one_in(4)
def test_the_data_is_loaded_when_a_price_is_asked_for_and_not_before() -> None:
    code = ("import sys, metaflow_agents, metaflow_agents.cli.app, metaflow_agents.models.prices as p; "
            "assert p.tariff_for('m', 'http://127.0.0.1:8000/v1', None) is p.tariff_for('m', 'http://box.local', None) is None; "
            "assert not any(name.startswith('genai_prices') for name in sys.modules); p.tariff_for('gpt-4o', None, None); "
            "assert 'genai_prices' in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True)
