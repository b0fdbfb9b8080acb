"""One line of the book."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal


@dataclass(frozen=True)
class Entry:
    day: date
    kind: str
    amount: Decimal

    @property
    def month(self):
        return self.day.strftime("%Y-%m")
