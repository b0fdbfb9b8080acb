from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from metaflow_agents.errors import BudgetExceeded
from metaflow_agents.models.budget import Budgets, Spent
from metaflow_agents.schema.caps import Budget


def cap(tokens: int | None = None, calls: int | None = None) -> Budget:
    return Budget.model_validate({k: v for k, v in {"tokens": tokens, "calls": calls}.items() if v is not None})


async def spend(budgets: Budgets, tokens: int, cost: int | None = None, *, role: str = "r", step: str = "s") -> None:
    async with budgets.reserve(role, step, tokens) as held:
        await asyncio.sleep(0)
        held.settle(tokens if cost is None else cost)


async def settle_in(loops: int = 5) -> None:
    for _ in range(loops):
        await asyncio.sleep(0)


async def test_spending_is_counted_in_every_scope() -> None:
    budgets = Budgets()
    await spend(budgets, 10, 4, role="a", step="x")
    await spend(budgets, 10, 5, role="a", step="y")
    assert budgets.spent == {"run": Spent(2, 9), "role a": Spent(2, 9), "step x": Spent(1, 4), "step y": Spent(1, 5)}


@pytest.mark.parametrize(("budgets", "words"), [
    (Budgets(cap(tokens=100), name="r7"), ["the run's cap of 100 tokens is reached: 60 spent, and the next call may take 50 more",
                                          "`sop resume r7 --budget tokens=110`"]),
    (Budgets(cap(calls=1)), ["the run's cap of 1 calls is reached: 1 spent", "`sop resume RUN --budget calls=2`"]),
    (Budgets(roles={"r": cap(tokens=100)}), ["role r's cap", "`budget: {tokens: …}` of the role r to 110", "--accept-changes"]),
    (Budgets(steps={"s": cap(tokens=100)}), ["step s's cap", "`sop resume RUN --budget s/tokens=110` or more goes on"]),
])
async def test_a_cap_that_nobody_can_release_stops(budgets: Budgets, words: list[str]) -> None:
    await spend(budgets, 60)
    with pytest.raises(BudgetExceeded) as told:
        await spend(budgets, 50)
    for part in words:
        assert part in str(told.value)


async def test_a_call_waits_while_one_in_flight_could_release() -> None:
    budgets = Budgets(cap(tokens=100))
    async with budgets.reserve("r", "s", 60) as first:
        waits = asyncio.create_task(spend(budgets, 60, 50))
        await settle_in()
        assert not waits.done()
        first.settle(40)
        await waits
    assert budgets.spent["run"] == Spent(2, 90)


async def test_a_waiting_call_stops_when_the_last_in_flight_released_too_little() -> None:
    budgets = Budgets(cap(tokens=100))
    async with budgets.reserve("r", "s", 60) as first:
        waits = asyncio.create_task(spend(budgets, 60))
        await settle_in()
        first.settle(41)
        with pytest.raises(BudgetExceeded):
            await waits


async def test_an_earlier_call_is_not_starved_by_small_ones_and_other_caps_do_not_wait() -> None:
    budgets = Budgets(steps={"s": cap(tokens=100)})
    order: list[str] = []

    async def one(name: str, tokens: int, step: str = "s") -> None:
        async with budgets.reserve(name, step, tokens) as held:
            order.append(name)
            held.settle(0)

    async with budgets.reserve("r", "s", 60) as first:
        tasks = [asyncio.create_task(one("large", 90))]
        await settle_in()
        tasks += [asyncio.create_task(one("small", 10)), asyncio.create_task(one("other", 1000, "t"))]
        await settle_in()
        assert order == ["other"]
        first.settle(5)
        await asyncio.gather(*tasks)
    assert order == ["other", "large", "small"]


async def test_leaving_without_settling_charges_the_worst_case() -> None:
    budgets = Budgets(cap(tokens=100))
    with pytest.raises(ValueError, match="cut"):
        async with budgets.reserve("r", "s", 30):
            raise ValueError("cut")
    assert budgets.spent["run"] == Spent(1, 30)
    async with budgets.reserve("r", "s", 30) as held:
        held.settle(0, calls=0)
        with pytest.raises(RuntimeError, match="once"):
            held.settle(1)
    assert budgets.spent["run"] == Spent(1, 30)


async def test_a_cancelled_waiter_leaves_the_queue_and_a_granted_one_gives_back() -> None:
    budgets = Budgets(cap(tokens=100))
    async with budgets.reserve("r", "s", 80) as first:
        large, small = asyncio.create_task(spend(budgets, 90)), asyncio.create_task(spend(budgets, 20))
        await settle_in()
        large.cancel()
        await settle_in()
        assert small.done()
        granted = asyncio.create_task(spend(budgets, 70))
        await settle_in()
        first.settle(0)             # grants it …
        granted.cancel()            # … and it is cancelled before it runs
    with pytest.raises(asyncio.CancelledError):
        await granted
    assert budgets.spent["run"] == Spent(2, 20)
    await spend(budgets, 80)


