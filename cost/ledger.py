"""The ledger: from intervals and prices to charges, exactly.

The rule for amounts. A resource at price p that ran over [a, b) costs

    C(b) - C(a),   C(t) = p x hours since 1970-01-01T00:00Z, cut down to 12 decimal places.

That is additive by construction: however a span is cut (at hours, at midnights of any zone, at a
period's end), the pieces sum to the whole to the last digit. It lies within 1e-12 of seconds x
price / 3600 and equals it wherever 12 places can hold it. Quantities (hours, GiB-months) follow the
same rule. Nothing here rounds to cents; that is for presentation (`cost.savings.round_to_total`).

A volume's month has 730 hours, so that a year is twelve months in every year but a leap one.
What has no price has no cost: None, counted apart, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Context, Decimal
from enum import StrEnum

from cost.errors import CurrencyMismatch
from cost.periods import utc
from cost.prices import PriceBook, PricedSpan
from cost.usage import UsageInterval

HOURS_PER_MONTH = 730

_EXACT = Context(prec=60, rounding=ROUND_FLOOR)
_PLACES = Decimal("1e-12")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_HOUR = Decimal(3_600_000_000)


class ResourceKind(StrEnum):
    """What is paid for."""

    INSTANCE = "instance"
    VOLUME = "volume"


class PricingCategory(StrEnum):
    """FOCUS PricingCategory, the two that occur here: Dynamic is spot."""

    STANDARD = "Standard"
    DYNAMIC = "Dynamic"


@dataclass(frozen=True, slots=True)
class Resource:
    """A machine or a volume, and whom it is charged to."""

    id: str
    kind: ResourceKind
    name: str
    provider: str
    region: str
    zone: str
    instance_type: str
    mode: str
    """`spot` or `on-demand`."""
    owner_kind: str
    """`workstation`, `job` or `none`."""
    owner_id: str | None
    owner_name: str
    team: str
    user: str
    labels: tuple[tuple[str, str], ...] = ()
    on_demand_price_per_hour: Decimal | None = None
    """What the same machine costs on demand; None when nobody knows."""
    size_gib: Decimal | None = None
    """For a volume."""


@dataclass(frozen=True, slots=True)
class Charge:
    """One span of one resource at one price; the fields are FOCUS columns in snake case.

    Costs are None while the price is unknown. Within one UTC hour, unless `charge` was told not to.
    """

    resource: Resource
    charge_period_start: datetime
    charge_period_end: datetime
    billing_currency: str | None
    billed_cost: Decimal | None
    list_cost: Decimal | None
    """On-demand cost of the same span; None when the on-demand price is unknown."""
    contracted_unit_price: Decimal | None
    """The price in force."""
    list_unit_price: Decimal | None
    pricing_quantity: Decimal
    """Hours, or GiB-months."""
    estimated: bool = False
    open: bool = False
    """The resource still runs: the bill of this hour is not final."""

    @property
    def key(self) -> tuple[str, datetime]:
        """What identifies the charge when a period is derived and stored again."""
        return (self.resource.id, self.charge_period_start)

    @property
    def effective_cost(self) -> Decimal | None:
        """Equals the billed cost: there are no commitments to amortise."""
        return self.billed_cost

    @property
    def contracted_cost(self) -> Decimal | None:
        return self.billed_cost

    @property
    def pricing_unit(self) -> str:
        return "Hours" if self.resource.kind is ResourceKind.INSTANCE else "GiB-Months"

    @property
    def pricing_category(self) -> PricingCategory:
        spot = self.resource.mode == "spot" and self.resource.kind is ResourceKind.INSTANCE
        return PricingCategory.DYNAMIC if spot else PricingCategory.STANDARD

    @property
    def charge_category(self) -> str:
        return "Usage"

    @property
    def hours(self) -> Decimal:
        """Hours on the clock, for machines and volumes alike."""
        return _between(Decimal(1), self.charge_period_start, self.charge_period_end)

    def clip(self, start: datetime, end: datetime) -> Charge | None:
        """The part inside [start, end), exactly; None when there is none."""
        a = max(self.charge_period_start, utc(start))
        b = min(self.charge_period_end, utc(end))
        if (a, b) == (self.charge_period_start, self.charge_period_end):
            return self
        if a >= b:
            return None
        return replace(
            self,
            charge_period_start=a,
            charge_period_end=b,
            billed_cost=_cost(self.resource, self.contracted_unit_price, a, b),
            list_cost=_cost(self.resource, self.list_unit_price, a, b),
            pricing_quantity=_quantity(self.resource, a, b),
            open=self.open and b == self.charge_period_end,
        )


def charge(
    intervals: Iterable[UsageInterval],
    resource: Resource,
    prices: PriceBook,
    zones: Iterable[str] = (),
    *,
    hourly: bool = True,
) -> tuple[Charge, ...]:
    """The charges of a resource, in order of time; intervals of other resources are left out.

    Charges are cut at price changes, UTC hours and the local midnights of `zones` (IANA names).
    `hourly` False leaves the hours out, for sums over many days: they come to the same.
    """
    zones = tuple(zones)
    return tuple(
        _charge(resource, span, interval)
        for interval in sorted(intervals, key=lambda i: i.start)
        if interval.instance_id == resource.id
        for span in prices.split(resource.id, interval.start, interval.end, zones, hourly=hourly)
    )


def clip(charges: Iterable[Charge], start: datetime, end: datetime) -> tuple[Charge, ...]:
    """The parts of the charges inside [start, end); adjacent clips sum to the whole exactly."""
    parts = (c.clip(start, end) for c in charges)
    return tuple(c for c in parts if c is not None)


def unique(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """Each charge once, however many selections (by tag, by id, by team) it came from."""
    by_key = {c.key: c for c in charges}
    return tuple(by_key[key] for key in sorted(by_key))


def total(charges: Iterable[Charge]) -> Decimal:
    """Sum of the known billed costs, exact.

    Raises:
        CurrencyMismatch: the charges are in more than one currency.
    """
    charges = tuple(charges)
    currency_of(charges)
    return add(c.billed_cost for c in charges if c.billed_cost is not None)


def currency_of(charges: Iterable[Charge]) -> str | None:
    """The one currency of the priced charges, None when there are none."""
    found = {c.billing_currency for c in charges if c.billed_cost is not None}
    if len(found) > 1:
        names = " and ".join(sorted(str(f) for f in found))
        raise CurrencyMismatch(
            f"charges are in {names}; report each currency apart, or convert with a dated rate"
        )
    return next(iter(found), None)


def add(amounts: Iterable[Decimal]) -> Decimal:
    """Sum without rounding, whatever the caller's decimal context."""
    result = Decimal(0)
    for amount in amounts:
        result = _EXACT.add(result, amount)
    return result


