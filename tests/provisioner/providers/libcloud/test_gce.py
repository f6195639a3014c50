"""Google's requests, against what libcloud's authors recorded of it; it signs in for real."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from libcloud.common.google import GoogleBaseAuthConnection

from policies.world import PurchaseMode
from provisioner.clock import ManualClock
from provisioner.errors import (
    AuthError,
    CapacityError,
    ProviderError,
    QuotaError,
    ThrottledError,
)
from provisioner.providers.contract import EndReason, MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.marks import Owner
from provisioner.providers.libcloud.provider import LibcloudProvider
from provisioner.providers.libcloud.settings import CloudSettings
from provisioner.providers.libcloud.wire import _http
from tests.clouds.libcloud_fixtures.recorded import Recorded, recorded
from tests.contract.machines import wait_until
from tests.provisioner.providers.libcloud.conftest import offer, request

S = MachineState
OWNER = Owner("inst_1", "google")
MAIL = "roost@project.iam.gserviceaccount.com"
SIZE, ZONE, REGION = "n1-standard-1", "us-central1-a", "us-central1"
OFFER = offer(SIZE, ZONE, provider="google", region=REGION)
SPOT = offer(SIZE, ZONE, PurchaseMode.SPOT, "google", REGION)
ROOT = "/compute/v1/projects/project_name"
ZONAL = f"{ROOT}/zones/{ZONE}"
NAME = "node-name"


@pytest.fixture(scope="module")
def key() -> str:
    """A service account's, as Google's console gives it."""
    private = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return json.dumps({"type": "service_account", "private_key": private.decode()})


@pytest.fixture
def cloud(
    recorded_cloud: Recorded, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Recorded:
    (tmp_path / "key.json").write_text(key)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(GoogleBaseAuthConnection, "conn_class", _http(recorded_cloud.url))
    token = {"access_token": "t0k3n", "expires_in": 3600}
    recorded_cloud.on("POST", "/o/oauth2/token", token)
    for kind in ("instances", "disks"):
        recorded_cloud.on("GET", f"{ROOT}/aggregated/{kind}", {"items": {}})
    recorded_cloud.on("GET", f"{ROOT}/global/snapshots", {"items": []})
    recorded_cloud.on("GET", f"{ZONAL}/operations", {})
    return recorded_cloud


@pytest.fixture
def provider(cloud: Recorded, clock: ManualClock, tmp_path: Path) -> LibcloudProvider:
    settings = CloudSettings(
        name="google",
        driver="gce",
        account={"project": "project_name", "service_account": MAIL},
        secrets={"key": f"file:{tmp_path}/key.json"},  # type: ignore[dict-item]
        regions=(REGION, "europe-west1"),
        endpoint_url=cloud.url,
        prices={"n1-*": "0.05", "a2-*": "3.67"},  # type: ignore[dict-item]
        spot_prices={"n1-*": "0.01"},  # type: ignore[dict-item]
    )
    return LibcloudProvider(settings, OWNER.installation, clock)


def instance(tags: Mapping[str, str], **changes: object) -> dict[str, Any]:
    """The recorded one, with marks of ours."""
    items = recorded("gce/aggregated_instances.json")["items"]
    body = next(one for one in items[f"zones/{ZONE}"]["instances"] if one["name"] == NAME)
    return {**body, "description": json.dumps({**OWNER.marks, **tags}), **changes}


def listed(kind: str, *bodies: Mapping[str, Any]) -> dict[str, Any]:
    return {"items": {f"zones/{ZONE}": {kind: list(bodies)}, "zones/x": {"warning": {}}}}


def running(cloud: Recorded, tags: Mapping[str, str] | None = None, **changes: object) -> None:
    body = instance(tags or {marks.LAUNCH: "one"}, **changes)
    cloud.on("GET", f"{ROOT}/aggregated/instances", listed("instances", body))


def test_it_signs_in_with_its_key_and_writes_no_token_down(
    provider: LibcloudProvider, cloud: Recorded, tmp_path: Path
) -> None:
    provider.list()
    (call,) = cloud.told("POST", "/o/oauth2/token")
    claims = call.body["assertion"].split(".")[1]
    told = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert (told["iss"], told["scope"]) == (MAIL, "https://www.googleapis.com/auth/compute")
    asked = cloud.told("GET")
    assert {one.headers["authorization"] for one in asked} == {"Bearer t0k3n"}
    assert [path.name for path in tmp_path.iterdir()] == ["key.json"]


def test_a_launch(provider: LibcloudProvider, cloud: Recorded) -> None:
    answer = recorded("gce/zones_us-central1-a_instances_post.json")
    cloud.on("POST", f"{ZONAL}/instances", answer)
    made = provider.launch(request(offer=OFFER))
    assert (made.id, made.state, made.offer_id) == ("roost-one", S.PENDING, OFFER.id)
    (call,) = cloud.told("POST", f"{ZONAL}/instances")
    assert len(call.query["requestId"]) == 36
    body = call.body
    told = json.loads(body["description"])
    assert (told["job"], told[marks.LAUNCH]) == ("j1", "one")
    assert body["labels"] == OWNER.marks | {marks.LAUNCH: "one"}
    assert body["name"] == "roost-one"
    assert body["machineType"] == f"zones/{ZONE}/machineTypes/{SIZE}"
    assert body["metadata"]["items"][0] == {"key": "user-data", "value": "#!/bin/sh\n"}
    assert body["scheduling"] == {"onHostMaintenance": "MIGRATE", "automaticRestart": True}
    assert body["networkInterfaces"][0]["network"] == "global/networks/default"
    assert body["disks"][0]["autoDelete"] is True
    # The wait for the operation is libcloud's way, not ours (P8).
    assert cloud.told("GET", f"{ZONAL}/operations/.*") == []


def test_spot_is_asked_for_by_the_model_that_has_no_24_hours(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    answer = recorded("gce/zones_us-central1-a_instances_post.json")
    cloud.on("POST", f"{ZONAL}/instances", answer)
    made = provider.launch(request(offer=SPOT))
    (call,) = cloud.told("POST", f"{ZONAL}/instances")
    assert call.body["scheduling"] == {
        "provisioningModel": "SPOT",
        "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
    }
    assert made.offer_id == SPOT.id


def test_the_same_call_is_recognised_and_a_name_exists_once(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    error = {"error": {"code": 409, "message": "it exists", "status": "ALREADY_EXISTS"}}

    def taken(_: object) -> dict[str, Any]:
        # Another process has made it since we looked.
        running(cloud, {marks.LAUNCH: "one"}, name="roost-one")
        return error

    cloud.on("POST", f"{ZONAL}/instances", taken, status=409)
    assert provider.launch(request(offer=OFFER)).id == "roost-one"


def test_states_and_runs(provider: LibcloudProvider, cloud: Recorded) -> None:
    states = {
        "PROVISIONING": S.PENDING,
        "STAGING": S.PENDING,
        "RUNNING": S.RUNNING,
        "STOPPING": S.STOPPING,
        "TERMINATED": S.STOPPED,
        "SUSPENDED": S.STOPPED,
    }
    bodies = [
        instance(
            {marks.LAUNCH: status.lower()},
            name=status.lower(),
            status=status,
            lastStartTimestamp="2026-03-01T10:00:00.000-07:00",
            lastStopTimestamp="2026-03-01T09:00:00.000-07:00",
        )
        for status in states
    ]
    bodies[4]["lastStopTimestamp"] = "2026-03-01T11:00:00.000-07:00"

    def page(call: Any) -> dict[str, Any]:
        number = int(call.query.get("pageToken", 0))
        more = {"nextPageToken": str(number + 1)} if number + 1 < len(bodies) else {}
        return listed("instances", bodies[number]) | more

    cloud.on("GET", f"{ROOT}/aggregated/instances", page)
    found = {one.launch_id: one for one in provider.list().machines}
    assert {name.upper(): one.state for name, one in found.items()} == states
    assert str(found["running"].run_started_at) == "2026-03-01 17:00:00+00:00"
    assert found["running"].run_ended_at is None
    assert str(found["terminated"].run_ended_at) == "2026-03-01 18:00:00+00:00"
    query = cloud.told("GET", f"{ROOT}/aggregated/instances")[0].query
    assert 'labels.roost-installation = "inst_1"' in query["filter"]
    assert "metadata" not in query["fields"]  # it holds boot scripts


def test_pages_that_go_round_are_no_listing(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("GET", f"{ROOT}/aggregated/instances", {"items": {}, "nextPageToken": "again"})
    with pytest.raises(ProviderError, match="same page again"):
        provider.list()


def test_recorded_things_are_not_ours(provider: LibcloudProvider, cloud: Recorded) -> None:
    for kind in ("instances", "disks"):
        path = f"{ROOT}/aggregated/{kind}"
        cloud.on("GET", path, recorded(f"gce/aggregated_{kind}.json"))
    cloud.on("GET", f"{ROOT}/global/snapshots", recorded("gce/global_snapshots.json"))
    listing = provider.list()
    assert (listing.machines, listing.volumes, listing.snapshots) == ((), (), ())


def test_stop_start_resize_and_terminate(provider: LibcloudProvider, cloud: Recorded) -> None:
    operation = recorded("gce/zones_us_central1_a_operations_operation_stopnode.json")
    cloud.on("POST", f"{ZONAL}/instances/{NAME}/.*", operation)
    cloud.on("DELETE", f"{ZONAL}/instances/{NAME}", operation)
    running(cloud)
    provider.stop("one")
    running(cloud, status="TERMINATED")
    provider.list()
    provider.resize(NAME, offer("n1-standard-2", ZONE, provider="google", region=REGION))
    provider.start(NAME)
    provider.terminate(NAME)
    told = cloud.told("POST", f"{ZONAL}/instances/.*")
    assert [call.path.rpartition("/")[2] for call in told] == ["stop", "setMachineType", "start"]
    assert told[1].body == {"machineType": f"zones/{ZONE}/machineTypes/n1-standard-2"}
    assert len(cloud.told("DELETE")) == 1


@pytest.mark.parametrize(
    ("operation", "reason", "message"),
    [
        (
            {"operationType": "compute.instances.preempted", "statusMessage": "was preempted"},
            EndReason.RECLAIMED,
            "was preempted",
        ),
        (
            {
                "operationType": "insert",
                "error": {
                    "errors": [
                        {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "not enough resources"}
                    ]
                },
            },
            EndReason.FAILED,
            "ZONE_RESOURCE_POOL_EXHAUSTED: not enough resources",
        ),
    ],
    ids=["preempted", "exhausted"],
)
def test_why_one_is_gone_is_asked_of_its_zone(
    provider: LibcloudProvider,
    cloud: Recorded,
    operation: dict[str, Any],
    reason: EndReason,
    message: str,
) -> None:
    cloud.on("POST", f"{ZONAL}/instances", {"insertTime": "2026-01-01T00:00:00Z"})
    made = provider.launch(request(offer=SPOT))
    target = {"targetLink": f"https://www.googleapis.com{ZONAL}/instances/{made.id}"}
    other = operation | {"targetLink": target["targetLink"] + "-other"}
    cloud.on("GET", f"{ZONAL}/operations", {"items": [other, operation | target]})
    (machine,) = provider.list().machines
    assert (machine.id, machine.state) == (made.id, S.TERMINATED)
    assert (machine.end_reason, machine.message) == (reason, message)


def test_one_that_does_not_show_yet_has_not_ended(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    cloud.on("POST", f"{ZONAL}/instances", {"insertTime": "2026-01-01T00:00:00Z"})
    provider.launch(request(offer=OFFER))
    assert provider.list().machines == ()
    provider.launch(request(offer=OFFER))
    assert len(cloud.told("POST", f"{ZONAL}/instances")) == 1


def test_volumes_and_snapshots(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("POST", f"{ZONAL}/disks", recorded("gce/zones_us-central1-a_disks_post.json"))
    running(cloud, {marks.LAUNCH: "one", marks.VOLUME: "vol_1", marks.VOLUME_GIB: "10"})
    provider.list()
    wait_until(lambda: cloud.told("POST", f"{ZONAL}/disks"))
    (create,) = cloud.told("POST", f"{ZONAL}/disks")
    assert create.body["name"] == "roost-vol-1"
    assert (create.body["sizeGb"], create.body["labels"]) == ("10", OWNER.marks)
    body = recorded("gce/zones_us-central1-a_disks_lcdisk.json")
    body |= {"description": create.body["description"], "name": "roost-vol-1"}
    cloud.on("GET", f"{ROOT}/aggregated/disks", listed("disks", body))
    attach = f"{ZONAL}/instances/{NAME}/attachDisk"
    cloud.on("POST", attach, {})
    provider.list()
    wait_until(lambda: cloud.told("POST", attach))
    (call,) = cloud.told("POST", attach)
    assert call.body == {
        "source": f"projects/project_name/zones/{ZONE}/disks/roost-vol-1",
        "deviceName": "roost-home",
        "autoDelete": False,
    }
    copy = f"{ZONAL}/disks/roost-vol-1/createSnapshot"
    cloud.on(
        "POST", copy, recorded("gce/zones_us-central1-a_disks_lcdisk_createSnapshot_post.json")
    )
    taken = provider.snapshot("vol_1", "snap_1")
    assert (taken.id, taken.volume_id, taken.complete) == ("snap_1", "vol_1", False)
    (call,) = cloud.told("POST", copy)
    assert call.body["name"] == "roost-snap-1"


def test_sizes_by_zone_and_their_gpus(provider: LibcloudProvider, cloud: Recorded) -> None:
    types = recorded("gce/aggregated_machineTypes.json")
    del types["nextPageToken"]
    types["items"][f"zones/{ZONE}"]["machineTypes"].append(
        {
            "name": "a2-highgpu-8g",
            "guestCpus": 96,
            "memoryMb": 696320,
            "zone": ZONE,
            "accelerators": [
                {"guestAcceleratorType": "nvidia-tesla-a100", "guestAcceleratorCount": 8}
            ],
        }
    )
    cloud.on("GET", f"{ROOT}/aggregated/machineTypes", types)
    offers = {one.id: one for one in provider.offers()}
    found = offers[OFFER.id]
    assert (found.resources.cpus, found.resources.memory_gib) == (1, 3.75)
    assert found.can_stop
    large = offers[f"google/{REGION}/{ZONE}/a2-highgpu-8g/on-demand"].resources
    assert (large.gpus, large.gpu_model) == (8, "A100")
    assert {one.region for one in offers.values()} == {REGION, "europe-west1"}
    assert SPOT.id in offers
    assert not any(id.endswith("a2-highgpu-8g/spot") for id in offers)  # of no known price


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (401, {"message": "Invalid Credentials"}, AuthError),
        (403, {"message": "x", "errors": [{"reason": "accessNotConfigured"}]}, AuthError),
        (403, {"message": "x", "errors": [{"reason": "rateLimitExceeded"}]}, ThrottledError),
        (403, {"message": "x", "errors": [{"reason": "quotaExceeded"}]}, QuotaError),
        (503, {"message": "x", "errors": [{"reason": "resourcesUnavailable"}]}, CapacityError),
        (412, {"message": "conditionNotMet"}, ProviderError),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_refusals(
    provider: LibcloudProvider,
    cloud: Recorded,
    status: int,
    error: dict[str, Any],
    kind: type[ProviderError],
) -> None:
    cloud.on("POST", f"{ZONAL}/instances", {"error": {"code": status, **error}}, status=status)
    with pytest.raises(ProviderError) as raised:
        provider.launch(request(offer=OFFER))
    assert type(raised.value) is kind
