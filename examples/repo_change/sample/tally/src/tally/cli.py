"""The command line."""

import argparse
import sys
from datetime import date

from tally import store
from tally.entry import Entry
from tally.errors import TallyError
from tally.money import read_amount
from tally.report import render, totals


def parser():
    whole = argparse.ArgumentParser(prog="tally", description="Keeps a small shop's takings in a text file.")
    commands = whole.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add", help="write an entry")
    add.add_argument("book")
    add.add_argument("day", type=date.fromisoformat)
    add.add_argument("kind")
    add.add_argument("amount")
    report = commands.add_parser("report", help="sum up")
    report.add_argument("book")
    report.add_argument("--by", choices=["kind", "month"], default="kind")
    return whole


def main(argv=None):
    given = parser().parse_args(argv)
    try:
        if given.command == "add":
            store.append(given.book, Entry(given.day, given.kind, read_amount(given.amount)))
        else:
            print(render(totals(store.load(given.book), given.by)))
    except TallyError as error:
        print(f"tally: {error}", file=sys.stderr)
        return 2
    return 0
