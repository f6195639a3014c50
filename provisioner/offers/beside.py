"""What is bought beside a machine: a disk, a public address, what it sends to the internet."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from provisioner.providers.contract import Rates

HOURS_A_MONTH = 730


@dataclass(frozen=True, slots=True)
class Beside:
    """How much of it is wanted."""

    disk_gib: float = 0.0
    address: bool = False
    egress_gib_per_hour: float = 0.0

    @property
    def wanted(self) -> bool:
        return bool(self.disk_gib or self.address or self.egress_gib_per_hour)

    def per_hour(self, rates: Rates, currency: str) -> Decimal | None:
        """What it costs; None where a rate is unknown, or in another currency."""
        total = Decimal(0)
        for amount, rate in (
            (Decimal(str(self.disk_gib)) / HOURS_A_MONTH, rates.volume_gib_month),
            (Decimal(int(self.address)), rates.address_hour),
            (Decimal(str(self.egress_gib_per_hour)), rates.egress_gib),
        ):
            if not amount:
                continue
            if rate is None or rate.currency != currency:
                return None
            total += amount * rate.price
        return total
