"""Amounts of US dollars in words."""

import pytest

from nanoclaw.dollars import dollars


@pytest.mark.parametrize(
    ("amount", "shown"), [(0, "$0"), (0.0031, "$0.0031"), (0.42, "$0.42"), (12.3, "$12.30"), (1234.5, "$1,234.50")]
)
def test_dollars_show_two_digits_that_count(amount: float, shown: str) -> None:
    assert dollars(amount) == shown
