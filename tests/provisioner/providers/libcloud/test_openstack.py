"""OpenStack's requests. It signs in against what libcloud's authors recorded of keystone."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from provisioner.clock import ManualClock
from provisioner.errors import (
    AuthError,
    CapacityError,
    InvalidRequest,
    ProviderError,
    QuotaError,
)
from provisioner.providers.contract import EndReason, MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.clouds.openstack import _gpus
from provisioner.providers.libcloud.marks import Owner
from provisioner.providers.libcloud.provider import LibcloudProvider
from provisioner.providers.libcloud.settings import CloudSettings
from tests.clouds.libcloud_fixtures.recorded import Recorded, recorded
from tests.contract.machines import wait_until
from tests.provisioner.providers.libcloud.conftest import offer, request

S = MachineState
OWNER = Owner("test", "stack")
SIZE, ZONE, REGION, ID = "g.h100", "zone-a", "regionOne", "1d6ee7c7"
OFFER = offer(SIZE, ZONE, provider="stack", region=REGION)
NOVA, CINDER, GLANCE = "/compute/v2.1", "/volume/v3/p", "/image"
FLAVORS = [
    {
        "id": "7",
        "name": SIZE,
        "vcpus": 8,
        "ram": 65536,
        "extra_specs": {"resources:CUSTOM_GPU_H100": "1"},
    },
    {"id": "8", "name": "m1.small", "vcpus": 1, "ram": 2048, "extra_specs": {}},
]


@pytest.fixture
def cloud(recorded_cloud: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setenv("PASSWORD", "s3cr3t")
    token = recorded("openstack/_v3__auth.json")
    token["token"]["expires_at"] = "2099-01-01T00:00:00.000000Z"
    paths = {"compute": NOVA, "volumev3": CINDER, "image": GLANCE}
    token["token"]["catalog"] = [
        {
            "type": kind,
            "name": f"our {kind}",
            "endpoints": [
                {"url": recorded_cloud.url + path, "region": REGION, "interface": "public"}
            ],
        }
        for kind, path in paths.items()
    ]
    recorded_cloud.on(
        "POST", "/v3/auth/tokens", token, status=201, headers={"X-Subject-Token": "t0k3n"}
    )
    recorded_cloud.on("GET", f"{NOVA}/servers/detail", {"servers": []})
    recorded_cloud.on("GET", f"{NOVA}/servers/.*/os-instance-actions", {"instanceActions": []})
    recorded_cloud.on("GET", f"{NOVA}/flavors/detail", {"flavors": FLAVORS})
    recorded_cloud.on("GET", f"{CINDER}/volumes/detail", {"volumes": []})
    recorded_cloud.on("GET", f"{CINDER}/snapshots/detail", {"snapshots": []})
    recorded_cloud.on("GET", f"{GLANCE}/v2/images", {"images": [{"id": "image-1"}]})
    return recorded_cloud


@pytest.fixture
def provider(cloud: Recorded, clock: ManualClock) -> LibcloudProvider:
    settings = CloudSettings(
        name="stack",
        driver="openstack",
        account={"auth_url": cloud.url, "username": "demo", "project": "demo"},
        secrets={"password": "env:PASSWORD"},  # type: ignore[dict-item]
        regions=(REGION,),
        image="ubuntu",
        prices={"g.*": "2.5", "m1.*": "0.05"},  # type: ignore[dict-item]
    )
    return LibcloudProvider(settings, "test", clock)


def server(
    tags: Mapping[str, str] | None = None,
    vm: str = "active",
    task: str | None = None,
    **changes: object,
) -> dict[str, Any]:
    """As docs.openstack.org/api-ref/compute has it, in what is read of it."""
    body: dict[str, Any] = {
        "id": ID,
        "metadata": {**OWNER.marks, "roost-zone": ZONE, **(tags or {marks.LAUNCH: "one"})},
        "flavor": {"original_name": SIZE, "vcpus": 8, "ram": 65536},
        "created": "2026-03-01T10:00:00Z",
        "updated": "2026-03-01T10:00:05Z",
        "OS-EXT-STS:vm_state": vm,
        "OS-EXT-STS:task_state": task,
        "OS-EXT-STS:power_state": 4 if vm in ("stopped", "resized") else 1,
        "OS-EXT-AZ:availability_zone": ZONE,
        "OS-SRV-USG:launched_at": "2026-03-01T10:00:05.000000",
    }
    return body | changes


def shown(cloud: Recorded, *args: Any, **changes: Any) -> None:
    body = server(*args, **changes)
    cloud.on("GET", f"{NOVA}/servers/detail", {"servers": [body]})
    cloud.on("GET", f"{NOVA}/servers/{ID}", {"server": body})


def test_it_signs_in_once_for_each_connection(provider: LibcloudProvider, cloud: Recorded) -> None:
    provider.list()
    call = cloud.told("POST", "/v3/auth/tokens")[0]
    user = call.body["auth"]["identity"]["password"]["user"]
    assert (user["name"], user["password"]) == ("demo", "s3cr3t")
    asked = cloud.told("GET")
    assert {one.headers["x-auth-token"] for one in asked} == {"t0k3n"}
    assert asked[0].headers["openstack-api-version"] == "compute 2.61"


def test_a_launch(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("POST", f"{NOVA}/servers", {"server": {"id": ID}}, status=202)
    made = provider.launch(request(offer=OFFER))
    assert (made.id, made.state, made.offer_id) == (ID, S.PENDING, OFFER.id)
    (call,) = cloud.told("POST", f"{NOVA}/servers")
    body = call.body["server"]
    metadata = body.pop("metadata")
    assert (metadata["job"], metadata[marks.LAUNCH], metadata["roost-zone"]) == ("j1", "one", ZONE)
    assert OWNER.owns(metadata)
    assert base64.b64decode(body.pop("user_data")) == b"#!/bin/sh\n"
    assert body == {
        "name": "roost-one",
        "flavorRef": "7",
        "imageRef": "image-1",
        "availability_zone": ZONE,
        "networks": "auto",
    }


def test_an_unknown_flavor_or_image_is_named(provider: LibcloudProvider, cloud: Recorded) -> None:
    other = offer("g.b200", ZONE, provider="stack", region=REGION)
    with pytest.raises(InvalidRequest, match=r"no flavor g\.b200"):
        provider.launch(request(offer=other))
    cloud.on("GET", f"{GLANCE}/v2/images", {"images": []})
    with pytest.raises(InvalidRequest, match="no image ubuntu"):
        provider.launch(request(offer=OFFER))


@pytest.mark.parametrize(
    ("vm", "task", "state"),
    [
        ("building", "scheduling", S.PENDING),
        ("active", None, S.RUNNING),
        ("active", "powering-off", S.STOPPING),
        ("active", "deleting", S.TERMINATING),
        ("stopped", None, S.STOPPED),
        ("stopped", "powering-on", S.PENDING),
        ("suspended", None, S.STOPPED),
        ("resized", None, S.STOPPED),
        ("error", None, S.RUNNING),
        ("soft-delete", None, S.TERMINATING),
    ],
)
def test_states(
    provider: LibcloudProvider, cloud: Recorded, vm: str, task: str | None, state: MachineState
) -> None:
    shown(cloud, vm=vm, task=task)
    (machine,) = provider.list().machines
    assert (machine.state, machine.offer_id) == (state, OFFER.id)


def test_one_for_which_there_is_no_host_is_deleted_and_told(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    """It was accepted, keeps its quota and will never run."""
    cloud.on("DELETE", f"{NOVA}/servers/{ID}", status=204)
    fault = {"message": "No valid host was found. There are not enough hosts available."}
    lost = {"OS-SRV-USG:launched_at": None, "OS-EXT-AZ:availability_zone": ""}
    shown(cloud, vm="error", fault=fault, **lost)
    (machine,) = provider.list().machines
    assert (machine.state, machine.offer_id) == (S.TERMINATING, OFFER.id)
    wait_until(lambda: cloud.told("DELETE"))
    cloud.on("GET", f"{NOVA}/servers/detail", {"servers": []})
    (machine,) = provider.list().machines
    assert (machine.state, machine.end_reason) == (S.TERMINATED, EndReason.FAILED)
    assert "No valid host" in machine.message


def test_one_that_broke_after_it_ran_is_left_to_its_owner(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    shown(cloud, vm="error", fault={"message": "the host is gone"})
    (machine,) = provider.list().machines
    assert (machine.state, machine.message) == (S.RUNNING, "the host is gone")
    assert cloud.told("DELETE") == []


def test_runs_are_read_from_its_log_once_for_each_change(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    log = [
        {"action": "create", "start_time": "2026-03-01T10:00:00.000000"},
        {"action": "stop", "start_time": "2026-03-01T11:00:00.000000"},
        {"action": "start", "start_time": "2026-03-01T12:00:00.000000"},
    ]
    path = f"{NOVA}/servers/{ID}/os-instance-actions"
    cloud.on("GET", path, lambda _: {"instanceActions": log[::-1]})
    shown(cloud)
    for _ in range(3):
        (machine,) = provider.list().machines
        assert str(machine.run_started_at) == "2026-03-01 12:00:00+00:00"
        assert machine.run_ended_at is None
    # One thread of the pool may have asked before another did.
    assert len(cloud.told("GET", path)) <= 2
    log.append({"action": "stop", "start_time": "2026-03-01T13:00:00.000000"})
    shown(cloud, vm="stopped", updated="2026-03-01T13:00:02Z")
    (machine,) = provider.list().machines
    assert str(machine.run_ended_at) == "2026-03-01 13:00:00+00:00"


def test_stop_start_resize_confirm_and_terminate(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    cloud.on("POST", f"{NOVA}/servers/{ID}/action", status=202)
    cloud.on("DELETE", f"{NOVA}/servers/{ID}", status=204)
    shown(cloud)
    provider.stop("one")
    shown(cloud, vm="stopped")
    provider.list()
    smaller = offer("m1.small", ZONE, provider="stack", region=REGION)
    provider.resize(ID, smaller)
    shown(cloud, vm="resized", flavor={"original_name": "m1.small"})
    (machine,) = provider.list().machines
    assert (machine.state, machine.offer_id) == (S.STOPPED, smaller.id)
    wait_until(lambda: len(cloud.told("POST", f"{NOVA}/servers/{ID}/action")) == 3)
    shown(cloud, vm="stopped", flavor={"original_name": "m1.small"})
    provider.start(ID)
    provider.terminate(ID)
    assert [call.body for call in cloud.told("POST", f"{NOVA}/servers/{ID}/action")] == [
        {"os-stop": None},
        {"resize": {"flavorRef": "8"}},
        {"confirmResize": None},
        {"os-start": None},
    ]
    assert len(cloud.told("DELETE")) == 1


def test_volumes_and_snapshots(provider: LibcloudProvider, cloud: Recorded) -> None:
    volume = {
        "id": "volume-1",
        "size": 10,
        "status": "available",
        "created_at": "2026-03-01T10:00:00.000000",
        "attachments": [],
    }
    cloud.on(
        "POST",
        f"{CINDER}/volumes",
        lambda call: {"volume": {**volume, "metadata": call.body["volume"]["metadata"]}},
        status=202,
    )
    cloud.on("POST", f"{NOVA}/servers/{ID}/os-volume_attachments", {})
    shown(cloud, {marks.LAUNCH: "one", marks.VOLUME: "vol_1", marks.VOLUME_GIB: "10"})
    provider.list()
    wait_until(lambda: cloud.told("POST", f"{NOVA}/servers/{ID}/os-volume_attachments"))
    (create,) = cloud.told("POST", f"{CINDER}/volumes")
    told = create.body["volume"]
    assert (told["size"], told["metadata"]) == (10, OWNER.marks | {marks.VOLUME: "vol_1"})
    listed = {**volume, "metadata": told["metadata"], "attachments": [{"server_id": ID}]}
    cloud.on("GET", f"{CINDER}/volumes/detail", {"volumes": [listed]})
    (found,) = provider.list().volumes
    assert (found.id, found.attached_to, found.zone) == ("vol_1", ID, None)
    cloud.on(
        "POST",
        f"{CINDER}/snapshots",
        lambda call: {
            "snapshot": {**volume, "status": "creating", "id": "copy-1"}
            | {"metadata": call.body["snapshot"]["metadata"]}
        },
        status=202,
    )
    taken = provider.snapshot("vol_1", "snap_1")
    assert (taken.id, taken.complete) == ("snap_1", False)
    (call,) = cloud.told("POST", f"{CINDER}/snapshots")
    assert call.body["snapshot"]["force"] is True  # it is attached


def test_pages(provider: LibcloudProvider, cloud: Recorded) -> None:
    def page(call: Any) -> dict[str, Any]:
        number = int(call.query.get("marker", "0"))
        body = server({marks.LAUNCH: f"n{number}"}, id=str(number + 1))
        more = {"servers_links": [{"rel": "next"}]} if number < 2 else {}
        return {"servers": [body]} | more

    cloud.on("GET", f"{NOVA}/servers/detail", page)
    assert [one.launch_id for one in provider.list().machines] == ["n0", "n1", "n2"]


def test_sizes_zones_and_gpus(provider: LibcloudProvider, cloud: Recorded) -> None:
    zones = [
        {"zoneName": "zone-a", "zoneState": {"available": True}},
        {"zoneName": "zone-b", "zoneState": {"available": True}},
        {"zoneName": "broken", "zoneState": {"available": False}},
    ]
    cloud.on("GET", f"{NOVA}/os-availability-zone", {"availabilityZoneInfo": zones})
    offers = {one.id: one for one in provider.offers()}
    assert {one.zone for one in offers.values()} == {"zone-a", "zone-b"}
    found = offers[OFFER.id]
    assert (found.resources.gpus, found.resources.gpu_model) == (1, "H100")
    assert (found.resources.memory_gib, found.price_per_hour) == (64, 2.5)
    assert found.can_stop


@pytest.mark.parametrize(
    ("specs", "gpus", "model"),
    [
        ({"gpu:model": "nvidia-l4", "gpu:count": "2"}, 2, "L4"),
        ({"pci_passthrough:alias": "a100:4"}, 4, "A100"),
        ({"resources:VGPU": "1"}, 1, None),
        ({"hw:cpu_policy": "dedicated"}, 0, None),
    ],
)
def test_flavors_say_their_gpus_in_several_ways(
    specs: dict[str, str], gpus: int, model: str | None
) -> None:
    assert _gpus(specs) == (gpus, model)


def test_quotas(provider: LibcloudProvider, cloud: Recorded) -> None:
    absolute = {
        "maxTotalInstances": 10,
        "totalInstancesUsed": 3,
        "maxTotalCores": -1,
        "totalCoresUsed": 8,
    }
    cloud.on("GET", f"{NOVA}/limits", {"limits": {"absolute": absolute}})
    (quota,) = provider.quotas()
    assert (quota.limit, quota.used, quota.needed(OFFER)) == (10, 3, 1)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (
            403,
            {"forbidden": {"code": 403, "message": "Quota exceeded for cores: Requested 8"}},
            QuotaError,
        ),
        (403, {"forbidden": {"code": 403, "message": "Policy doesn't allow it"}}, AuthError),
        (400, {"badRequest": {"code": 400, "message": "Flavor 7 is wrong"}}, InvalidRequest),
        (409, {"conflictingRequest": {"code": 409, "message": "task_state"}}, ProviderError),
        (500, {"computeFault": {"code": 500, "message": "No valid host"}}, CapacityError),
    ],
    ids=["quota", "policy", "invalid", "conflict", "capacity"],
)
def test_refusals(
    provider: LibcloudProvider,
    cloud: Recorded,
    status: int,
    body: dict[str, Any],
    kind: type[ProviderError],
) -> None:
    cloud.on("POST", f"{NOVA}/servers", body, status=status)
    with pytest.raises(ProviderError) as error:
        provider.launch(request(offer=OFFER))
    assert type(error.value) is kind
    assert json.dumps(next(iter(body.values()))["message"])[1:-1] in str(error.value)


def test_a_wrong_password_is_said_to_be_one(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("POST", "/v3/auth/tokens", {"error": {"message": "no"}}, status=401)
    with pytest.raises(AuthError):
        provider.list()


def test_a_token_that_was_revoked_is_renewed(provider: LibcloudProvider, cloud: Recorded) -> None:
    own = provider._clouds.at(REGION)  # this thread's: another would sign in first
    assert list(own.servers()) == []
    refused = {"error": {"message": "The request you have made requires authentication."}}
    cloud.on("GET", f"{NOVA}/servers/detail", refused, status=401, count=1)
    assert list(own.servers()) == []
    assert len(cloud.told("POST", "/v3/auth/tokens")) == 2
