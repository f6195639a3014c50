"""Azure's requests, against what libcloud's authors recorded of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from policies.world import PurchaseMode
from provisioner.clock import ManualClock
from provisioner.errors import AuthError, CapacityError, ProviderError, QuotaError
from provisioner.providers.contract import EndReason, Leftover, MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.clouds.azure_sizes import size_of
from provisioner.providers.libcloud.marks import Owner
from provisioner.providers.libcloud.provider import LibcloudProvider
from provisioner.providers.libcloud.settings import CloudSettings
from tests.clouds.libcloud_fixtures.recorded import Recorded, recorded
from tests.contract.machines import wait_until
from tests.provisioner.providers.libcloud.conftest import offer, request

S = MachineState
OWNER = Owner("test", "az")
SUBSCRIPTION = "99999999-9999-9999-9999-999999999999"
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/000000/providers"
VMS, DISKS = f"{GROUP}/Microsoft.Compute/virtualMachines", f"{GROUP}/Microsoft.Compute/disks"
NICS, SNAPSHOTS = (
    f"{GROUP}/Microsoft.Network/networkInterfaces",
    f"{GROUP}/Microsoft.Compute/snapshots",
)
SUBNET = f"{GROUP}/Microsoft.Network/virtualNetworks/net/subnets/machines"
SIZE, REGION, NAME = "Standard_A1", "eastus", "test-node-1"
OFFER = offer(SIZE, REGION, provider="az", region=REGION)
SPOT = offer(SIZE, REGION, PurchaseMode.SPOT, "az", REGION)
FILE = "azure_arm/_subscriptions_99999999_"
NODE = FILE + "resourceGroups_000000_providers_Microsoft_Compute_virtualMachines_test_node_1"


@pytest.fixture
def cloud(recorded_cloud: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setenv("SECRET", "s3cr3t")
    token = recorded("azure_arm/_77777777_7777_7777_7777_777777777777_oauth2_token.json")
    recorded_cloud.on("POST", "/tenant/oauth2/token", token | {"expires_on": "9999999999"})
    for path in (VMS, DISKS, NICS, SNAPSHOTS):
        recorded_cloud.on("GET", path, {"value": []})
    view = recorded(f"{NODE}_InstanceView.json")
    recorded_cloud.on("GET", f"{VMS}/.*/instanceView", view)
    return recorded_cloud


@pytest.fixture
def provider(cloud: Recorded, clock: ManualClock) -> LibcloudProvider:
    settings = CloudSettings(
        name="az",
        driver="azure",
        account={
            "tenant_id": "tenant",
            "subscription_id": SUBSCRIPTION,
            "client_id": "client",
            "resource_group": "000000",
            "ssh_public_key": "ssh-ed25519 AAAA",
        },
        secrets={"client_secret": "env:SECRET"},  # type: ignore[dict-item]
        regions=(REGION,),
        network=SUBNET,
        endpoint_url=cloud.url,
        prices={"*": "0.05"},  # type: ignore[dict-item]
        spot_prices={"*": "0.01"},  # type: ignore[dict-item]
    )
    return LibcloudProvider(settings, "test", clock)


def machine(tags: Mapping[str, str], **properties: object) -> dict[str, Any]:
    """The recorded one, with marks of ours."""
    body: dict[str, Any] = recorded(f"{NODE}.json")
    body |= {"id": f"{VMS}/{NAME}", "name": NAME, "tags": {**OWNER.marks, **tags}}
    body["properties"] |= {"provisioningState": "Succeeded", **properties}
    return body


def running(
    cloud: Recorded,
    tags: Mapping[str, str] | None = None,
    power: str = "running",
    **properties: object,
) -> None:
    body = machine(tags or {marks.LAUNCH: "one"}, **properties)
    cloud.on("GET", VMS, {"value": [body]})
    cloud.on("GET", f"{VMS}/{NAME}", body)
    view = {"statuses": [{"code": f"PowerState/{power}"}] if power else []}
    cloud.on("GET", f"{VMS}/{NAME}/instanceView", view)


def test_it_signs_in_and_no_url_holds_the_secret(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    provider.list()
    (call,) = cloud.told("POST", "/tenant/oauth2/token")
    assert (call.body["client_id"], call.body["client_secret"]) == ("client", "s3cr3t")
    assert all("api-version" in call.query for call in cloud.told("GET"))
    assert "s3cr3t" not in repr([(call.path, call.query) for call in cloud.calls])


def test_a_launch_makes_an_interface_that_goes_with_its_machine(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    cloud.on(
        "PUT",
        f"{NICS}/.*",
        recorded(
            f"{FILE}resourceGroups_000000_providers_Microsoft_"
            "Network_networkInterfaces_test_node_1_nic.json"
        ),
    )
    cloud.on(
        "PUT",
        f"{VMS}/.*",
        lambda call: {
            **machine({}, provisioningState="Creating"),
            "tags": call.body["tags"],
            "name": "roost-one",
        },
        status=201,
    )
    made = provider.launch(request(offer=OFFER))
    assert (made.id, made.state, made.offer_id) == ("roost-one", S.PENDING, OFFER.id)
    nic, vm = cloud.told("PUT")
    assert nic.path == f"{NICS}/roost-one-nic"
    assert nic.body["properties"]["ipConfigurations"][0]["properties"]["subnet"]["id"] == SUBNET
    assert "publicIPAddress" not in json.dumps(nic.body)
    assert nic.body["tags"] == OWNER.marks | {marks.LAUNCH: "one"}
    properties = vm.body["properties"]
    assert vm.body["tags"]["job"] == "j1"
    assert properties["networkProfile"]["networkInterfaces"] == [
        {"id": nic.path, "properties": {"deleteOption": "Delete"}}
    ]
    assert properties["storageProfile"]["osDisk"]["deleteOption"] == "Delete"
    assert properties["storageProfile"]["imageReference"]["offer"] == "ubuntu-24_04-lts"
    assert base64.b64decode(properties["osProfile"]["customData"]) == b"#!/bin/sh\n"
    assert properties["osProfile"]["linuxConfiguration"]["disablePasswordAuthentication"] is True
    assert "priority" not in properties


def test_spot_is_deleted_when_it_is_taken(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("PUT", f"{NICS}/.*", {})
    cloud.on(
        "PUT",
        f"{VMS}/.*",
        lambda call: machine(call.body["tags"], provisioningState="Creating", priority="Spot"),
        status=201,
    )
    made = provider.launch(request(offer=SPOT))
    assert made.offer_id == SPOT.id
    properties = cloud.told("PUT")[1].body["properties"]
    assert (properties["priority"], properties["evictionPolicy"]) == ("Spot", "Delete")
    assert properties["billingProfile"] == {"maxPrice": -1}


@pytest.mark.parametrize(
    ("provisioning", "power", "state"),
    [
        ("Creating", "", S.PENDING),
        ("Succeeded", "starting", S.PENDING),
        ("Succeeded", "running", S.RUNNING),
        ("Succeeded", "stopped", S.RUNNING),
        ("Succeeded", "deallocating", S.STOPPING),
        ("Succeeded", "deallocated", S.STOPPED),
        ("Failed", "running", S.RUNNING),
        ("Deleting", "running", S.TERMINATING),
    ],
)
def test_only_a_deallocated_machine_is_stopped(
    provider: LibcloudProvider,
    cloud: Recorded,
    provisioning: str,
    power: str,
    state: MachineState,
) -> None:
    running(cloud, power=power, provisioningState=provisioning)
    (found,) = provider.list().machines
    assert found.state is state
    assert ("billed" in found.message) == (power == "stopped")


def test_one_that_failed_to_be_made_is_deleted(provider: LibcloudProvider, cloud: Recorded) -> None:
    body = machine({marks.LAUNCH: "one"}, provisioningState="Failed")
    cloud.on("GET", VMS, {"value": [body]})
    status = {"code": "ProvisioningState/failed/AllocationFailed", "message": "no room"}
    cloud.on("GET", f"{VMS}/{NAME}/instanceView", {"statuses": [status]})
    cloud.on("DELETE", f"{VMS}/{NAME}", status=202)
    assert provider.list().machines[0].state is S.TERMINATING
    wait_until(lambda: cloud.told("DELETE"))
    cloud.on("GET", VMS, {"value": []})
    (ended,) = provider.list().machines
    assert (ended.state, ended.end_reason, ended.message) == (
        S.TERMINATED,
        EndReason.FAILED,
        "no room",
    )


def test_one_that_goes_while_it_is_listed_is_left_out(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    running(cloud)
    cloud.on("GET", f"{VMS}/{NAME}/instanceView", {"error": {"code": "NotFound"}}, status=404)
    assert provider.list().machines == ()


def test_pages_are_followed_and_recorded_machines_are_not_ours(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    first = recorded(f"{FILE}providers_Microsoft_Compute_virtualMachines.json")
    first["nextLink"] = first["nextLink"].replace(f"/{SUBSCRIPTION}/providers", "/next/providers")
    cloud.on("GET", VMS, first)
    last = recorded(f"{FILE}providers_Microsoft_Compute_virtualMachines_1.json") | {"nextLink": ""}
    cloud.on("GET", "/subscriptions/next/providers/.*", last)
    assert provider.list().machines == ()
    (call,) = cloud.told("GET", "/subscriptions/next/.*")
    assert "$skiptoken" in call.query


def test_stop_start_resize_and_terminate(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("POST", f"{VMS}/{NAME}/.*", status=202)
    cloud.on("PATCH", f"{VMS}/{NAME}", recorded(f"{NODE}_resize.json"))
    cloud.on("DELETE", f"{VMS}/{NAME}", status=202)
    running(cloud)
    provider.stop("one")
    running(cloud, power="deallocated")
    provider.list()
    provider.resize(NAME, offer("Standard_A2", REGION, provider="az", region=REGION))
    provider.start(NAME)
    provider.terminate(NAME)
    told = [call.path.rpartition("/")[2] for call in cloud.told("POST", f"{VMS}/.*")]
    assert told == ["deallocate", "start"]
    (patch,) = cloud.told("PATCH")
    assert patch.body == {"properties": {"hardwareProfile": {"vmSize": "Standard_A2"}}}
    assert len(cloud.told("DELETE")) == 1


def test_volumes_and_snapshots(provider: LibcloudProvider, cloud: Recorded) -> None:
    disk = FILE + "resourceGroups_000000_providers_Microsoft_Compute_disks_test_disk_1.json"
    body = recorded(disk) | {"tags": OWNER.marks | {marks.VOLUME: "vol_1"}, "name": "roost-vol_1"}
    body["properties"] |= {"diskState": "Unattached"}
    cloud.on("PUT", f"{DISKS}/roost-vol_1", body)
    home = {marks.LAUNCH: "one", marks.VOLUME: "vol_1", marks.VOLUME_GIB: "31"}
    there = {"lun": 0, "name": "scratch", "createOption": "Attach"}
    storage = machine({})["properties"]["storageProfile"] | {"dataDisks": [there]}
    running(cloud, home, storageProfile=storage)
    cloud.on("PATCH", f"{VMS}/{NAME}", {})
    provider.list()
    wait_until(lambda: cloud.told("PATCH"))
    (put,) = cloud.told("PUT")
    assert put.body["tags"] == OWNER.marks | {marks.VOLUME: "vol_1"}
    assert put.body["properties"] == {"creationData": {"createOption": "Empty"}, "diskSizeGB": 31}
    (patch,) = cloud.told("PATCH")
    assert patch.body["properties"]["storageProfile"]["dataDisks"] == [
        there,
        {
            "lun": 1,
            "createOption": "Attach",
            "deleteOption": "Detach",
            "managedDisk": {"id": body["id"]},
        },
    ]
    cloud.on("GET", DISKS, {"value": [body]})
    snapshot = FILE + "resourceGroups_000000_providers_Microsoft_Compute_snapshots_test_snap_1.json"
    cloud.on("PUT", f"{SNAPSHOTS}/.*", recorded(snapshot), status=202)

    def made(_: object) -> dict[str, Any]:
        return recorded(snapshot) | {"tags": cloud.told("PUT", f"{SNAPSHOTS}/.*")[0].body["tags"]}

    cloud.on("GET", f"{SNAPSHOTS}/.*", made)
    taken = provider.snapshot("vol_1", "snap_1")
    assert (taken.id, taken.volume_id, taken.complete) == ("snap_1", "vol_1", False)
    (put,) = cloud.told("PUT", f"{SNAPSHOTS}/.*")
    assert put.body["properties"]["creationData"]["sourceResourceId"] == body["id"]


def test_an_interface_without_a_machine_is_left_over(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    file = (
        FILE
        + "resourceGroups_000000_providers_Microsoft_Network_networkInterfaces_test_node_1_nic.json"
    )
    used = recorded(file) | {"tags": dict(OWNER.marks)}
    idle = recorded(file) | {"tags": dict(OWNER.marks), "name": "roost-two-nic"}
    del idle["properties"]["virtualMachine"]
    theirs = {**idle, "tags": {}, "name": "theirs"}
    cloud.on("GET", NICS, {"value": [used, idle, theirs]})
    cloud.on("DELETE", f"{NICS}/.*", status=202)
    leftover = Leftover("network-interface", "roost-two-nic")
    assert provider.list().leftovers == (leftover,)
    for one in (leftover, Leftover("network-interface", used["name"])):
        provider.delete_leftover(one)
    assert [call.path for call in cloud.told("DELETE")] == [f"{NICS}/roost-two-nic"]


def test_sizes_that_this_subscription_may_have(provider: LibcloudProvider, cloud: Recorded) -> None:
    """libcloud's list of sizes says nothing of GPUs and limits; the list of SKUs does."""

    def sku(name: str, **changes: object) -> dict[str, Any]:
        capabilities = {"vCPUs": "8", "MemoryGB": "56", "GPUs": "1", "LowPriorityCapable": "True"}
        listed = [{"name": name, "value": value} for name, value in capabilities.items()]
        body = {"name": name, "resourceType": "virtualMachines", "capabilities": listed}
        return body | {"restrictions": []} | changes

    closed = [{"type": "Location", "reasonCode": "NotAvailableForSubscription"}]
    skus = [
        sku("Standard_NC8as_T4_v3"),
        sku("Standard_NC24ads_A100_v4", restrictions=closed),
        sku("Premium_LRS", resourceType="disks"),
    ]
    cloud.on(
        "GET", f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/skus", {"value": skus}
    )
    offers = list(provider.offers())
    assert {one.instance_type for one in offers} == {"Standard_NC8as_T4_v3"}
    assert {one.mode for one in offers} == {PurchaseMode.ON_DEMAND, PurchaseMode.SPOT}
    assert (offers[0].resources.gpus, offers[0].resources.gpu_model) == (1, "T4")


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("Standard_NC6s_v3", "V100"),
        ("Standard_ND40rs_v2", "V100-32GB"),
        ("Standard_NC24ads_A100_v4", "A100-80GB"),
        ("Standard_ND96asr_v4", "A100"),
        ("Standard_ND96amsr_A100_v4", "A100-80GB"),
        ("Standard_ND96isr_H100_v5", "H100"),
        ("Standard_ND96isr_H200_v5", "H200"),
        ("Standard_ND96isr_MI300X_v5", "MI300X"),
        ("Standard_NV36ads_A10_v5", "A10"),
        ("Standard_NG8ads_V9", None),
    ],
)
def test_models_of_gpus_are_in_the_names_of_sizes(name: str, model: str | None) -> None:
    can = {"vCPUs": "8", "MemoryGB": "56", "GPUs": "1"}
    assert size_of(name, can, REGION).gpu_model == model


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        (409, "AllocationFailed", "no capacity in the cluster", CapacityError),
        (409, "SkuNotAvailable", "currently not available in location", CapacityError),
        (409, "OperationNotAllowed", "exceeding approved standardNCFamily Cores quota", QuotaError),
        (409, "Conflict", "being updated", ProviderError),
        (403, "AuthorizationFailed", "no permission", AuthError),
        (404, "ResourceGroupNotFound", "no such group", ProviderError),
    ],
)
def test_refusals(
    provider: LibcloudProvider,
    cloud: Recorded,
    status: int,
    code: str,
    message: str,
    kind: type[ProviderError],
) -> None:
    cloud.on("PUT", f"{NICS}/.*", {})
    cloud.on("PUT", f"{VMS}/.*", {"error": {"code": code, "message": message}}, status=status)
    with pytest.raises(kind, match=f"{code}: {message}"):
        provider.launch(request(offer=OFFER))


def test_a_wrong_secret_is_said_to_be_one(provider: LibcloudProvider, cloud: Recorded) -> None:
    error = {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid secret"}
    cloud.on("POST", "/tenant/oauth2/token", error, status=401)
    with pytest.raises(AuthError, match="AADSTS7000215"):
        provider.list()
