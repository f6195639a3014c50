"""Azure Retail Prices: what virtual machines cost, in all regions, without an account.

learn.microsoft.com/en-us/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx

from policies.world import PurchaseMode
from provisioner.errors import ProviderError
from provisioner.offers.prices import Price
from provisioner.offers.sources.http import MOST_PAGES, get_json, number_of, rows_of

URL = "https://prices.azure.com/api/retail/prices"
_FILTER = "serviceName eq 'Virtual Machines' and priceType eq 'Consumption'"


def azure_prices(client: httpx.Client, currency: str = "USD", url: str = URL) -> Iterator[Price]:
    """Linux machines by the hour, page after page.

    Raises:
        ProviderError: the service does not answer, or answers otherwise than documented.
    """
    page = url
    params: dict[str, str] | None = {"$filter": _FILTER, "currencyCode": f"'{currency}'"}
    for _ in range(MOST_PAGES):
        answer = get_json(client, page, params)
        for item in rows_of(answer, "Items"):
            found = _price(item)
            if found is not None:
                yield found
        page, params = answer.get("NextPageLink"), None
        if not page:
            return
    raise ProviderError(f"{url} has more than {MOST_PAGES} pages")


def _price(item: dict[str, Any]) -> Price | None:
    """None for what is no hour of a Linux machine."""
    instance_type = item.get("armSkuName") or ""
    sku = item.get("skuName") or ""
    by_the_hour = item.get("unitOfMeasure") == "1 Hour"
    windows = "Windows" in (item.get("productName") or "")
    if not instance_type or not by_the_hour or windows or "Low Priority" in sku:
        return None
    mode = PurchaseMode.SPOT if sku.endswith(" Spot") else PurchaseMode.ON_DEMAND
    return Price(
        item.get("armRegionName") or "",
        instance_type,
        mode,
        number_of(item.get("retailPrice")),
        str(item.get("currencyCode") or ""),
    )
