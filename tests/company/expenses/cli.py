"""The command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TextIO

import expenses
from expenses import formats, reports
from expenses.model import ExpenseError, parse_amount, parse_category, parse_day
from expenses.store import Store

EXIT_BAD = 2


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(prog="expenses")
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("--version", action="version", version=expenses.__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add")
    add.add_argument("amount")
    add.add_argument("category")
    add.add_argument("--day", default="today")
    add.add_argument("--note", default="")
    remove = commands.add_parser("remove")
    remove.add_argument("number", type=int)
    report = commands.add_parser("report")
    report.add_argument("months", nargs="*")
    report.add_argument("--csv", action="store_true")
    return parser


def main(arguments: Sequence[str] | None = None, *, out: TextIO | None = None) -> int:
    """Run one command; the exit status."""
    given = build_parser().parse_args(arguments)
    out = out or sys.stdout
    store = Store.in_folder(given.folder, readonly=given.command == "report")
    try:
        line = run(store, given, today=datetime.now().astimezone().date())
    except ExpenseError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_BAD
    out.write(f"{line}\n")
    return 0


def run(store: Store, given: argparse.Namespace, *, today: date) -> str:
    """What a command prints."""
    if given.command == "add":
        expense = store.add(parse_day(given.day, today=today), parse_amount(given.amount), parse_category(given.category),
                            note=given.note)
        return f"added {expense.number}: {formats.money(expense.amount)} {expense.category.title}"
    if given.command == "remove":
        return f"removed {store.remove(given.number).number}"
    found = reports.monthly(store.load(), *given.months)
    report = reports.CsvReport() if given.csv else reports.TextReport("Expenses", width=30)
    return report.render(found)
