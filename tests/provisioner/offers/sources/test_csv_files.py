"""Catalogues of others as they are: SkyPilot's columns, with their gaps and oddities."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pytest

from policies.world import Offer, PurchaseMode, Resources
from provisioner.errors import InvalidError
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.columns import Columns
from provisioner.offers.sources.csv_files import csv_files, read_csv

HEAD = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,"
SHARED = Path(os.environ.get("ROOST_SHARED_DATA", Path(__file__).parents[5] / "shared" / "data"))


def read(tmp_path: Path, *lines: str, name: str = "aws.csv") -> list[Offer]:
    file = tmp_path / name
    file.write_text("\n".join(lines) + "\n")
    columns = read_csv(file)
    return [columns.offer(row) for row in range(len(columns))]


def test_a_row_is_an_offer_on_demand_and_one_as_spot(tmp_path: Path) -> None:
    firm, spot = read(
        tmp_path,
        HEAD + "Region,AvailabilityZone,Arch",
        "p4d.24xlarge,A100,8.0,96.0,1152.0,,32.7726,9.12,us-east-1,us-east-1a,x86_64",
    )
    assert firm == Offer(
        "aws/us-east-1/us-east-1a/p4d.24xlarge/on-demand",
        "aws",
        "us-east-1",
        "us-east-1a",
        "p4d.24xlarge",
        PurchaseMode.ON_DEMAND,
        Resources(96.0, 1152.0, 8, "A100"),
        Decimal("32.7726"),
        "USD",
        True,
    )
    assert (spot.mode, spot.price_per_hour) == (PurchaseMode.SPOT, Decimal("9.12"))


def test_empty_prices_are_not_sold_and_a_region_without_zones_is_its_zone(tmp_path: Path) -> None:
    offers = read(
        tmp_path,
        HEAD + "Region,Generation",
        "Standard_D2,,,2.0,8.0,,0.1,,eastus,V2",
        "Standard_D4,,,4.0,16.0,,,0.05,eastus,V2",
        name="azure.csv",
    )
    assert [(o.id, o.resources.gpu_model) for o in offers] == [
        ("azure/eastus/eastus/Standard_D2/on-demand", None),
        ("azure/eastus/eastus/Standard_D4/spot", None),
    ]


def test_columns_in_another_order_a_mark_before_them_and_texts_for_numbers(tmp_path: Path) -> None:
    (offer,) = read(
        tmp_path,
        "\ufeffRegion,Price,Currency,MemoryGiB,vCPUs,InstanceType,Nonsense",
        "here,0.20,EUR,16,4,four,x",
        "here,soon,EUR,16,4,four,x",
    )
    assert (offer.price_per_hour, offer.currency) == (Decimal("0.2"), "EUR")


def test_a_row_without_a_zone_is_in_its_region(tmp_path: Path) -> None:
    offers = read(
        tmp_path,
        HEAD + "Region,AvailabilityZone",
        "a,,,2,8,,0.1,,east,east-1",
        "b,,,2,8,,0.1,,east,",
        "c,,,2,8,,0.1,,west,east",
    )
    assert [o.zone for o in offers] == ["east-1", "east", "east"]


def test_the_architecture_where_a_file_tells_it(tmp_path: Path) -> None:
    file = tmp_path / "aws.csv"
    file.write_text(HEAD + "Region,Arch\na,,,2,8,,0.1,,east,arm64\nb,,,2,8,,0.1,,east,\n")
    columns = read_csv(file)
    assert [columns.arch[row] for row in range(2)] == ["arm64", ""]


def test_a_currency_is_one_whether_it_is_named_or_not(tmp_path: Path) -> None:
    file = tmp_path / "aws.csv"
    rows = "".join(f"t{n},,,2,8,,0.1,,east,{'USD' if n % 2 else ''}\n" for n in range(4))
    file.write_text(HEAD + "Region,Currency\n" + rows)
    assert read_csv(file).currency.words == ("USD",)


def test_a_row_without_a_type_is_put_aside(tmp_path: Path) -> None:
    file = tmp_path / "gcp.csv"
    file.write_text(HEAD + "Region\n,T4,1,,,,0.35,,east\nb,,,2,8,,0.1,,east\n,,,2,8,,0.1,,east\n")
    catalogue = Catalogue()
    catalogue.update_columns("gcp", read_csv(file))
    (stock,) = catalogue.stocks()
    assert [one.instance_type for one in stock.table.offers()] == ["b"]
    assert {row.reason for row in stock.quarantined} == {
        "it lacks a name of its provider, region or type"
    }


def test_names_of_gpus_become_one(tmp_path: Path) -> None:
    offers = read(
        tmp_path,
        HEAD + "Region",
        "a,NVIDIA A100 80GB PCIe,1,8,64,,2,,here",
        "b,A100-80GB,1,8,64,,2,,here",
        "c,T4g,1,8,64,,2,,here",
    )
    assert [o.resources.gpu_model for o in offers] == ["A100-80GB", "A100-80GB", "T4g"]


def test_gpus_without_a_host_are_sold_with_one(tmp_path: Path) -> None:
    offers = read(
        tmp_path,
        HEAD + "Region,AvailabilityZone",
        "a2-highgpu-8g,,,96,680,,6.0,2.0,us,us-a",
        "a2-highgpu-1g,,,12,85,,0.7,0.2,us,us-a",
        "n1-standard-4,,,4,15,,0.2,0.1,us,us-a",
        "n1-standard-96,,,96,360,,4.0,1.0,us,us-a",
        "e2-standard-4,,,4,16,,0.1,0.05,us,us-a",
        ",A100,8,,,,23.5,11.5,us,us-a",
        ",T4,1,,,,0.35,,us,us-a",
        name="gcp.csv",
    )
    found = {o.id: (o.price_per_hour, o.resources.gpus) for o in offers}
    assert found == {
        "gcp/us/us-a/a2-highgpu-8g/on-demand": (Decimal("29.5"), 8),
        "gcp/us/us-a/a2-highgpu-8g/spot": (Decimal("13.5"), 8),
        "gcp/us/us-a/n1-standard-4/on-demand": (Decimal("0.2"), 0),
        "gcp/us/us-a/n1-standard-4/spot": (Decimal("0.1"), 0),
        "gcp/us/us-a/n1-standard-96/on-demand": (Decimal("4"), 0),
        "gcp/us/us-a/n1-standard-96/spot": (Decimal("1"), 0),
        "gcp/us/us-a/e2-standard-4/on-demand": (Decimal("0.1"), 0),
        "gcp/us/us-a/e2-standard-4/spot": (Decimal("0.05"), 0),
        "gcp/us/us-a/n1-standard-4+1xT4/on-demand": (Decimal("0.55"), 1),
    }, "neither an A2 without its GPUs nor a T4 that nobody sells as spot"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "lacks the column InstanceType"),
        ("a,b\n1,2\n", "lacks the column InstanceType"),
        ("InstanceType,vCPUs,MemoryGiB,Region\nx,1,2,r\n", "lacks the column Price"),
    ],
)
def test_what_is_no_catalogue_is_told(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(content)
    with pytest.raises(InvalidError, match=told):
        read_csv(file)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "bad.csv"
    file.write_bytes(b"\xff\xfe\x00\x80" * 100)
    with pytest.raises(InvalidError, match="cannot be read as CSV"):
        read_csv(file)


def test_of_a_folder_the_files_that_hold_offers(tmp_path: Path) -> None:
    for name in ("aws.csv", "gcp.csv"):
        (tmp_path / name).write_text(HEAD + "Region\n")
    (tmp_path / "prices.csv").write_text("region,price\n")
    (tmp_path / "notes.txt").write_text("x")
    assert [file.name for file in csv_files(tmp_path)] == ["aws.csv", "gcp.csv"]
    with pytest.raises(InvalidError, match="no CSV files with offers"):
        csv_files(tmp_path / "nowhere")


@pytest.mark.skipif(not (SHARED / "offers").is_dir(), reason="no shared offers")
def test_a_hundred_thousand_rows() -> None:
    catalogue = Catalogue()
    files = csv_files(SHARED / "offers")
    for file in files:
        columns = read_csv(file)
        catalogue.update_columns(file.stem, columns)
        assert isinstance(columns, Columns)
    assert [file.stem for file in files] == ["aws", "azure", "gcp", "lambda"]
    stocks = {stock.source: stock for stock in catalogue.stocks()}
    assert sum(len(stock.table) for stock in stocks.values()) > 220_000
    reasons = {row.reason for row in stocks["azure"].quarantined}
    assert "its price is not above zero" in reasons
    assert not stocks["lambda"].quarantined
