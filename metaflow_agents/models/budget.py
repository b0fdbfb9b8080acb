"""Caps on calls, tokens and US dollars, at the run, each role and each step, that are never overrun.

A call reserves its worst case in every scope that it belongs to before it is sent, and settles what it cost after.
One that does not fit waits while calls in flight could still release enough, and is refused when none can: then its
activation goes no further, and the run ends when nothing else does.
Waiting calls go in the order of their coming: one that would fit does not overtake an earlier one that waits for the
same cap, so that a large call is not starved by small ones; calls under other caps pass freely.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Literal

from metaflow_agents.errors import BudgetExceeded
from metaflow_agents.models.pricing import at_least, dollars, exact, picodollars
from metaflow_agents.schema.caps import Budget

Measure = Literal["tokens", "calls", "usd"]       # the last in picodollars
_MEASURES: tuple[Measure, ...] = ("calls", "tokens", "usd")


@dataclass(frozen=True, slots=True)
class Spent:
    """Calls, tokens (in and out together) and picodollars that are paid for."""

    calls: int = 0
    tokens: int = 0
    cost: int = 0


@dataclass(slots=True)
class _Account:
    """One cap on one measure of one scope, and what counts against it."""

    scope: str
    measure: Measure
    cap: int | None
    spent: int = 0
    held: int = 0
    refused: list[int] = field(default_factory=list)       # the worst cases of the calls that found no room

    def fits(self, asked: int) -> bool:
        return self.cap is None or self.spent + self.held + asked <= self.cap

    def could_fit(self, asked: int) -> bool:
        """Whether it fits if all that is in flight turns out to cost nothing."""
        return self.cap is None or self.spent + asked <= self.cap


@dataclass(eq=False, slots=True)
class Reservation:
    """The worst case of one call, held until it is settled."""

    tokens: int
    calls: int
    cost: int
    _charges: list[tuple[_Account, int]]
    _budgets: Budgets
    settled: bool = False

    def settle(self, tokens: int, calls: int | None = None, cost: int = 0) -> None:
        """Replace what is held by what the call cost; `calls` by default what was reserved, 0 for a call never sent.

        A model that reports more than its worst case is charged what it reports.
        """
        if self.settled:
            raise RuntimeError("a reservation is settled once")
        self.settled = True
        spent = {"tokens": tokens, "calls": self.calls if calls is None else calls, "usd": cost}
        for account, held in self._charges:
            account.held -= held
            account.spent += spent[account.measure]
        self._budgets._wake()


@dataclass(eq=False, slots=True)
class _Waiter:
    number: int
    charges: list[tuple[_Account, int]]
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Budgets:
    """The caps of a run, and what is spent. For one event loop.

    `run` is the cap of the whole run, `roles` and `steps` those of each role and step that has one; their `time` is
    not looked at here. `whole` is what the first cap is of: the run, or a sub-SOP. `name` is the run's and `path` leads to the
    sub-SOP (`build/`); both stand in the command that raises a cap.
    """

    def __init__(
        self,
        run: Budget | None = None,
        roles: Mapping[str, Budget | None] | None = None,
        steps: Mapping[str, Budget | None] | None = None,
        *,
        name: str = "RUN",
        path: str = "",
        whole: str = "run",
    ) -> None:
        self._name, self._whole = name, whole
        self._address = {whole: path, **{f"step {step}": f"{path}{step}/" for step in steps or {}}}    # as `--budget` has it
        self._caps = {whole: run}
        self._caps |= {f"role {role}": cap for role, cap in (roles or {}).items()}
        self._caps |= {f"step {step}": cap for step, cap in (steps or {}).items()}
        self._accounts: dict[tuple[str, Measure], _Account] = {}
        self._counted: dict[tuple[str, str], list[_Account]] = {}        # role and step → what their calls count against
        self._numbers = count()
        # A queue for each role and step: its calls count against the same caps, so that only the first can be next.
        self._waiting: defaultdict[tuple[str, str], deque[_Waiter]] = defaultdict(deque)
        self._scope(whole)

    def charge(self, role: str, step: str, tokens: int, calls: int = 1, cost: int = 0) -> None:
        """Count what was spent before, when a run is resumed."""
        for account, amount in self._charges(role, step, tokens, calls, cost):
            account.spent += amount
        self._wake()

    @property
    def spent(self) -> dict[str, Spent]:
        """What is settled, by scope: `run`, `role NAME`, `step NAME`."""
        scopes = dict.fromkeys(scope for scope, _ in self._accounts)
        return {scope: Spent(self._accounts[scope, "calls"].spent, self._accounts[scope, "tokens"].spent,
                             self._accounts[scope, "usd"].spent) for scope in scopes}

    @asynccontextmanager
    async def reserve(self, role: str, step: str, tokens: int, calls: int = 1, cost: int = 0) -> AsyncIterator[Reservation]:
        """Hold `tokens`, `calls` and `cost` (picodollars) until it is settled; leaving without that charges them whole.

        A call that may have reached its model costs its worst case until it is known better: one that surely did not
        is settled at `settle(0, calls=0)`. Do not ask for a reservation while holding one: the two may wait for each
        other. Raises BudgetExceeded where a cap can't hold the call whatever those in flight cost.
        """
        charges = self._charges(role, step, tokens, calls, cost)
        await self._granted((role, step), charges)
        reservation = Reservation(tokens, calls, cost, charges, self)
        try:
            yield reservation
        finally:
            if not reservation.settled:
                reservation.settle(tokens, cost=cost)

    async def _granted(self, queue: tuple[str, str], charges: list[tuple[_Account, int]]) -> None:
        self._refuse(charges)
        if not self._waiting and all(account.fits(amount) for account, amount in charges if account.cap is not None):
            for account, amount in charges:
                account.held += amount
            return
        waiter = _Waiter(next(self._numbers), charges)
        self._waiting[queue].append(waiter)
        if len(self._waiting[queue]) == 1:
            self._wake()
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if not waiter.granted.cancelled() and waiter.granted.exception() is None:       # granted, and never used
                for account, amount in charges:
                    account.held -= amount
            self._wake()
            raise

    def _wake(self) -> None:
        """Go through the first of each queue, in the order of their coming: grant, refuse, or let wait."""
        taken: set[int] = set()                 # accounts that an earlier call waits for
        stuck: set[tuple[str, str]] = set()
        while open_ := [queue for queue in self._waiting if queue not in stuck]:
            queue = min(open_, key=lambda queue: self._waiting[queue][0].number)
            waiter = self._waiting[queue][0]
            full = set() if waiter.granted.done() else self._decided(waiter, taken)      # done: cancelled meanwhile
            if waiter.granted.done():
                self._waiting[queue].popleft()
                if not self._waiting[queue]:
                    del self._waiting[queue]
            else:
                taken |= full
                stuck.add(queue)

    def _decided(self, waiter: _Waiter, taken: set[int]) -> set[int]:
        """Grant or refuse one call, if that can be said now; the accounts that are too full for it."""
        try:
            self._refuse(waiter.charges)
        except BudgetExceeded as error:
            waiter.granted.set_exception(error)
            return set()
        full = {id(account) for account, amount in waiter.charges if not account.fits(amount)}
        if not full and not any(id(account) in taken for account, _ in waiter.charges):
            for account, amount in waiter.charges:
                account.held += amount
            waiter.granted.set_result(None)
        return full

    def _refuse(self, charges: list[tuple[_Account, int]]) -> None:
        """Raise BudgetExceeded where a call can't fit whatever those in flight cost."""
        full = [account for account, amount in charges if not account.could_fit(amount)]
        if full:
            for account, amount in charges:
                account.refused.append(amount)
            raise BudgetExceeded(*(partial(self._exceeded, account) for account in full))

    def _charges(self, role: str, step: str, tokens: int, calls: int, cost: int) -> list[tuple[_Account, int]]:
        accounts = self._counted.get((role, step))
        if accounts is None:
            scopes = (self._whole, f"role {role}", f"step {step}")
            accounts = self._counted[role, step] = [account for scope in scopes for account in self._scope(scope)]
        asked = {"calls": calls, "tokens": tokens, "usd": cost}
        return [(account, asked[account.measure]) for account in accounts]

    def _scope(self, scope: str) -> tuple[_Account, ...]:
        if (scope, "calls") not in self._accounts:
            cap = self._caps.get(scope) or Budget()
            most: dict[Measure, int | None] = {
                "calls": cap.calls, "tokens": cap.tokens, "usd": None if cap.usd is None else picodollars(cap.usd)}
            self._accounts |= {(scope, measure): _Account(scope, measure, cap) for measure, cap in most.items()}
        return tuple(self._accounts[scope, measure] for measure in _MEASURES)

    def _exceeded(self, account: _Account) -> str:
        """What is told of a cap at the end, with one under which all calls that found no room can be made."""
        measure, cap, asked = account.measure, account.cap or 0, sum(account.refused)
        if measure == "usd":
            of, spent, more = f"${exact(cap)}", dollars(account.spent), f"cost {dollars(asked)}"
            enough = at_least(account.spent + asked)
        else:
            of, spent, more = f"{cap:,} {measure}", f"{account.spent:,}", f"take {asked:,}"
            enough = str(account.spent + asked)
        if account.scope in self._address:
            resume = f"`sop resume {self._name} --budget {self._address[account.scope]}{measure}={enough}` or more goes on"
        else:
            resume = (f"raise `budget: {{{measure}: …}}` of the {account.scope} to {enough} or more, "
                      f"then `sop resume {self._name} --accept-changes`")
        calls = len(account.refused)
        who = "the next call" if calls == 1 else f"the next {calls} calls"
        return f"the {account.scope}'s cap of {of} is reached: {spent} spent, and {who} may {more} more; {resume}"
