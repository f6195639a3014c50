"""FOCUS export: the mandatory columns, sums, and what cannot be a row."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from cost.focus import COLUMNS, MANDATORY, Account, export
from cost.ledger import ResourceKind, charge, total
from cost.usage import UsageInterval

T0 = datetime(2026, 5, 31, 22, 30, tzinfo=UTC)
ACCOUNT = Account("roost-1", 'Our, "own" Roost')


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def run(**length: float) -> list[UsageInterval]:
    return [UsageInterval("i-1", T0, T0 + timedelta(**length))]


def test_all_mandatory_columns_are_there_and_only_charge_class_is_null(machine, flat_price):
    (row, *_) = rows_of(
        export(charge(run(hours=3), machine(), flat_price("0.31")), ACCOUNT).to_csv()
    )
    assert len(MANDATORY) == 21
    assert tuple(row) == COLUMNS
    assert [c for c in MANDATORY if not row[c]] == ["ChargeClass"]
    assert all(c.startswith("x_") or c[0].isupper() for c in COLUMNS)


def test_a_spot_row_of_a_job(machine, flat_price):
    (row, *_) = rows_of(
        export(charge(run(hours=1), machine(), flat_price("0.31")), ACCOUNT).to_csv()
    )
    assert row["PricingCategory"] == "Dynamic"
    assert (row["BilledCost"], row["ListCost"]) == ("0.155", "0.503")
    assert row["BilledCost"] == row["EffectiveCost"] == row["ContractedCost"]
    assert (row["PricingQuantity"], row["PricingUnit"]) == ("0.5", "Hours")
    assert Decimal(row["ContractedUnitPrice"]) * Decimal(row["PricingQuantity"]) == Decimal("0.155")
    assert row["ChargePeriodStart"] == "2026-05-31T22:30:00Z"
    assert (row["x_Job"], row["x_Workstation"], row["x_Team"]) == ("job-1", "", "vision")
    assert json.loads(row["Tags"]) == {"project": "birds"}
    assert row["BillingAccountName"] == ACCOUNT.name


def test_rows_lie_in_the_billing_period_of_their_own_month(machine, flat_price):
    rows = export(charge(run(hours=3), machine(), flat_price("0.31")), ACCOUNT).rows
    months = {(r["BillingPeriodStart"], r["BillingPeriodEnd"]) for r in rows}
    assert months == {
        ("2026-05-01T00:00:00Z", "2026-06-01T00:00:00Z"),
        ("2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z"),
    }
    for r in rows:
        assert r["BillingPeriodStart"] <= r["ChargePeriodStart"]
        assert r["ChargePeriodEnd"] <= r["BillingPeriodEnd"]


def test_the_rows_sum_to_the_ledger(machine, flat_price):
    charges = charge(run(days=2, seconds=77), machine(), flat_price("0.0000073"))
    rows = rows_of(export(charges, ACCOUNT).to_csv())
    assert sum(Decimal(r["BilledCost"]) for r in rows) == total(charges)
    assert not any("E" in r["BilledCost"] for r in rows)


def test_without_a_price_there_is_no_row_and_no_zero(machine, flat_price):
    charges = charge(run(hours=2), machine(), flat_price(None))
    result = export(charges, ACCOUNT)
    assert result.rows == ()
    assert result.unpriced == charges


def test_volumes_and_workstations_have_their_own_service(machine, flat_price):
    desk = machine(owner_kind="workstation", mode="on-demand")
    disk = machine(kind=ResourceKind.VOLUME, mode="on-demand", size_gib=Decimal(10))
    (of_desk, *_) = export(charge(run(minutes=5), desk, flat_price("1")), ACCOUNT).rows
    (of_disk, *_) = export(charge(run(minutes=5), disk, flat_price("1")), ACCOUNT).rows
    assert (of_desk["ServiceCategory"], of_desk["ServiceSubcategory"]) == (
        "Compute",
        "End User Computing",
    )
    assert (of_disk["ServiceCategory"], of_disk["PricingUnit"]) == ("Storage", "GiB-Months")
    assert of_desk["PricingCategory"] == "Standard"
