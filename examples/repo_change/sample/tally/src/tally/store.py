"""The book: a CSV file with a line for each entry."""

import csv
from datetime import date

from tally.entry import Entry
from tally.errors import TallyError
from tally.money import read_amount


def load(path):
    try:
        with open(path, newline="", encoding="utf-8") as file:
            return [_entry(row, number) for number, row in enumerate(csv.reader(file), 1) if row]
    except FileNotFoundError as error:
        raise TallyError(f"no such book: {path}") from error


def append(path, entry):
    with open(path, "a", newline="", encoding="utf-8") as file:
        csv.writer(file).writerow([entry.day.isoformat(), entry.kind, str(entry.amount)])


def _entry(row, number):
    try:
        day, kind, amount = row
        return Entry(date.fromisoformat(day), kind, read_amount(amount))
    except ValueError as error:
        raise TallyError(f"line {number}: {error}") from error
