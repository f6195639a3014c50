"""Charges as FOCUS 1.4 Cost-and-Usage rows, and as CSV text.

All 21 mandatory columns, the conditional ones that apply, and our own as `x_` columns. A FOCUS row
must have a cost, so charges without a price cannot be rows: they come back apart and are not
dropped silently. Source: FinOps Open Cost & Usage Specification 1.4 (2026-06-04).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from cost.ledger import Charge, Resource, ResourceKind
from cost.periods import period_bounds

MANDATORY = (
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodStart",
    "BillingPeriodEnd",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "ContractedCost",
    "EffectiveCost",
    "HostProviderName",
    "InvoiceIssuerName",
    "ListCost",
    "PricingQuantity",
    "PricingUnit",
    "ServiceCategory",
    "ServiceName",
    "ServiceProviderName",
)
CONDITIONAL = (
    "AvailabilityZone",
    "ChargeFrequency",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedUnitPrice",
    "ListUnitPrice",
    "PricingCategory",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceSubcategory",
    "SkuId",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "Tags",
)
OWN = ("x_Team", "x_User", "x_Job", "x_Workstation", "x_OwnerName", "x_Mode", "x_Estimated")
COLUMNS = MANDATORY + CONDITIONAL + OWN

Row = dict[str, str]
"""One FOCUS row: every column, null as the empty string."""


@dataclass(frozen=True, slots=True)
class Account:
    """The billing account that the rows are issued under: the installation."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class FocusExport:
    """The rows, and the charges that cannot be rows because nobody knows their price."""

    rows: tuple[Row, ...]
    unpriced: tuple[Charge, ...]

    def to_csv(self) -> str:
        """CSV with a header (RFC 4180 quoting, LF line ends)."""
        out = io.StringIO()
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()


def export(charges: Iterable[Charge], account: Account) -> FocusExport:
    """FOCUS rows in the order of the charges."""
    charges = tuple(charges)
    return FocusExport(
        rows=tuple(to_row(c, account) for c in charges if c.billed_cost is not None),
        unpriced=tuple(c for c in charges if c.billed_cost is None),
    )


def to_row(charge: Charge, account: Account) -> Row:
    """One priced charge as a FOCUS row; the billing period is the UTC month."""
    period = period_bounds(charge.charge_period_start, "UTC")
    resource = charge.resource
    row = {
        "BilledCost": _number(charge.billed_cost),
        "BillingAccountId": account.id,
        "BillingAccountName": account.name,
        "BillingCurrency": charge.billing_currency or "",
        "BillingPeriodStart": _instant(period.start),
        "BillingPeriodEnd": _instant(period.end),
        "ChargeCategory": charge.charge_category,
        "ChargeClass": "",
        "ChargeDescription": _description(charge),
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": _instant(charge.charge_period_start),
        "ChargePeriodEnd": _instant(charge.charge_period_end),
        "ConsumedQuantity": _number(charge.pricing_quantity),
        "ConsumedUnit": charge.pricing_unit,
        "ContractedCost": _number(charge.contracted_cost),
        "ContractedUnitPrice": _number(charge.contracted_unit_price),
        "EffectiveCost": _number(charge.effective_cost),
        # Without a list price the list cost is what was billed: FOCUS allows no null here.
        "ListCost": _number(charge.billed_cost if charge.list_cost is None else charge.list_cost),
        "ListUnitPrice": _number(charge.list_unit_price),
        "PricingCategory": charge.pricing_category.value,
        "PricingQuantity": _number(charge.pricing_quantity),
        "PricingUnit": charge.pricing_unit,
        "x_Estimated": "true" if charge.estimated else "false",
    }
    row.update(_resource_columns(resource))
    return {column: row[column] for column in COLUMNS}


def _resource_columns(resource: Resource) -> Row:
    machine = resource.kind is ResourceKind.INSTANCE
    sku = f"{resource.provider}/{resource.region}/{resource.instance_type}"
    owner = resource.owner_id or ""
    return {
        "AvailabilityZone": resource.zone,
        "HostProviderName": resource.provider,
        "InvoiceIssuerName": resource.provider,
        "RegionId": resource.region,
        "RegionName": resource.region,
        "ResourceId": resource.id,
        "ResourceName": resource.name,
        "ResourceType": "Virtual Machine" if machine else "Volume",
        "ServiceCategory": "Compute" if machine else "Storage",
        "ServiceName": "Machines" if machine else "Volumes",
        "ServiceProviderName": resource.provider,
        "ServiceSubcategory": _subcategory(resource),
        "SkuId": sku,
        "SkuPriceId": f"{sku}/{resource.mode}",
        "SubAccountId": resource.team,
        "SubAccountName": resource.team,
        "Tags": json.dumps(dict(resource.labels), sort_keys=True),
        "x_Job": owner if resource.owner_kind == "job" else "",
        "x_Mode": resource.mode,
        "x_OwnerName": resource.owner_name,
        "x_Team": resource.team,
        "x_User": resource.user,
        "x_Workstation": owner if resource.owner_kind == "workstation" else "",
    }


def _subcategory(resource: Resource) -> str:
    if resource.kind is ResourceKind.VOLUME:
        return "Block Storage"
    return "End User Computing" if resource.owner_kind == "workstation" else "Virtual Machines"


def _description(charge: Charge) -> str:
    resource = charge.resource
    what = f"{resource.instance_type} {resource.mode} in {resource.region}"
    return f"{what} for {resource.owner_kind} {resource.owner_name}".rstrip()


def _number(value: Decimal | None) -> str:
    """Plain notation without an exponent and without needless zeros; null for unknown."""
    if value is None:
        return ""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _instant(at: datetime) -> str:
    """FOCUS date/time: whole seconds, UTC."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
