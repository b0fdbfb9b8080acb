"""Values as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

SYMBOL = "€"


def money(amount: Decimal, symbol: str = SYMBOL) -> str:
    """An amount with two places and its sign."""
    return f"{amount:.2f} {symbol}".strip()


def table(rows: Sequence[Sequence[str]], *, width: int = 40) -> str:
    """Rows with their last column to the right."""
    return "\n".join(f"{'  '.join(row[:-1]):<{max(width - len(row[-1]), 0)}}{row[-1]}" for row in rows)
