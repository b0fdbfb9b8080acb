"""What an expense is, and what text may become one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import StrEnum

LARGEST = Decimal("1000000")
MAX_NOTE = 200


class ExpenseError(Exception):
    """Base of all errors that a user can mend."""


class InvalidExpense(ExpenseError, ValueError):
    """Text that is no expense."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {text!r} is not valid")
        self.field = field
        self.text = text


class Category(StrEnum):
    """What money goes to."""

    FOOD = "food"
    HOME = "home"
    TRAVEL = "travel"
    OTHER = "other"

    @property
    def title(self) -> str:
        """The name as it stands in a report."""
        return self.value.capitalize()


@dataclass(frozen=True, order=True)
class Expense:
    """One payment."""

    number: int
    day: date
    amount: Decimal
    category: Category
    note: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.amount <= LARGEST:
            raise InvalidExpense("amount", str(self.amount))
        if len(self.note) > MAX_NOTE:
            raise InvalidExpense("note", self.note)

    @property
    def month(self) -> str:
        """Its month as `2025-01`."""
        return self.day.strftime("%Y-%m")

    def as_dict(self) -> dict[str, str]:
        """Its fields as text."""
        return {"number": str(self.number), "day": self.day.isoformat(), "amount": str(self.amount),
                "category": self.category.value, "note": self.note}

    @classmethod
    def from_dict(cls, fields: dict[str, str]) -> Expense:
        """The expense that `as_dict` gave."""
        return cls(int(fields["number"]), date.fromisoformat(fields["day"]), parse_amount(fields["amount"]),
                   parse_category(fields["category"]), fields.get("note", ""))


def parse_amount(text: str) -> Decimal:
    """A positive amount with at most two places."""
    try:
        amount = Decimal(text.replace(",", "."))
    except InvalidOperation:
        raise InvalidExpense("amount", text) from None
    exponent = amount.as_tuple().exponent
    if not amount.is_finite() or not 0 < amount <= LARGEST or (isinstance(exponent, int) and exponent < -2):
        raise InvalidExpense("amount", text)
    return amount


def parse_day(text: str, *, today: date) -> date:
    """A day as `2025-01-31`, `today`; none after today."""
    if text == "today":
        return today
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise InvalidExpense("day", text) from None
    if day > today:
        raise InvalidExpense("day", text)
    return day


def parse_category(text: str) -> Category:
    """A category by its name, in any case."""
    try:
        return Category(text.strip().lower())
    except ValueError:
        raise InvalidExpense("category", text) from None
