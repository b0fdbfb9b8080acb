"""Sums up a book."""

from collections import defaultdict
from decimal import Decimal

from tally.money import show_amount
from tally.util import table


def totals(entries, by="kind"):
    """Name -> sum, in the order of the names."""
    sums = defaultdict(Decimal)
    for entry in entries:
        sums[getattr(entry, by)] += entry.amount
    return dict(sorted(sums.items()))


def render(sums):
    """The report as a table, with the total below."""
    rows = [(name, show_amount(amount)) for name, amount in sums.items()]
    rows.append(("total", show_amount(sum(sums.values(), Decimal()))))
    return table(rows)