async def test_earlier_spending_counts() -> None:
    budgets = Budgets(cap(tokens=100))
    budgets.charge("r", "s", 95, calls=3)
    assert budgets.spent["step s"] == Spent(3, 95)
    with pytest.raises(BudgetExceeded):
        await spend(budgets, 6)


def usd(cost: int | None) -> Budget:
    return Budget.model_validate({} if cost is None else {"usd": f"{Decimal(cost) / 10**12:f}"})


@pytest.mark.parametrize(("budgets", "words"), [
    (Budgets(usd(10**12), name="r7"), ["the run's cap of $1.00 is reached: $0.60 spent, and the next call may cost $0.50 more",
                                       "`sop resume r7 --budget usd=1.10` or more goes on"]),
    (Budgets(roles={"r": usd(10**12)}), ["role r's cap", "`budget: {usd: …}` of the role r to 1.10", "--accept-changes"]),
])
async def test_a_cap_on_money_that_nobody_can_release_stops(budgets: Budgets, words: list[str]) -> None:
    async with budgets.reserve("r", "s", 1, cost=7 * 10**11) as held:
        held.settle(1, cost=6 * 10**11)
    with pytest.raises(BudgetExceeded) as told:
        async with budgets.reserve("r", "s", 1, cost=5 * 10**11):
            pass
    for part in words:
        assert part in str(told.value)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**11), st.floats(0, 1), st.integers(0, 4)), max_size=14), st.integers(1, 10**12))
def test_a_cap_on_money_holds_to_the_picodollar(calls: list[tuple[int, float, int]], most: int) -> None:
    budgets = Budgets(usd(most))
    held = 0

    async def one(worst: int, share: float, naps: int) -> None:
        nonlocal held
        try:
            async with budgets.reserve("r", "s", 1, cost=worst) as reservation:
                held += worst
                assert budgets.spent["run"].cost + held <= most
                await settle_in(naps)
                held -= worst
                reservation.settle(1, cost=int(worst * share))
        except BudgetExceeded:
            assert budgets.spent["run"].cost + worst > most

    async def go() -> None:
        async with asyncio.timeout(5):
            await asyncio.gather(*(one(*each) for each in calls))

    asyncio.run(go())
    assert budgets.spent["run"].cost <= most


call = st.tuples(
    st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 40), st.floats(0, 1), st.integers(0, 4), st.integers(0, 9))
maybe = st.none() | st.integers(1, 120)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(call, max_size=14), maybe, maybe, maybe, st.none() | st.integers(1, 8))
def test_no_cap_is_ever_overrun_and_nobody_waits_for_ever(  # noqa: C901  the tasks and the law that they check are one
    calls: list[tuple[Any, ...]], run: int | None, role: int | None, step: int | None, most: int | None
) -> None:
    caps = {"run": run, "role a": role, "step x": step}
    budgets = Budgets(cap(run, most), {"a": cap(role)}, {"x": cap(step)})
    held: dict[str, int] = {}

    def check() -> None:
        spent = budgets.spent
        for scope, limit in caps.items():
            if limit is not None and scope in spent:
                assert spent[scope].tokens + held.get(scope, 0) <= limit
        if most is not None:
            assert spent["run"].calls + held.get("calls", 0) <= most

    async def one(who: str, where: str, tokens: int, share: float, naps: int, cancel: int) -> str:
        scopes = {"run": tokens, f"role {who}": tokens, f"step {where}": tokens, "calls": 1}
        await settle_in(cancel)
        try:
            async with budgets.reserve(who, where, tokens) as reservation:
                for scope, amount in scopes.items():
                    held[scope] = held.get(scope, 0) + amount
                try:
                    check()
                    await settle_in(naps)
                finally:
                    for scope, amount in scopes.items():
                        held[scope] -= amount
                    reservation.settle(int(tokens * share))
                check()
        except BudgetExceeded:
            return "refused"
        return "done"

    async def go() -> None:
        tasks = [asyncio.create_task(one(*each)) for each in calls]
        for number, each in enumerate(calls):
            if each[5] >= 7:
                await settle_in(each[4])
                tasks[number].cancel()
        async with asyncio.timeout(5):
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(r in ("done", "refused") or isinstance(r, asyncio.CancelledError) for r in results), results
        if run is role is step is most is None:
            assert "refused" not in results
        assert not budgets._waiting
        assert all(account.held == 0 for account in budgets._accounts.values())
        check()

    asyncio.run(go())


async def test_a_cap_on_money_is_told_as_it_was_written() -> None:
    with pytest.raises(BudgetExceeded) as told:
        async with Budgets(usd(121 * 10**9)).reserve("r", "s", 1, cost=2 * 10**11):
            pass
    assert "the run's cap of $0.121 is reached" in str(told.value)
