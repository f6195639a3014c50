"""What the host sells, and that it sells nothing twice."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from policies.world import Offer, PurchaseMode
from provisioner.errors import CapacityError, InvalidError
from provisioner.providers.contract import MachineState
from provisioner.providers.local.host import Gpu, Host, this_host
from provisioner.providers.local.market import Market, MarketSettings, TraceSettings
from provisioner.providers.local.offers import machine_types, offers, type_named
from provisioner.providers.local.settings import LocalSettings
from tests.contract.machines import (
    SETTINGS,
    LocalMachines,
    offer_of,
    request_for,
    state_of,
    wait_until,
)

S = MachineState
GIB = 1 << 30
NOW = datetime(2026, 3, 1, tzinfo=UTC)
TWO_GPUS = Host(8, 32 * GIB, (Gpu("GPU-a", "H200"), Gpu("GPU-b", "H200")))


def names(host: Host) -> list[str]:
    return [one.name for one in machine_types(host)]


def test_types_are_cut_from_the_host() -> None:
    assert names(Host(6, 23 * GIB)) == ["local.1x2", "local.2x4", "local.4x8", "local.6x23"]
    assert names(Host(1, GIB // 2)) == ["local.1x1"]
    assert names(Host(4, 8 * GIB)) == ["local.1x2", "local.2x4", "local.4x8"]


def test_gpu_types_are_shares_of_the_host() -> None:
    assert names(TWO_GPUS)[-2:] == ["local.4x16.1gpu", "local.8x32.2gpu"]
    share = machine_types(TWO_GPUS)[-2].resources
    assert (share.cpus, share.memory_gib, share.gpus, share.gpu_model) == (4, 16, 1, "H200")


@pytest.mark.parametrize("host", [Host(6, 23 * GIB), TWO_GPUS])
def test_a_type_is_known_by_its_name(host: Host) -> None:
    for one in machine_types(host):
        found = type_named(one.name)
        assert found is not None
        assert found.on_demand_price(SETTINGS) == one.on_demand_price(SETTINGS)
    assert type_named("m5.large") is None


def test_each_type_is_sold_in_each_zone_both_ways() -> None:
    settings = LocalSettings(zones=("a", "b"))
    sold = offers(machine_types(TWO_GPUS), settings, Market(settings.market, {}), NOW)
    assert len({offer.id for offer in sold}) == len(sold) == len(machine_types(TWO_GPUS)) * 4
    whole = next(o for o in sold if o.id == "local/local/b/local.8x32.2gpu/on-demand")
    assert whole.price_per_hour == Decimal("0.16") + Decimal("0.08") + Decimal("1.20")
    for offer in sold:
        spot = offer.mode is PurchaseMode.SPOT
        assert offer.can_stop is not spot
        twin: Offer = next(o for o in sold if o.id == offer.id.replace("/spot", "/on-demand"))
        assert offer.price_per_hour < twin.price_per_hour if spot else offer == twin


def test_this_host_has_something_to_sell() -> None:
    host = this_host()
    assert host.cpus >= 1
    assert host.memory_bytes > 0


def test_no_more_cpus_are_sold_than_there_are(local_machines: LocalMachines) -> None:
    provider = local_machines.provider(replace(SETTINGS, overcommit=1.0))
    cpus = this_host().cpus
    request = request_for(provider, offer=offer_of(provider, cpus=1))

    def launch(number: int) -> bool:
        try:
            provider.launch(replace(request, launch_id=f"m{number}"))
        except CapacityError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        launched = list(pool.map(launch, range(cpus + 2)))
    assert sum(launched) == cpus
    first = f"m{launched.index(True)}"
    refused = f"m{launched.index(False)}"
    assert state_of(provider, refused) is None
    provider.stop(first)
    wait_until(lambda: state_of(provider, first) is S.STOPPED)
    provider.launch(replace(request, launch_id="next"))
    with pytest.raises(CapacityError):
        provider.start(first)
    assert state_of(provider, first) is S.STOPPED


def test_gpus_are_never_shared(
    local_machines: LocalMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provisioner.providers.local.fleet.this_host", lambda: TWO_GPUS)
    provider = local_machines.provider()
    offer = next(o for o in provider.offers() if o.resources.gpus == 1)
    script = "#!/bin/sh\necho $CUDA_VISIBLE_DEVICES > $ROOST_HOME/gpus\nexec sleep 600\n"
    request = request_for(provider, script=script, offer=offer)
    seen = []
    for launch_id in ("one", "two"):
        provider.launch(replace(request, launch_id=launch_id))
        path = local_machines.folder(launch_id).path / "disk" / "home" / "gpus"
        wait_until(lambda p=path: p.exists() and p.read_text())  # type: ignore[misc]
        seen.append(path.read_text().strip())
    assert seen == ["GPU-a", "GPU-b"]
    with pytest.raises(CapacityError, match="0 GPUs are free"):
        provider.launch(replace(request, launch_id="three"))
    provider.terminate("one")
    wait_until(lambda: state_of(provider, "one") is S.TERMINATED)
    assert provider.launch(replace(request, launch_id="three")).state is S.RUNNING


@pytest.mark.parametrize(
    "changes",
    [
        {"price_per_cpu_hour": Decimal(-1)},
        {"price_per_gpu_hour": Decimal("NaN")},
        {"zones": ()},
        {"zones": ("a", "a")},
        {"zones": ("a/b",)},
        {"overcommit": 0},
        {"limits": "maybe"},
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidError):
        LocalSettings(**changes)  # type: ignore[arg-type]


def test_a_trace_of_an_unknown_zone_is_refused() -> None:
    traces = (TraceSettings("elsewhere", Path("x.json"), NOW),)
    with pytest.raises(InvalidError, match="elsewhere"):
        LocalSettings(market=MarketSettings(traces=traces))


def test_what_was_sold_keeps_its_price_when_the_settings_change(
    local_machines: LocalMachines,
) -> None:
    cheap = local_machines.provider(replace(SETTINGS, price_per_cpu_hour=Decimal("0.02")))
    cheap.launch(request_for(cheap))
    cheap.terminate("one")
    wait_until(lambda: state_of(cheap) is S.TERMINATED)
    (end,) = [m.run_ended_at for m in cheap.list().machines]
    assert end is not None
    before = cheap.bill(NOW.replace(year=2000), NOW.replace(year=2999))
    dear = local_machines.provider(replace(SETTINGS, price_per_cpu_hour=Decimal(5)))
    dear.list()
    assert dear.bill(NOW.replace(year=2000), NOW.replace(year=2999)) == before
    forever = datetime(2999, 1, 1, tzinfo=UTC)
    points = dear.prices("local.1x2", "local-a", PurchaseMode.ON_DEMAND, end, forever)
    assert [point.price for point in points] == [Decimal("0.025"), Decimal("5.005")]
    recorded = (local_machines.root / "tariffs.jsonl").read_text().splitlines()
    assert len([json.loads(line) for line in recorded]) == 2
