"""Expenses of one person, kept in a file and told by month and category."""

from __future__ import annotations

from expenses.model import Category, Expense, ExpenseError

__all__ = ["Category", "Expense", "ExpenseError", "__version__"]
__version__ = "0.1.0"
