"""What is learnt of a provider that tells only some of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from policies.world import PurchaseMode
from provisioner.clock import ManualClock
from provisioner.errors import ProviderError
from provisioner.providers.contract import PricePoint
from provisioner.reconcile.observe import PriceQuestion, observe
from provisioner.simulation.cloud import FakeCloud
from tests.provisioner.world import ABLE, ON_DEMAND, START, offer


class Half(FakeCloud):
    """Tells no prices of the east."""

    asked: list[str]

    def prices(
        self, instance_type: str, zone: str, mode: PurchaseMode, start: datetime, end: datetime
    ) -> Sequence[PricePoint]:
        self.asked.append(zone)
        if zone.startswith("e"):
            raise ProviderError("the east does not answer")
        return super().prices(instance_type, zone, mode, start, end)


def test_a_region_that_is_silent_is_asked_once_and_keeps_no_other_prices_back() -> None:
    east = [
        replace(offer(zone, ON_DEMAND), id=f"fake/east/{zone}/small/on-demand", region="east")
        for zone in ("e1", "e2")
    ]
    west = offer("a", ON_DEMAND)
    cloud = Half(ManualClock(START), ABLE, [*east, west])
    cloud.asked = []
    questions = [PriceQuestion(one, START - timedelta(hours=1)) for one in (*east, west)]
    seen = observe(cloud, questions, START)
    assert cloud.asked == ["e1", "a"]
    assert list(seen.prices) == [west.id]
    assert seen.listing is not None