def _charge(resource: Resource, span: PricedSpan, interval: UsageInterval) -> Charge:
    unit_price = _unit_price(resource, span)
    list_price = _list_price(resource, unit_price)
    return Charge(
        resource=resource,
        charge_period_start=span.start,
        charge_period_end=span.end,
        billing_currency=span.price.currency if span.price else None,
        billed_cost=_cost(resource, unit_price, span.start, span.end),
        list_cost=_cost(resource, list_price, span.start, span.end),
        contracted_unit_price=unit_price,
        list_unit_price=list_price,
        pricing_quantity=_quantity(resource, span.start, span.end),
        estimated=interval.estimated,
        open=interval.open and span.end == interval.end,
    )


def _unit_price(resource: Resource, span: PricedSpan) -> Decimal | None:
    if span.price is None:
        return None
    if resource.kind is ResourceKind.VOLUME:
        return span.price.price_per_gib_month if resource.size_gib is not None else None
    return span.price.price_per_hour


def _list_price(resource: Resource, unit_price: Decimal | None) -> Decimal | None:
    """The on-demand price; what is bought on demand defines its own."""
    if resource.kind is ResourceKind.VOLUME or resource.mode != "spot":
        return unit_price
    return resource.on_demand_price_per_hour


def _cost(
    resource: Resource, unit_price: Decimal | None, start: datetime, end: datetime
) -> Decimal | None:
    if unit_price is None:
        return None
    if resource.kind is ResourceKind.VOLUME:
        assert resource.size_gib is not None
        monthly = _EXACT.multiply(unit_price, resource.size_gib)
        return _between(monthly, start, end, HOURS_PER_MONTH)
    return _between(unit_price, start, end)


def _quantity(resource: Resource, start: datetime, end: datetime) -> Decimal:
    if resource.kind is ResourceKind.VOLUME:
        return _between(resource.size_gib or Decimal(0), start, end, HOURS_PER_MONTH)
    return _between(Decimal(1), start, end)


def _between(rate: Decimal, start: datetime, end: datetime, hours: int = 1) -> Decimal:
    """`rate` per so many hours over [start, end), by the module's rule."""
    return _EXACT.subtract(_since_epoch(rate, end, hours), _since_epoch(rate, start, hours))


def _since_epoch(rate: Decimal, at: datetime, hours: int) -> Decimal:
    microseconds = Decimal((at - _EPOCH) // _MICROSECOND)
    product = _EXACT.multiply(rate, microseconds)
    exact = _EXACT.divide(product, _EXACT.multiply(_MICROSECONDS_PER_HOUR, Decimal(hours)))
    return exact.quantize(_PLACES, context=_EXACT)
