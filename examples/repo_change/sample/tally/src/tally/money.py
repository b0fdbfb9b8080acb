"""Amounts: read strictly, printed with two digits."""

from decimal import Decimal, InvalidOperation

from tally.errors import TallyError


def read_amount(text):
    try:
        return Decimal(text).quantize(Decimal("0.01"))
    except InvalidOperation as error:
        raise TallyError(f"no amount: {text!r}") from error


def show_amount(amount):
    return f"{amount:.2f}"
