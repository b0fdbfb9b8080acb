"""Where expenses are kept: one JSON file, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path

from expenses.model import Category, Expense, ExpenseError

DEFAULT_NAME = "expenses.json"


class StoreError(ExpenseError):
    """The file can't be read or written."""


class Store:
    """The expenses of one file."""

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self.path = path
        self.readonly = readonly

    @classmethod
    def in_folder(cls, folder: Path, *, readonly: bool = False) -> Store:
        """The store of a folder."""
        return cls(folder / DEFAULT_NAME, readonly=readonly)

    @property
    def exists(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()

    def load(self) -> list[Expense]:
        """All expenses, oldest number first."""
        if not self.exists:
            return []
        try:
            rows = json.loads(self.path.read_text(encoding="utf-8"))
            return sorted(Expense.from_dict(row) for row in rows)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self.path.name} can't be read: {error}") from error

    def add(self, day: date, amount: Decimal, category: Category, note: str = "") -> Expense:
        """Keep a new expense under the next number."""
        kept = self.load()
        expense = Expense(self.next_number(kept), day, amount, category, note)
        self.save([*kept, expense])
        return expense

    def remove(self, number: int) -> Expense:
        """Drop an expense and give it back."""
        kept = self.load()
        for expense in kept:
            if expense.number == number:
                self.save([one for one in kept if one.number != number])
                return expense
        raise StoreError(f"there is no expense {number}")

    def save(self, expenses: list[Expense]) -> None:
        """Replace the file."""
        if self.readonly:
            raise StoreError("the store is read-only")
        with replacing(self.path) as temporary:
            temporary.write_text(json.dumps([one.as_dict() for one in expenses], indent=1), encoding="utf-8")

    @staticmethod
    def next_number(expenses: list[Expense]) -> int:
        """One more than the highest."""
        return max((one.number for one in expenses), default=0) + 1


@contextmanager
def replacing(path: Path, *, suffix: str = ".new") -> Iterator[Path]:
    """A temporary path that takes the place of the other at the end."""
    temporary = path.with_name(path.name + suffix)
    yield temporary
    os.replace(temporary, path)
