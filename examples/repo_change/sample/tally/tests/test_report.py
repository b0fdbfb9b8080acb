from decimal import Decimal

from tally.report import render, totals
from tally.store import load


def test_totals_by_kind(book):
    assert totals(load(book)) == {"cake": Decimal("4.00"), "tea": Decimal("5.75")}


def test_totals_by_month(book):
    assert list(totals(load(book), "month")) == ["2024-05", "2024-06"]


def test_the_total_stands_below(book):
    assert render(totals(load(book))).splitlines()[-1] == "total  9.75"


def test_an_empty_book_has_a_total():
    assert render({}) == "total  0.00"
