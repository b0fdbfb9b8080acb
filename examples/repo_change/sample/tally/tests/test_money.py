import pytest

from tally.errors import TallyError
from tally.money import read_amount, show_amount


def test_two_digits():
    assert show_amount(read_amount("3.5")) == "3.50"


def test_words_are_no_amounts():
    with pytest.raises(TallyError):
        read_amount("three")
