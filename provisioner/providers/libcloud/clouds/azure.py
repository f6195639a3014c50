"""Azure virtual machines, in one resource group.

libcloud's driver waits for minutes to delete a machine and knows no spot; so the requests are ours,
over its connection. A PUT of a name makes one thing however often it is sent. A machine that is
`stopped` is billed, one that is `deallocated` is not: only that counts as stopped here.

API: learn.microsoft.com/rest/api/compute
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from libcloud.compute.drivers.azure_arm import AzureNodeDriver

from provisioner.errors import (
    AuthError,
    CapacityError,
    InvalidRequest,
    NotFound,
    ProviderError,
    QuotaError,
)
from provisioner.providers.contract import Leftover, MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.cloud import (
    Cloud,
    Disk,
    DiskCopy,
    NewDisk,
    NewServer,
    Server,
    Size,
)
from provisioner.providers.libcloud.clouds.azure_sizes import is_closed, size_of
from provisioner.providers.libcloud.marks import Marks, Owner
from provisioner.providers.libcloud.pages import Pages
from provisioner.providers.libcloud.profile import Profile, Support
from provisioner.providers.libcloud.refusals import Refusal
from provisioner.providers.libcloud.settings import CloudSettings
from provisioner.providers.libcloud.times import instant, known
from provisioner.providers.libcloud.user_data import encoded
from provisioner.providers.libcloud.wire import Wire, driver_class

S = MachineState
_POWER = {
    "PowerState/starting": S.PENDING,
    "PowerState/running": S.RUNNING,
    "PowerState/stopping": S.RUNNING,
    "PowerState/stopped": S.RUNNING,
    "PowerState/deallocating": S.STOPPING,
    "PowerState/deallocated": S.STOPPED,
}
NIC = "network-interface"
_VM, _DISK, _NET, _SKU = "2024-07-01", "2024-03-02", "2024-05-01", "2021-07-01"
_ROOT_GIB = 30
PROFILE = Profile(
    driver="azure",
    title="Azure",
    support=Support.EXPERIMENTAL,
    account={
        "tenant_id": "directory (tenant) id",
        "subscription_id": "subscription id",
        "client_id": "application (client) id",
        "resource_group": "resource group for everything that is made; it must exist",
        "ssh_public_key": "key that Azure wants on each machine; nothing here uses it",
    },
    secrets={"client_secret": "the application's secret"},
    refusals=(
        Refusal(
            r"AllocationFailed|SkuNotAvailable|OverconstrainedAllocation|NotAvailableForSub",
            CapacityError,
        ),
        Refusal(r"QuotaExceeded|OperationNotAllowed.*(quota|cores)", QuotaError),
        Refusal(r"AADSTS|InvalidAuthenticationToken|AuthorizationFailed|invalid_client", AuthError),
        Refusal(r"ResourceNotFound|^404 .*virtualMachines", NotFound),
        Refusal(r"^409 |AnotherOperationInProgress|OperationPreempted|InUse", ProviderError),
        Refusal(r"InvalidParameter|PropertyChangeNotAllowed", InvalidRequest),
    ),
    regional=False,
    zones=False,
    spot=True,
    client_tokens=True,
    default_image="Canonical:ubuntu-24_04-lts:server:latest",
    interruption_notice_s=30.0,
    listing_lag_s=30.0,
    leftovers=(NIC,),
    needs_network=True,
)


class Azure(Cloud):
    """One resource group."""

    profile: ClassVar[Profile] = PROFILE

    def __init__(self, settings: CloudSettings, owner: Owner, region: str) -> None:
        super().__init__(settings, owner, region)
        self._wire = Wire(self._connect, PROFILE.refusals, PROFILE.title, dumps=False)

    def servers(self) -> Iterable[Server]:
        for body in self._all("Microsoft.Compute/virtualMachines", _VM):
            if self._is_ours(body):
                with suppress(NotFound):  # it went while they were listed
                    yield self._server(body)

    def server(self, id: str) -> Server | None:
        try:
            body = self._wire.get(self._path("Microsoft.Compute/virtualMachines", id), _api(_VM))
            return self._server(body) if self._is_ours(body) else None
        except NotFound:
            return None

    def sizes(self) -> Iterable[Size]:
        path = f"/subscriptions/{self.settings.account['subscription_id']}"
        for region in self.settings.regions:
            where = {**_api(_SKU), "$filter": f"location eq '{region}'"}
            for body in self._pages(f"{path}/providers/Microsoft.Compute/skus", where):
                if body["resourceType"] != "virtualMachines" or is_closed(body):
                    continue
                can = {one["name"]: one["value"] for one in body["capabilities"]}
                if can.get("CpuArchitectureType", "x64") == "x64":
                    yield size_of(body["name"], can, region)

    def create(self, new: NewServer) -> Server:
        """First its network interface, which goes with it once it is there."""
        nic = self._path("Microsoft.Network/networkInterfaces", f"{new.name}-nic")
        self._wire.put(nic, self._nic(new), _api(_NET))
        path = self._path("Microsoft.Compute/virtualMachines", new.name)
        return self._server(self._wire.put(path, self._machine(new, nic), _api(_VM)))

    def delete(self, server: Server) -> None:
        self._wire.delete(server.body["id"], _api(_VM))

    def start(self, server: Server) -> None:
        self._wire.post(f"{server.body['id']}/start", None, _api(_VM))

    def stop(self, server: Server) -> None:
        self._wire.post(f"{server.body['id']}/deallocate", None, _api(_VM))

    def resize(self, server: Server, size: str) -> None:
        body = {"properties": {"hardwareProfile": {"vmSize": size}}}
        self._wire.patch(server.body["id"], body, _api(_VM))

    def disks(self) -> Iterable[Disk]:
        for body in self._all("Microsoft.Compute/disks", _DISK):
            if self._is_ours(body) and marks.VOLUME in body["tags"]:
                yield _disk(body)

    def create_disk(self, new: NewDisk) -> Disk:
        origin = {"createOption": "Empty"}
        if new.copy is not None:
            source = self._path("Microsoft.Compute/snapshots", new.copy.id)
            origin = {"createOption": "Copy", "sourceResourceId": source}
        body = {
            "location": new.region,
            "tags": dict(new.marks),
            "sku": {"name": "Premium_LRS"},
            "properties": {"creationData": origin, "diskSizeGB": new.gib},
        }
        path = self._path("Microsoft.Compute/disks", new.name)
        made = self._wire.put(path, body, _api(_DISK))
        # The answer repeats the request; when it was made, only a look at it says.
        made = made if "timeCreated" in made["properties"] else self._wire.get(path, _api(_DISK))
        return _disk(made)

    def delete_disk(self, disk: Disk) -> None:
        self._wire.delete(disk.body["id"], _api(_DISK))

    def attach(self, server: Server, disk: Disk) -> None:
        there = server.body["properties"]["storageProfile"].get("dataDisks", [])
        taken = {one["lun"] for one in there}
        new = {
            "lun": next(lun for lun in range(64) if lun not in taken),
            "createOption": "Attach",
            "deleteOption": "Detach",
            "managedDisk": {"id": disk.body["id"]},
        }
        body = {"properties": {"storageProfile": {"dataDisks": [*there, new]}}}
        self._wire.patch(server.body["id"], body, _api(_VM))

    def copies(self) -> Iterable[DiskCopy]:
        for body in self._all("Microsoft.Compute/snapshots", _DISK):
            if self._is_ours(body) and marks.SNAPSHOT in body["tags"]:
                yield _copy(body)

    def copy(self, disk: Disk, name: str, marks: Marks) -> DiskCopy:
        body = {
            "location": disk.region,
            "tags": dict(marks),
            "properties": {
                "creationData": {"createOption": "Copy", "sourceResourceId": disk.body["id"]},
                "incremental": True,
            },
        }
        path = self._path("Microsoft.Compute/snapshots", name)
        self._wire.put(path, body, _api(_DISK))
        return _copy(self._wire.get(path, _api(_DISK)))

    def delete_copy(self, copy: DiskCopy) -> None:
        self._wire.delete(self._path("Microsoft.Compute/snapshots", copy.id), _api(_DISK))

    def leftovers(self) -> Iterable[Leftover]:
        """Interfaces whose machine was never made."""
        for body in self._all("Microsoft.Network/networkInterfaces", _NET):
            if self._is_ours(body) and "virtualMachine" not in body["properties"]:
                yield Leftover(NIC, body["name"])

    def delete_leftover(self, leftover: Leftover) -> None:
        self._wire.delete(
            self._path("Microsoft.Network/networkInterfaces", leftover.id), _api(_NET)
        )

    # ---- requests

    def _connect(self) -> Any:
        account = self.settings.account
        return driver_class(AzureNodeDriver, self.settings.endpoint_url)(
            account["tenant_id"],
            account["subscription_id"],
            account["client_id"],
            self.settings.secret("client_secret"),
        ).connection

    def _path(self, kind: str, name: str = "") -> str:
        account = self.settings.account
        group = f"/subscriptions/{account['subscription_id']}/resourceGroups"
        path = f"{group}/{account['resource_group']}/providers/{kind}"
        return f"{path}/{name}" if name else path

    def _all(self, kind: str, version: str) -> Iterator[Mapping[str, Any]]:
        return self._pages(self._path(kind), _api(version))

    def _pages(self, path: str, params: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        pages = Pages(PROFILE.title)
        while True:
            answer = self._wire.get(path, params)
            yield from answer["value"]
            if not pages.has(answer.get("nextLink")):
                return
            following = urlsplit(answer["nextLink"])
            path, params = following.path, dict(parse_qsl(following.query))

    def _nic(self, new: NewServer) -> dict[str, Any]:
        groups = [{"id": id} for id in self.settings.security_groups[:1]]
        return {
            "location": new.region,
            "tags": {**self.owner.marks, marks.LAUNCH: new.launch_id},
            "properties": {
                "ipConfigurations": [
                    {
                        "name": "ip",
                        "properties": {
                            "subnet": {"id": self.settings.network},
                            "privateIPAllocationMethod": "Dynamic",
                        },
                    }
                ],
                **({"networkSecurityGroup": groups[0]} if groups else {}),
            },
        }

    def _machine(self, new: NewServer, nic: str) -> dict[str, Any]:
        key = {
            "path": "/home/roost/.ssh/authorized_keys",
            "keyData": self.settings.account["ssh_public_key"],
        }
        spot = {
            "priority": "Spot",
            "evictionPolicy": "Delete",
            "billingProfile": {"maxPrice": -1},  # up to the price on demand
        }
        return {
            "location": new.region,
            "tags": dict(new.marks),
            "properties": {
                "hardwareProfile": {"vmSize": new.size},
                "storageProfile": {
                    "imageReference": _image(new.image),
                    "osDisk": {
                        "createOption": "FromImage",
                        "deleteOption": "Delete",
                        "diskSizeGB": _ROOT_GIB,
                        "managedDisk": {"storageAccountType": "StandardSSD_LRS"},
                    },
                },
                "osProfile": {
                    "computerName": new.name,
                    "adminUsername": "roost",
                    "customData": encoded(new.user_data, PROFILE),
                    "linuxConfiguration": {
                        "disablePasswordAuthentication": True,
                        "ssh": {"publicKeys": [key]},
                    },
                },
                "networkProfile": {
                    "networkInterfaces": [{"id": nic, "properties": {"deleteOption": "Delete"}}]
                },
                **(spot if new.spot else {}),
            },
        }

    # ---- answers

    def _is_ours(self, body: Mapping[str, Any]) -> bool:
        return self.owner.owns(body.get("tags") or {})

    def _server(self, body: Mapping[str, Any]) -> Server:
        """A list says nothing of what a machine does: each is asked."""
        properties = body["properties"]
        view = properties.get("instanceView")
        if view is None and properties["provisioningState"] != "Creating":
            view = self._wire.get(f"{body['id']}/instanceView", _api(_VM))
        said = [one["code"] for one in (view or {}).get("statuses", ())]
        state, failed = _state(properties["provisioningState"], said, view or {})
        return Server(
            id=body["name"],
            state=state,
            size=properties["hardwareProfile"]["vmSize"],
            region=body["location"],
            zone=body["location"],
            marks=body.get("tags") or {},
            spot=properties.get("priority") == "Spot",
            created_at=instant(properties.get("timeCreated")),
            failed=failed,
            message="it was shut down from within, and is billed"
            if "PowerState/stopped" in said
            else "",
            body=body,
        )


def _state(provisioning: str, said: list[str], view: Mapping[str, Any]) -> tuple[MachineState, str]:
    """Its state, and why it will never run where that is so."""
    power = next((_POWER[code] for code in said if code in _POWER), None)
    if provisioning == "Deleting":
        return S.TERMINATING, ""
    if provisioning == "Failed" and power is None:
        told = [one.get("message", "") for one in view.get("statuses", ())]
        return S.PENDING, next(filter(None, told), "it could not be made")
    return power or S.PENDING, ""


def _disk(body: Mapping[str, Any]) -> Disk:
    properties = body["properties"]
    holder = body.get("managedBy") or ""
    return Disk(
        id=body["name"],
        region=body["location"],
        zone=body["location"],
        marks=body.get("tags") or {},
        gib=properties["diskSizeGB"],
        created_at=known(properties["timeCreated"]),
        server_id=holder.rpartition("/")[2] or None,
        ready=properties.get("diskState", "Unattached") == "Unattached",
        body=body,
    )


def _copy(body: Mapping[str, Any]) -> DiskCopy:
    properties = body["properties"]
    return DiskCopy(
        id=body["name"],
        region=body["location"],
        marks=body["tags"],
        gib=properties["diskSizeGB"],
        created_at=known(properties["timeCreated"]),
        complete=properties["provisioningState"] == "Succeeded"
        and float(properties.get("completionPercent", 100)) >= 100,
    )


def _image(image: str) -> dict[str, str]:
    if image.startswith("/"):
        return {"id": image}
    publisher, offer, sku, version = image.split(":")
    return {"publisher": publisher, "offer": offer, "sku": sku, "version": version}


def _api(version: str) -> dict[str, str]:
    return {"api-version": version}
