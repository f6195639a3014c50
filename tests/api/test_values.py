"""Amounts as they are sent."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pydantic import TypeAdapter

from api.values import Money


@pytest.mark.parametrize(
    ("amount", "sent"), [("-0E-12", "0.000000000000"), ("-0.5", "-0.5"), ("1E+3", "1000")]
)
def test_money_is_plain_and_nothing_is_not_negative(amount: str, sent: str) -> None:
    assert TypeAdapter(Money).dump_python(Decimal(amount)) == sent
