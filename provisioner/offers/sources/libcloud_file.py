"""The price file that libcloud brings with it: EC2 on demand, by type and region.

It is years old and a sixth of its prices are 0.0; it serves where there is nothing better, and says
how old it is. Only its part for EC2 comes with the sizes of the types.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import libcloud
from libcloud.compute.constants.ec2_instance_types import INSTANCE_TYPES

from policies.world import PurchaseMode, Resources
from provisioner.offers.columns import Columns
from provisioner.offers.prices import Price, priced

_TABLES = {"ec2": "ec2_linux"}


def read_libcloud_prices(provider: str) -> Columns:
    """The offers of `ec2`, as a provider of the name `aws`."""
    table: dict[str, dict[str, float]] = _file()["compute"][_TABLES[provider]]
    prices = [
        Price(region, instance_type, PurchaseMode.ON_DEMAND, float(amount), "USD")
        for instance_type, by_region in table.items()
        for region, amount in by_region.items()
    ]
    return priced("aws", prices, _shape)


def told_at() -> datetime:
    """When the file was made."""
    return datetime.fromtimestamp(_file()["updated"], UTC)


@cache
def _file() -> Any:
    return json.loads((Path(libcloud.__file__).parent / "data" / "pricing.json").read_text())


def _shape(instance_type: str) -> Resources | None:
    known: Any = INSTANCE_TYPES.get(instance_type)
    if known is None:
        return None
    extra = known["extra"]
    return Resources(float(extra["vcpu"]), known["ram"] / 1024, int(extra.get("gpu") or 0))
