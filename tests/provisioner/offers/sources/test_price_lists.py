"""The clouds' own price lists, in the shape that they document, over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from policies.world import PurchaseMode, Resources
from provisioner.errors import ProviderError
from provisioner.offers.prices import Price, priced
from provisioner.offers.quarantine import sift
from provisioner.offers.sources import azure_retail
from provisioner.offers.sources.azure_retail import azure_prices
from provisioner.offers.sources.gcp_billing import gcp_prices, gcp_shape
from provisioner.offers.sources.spot_advisor import interruption_rates
from tests.provisioner.offers.sources.serving import serving

ON_DEMAND, SPOT = PurchaseMode.ON_DEMAND, PurchaseMode.SPOT


def item(sku: str, price: float, name: str = "D2s v5", **more: Any) -> dict[str, Any]:
    return {
        "currencyCode": "USD",
        "retailPrice": price,
        "armRegionName": "westeurope",
        "armSkuName": sku,
        "skuName": name,
        "productName": "Virtual Machines Dsv5 Series",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
    } | more


def test_azure_page_after_page_without_what_is_no_linux_hour() -> None:
    asked: list[dict[str, str]] = []

    def answer(path: str, query: dict[str, str], _: dict[str, str]) -> Any:
        asked.append(query)
        if "skip" not in query:
            kept = [
                item("Standard_D2s_v5", 0.115),
                item("Standard_D2s_v5", 0.199, productName="Virtual Machines Dsv5 Series Windows"),
                item("Standard_D2s_v5", 0.02, "D2s v5 Low Priority"),
                item("", 1.0),
            ]
            return {"Items": kept, "NextPageLink": f"{url}/next?skip=100"}
        return {"Items": [item("Standard_D2s_v5", 0.023, "D2s v5 Spot")], "NextPageLink": None}

    with serving(answer) as url, httpx.Client() as client:
        found = list(azure_prices(client, url=url + "/prices"))
    assert found == [
        Price("westeurope", "Standard_D2s_v5", ON_DEMAND, 0.115, "USD"),
        Price("westeurope", "Standard_D2s_v5", SPOT, 0.023, "USD"),
    ]
    assert "serviceName eq 'Virtual Machines'" in asked[0]["$filter"]


def test_a_row_of_azures_that_lacks_something_hides_no_other() -> None:
    rows = [
        item("a", 0.1),
        {"armSkuName": "b", "unitOfMeasure": "1 Hour"},
        {name: value for name, value in item("c", 0.1).items() if name != "retailPrice"},
        item("d", 0.1, currencyCode=None),
        "no row at all",
    ]
    with serving(lambda *_: {"Items": rows}) as url, httpx.Client() as client:
        found = list(azure_prices(client, url=url))
    columns = priced("azure", found, lambda _: Resources(2, 8))
    clean, bad = sift(columns, "azure")
    assert [columns.offer(int(row)).instance_type for row in clean.nonzero()[0]] == ["a"]
    assert len(bad) == 3


def test_a_list_without_an_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_retail, "MOST_PAGES", 5)
    asked: list[str] = []

    def answer(path: str, *_: object) -> Any:
        asked.append(path)
        return {"Items": [], "NextPageLink": f"{url}/again"}

    with (
        serving(answer) as url,
        httpx.Client() as client,
        pytest.raises(ProviderError, match="more than 5 pages"),
    ):
        list(azure_prices(client, url=url))
    assert len(asked) == 5


def test_a_price_of_a_type_that_nothing_is_known_of_is_no_offer() -> None:
    prices = [Price("r", "known", SPOT, 0.1, "USD"), Price("r", "unknown", SPOT, 0.1, "USD")]
    columns = priced("azure", prices, {"known": Resources(2, 8)}.get)
    clean, (bad,) = sift(columns, "azure")
    assert list(clean) == [True, False]
    assert bad.reason == "nothing is known of its CPUs and memory"
    assert columns.offer(0).id == "azure/r/r/known/spot"


def sku(description: str, nanos: int, usage: str = "OnDemand", *, units: str = "0") -> Any:
    price = {"currencyCode": "USD", "units": units, "nanos": nanos}
    return {
        "description": f"{description} running in Americas",
        "category": {"resourceFamily": "Compute", "usageType": usage},
        "serviceRegions": ["us-central1", "us-east1"],
        "pricingInfo": [
            {"pricingExpression": {"tieredRates": [{"startUsageAmount": 0, "unitPrice": price}]}}
        ],
    }


def test_google_cores_memory_and_gpus_make_machines() -> None:
    pages = {
        None: {
            "skus": [
                sku("N2 Instance Core", 30_000_000),
                sku("N2 Instance Ram", 4_000_000),
                sku("Commitment v1: N2 Cpu", 1),
                sku("A2 Instance Core", 30_000_000),
                sku("A2 Instance Ram", 4_000_000),
            ],
            "nextPageToken": "two",
        },
        "two": {
            "skus": [
                sku("Nvidia Tesla A100 GPU", 900_000_000, units="2"),
                sku("Spot Preemptible N2 Instance Core", 10_000_000, "Preemptible"),
                sku("Spot Preemptible N2 Instance Ram", 1_000_000, "Preemptible"),
            ],
            "nextPageToken": "",
        },
    }
    seen: list[tuple[dict[str, str], str]] = []

    def answer(path: str, query: dict[str, str], headers: dict[str, str]) -> Any:
        seen.append((query, {k.lower(): v for k, v in headers.items()}["x-goog-api-key"]))
        return pages[query.get("pageToken")]

    with serving(answer) as url, httpx.Client() as client:
        found = {
            (p.region, p.instance_type, p.mode): p.amount for p in gcp_prices(client, "k3y", url)
        }
    assert found["us-central1", "n2-standard-4", ON_DEMAND] == pytest.approx(4 * 0.03 + 16 * 0.004)
    assert found["us-east1", "n2-standard-4", SPOT] == pytest.approx(4 * 0.01 + 16 * 0.001)
    assert found["us-east1", "a2-highgpu-8g", ON_DEMAND] == pytest.approx(
        96 * 0.03 + 680 * 0.004 + 8 * 2.9
    )
    assert ("us-east1", "a2-highgpu-8g", SPOT) not in found
    assert ("us-east1", "n1-standard-4", ON_DEMAND) not in found
    assert gcp_shape("a2-highgpu-8g") == Resources(96, 680, 8, "A100")
    assert all(key == "k3y" and "k3y" not in str(query) for query, key in seen)


def test_rows_of_googles_that_cannot_be_read_hide_no_others() -> None:
    good = [sku("N2 Instance Core", 30_000_000), sku("N2 Instance Ram", 4_000_000)]
    bad = [
        {},
        sku("E2 Instance Core", 1) | {"pricingInfo": []},
        sku("E2 Instance Core", 1) | {"category": "Compute"},
        sku("E2 Instance Ram", 1) | {"serviceRegions": None},
        "no row",
    ]
    with serving(lambda *_: {"skus": [*bad, *good]}) as url, httpx.Client() as client:
        found = gcp_prices(client, "key", url)
    assert {one.instance_type.rpartition("-")[0] for one in found} == {
        "n2-standard",
        "n2-highmem",
    }


def test_a_machine_of_which_a_part_has_no_price_has_none() -> None:
    rows = [sku("N2 Instance Core", 0), sku("N2 Instance Ram", 4_000_000)]
    with serving(lambda *_: {"skus": rows}) as url, httpx.Client() as client:
        found = gcp_prices(client, "key", url)
    assert found
    clean, _ = sift(priced("gcp", found, gcp_shape), "gcp")
    assert not clean.any()


def test_how_often_spot_is_taken_back() -> None:
    document = {
        "ranges": [
            {"index": 0, "label": "<5%", "max": 5},
            {"index": 4, "label": ">20%", "max": 100},
        ],
        "spot_advisor": {
            "us-east-1": {
                "Linux": {"m5.large": {"s": 70, "r": 0}, "g5.xlarge": {"s": 30, "r": 4}},
                "Windows": {"m5.large": {"s": 10, "r": 4}},
            }
        },
    }
    with serving(lambda *_: document) as url, httpx.Client() as client:
        assert interruption_rates(client, url) == {
            ("aws", "us-east-1", "m5.large"): 0.05,
            ("aws", "us-east-1", "g5.xlarge"): 1.0,
        }
    with (
        serving(lambda *_: {"ranges": 3}) as url,
        httpx.Client() as client,
        pytest.raises(ProviderError, match="another form"),
    ):
        interruption_rates(client, url)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (503, "answers 503"),
        ("<html>", "no JSON"),
        ([1, 2], "no JSON object"),
        ({"skus": 3}, "no list of skus"),
    ],
)
def test_a_list_that_cannot_be_had_is_an_error_without_the_key(said: Any, told: str) -> None:
    with (
        serving(lambda *_: said) as url,
        httpx.Client() as client,
        pytest.raises(ProviderError, match=told) as caught,
    ):
        gcp_prices(client, "s3cret", url + "?a=b")
    assert "s3cret" not in str(caught.value)
    assert "a=b" not in str(caught.value)


def test_nobody_there() -> None:
    with serving(lambda *_: {}) as url:
        pass
    with httpx.Client() as client, pytest.raises(ProviderError, match="does not answer"):
        list(azure_prices(client, url=url))
