"""What the cost tests share: one resource with overrides, and prices that never change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from cost.ledger import Resource, ResourceKind
from cost.prices import PriceBook, PricePoint

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def machine() -> Callable[..., Resource]:
    base = Resource(
        id="i-1",
        kind=ResourceKind.INSTANCE,
        name="ada-desk-1",
        provider="aws",
        region="eu-west-1",
        zone="eu-west-1a",
        instance_type="g5.xlarge",
        mode="spot",
        owner_kind="job",
        owner_id="job-1",
        owner_name="resnet",
        team="vision",
        user="ada",
        labels=(("project", "birds"),),
        on_demand_price_per_hour=Decimal("1.006"),
    )
    return lambda **changes: replace(base, **changes)


@pytest.fixture
def flat_price() -> Callable[..., PriceBook]:
    def book(price: str | None, *ids: str, currency: str = "USD") -> PriceBook:
        known = None if price is None else Decimal(price)
        point = PricePoint(LONG_AGO, known, currency, known)
        return PriceBook.of({i: [point] for i in ids or ("i-1",)})

    return book
