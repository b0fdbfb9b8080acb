"""Sums over expenses, and the reports that show them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from expenses import formats
from expenses.model import Category, Expense


class Summary(NamedTuple):
    """What a month cost."""

    month: str
    total: Decimal
    count: int = 0


def total(expenses: Iterable[Expense]) -> Decimal:
    """The sum of all amounts."""
    return sum((one.amount for one in expenses), Decimal(0))


def by_category(expenses: Iterable[Expense], *, month: str | None = None) -> dict[Category, Decimal]:
    """The sum of each category that has any."""
    sums: dict[Category, Decimal] = defaultdict(Decimal)
    for one in expenses:
        if month is None or one.month == month:
            sums[one.category] += one.amount
    return dict(sums)


def monthly(expenses: Iterable[Expense], *months: str) -> list[Summary]:
    """A summary of each month, or of those named."""
    groups: dict[str, list[Expense]] = {}
    for one in expenses:
        groups.setdefault(one.month, []).append(one)
    return [Summary(month, total(groups.get(month, [])), len(groups.get(month, []))) for month in (months or sorted(groups))]


class Report(ABC):
    """Shows summaries."""

    def __init__(self, title: str, width: int = 40) -> None:
        self.title = title
        self.width = width

    @abstractmethod
    def body(self, summaries: list[Summary]) -> str:
        """The report without its head."""

    def render(self, summaries: list[Summary]) -> str:
        """The whole report."""
        return f"{self.title}\n{self.body(summaries)}"


class TextReport(Report):
    """For a terminal."""

    def body(self, summaries: list[Summary]) -> str:
        """A line for each month."""
        return formats.table([(one.month, formats.money(one.total)) for one in summaries], width=self.width)


class CsvReport(Report):
    """For a spreadsheet."""

    separator = ","

    def __init__(self, title: str = "", width: int = 0, *, head: bool = True) -> None:
        super().__init__(title, width)
        self.head = head

    def body(self, summaries: list[Summary]) -> str:
        """A row for each month."""
        rows = [self.separator.join((one.month, formats.money(one.total, symbol=""))) for one in summaries]
        return "\n".join((["month,total"] if self.head else []) + rows)
