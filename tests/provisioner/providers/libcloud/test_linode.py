"""Linode's requests, against what libcloud's authors recorded of it."""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from provisioner.clock import ManualClock
from provisioner.errors import AuthError, InvalidRequest, ProviderError, QuotaError
from provisioner.gpus import canonical_gpu
from provisioner.providers.contract import MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.marks import Owner, of_words, words
from provisioner.providers.libcloud.provider import LibcloudProvider
from provisioner.providers.libcloud.settings import CloudSettings
from tests.clouds.libcloud_fixtures.recorded import Recorded, recorded
from tests.contract.machines import wait_until
from tests.provisioner.providers.libcloud.conftest import offer, request

S = MachineState
OWNER = Owner("test", "akamai")
SIZE, REGION = "g6-nanode-1", "eu-west"
OFFER = offer(SIZE, REGION, provider="akamai", region=REGION)
ID = "22344420"
INSTANCES = "/v4/linode/instances"


def empty() -> dict[str, Any]:
    return {"data": [], "page": 1, "pages": 1}


@pytest.fixture
def cloud(recorded_cloud: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setenv("TOKEN", "t0k3n")
    recorded_cloud.on("GET", INSTANCES, empty())
    recorded_cloud.on("GET", "/v4/volumes", empty())
    return recorded_cloud


@pytest.fixture
def provider(cloud: Recorded, clock: ManualClock) -> LibcloudProvider:
    settings = CloudSettings(
        name="akamai",
        driver="linode",
        secrets={"token": "env:TOKEN"},  # type: ignore[dict-item]
        regions=(REGION,),
        endpoint_url=cloud.url,
    )
    return LibcloudProvider(settings, "test", clock)


def instance(tags: Mapping[str, str], **changes: object) -> dict[str, Any]:
    """The recorded one, with marks of ours."""
    body = recorded("linode_v4/list_nodes.json")["data"][0]
    return {**body, "tags": words({**OWNER.marks, **tags}, 50), **changes}


def running(cloud: Recorded, **changes: object) -> None:
    body = instance({marks.LAUNCH: "one"}, **changes)
    cloud.on("GET", INSTANCES, empty() | {"data": [body]})
    cloud.on("GET", f"{INSTANCES}/{ID}", body)


def test_a_launch(provider: LibcloudProvider, cloud: Recorded) -> None:
    made = recorded("linode_v4/create_node.json")
    cloud.on("POST", INSTANCES, lambda call: {**made, "tags": call.body["tags"], "type": SIZE})
    machine = provider.launch(request(offer=OFFER))
    assert (machine.state, machine.launch_id, machine.tags) == (
        S.PENDING,
        "one",
        (("job", "j1"),),
    )
    (call,) = cloud.told("POST")
    tags = call.body.pop("tags")
    assert all(3 <= len(tag) <= 50 for tag in tags)
    assert of_words(tags)[marks.LAUNCH] == "one"
    script = base64.b64decode(call.body.pop("metadata")["user_data"])
    assert script == b"#!/bin/sh\n"
    assert len(call.body.pop("root_pass")) > 32
    assert call.body == {
        "label": "roost-one",
        "region": REGION,
        "type": SIZE,
        "image": "linode/ubuntu24.04",
        "booted": True,
        "backups_enabled": False,
    }
    assert call.headers["authorization"] == "Bearer t0k3n"


def test_a_root_password_is_never_used_twice(provider: LibcloudProvider, cloud: Recorded) -> None:
    made = recorded("linode_v4/create_node.json")
    cloud.on("POST", INSTANCES, lambda call: {**made, "tags": call.body["tags"]})
    provider.launch(request(offer=OFFER))
    provider.launch(request("two", offer=OFFER))
    assert len({call.body["root_pass"] for call in cloud.told("POST")}) == 2


def test_a_long_boot_script_is_packed_and_a_longer_one_refused(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    made = recorded("linode_v4/create_node.json")
    cloud.on("POST", INSTANCES, lambda call: {**made, "tags": call.body["tags"]})
    provider.launch(request(offer=OFFER, user_data="#!/bin/sh\n" + "# long\n" * 20000))
    (call,) = cloud.told("POST")
    assert len(call.body["metadata"]["user_data"]) < 65535
    noise = random.Random(1).randbytes(60000).hex()
    with pytest.raises(InvalidRequest, match="too long for Linode"):
        provider.launch(request("two", offer=OFFER, user_data=noise))


def test_states_and_pages(provider: LibcloudProvider, cloud: Recorded) -> None:
    states = {
        "provisioning": S.PENDING,
        "booting": S.PENDING,
        "running": S.RUNNING,
        "rebooting": S.RUNNING,
        "shutting_down": S.STOPPING,
        "offline": S.STOPPED,
        "deleting": S.TERMINATING,
    }
    bodies = [
        instance({marks.LAUNCH: status.replace("_", "-")}, id=number, status=status)
        for number, status in enumerate(states)
    ]

    def page(call: Any) -> dict[str, Any]:
        number = int(call.query["page"])
        return {"data": bodies[number - 1 : number], "page": number, "pages": len(bodies)}

    cloud.on("GET", INSTANCES, page)
    found = {one.launch_id.replace("-", "_"): one.state for one in provider.list().machines}
    assert found == states


def test_recorded_instances_are_not_ours(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("GET", INSTANCES, recorded("linode_v4/list_nodes.json"))
    cloud.on("GET", "/v4/volumes", recorded("linode_v4/list_volumes.json"))
    listing = provider.list()
    assert (listing.machines, listing.volumes) == ((), ())


def test_stop_start_resize_and_terminate(provider: LibcloudProvider, cloud: Recorded) -> None:
    for verb in ("boot", "shutdown", "resize"):
        cloud.on("POST", f"{INSTANCES}/{ID}/{verb}", {})
    cloud.on("DELETE", f"{INSTANCES}/{ID}", {})
    running(cloud)
    provider.stop("one")
    running(cloud, status="offline")
    provider.list()
    provider.resize(ID, offer("g6-standard-1", REGION, provider="akamai", region=REGION))
    provider.start(ID)
    provider.terminate(ID)
    told = [(call.path.rpartition("/")[2], call.body or None) for call in cloud.told("POST")]
    assert told == [
        ("shutdown", None),
        ("resize", {"type": "g6-standard-1", "allow_auto_disk_resize": False}),
        ("boot", None),
    ]
    assert len(cloud.told("DELETE")) == 1


def test_volumes(provider: LibcloudProvider, cloud: Recorded) -> None:
    made = recorded("linode_v4/create_volume_unattached.json") | {"status": "active"}
    cloud.on("POST", "/v4/volumes", lambda call: {**made, "tags": call.body["tags"]})
    cloud.on("POST", "/v4/volumes/.*/attach", recorded("linode_v4/attach_volume_to_node.json"))
    home = {marks.LAUNCH: "one", marks.VOLUME: "vol_1", marks.VOLUME_GIB: "10"}
    cloud.on("GET", INSTANCES, empty() | {"data": [instance(home)]})
    provider.list()
    wait_until(lambda: cloud.told("POST", "/v4/volumes/.*/attach"))
    (create,) = cloud.told("POST", "/v4/volumes")
    assert of_words(create.body.pop("tags")) == OWNER.marks | {marks.VOLUME: "vol_1"}
    label = create.body.pop("label")
    assert len(label) == 32
    assert create.body == {"size": 10, "region": REGION}
    (attach,) = cloud.told("POST", "/v4/volumes/.*/attach")
    assert attach.body == {"linode_id": int(ID), "persist_across_boots": True}


def test_volumes_have_no_snapshots(provider: LibcloudProvider) -> None:
    assert not provider.capabilities.snapshots
    with pytest.raises(InvalidRequest):
        provider.snapshot("v", "s")


def test_sizes_with_the_prices_of_their_region(provider: LibcloudProvider, cloud: Recorded) -> None:
    regions = recorded("linode_v4/list_locations.json")
    types = recorded("linode_v4/list_types.json")
    types["data"][1]["region_prices"] = [{"id": REGION, "hourly": 0.021, "monthly": 14.4}]
    gpu = {
        **types["data"][0],
        "id": "g1-gpu-rtx6000-2",
        "label": "Dedicated 64GB + RTX6000 GPU x2",
        "gpus": 2,
    }
    types["data"].append(gpu)
    cloud.on("GET", "/v4/regions", regions)
    cloud.on("GET", "/v4/linode/types", types)
    assert not any(one.resources.gpus for one in provider.offers())  # not in this region
    offers = {one.instance_type: one for one in provider.offers()}
    assert offers[SIZE].price_per_hour == Decimal("0.0075")
    assert offers["g6-standard-1"].price_per_hour == Decimal("0.021")
    assert {one.zone for one in offers.values()} == {REGION}
    assert {one.can_stop for one in offers.values()} == {False}


@pytest.mark.parametrize(
    ("label", "model"),
    [("Dedicated 64GB + RTX6000 GPU x2", "RTX6000"), ("RTX4000 Ada x2 Small", "RTX4000 Ada")],
)
def test_a_region_with_gpus_offers_them(
    provider: LibcloudProvider, cloud: Recorded, label: str, model: str
) -> None:
    regions = recorded("linode_v4/list_locations.json")
    for region in regions["data"]:
        region["capabilities"].append("GPU Linodes")
    types = recorded("linode_v4/list_types.json")
    types["data"][0] |= {"label": label, "gpus": 2}
    cloud.on("GET", "/v4/regions", regions)
    cloud.on("GET", "/v4/linode/types", types)
    found = next(one.resources for one in provider.offers() if one.resources.gpus)
    assert (found.gpus, found.gpu_model) == (2, canonical_gpu(model))


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (401, "Invalid Token", AuthError),
        (403, "Your OAuth token is not authorized to use this endpoint.", AuthError),
        (400, "Account Limit reached. Please open a support ticket.", QuotaError),
        (400, "image is not valid", InvalidRequest),
    ],
)
def test_refusals(
    provider: LibcloudProvider,
    cloud: Recorded,
    status: int,
    reason: str,
    kind: type[ProviderError],
) -> None:
    cloud.on("POST", INSTANCES, {"errors": [{"reason": reason}]}, status=status)
    with pytest.raises(kind, match=reason.split(".")[0]):
        provider.launch(request(offer=OFFER))
