"""What a run cost: by step, role, model, item and key, as tables that fit the reader's window."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from metaflow_agents.journal.ledger import DIMENSIONS, Ledger
from metaflow_agents.journal.records import Spending
from metaflow_agents.views.page import Page, columns, table
from metaflow_agents.views.wording import amount, money, short

_ROWS = 20                          # of items and of keys that are listed, the dearest
_NAME = 12                          # columns that a name has at least
_Column = tuple[str, Callable[[Spending], str], bool]


def costs_lines(name: str, found: Ledger, page: Page, *, every: bool = False, repeated: float = 0.0) -> list[str]:
    """`sop show RUN --costs`; with `every` all items and keys, not the dearest alone. `repeated`: the share of its prompts that
    repeats the beginning of an earlier one.
    """
    lines = [page.paint(f"{name}: costs", "bold")]
    if not found.lines:
        return [*lines, "no model was asked"]
    shown = _columns_for([*found.by["step"].values(), *found.by["item"].values(), *found.by["key"].values(), found.total], page)
    for heading in DIMENSIONS:
        sums = found.by[heading] if heading not in ("item", "key") else _dearest(found.by[heading])
        if heading == "key" and len(sums) == len(_dearest(found.by["item"])):
            continue                                               # each key has one item, which was just told
        listed = list(sums.items())[:_ROWS if heading in ("item", "key") and not every else None]
        if listed:
            rows = [[one or "(none)", *_cells(spending, shown)] for one, spending in listed]
            if heading == "step":
                rows.append(["total", *_cells(found.total, shown)])
            headings = (heading, *(column[0] for column in shown))
            lines += ["", *table(rows, page, headings=headings, right=range(1, len(headings)))]
            if len(listed) < len(sums):
                lines += page.wrapped(f"the {len(listed)} most expensive of {len(sums):,} {heading}s; `--all` lists all", "",
                                      "  ")
    return [*lines, *_notes(found.total, repeated, page)]


def spent_told(one: Spending) -> str:
    """A cost in a few words, for the board: `3 calls, 12.3k tokens, $0.02`; empty where nothing was answered."""
    if not one.calls:
        return ""
    paid = [money(one.cost, one.estimated)] if one.cost else []
    return ", ".join([amount(one.calls, "call"), f"{short(one.tokens)} tokens", *paid])


def sums_told(sums: Mapping[str, Spending], page: Page) -> str:
    """Several costs in a line: `writer 3 calls, 12.3k tokens   judge 1 call, 950 tokens`."""
    return page.fitted("   ".join(f"{name} {spent_told(one)}" for name, one in sums.items()))


def _dearest(sums: Mapping[str, Spending]) -> dict[str, Spending]:
    """Items or keys, the dearest first, without what belongs to none."""
    return dict(sorted(((name, one) for name, one in sums.items() if name), reverse=True,
                       key=lambda named: (named[1].cost + named[1].open_cost, named[1].tokens + named[1].open_tokens)))


def _columns_for(spent: list[Spending], page: Page) -> list[_Column]:
    """The columns that say something; on a narrow page tokens in and out are one sum, and numbers are short."""
    def wide(cost: bool, cached: bool, unanswered: bool) -> list[_Column]:
        return [("calls", lambda one: f"{one.calls:,}", True), ("tokens in", lambda one: f"{one.tokens - one.out:,}", True),
                ("out", lambda one: f"{one.out:,}", True), ("cached", lambda one: f"{one.cached:,}", cached),
                ("cost", _paid, cost), ("unanswered", _unanswered, unanswered)]

    def narrow(cost: bool, _: bool, unanswered: bool) -> list[_Column]:
        return [("calls", lambda one: short(one.calls), True), ("tokens", lambda one: short(one.tokens), True),
                ("cost", _paid, cost), ("open", lambda one: short(one.open_tokens) if one.open_calls else "", unanswered)]

    said = any(one.cost or one.open_cost for one in spent), any(one.cached for one in spent), any(one.open_calls for one in spent)
    for make in (wide, narrow):
        found = [column for column in make(*said) if column[2]]
        widths = [max([columns(column[0]), *(columns(column[1](one)) for one in spent)]) for column in found]
        if page.width is None or sum(widths) + 2 * len(widths) + _NAME <= page.width:
            break
    return found


def _cells(one: Spending, shown: list[_Column]) -> list[str]:
    return [column[1](one) for column in shown]


def _paid(one: Spending) -> str:
    return money(one.cost, one.estimated).replace("at most ", "≤ ") if one.cost else ""


def _unanswered(one: Spending) -> str:
    return f"{one.open_calls:,} ({short(one.open_tokens)})" if one.open_calls else ""


def _notes(total: Spending, repeated: float, page: Page) -> list[str]:
    """What the figures leave out."""
    notes = []
    if repeated >= 0.005:
        notes.append(f"{repeated:.0%} of what was sent repeats the beginning of an earlier call to the same model: an endpoint "
                     "that caches beginnings need not read it again")
    if total.open_calls:
        most = f" and {money(total.open_cost, 1)}" if total.open_cost else ""
        notes.append(f"unanswered: {amount(total.open_calls, 'call')}, sent and not answered, at most "
                     f"{amount(total.open_tokens, 'token')}{most}; these stand against the caps and in no other column")
    if total.unpriced:
        notes.append(f"{amount(total.unpriced, 'call')} cost money, and nobody knows how much")
    if total.estimated:
        notes.append("≤: an upper bound, since nobody told what the calls took")
    return ["", *(line for note in notes for line in page.wrapped(note, "", "  "))] if notes else []
