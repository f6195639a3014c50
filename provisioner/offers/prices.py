"""Bare prices, as the price lists of clouds tell them, and machines made of them.

A price list names a type and a region and says nothing of CPUs and memory; those come from what
else is known of the type. A price of a type that nothing is known of is not an offer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from policies.world import PurchaseMode, Resources
from provisioner.offers.columns import MODES, Columns, Words

Shapes = Callable[[str], Resources | None]
"""What is known of an instance type."""
UNKNOWN = Resources(nan, nan)


@dataclass(frozen=True, slots=True)
class Price:
    """Of an hour of one type in one region."""

    region: str
    instance_type: str
    mode: PurchaseMode
    amount: float
    currency: str


def priced(provider: str, prices: Sequence[Price], shapes: Shapes) -> Columns:
    """The offers that these prices make; they hold in every zone of their region."""
    has = [shapes(price.instance_type) or UNKNOWN for price in prices]
    region = Words.of(price.region for price in prices)
    on_demand = MODES.index(PurchaseMode.ON_DEMAND)
    mode = np.array([MODES.index(price.mode) for price in prices], dtype=np.int8)
    return Columns(
        provider=Words.all_alike(provider, len(prices)),
        region=region,
        zone=region,
        instance_type=Words.of(price.instance_type for price in prices),
        gpu_model=Words.of(each.gpu_model or "" for each in has),
        arch=Words.all_alike("", len(prices)),
        currency=Words.of(price.currency for price in prices),
        mode=mode,
        cpus=np.array([each.cpus for each in has], dtype=float),
        memory_gib=np.array([each.memory_gib for each in has], dtype=float),
        gpus=np.array([each.gpus for each in has], dtype=np.int32),
        price=np.array([price.amount for price in prices], dtype=float),
        can_stop=mode == on_demand,
    )
