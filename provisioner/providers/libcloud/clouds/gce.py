"""Google Compute Engine.

libcloud's driver reads zones, regions and images whenever it is made, waits for each operation and
knows spot only as the older `preemptible`; so the requests are ours, over its connection. What an
operation comes to is looked for when its machine does not show.

API: cloud.google.com/compute/docs/reference/rest/v1
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from libcloud.compute.drivers.gce import GCEConnection

from provisioner.errors import (
    AuthError,
    CapacityError,
    ProviderError,
    QuotaError,
    ThrottledError,
)
from provisioner.gpus import canonical_gpu
from provisioner.providers.contract import EndReason, MachineState
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
from provisioner.providers.libcloud.clouds.gce_marks import label, marked, marks_in, name_of
from provisioner.providers.libcloud.marks import Marks, Owner
from provisioner.providers.libcloud.pages import Pages
from provisioner.providers.libcloud.profile import Profile, Support
from provisioner.providers.libcloud.refusals import CloudSaid, Refusal
from provisioner.providers.libcloud.settings import CloudSettings
from provisioner.providers.libcloud.times import instant, known
from provisioner.providers.libcloud.user_data import plain
from provisioner.providers.libcloud.wire import Wire, connection_class

S = MachineState
_STATES = {
    "PROVISIONING": S.PENDING,
    "STAGING": S.PENDING,
    "RUNNING": S.RUNNING,
    "REPAIRING": S.RUNNING,
    "STOPPING": S.STOPPING,
    "SUSPENDING": S.STOPPING,
    "SUSPENDED": S.STOPPED,
    "TERMINATED": S.STOPPED,  # Google's word for one that is off
}
_FIELDS = (
    "nextPageToken,items/*/instances(name,zone,status,machineType,description,scheduling,disks/source,"
    "creationTimestamp,lastStartTimestamp,lastStopTimestamp,statusMessage)"
)
"""All but its metadata: they hold the boot script, which nobody needs to see again."""
_SCOPE = "https://www.googleapis.com/auth/compute"
_ROOT_GIB = 30
_ARM = re.compile(r"(t2a|c4a|n4a|a4x)-")

PROFILE = Profile(
    driver="gce",
    title="Google Compute Engine",
    support=Support.EXPERIMENTAL,
    account={
        "project": "project id",
        "service_account?": "its mail address; without it the control plane's own machine signs in",
    },
    secrets={"key?": "the service account's key, as JSON"},
    refusals=(
        Refusal(
            r"ZONE_RESOURCE_POOL_EXHAUSTED|STOCKOUT|does not have enough resources"
            r"|resourcesUnavailable|UNSUPPORTED_OPERATION.*zone",
            CapacityError,
        ),
        Refusal(r"rateLimitExceeded|userRateLimitExceeded", ThrottledError),
        Refusal(r"quotaExceeded|QUOTA_EXCEEDED", QuotaError),
        Refusal(r"resourceNotReady|resourceInUse|RESOURCE_NOT_READY|^412 ", ProviderError),
        Refusal(r"accessNotConfigured|invalid_grant|unauthorized_client", AuthError),
    ),
    regional=False,
    zones=True,
    spot=True,
    client_tokens=True,
    default_image="projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64",
    user_data_bytes=262144,
    packs_user_data=False,
    interruption_notice_s=30.0,
    listing_lag_s=30.0,
)


class Gce(Cloud):
    """One project."""

    profile: ClassVar[Profile] = PROFILE

    def __init__(self, settings: CloudSettings, owner: Owner, region: str) -> None:
        super().__init__(settings, owner, region)
        self._wire = Wire(self._connect, PROFILE.refusals, PROFILE.title, dumps=False)

    def servers(self) -> Iterable[Server]:
        where = {"filter": self._ours(), "fields": _FIELDS}
        for body in self._pages("instances", where):
            server = _server(body)
            if self.owner.owns(server.marks):
                yield server

    def server(self, id: str) -> Server | None:
        where = {"filter": f"name = {name_of(id)}", "fields": _FIELDS}
        for body in self._pages("instances", where):
            server = _server(body)
            if server.id == id and self.owner.owns(server.marks):
                return server
        return None

    def sizes(self) -> Iterable[Size]:
        found: dict[str, tuple[Mapping[str, Any], dict[str, list[str]]]] = {}
        for body in self._pages("machineTypes", {}):
            zone = body["zone"].rpartition("/")[2]
            region = _region(zone)
            old = "deprecated" in body or _ARM.match(body["name"])
            if region in self.settings.regions and not old:
                _, zones = found.setdefault(body["name"], (body, {}))
                zones.setdefault(region, []).append(zone)
        for name, (body, zones) in found.items():
            gpus = body.get("accelerators") or ()
            yield Size(
                name=name,
                cpus=float(body["guestCpus"]),
                memory_gib=body["memoryMb"] / 1024,
                zones={region: tuple(sorted(here)) for region, here in zones.items()},
                gpus=sum(one["guestAcceleratorCount"] for one in gpus),
                gpu_model=canonical_gpu(gpus[0]["guestAcceleratorType"]) if gpus else None,
            )

    def end_of(self, server: Server) -> tuple[EndReason, str] | None:
        """Its zone's operations say whether it was preempted, or never came to be."""
        where = {"filter": f'targetLink eq ".*/instances/{name_of(server.id)}"'}
        answer = self._wire.get(f"/zones/{server.zone}/operations", where)
        for one in answer.get("items", ()):
            if not one.get("targetLink", "").endswith(f"/instances/{server.id}"):
                continue
            if one["operationType"] == "compute.instances.preempted":
                return EndReason.RECLAIMED, one.get("statusMessage", "preempted")
            if one["operationType"] == "insert" and "error" in one:
                told = "; ".join(
                    f"{error['code']}: {error.get('message', '')}"
                    for error in one["error"]["errors"]
                )
                return EndReason.FAILED, told
        return None

    def create(self, new: NewServer) -> Server:
        body = self._instance(new)
        # The same request id and the same name: either makes one machine of two calls.
        once = {"requestId": str(uuid.uuid5(uuid.NAMESPACE_URL, new.launch_id))}
        try:
            self._wire.post(f"/zones/{new.zone}/instances", body, once)
        except ProviderError as error:
            said = error.__cause__
            if not isinstance(said, CloudSaid) or said.status != 409:
                raise
            found = self.server(new.name)
            if found is None:
                raise
            return found
        return Server(
            id=new.name,
            state=S.PENDING,
            size=new.size,
            region=new.region,
            zone=new.zone,
            marks=new.marks,
            spot=new.spot,
        )

    def delete(self, server: Server) -> None:
        self._wire.delete(_path(server))

    def start(self, server: Server) -> None:
        self._wire.post(f"{_path(server)}/start")

    def stop(self, server: Server) -> None:
        self._wire.post(f"{_path(server)}/stop")

    def resize(self, server: Server, size: str) -> None:
        body = {"machineType": f"zones/{server.zone}/machineTypes/{size}"}
        self._wire.post(f"{_path(server)}/setMachineType", body)

    def disks(self) -> Iterable[Disk]:
        for body in self._pages("disks", {"filter": self._ours()}):
            disk = _disk(body)
            if marks.VOLUME in disk.marks and self.owner.owns(disk.marks):
                yield disk

    def create_disk(self, new: NewDisk) -> Disk:
        name = name_of(new.name)
        body = {
            "name": name,
            "sizeGb": str(new.gib),
            "type": f"zones/{new.zone}/diskTypes/pd-balanced",
            **marked(new.marks),
            **({"sourceSnapshot": f"global/snapshots/{new.copy.id}"} if new.copy else {}),
        }
        made = self._wire.post(f"/zones/{new.zone}/disks", body)
        return Disk(
            id=name,
            region=new.region,
            zone=new.zone,
            marks=new.marks,
            gib=new.gib,
            created_at=known(made["insertTime"]),
            ready=False,
        )

    def delete_disk(self, disk: Disk) -> None:
        self._wire.delete(f"/zones/{disk.zone}/disks/{disk.id}")

    def attach(self, server: Server, disk: Disk) -> None:
        source = f"projects/{self.settings.account['project']}/zones/{disk.zone}/disks/{disk.id}"
        body = {"source": source, "deviceName": "roost-home", "autoDelete": False}
        self._wire.post(f"{_path(server)}/attachDisk", body)

    def copies(self) -> Iterable[DiskCopy]:
        for body in self._items("/global/snapshots", {"filter": self._ours()}):
            found = marks_in(body)
            if marks.SNAPSHOT in found and self.owner.owns(found):
                yield DiskCopy(
                    id=body["name"],
                    region="",
                    marks=found,
                    gib=int(body["diskSizeGb"]),
                    created_at=known(body["creationTimestamp"]),
                    complete=body["status"] == "READY",
                )

    def copy(self, disk: Disk, name: str, marks: Marks) -> DiskCopy:
        body = {"name": name_of(name), **marked(marks)}
        made = self._wire.post(f"/zones/{disk.zone}/disks/{disk.id}/createSnapshot", body)
        at = known(made["insertTime"])
        return DiskCopy(body["name"], disk.region, marks, disk.gib, at, complete=False)

    def delete_copy(self, copy: DiskCopy) -> None:
        self._wire.delete(f"/global/snapshots/{copy.id}")

    # ---- requests

    def _connect(self) -> Any:
        """Without libcloud's file of tokens, which it would write into the home folder."""
        account = self.settings.account
        mail = account.get("service_account", "")
        key = json.loads(self.settings.secret("key")) if mail else None
        return connection_class(GCEConnection, self.settings.endpoint_url)(
            mail,
            key,
            secure=True,
            auth_type="SA" if mail else "GCE",
            credential_file=os.devnull,
            project=account["project"],
            scopes=[_SCOPE],
        )

    def _instance(self, new: NewServer) -> dict[str, Any]:
        network = self.settings.network
        where = {"subnetwork" if "subnetworks/" in network else "network": network}
        image = new.image if "/" in new.image else f"global/images/{new.image}"
        moves = not new.spot and not new.gpus
        return {
            "name": new.name,
            "machineType": f"zones/{new.zone}/machineTypes/{new.size}",
            "disks": [
                {
                    "boot": True,
                    "autoDelete": True,
                    "initializeParams": {
                        "sourceImage": image,
                        "diskSizeGb": str(_ROOT_GIB),
                        "diskType": f"zones/{new.zone}/diskTypes/pd-balanced",
                    },
                }
            ],
            "networkInterfaces": [
                {
                    **(where if network else {"network": "global/networks/default"}),
                    "accessConfigs": [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}],
                }
            ],
            "metadata": {
                "items": [
                    {"key": "user-data", "value": plain(new.user_data, PROFILE)},
                    {"key": "block-project-ssh-keys", "value": "true"},
                ]
            },
            "scheduling": {
                "onHostMaintenance": "MIGRATE" if moves else "TERMINATE",
                "automaticRestart": not new.spot,
                **(
                    {"provisioningModel": "SPOT", "instanceTerminationAction": "DELETE"}
                    if new.spot
                    else {}
                ),
            },
            **marked(new.marks),
        }

    def _ours(self) -> str:
        owned = self.owner.marks
        return " AND ".join(f'labels.{name} = "{label(owned[name])}"' for name in owned)

    def _pages(self, kind: str, params: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        """Of all zones."""
        for scope in self._items(f"/aggregated/{kind}", params):
            yield from scope.get(kind, ())

    def _items(self, path: str, params: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        token, pages = "", Pages(PROFILE.title)
        while True:
            more = {"pageToken": token} if token else {}
            answer = self._wire.get(path, {**params, "maxResults": 500, **more})
            items = answer.get("items", ())
            yield from items.values() if isinstance(items, dict) else items
            token = answer.get("nextPageToken", "")
            if not pages.has(token):
                return


# ---- answers


def _server(body: Mapping[str, Any]) -> Server:
    zone = body["zone"].rpartition("/")[2]
    state = _STATES.get(body["status"], S.RUNNING)
    how = body.get("scheduling") or {}
    stood = instant(body.get("lastStopTimestamp"))
    return Server(
        id=body["name"],
        state=state,
        size=body["machineType"].rpartition("/")[2],
        region=_region(zone),
        zone=zone,
        marks=marks_in(body),
        spot=how.get("provisioningModel") == "SPOT" or bool(how.get("preemptible")),
        created_at=instant(body["creationTimestamp"]),
        run_started_at=instant(body.get("lastStartTimestamp")),
        run_ended_at=stood if state is S.STOPPED else None,
        message=body.get("statusMessage", ""),
    )


def _disk(body: Mapping[str, Any]) -> Disk:
    zone = body["zone"].rpartition("/")[2]
    users = [user.rpartition("/")[2] for user in body.get("users", ())]
    return Disk(
        id=body["name"],
        region=_region(zone),
        zone=zone,
        marks=marks_in(body),
        gib=int(body["sizeGb"]),
        created_at=known(body["creationTimestamp"]),
        server_id=users[0] if users else None,
        ready=body["status"] == "READY",
    )


def _region(zone: str) -> str:
    return zone.rpartition("-")[0]


def _path(server: Server) -> str:
    return f"/zones/{server.zone}/instances/{server.id}"
