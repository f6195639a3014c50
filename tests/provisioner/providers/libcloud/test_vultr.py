"""Vultr's requests, against what libcloud's authors recorded of it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from provisioner.clock import ManualClock
from provisioner.errors import (
    AuthError,
    CapacityError,
    ProviderError,
    QuotaError,
    ThrottledError,
)
from provisioner.providers.contract import MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.marks import Owner, of_words, words
from provisioner.providers.libcloud.provider import LibcloudProvider
from provisioner.providers.libcloud.settings import CloudSettings
from tests.clouds.libcloud_fixtures.recorded import Recorded, recorded
from tests.contract.machines import wait_until
from tests.provisioner.providers.libcloud.conftest import offer, request

S = MachineState
OWNER = Owner("test", "vultr")
SIZE, REGION = "vc2-1c-2gb", "fra"
OFFER = offer(SIZE, REGION, provider="vultr", region=REGION)
ID = "123"


@pytest.fixture
def cloud(recorded_cloud: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setenv("TOKEN", "t0k3n")
    recorded_cloud.on("GET", "/v2/instances", {"instances": []})
    recorded_cloud.on("GET", "/v2/blocks", {"blocks": []})
    return recorded_cloud


@pytest.fixture
def provider(cloud: Recorded, clock: ManualClock) -> LibcloudProvider:
    settings = CloudSettings(
        name="vultr",
        driver="vultr",
        secrets={"api_key": "env:TOKEN"},  # type: ignore[dict-item]
        regions=(REGION,),
        endpoint_url=cloud.url,
    )
    return LibcloudProvider(settings, "test", clock)


def instance(tags: Mapping[str, str], **changes: object) -> dict[str, Any]:
    """The recorded one, with marks of ours."""
    body = recorded("vultr_v2/list_nodes.json")["instances"][0]
    return {**body, "tags": words({**OWNER.marks, **tags}, 120), **changes}


def running(cloud: Recorded, **changes: object) -> None:
    body = instance({marks.LAUNCH: "one"}, **changes)
    cloud.on("GET", "/v2/instances", {"instances": [body]})
    cloud.on("GET", f"/v2/instances/{ID}", {"instance": body})


def test_a_launch(provider: LibcloudProvider, cloud: Recorded) -> None:
    made = recorded("vultr_v2/create_node.json")["instance"]
    cloud.on(
        "POST",
        "/v2/instances",
        lambda call: {"instance": {**made, "tags": call.body["tags"]}},
        status=202,
    )
    machine = provider.launch(request(offer=OFFER))
    assert (machine.state, machine.launch_id) == (S.PENDING, "one")
    (call,) = cloud.told("POST")
    assert of_words(call.body.pop("tags"))[marks.LAUNCH] == "one"
    assert base64.b64decode(call.body.pop("user_data")) == b"#!/bin/sh\n"
    assert call.body == {
        "label": "roost-one",
        "region": REGION,
        "plan": SIZE,
        "os_id": 2284,
        "backups": "disabled",
        "activation_email": False,
    }


def test_recorded_instances_are_not_ours(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("GET", "/v2/instances", recorded("vultr_v2/list_nodes.json"))
    cloud.on("GET", "/v2/blocks", recorded("vultr_v2/list_volumes.json"))
    listing = provider.list()
    assert (listing.machines, listing.volumes) == ((), ())


@pytest.mark.parametrize(
    ("status", "power", "server", "state"),
    [
        ("pending", "running", "none", S.PENDING),
        ("active", "stopped", "installingbooting", S.PENDING),
        ("active", "running", "installingbooting", S.RUNNING),
        ("active", "running", "ok", S.RUNNING),
        ("active", "stopped", "ok", S.STOPPED),
    ],
)
def test_states(
    provider: LibcloudProvider,
    cloud: Recorded,
    status: str,
    power: str,
    server: str,
    state: MachineState,
) -> None:
    running(cloud, status=status, power_status=power, server_status=server)
    (machine,) = provider.list().machines
    assert machine.state is state


def test_pages(provider: LibcloudProvider, cloud: Recorded) -> None:
    def page(call: Any) -> dict[str, Any]:
        number = int(call.query.get("cursor", 0))
        body = instance({marks.LAUNCH: f"n{number}"}, id=f"id{number}")
        following = str(number + 1) if number < 3 else ""
        return {"instances": [body], "meta": {"links": {"next": following, "prev": ""}}}

    cloud.on("GET", "/v2/instances", page)
    assert [one.id for one in provider.list().machines] == ["id0", "id1", "id2", "id3"]


def test_stop_start_resize_and_terminate(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("POST", "/v2/instances/halt", status=204)
    cloud.on("POST", f"/v2/instances/{ID}/start", status=204)
    cloud.on("PATCH", f"/v2/instances/{ID}", recorded("vultr_v2/ex_resize_node.json"), status=202)
    cloud.on("DELETE", f"/v2/instances/{ID}", status=204)
    running(cloud)
    provider.stop("one")
    running(cloud, power_status="stopped")
    provider.list()
    provider.resize(ID, offer("vc2-2c-4gb", REGION, provider="vultr", region=REGION))
    provider.start(ID)
    provider.terminate(ID)
    assert [call.body or None for call in cloud.told("POST")] == [{"instance_ids": [ID]}, None]
    assert [call.body for call in cloud.told("PATCH")] == [{"plan": "vc2-2c-4gb"}]
    assert len(cloud.told("DELETE")) == 1


def test_volumes_say_whose_they_are_by_their_label(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    made = recorded("vultr_v2/create_volume.json")["block"] | {"status": "active"}
    cloud.on(
        "POST",
        "/v2/blocks",
        lambda call: {"block": {**made, "label": call.body["label"]}},
        status=202,
    )
    cloud.on("POST", "/v2/blocks/.*/attach", status=204)
    home = {marks.LAUNCH: "one", marks.VOLUME: "vol_1", marks.VOLUME_GIB: "10"}
    cloud.on("GET", "/v2/instances", {"instances": [instance(home)]})
    provider.list()
    wait_until(lambda: cloud.told("POST", "/v2/blocks/.*/attach"))
    (create,) = cloud.told("POST", "/v2/blocks")
    label = "roost.test.vultr.vol_1"
    assert create.body == {"label": label, "region": REGION, "size_gb": 10}
    (attach,) = cloud.told("POST", "/v2/blocks/.*/attach")
    assert attach.body == {"instance_id": ID, "live": True}
    listed = {**made, "label": label, "attached_to_instance": ID, "region": REGION}
    cloud.on("GET", "/v2/blocks", {"blocks": [listed]})
    (volume,) = provider.list().volumes
    assert (volume.id, volume.attached_to, volume.zone) == ("vol_1", ID, REGION)


def test_the_price_of_an_hour_is_a_672nd_of_the_months(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    plans = recorded("vultr_v2/list_sizes.json")
    whole = {**plans["plans"][0], "id": "vcg-a100-12c-120g-80vram", "locations": [REGION]}
    whole |= {"gpu_type": "NVIDIA_A100", "gpu_vram_gb": 80}
    slice_ = {**whole, "id": "vcg-a100-1c-6g-4vram", "gpu_vram_gb": 4}
    plans["plans"] += [whole, slice_]
    cloud.on("GET", "/v2/plans", plans)
    offers = {one.instance_type: one for one in provider.offers()}
    assert offers[SIZE].price_per_hour == Decimal(10) / 672
    assert slice_["id"] not in offers
    assert offers[whole["id"]].resources.gpus >= 1


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (401, "Invalid API token.", AuthError),
        (400, "You have reached the maximum monthly fee limit for this account.", QuotaError),
        (400, "The selected plan is currently not available in this location", CapacityError),
        (429, "Rate limit exceeded", ThrottledError),
    ],
)
def test_refusals(
    provider: LibcloudProvider,
    cloud: Recorded,
    status: int,
    error: str,
    kind: type[ProviderError],
) -> None:
    cloud.on("POST", "/v2/instances", {"error": error, "status": status}, status=status)
    with pytest.raises(kind, match=error.split(".")[0]):
        provider.launch(request(offer=OFFER))
