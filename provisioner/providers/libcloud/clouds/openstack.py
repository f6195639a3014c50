"""OpenStack: nova, and cinder where there is one.

Nova accepts a server before it has found a host for it. One for which there is none ends in ERROR,
keeps its quota and must be deleted; one whose host was dead may come to life much later. A resize
must be confirmed, and until then both hosts stay taken.

API: docs.openstack.org/api-ref/compute (microversion 2.61: a server tells its flavor by name, and a
flavor its extra specs).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from libcloud.compute.drivers.openstack import OpenStack_2_NodeDriver

from policies.world import Quota, QuotaUnit
from provisioner.errors import CapacityError, InvalidRequest, NotFound, ProviderError, QuotaError
from provisioner.gpus import canonical_gpu
from provisioner.providers.contract import MachineState
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
from provisioner.providers.libcloud.marks import Marks, Owner
from provisioner.providers.libcloud.pages import Pages
from provisioner.providers.libcloud.profile import Profile, Support
from provisioner.providers.libcloud.refusals import Refusal
from provisioner.providers.libcloud.settings import CloudSettings
from provisioner.providers.libcloud.times import instant, known
from provisioner.providers.libcloud.user_data import encoded
from provisioner.providers.libcloud.wire import Wire, driver_class

S = MachineState
_STATES = {
    "building": S.PENDING,
    "active": S.RUNNING,
    "paused": S.RUNNING,
    "rescued": S.RUNNING,
    "stopped": S.STOPPED,
    "suspended": S.STOPPED,
    "shelved": S.STOPPED,
    "shelved_offloaded": S.STOPPED,
    "soft-delete": S.TERMINATING,
    "deleted": S.TERMINATED,
}
_ON_THE_WAY = {
    "powering-off": S.STOPPING,
    "powering-on": S.PENDING,
    "deleting": S.TERMINATING,
    "soft-deleting": S.TERMINATING,
}
_ZONE = "roost-zone"
_RUNS_KEPT = 10000
_OFF = 4  # power_state of nova
_WAKE = {"suspended": "resume", "shelved": "unshelve", "shelved_offloaded": "unshelve"}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_GPU = re.compile(r"(?i)(?:custom_)?(?:gpu|vgpu|pci)[_:-]?")

PROFILE = Profile(
    driver="openstack",
    title="OpenStack",
    support=Support.EXPERIMENTAL,
    account={
        "auth_url": "URL of keystone",
        "username": "user",
        "project": "project",
        "domain?": "domain of the user and the project, `default` unless given",
    },
    secrets={"password": "the user's password"},
    refusals=(
        Refusal(r"^403 .*(quota|exceeded)", QuotaError),
        Refusal(r"^413 .*(quota|limit)", QuotaError),
        Refusal(r"no valid host", CapacityError),
        Refusal(r"^404 .*(instance|server)", NotFound),
        Refusal(r"^409 ", ProviderError, "It is tried again."),
    ),
    regional=True,
    zones=True,
    user_data_bytes=49152,  # 65,535 letters of base64
    listing_lag_s=10.0,
    list_every_s=5.0,
    one_region=True,
)


class OpenStack(Cloud):
    """One region."""

    profile: ClassVar[Profile] = PROFILE

    def __init__(self, settings: CloudSettings, owner: Owner, region: str) -> None:
        super().__init__(settings, owner, region)
        self._driver: Any = None
        self._nova = self._service("connection")
        self._cinder = self._service("volumev3_connection")
        self._glance = self._service("image_connection")
        self._runs: dict[str, tuple[str, datetime | None, datetime | None]] = {}

    def servers(self) -> Iterable[Server]:
        for body in self._pages(self._nova, "/servers/detail", "servers"):
            server = self._server(body)
            if self.owner.owns(server.marks):
                yield server

    def server(self, id: str) -> Server | None:
        try:
            server = self._server(self._nova.get(f"/servers/{id}")["server"])
        except (NotFound, InvalidRequest):
            return None
        return server if self.owner.owns(server.marks) else None

    def sizes(self) -> Iterable[Size]:
        answer = self._nova.get("/os-availability-zone")
        zones = {
            self.region: tuple(
                sorted(
                    zone["zoneName"]
                    for zone in answer["availabilityZoneInfo"]
                    if zone["zoneState"]["available"]
                )
            )
        }
        for flavor in self._pages(self._nova, "/flavors/detail", "flavors"):
            gpus, model = _gpus(flavor.get("extra_specs") or {})
            yield Size(
                name=flavor["name"],
                cpus=float(flavor["vcpus"]),
                memory_gib=flavor["ram"] / 1024,
                zones=zones,
                gpus=gpus,
                gpu_model=model,
            )

    def quotas(self) -> Sequence[Quota]:
        limits = self._nova.get("/limits")["limits"]["absolute"]
        found = []
        for name, used, unit in (
            ("maxTotalInstances", "totalInstancesUsed", QuotaUnit.MACHINES),
            ("maxTotalCores", "totalCoresUsed", QuotaUnit.CPUS),
        ):
            if limits.get(name, -1) >= 0:
                where = (self.settings.name, self.region, ("*",))
                found.append(Quota(name, *where, unit, float(limits[name]), float(limits[used])))
        return found

    def create(self, new: NewServer) -> Server:
        network = self.settings.network
        # Until it has a host, nova does not say in which zone it is to be.
        told = {**new.marks, _ZONE: new.zone}
        groups = [{"name": name} for name in self.settings.security_groups]
        server = {
            "name": new.name,
            "flavorRef": self._flavor_id(new.size),
            "imageRef": self._image_id(new.image),
            "availability_zone": new.zone,
            "networks": [{"uuid": network}] if network else "auto",
            "user_data": encoded(new.user_data, PROFILE),
            "metadata": dict(told),
            **({"security_groups": groups} if groups else {}),
        }
        id = self._nova.post("/servers", {"server": server})["server"]["id"]
        return Server(
            id=id,
            state=S.PENDING,
            size=new.size,
            region=self.region,
            zone=new.zone,
            marks=told,
        )

    def delete(self, server: Server) -> None:
        self._nova.delete(f"/servers/{server.id}")

    def start(self, server: Server) -> None:
        self._act(server, _WAKE.get(server.body["OS-EXT-STS:vm_state"], "os-start"))

    def stop(self, server: Server) -> None:
        self._act(server, "os-stop")

    def resize(self, server: Server, size: str) -> None:
        self._act(server, "resize", {"flavorRef": self._flavor_id(size)})

    def confirm(self, server: Server) -> None:
        self._act(server, "confirmResize")

    def disks(self) -> Iterable[Disk]:
        for body in self._pages(self._cinder, "/volumes/detail", "volumes"):
            disk = self._disk(body)
            if self.owner.owns(disk.marks) and marks.VOLUME in disk.marks:
                yield disk

    def create_disk(self, new: NewDisk) -> Disk:
        volume = {
            "name": new.name,
            "size": new.gib,
            "metadata": dict(new.marks),
            **({"snapshot_id": new.copy.id} if new.copy else {}),
        }
        return self._disk(self._cinder.post("/volumes", {"volume": volume})["volume"])

    def delete_disk(self, disk: Disk) -> None:
        self._cinder.delete(f"/volumes/{disk.id}")

    def attach(self, server: Server, disk: Disk) -> None:
        body = {"volumeAttachment": {"volumeId": disk.id}}
        self._nova.post(f"/servers/{server.id}/os-volume_attachments", body)

    def copies(self) -> Iterable[DiskCopy]:
        for body in self._pages(self._cinder, "/snapshots/detail", "snapshots"):
            copy = self._copy(body)
            if self.owner.owns(copy.marks) and marks.SNAPSHOT in copy.marks:
                yield copy

    def copy(self, disk: Disk, name: str, marks: Marks) -> DiskCopy:
        wanted = {"volume_id": disk.id, "name": name, "force": True, "metadata": dict(marks)}
        return self._copy(self._cinder.post("/snapshots", {"snapshot": wanted})["snapshot"])

    def delete_copy(self, copy: DiskCopy) -> None:
        self._cinder.delete(f"/snapshots/{copy.id}")

    # ---- requests

    def _service(self, connection: str) -> Wire:
        who = f"{PROFILE.title} {self.region}"
        return Wire(
            lambda: getattr(self._signed_in(), connection), PROFILE.refusals, who, dumps=False
        )

    def _signed_in(self) -> Any:
        if self._driver is None:
            account = self.settings.account
            domain = account.get("domain", "default")
            kind = driver_class(OpenStack_2_NodeDriver, None)
            for connection in (
                kind.connectionCls,
                kind.image_connectionCls,
                kind.volumev3_connectionCls,
            ):
                connection.service_name = None  # clouds name theirs as they like
            self._driver = kind(
                account["username"],
                self.settings.secret("password"),
                api_version="2.2",
                ex_tenant_name=account["project"],
                ex_force_auth_url=account["auth_url"],
                ex_force_auth_version="3.x_password",
                ex_force_service_region=self.region,
                ex_domain_name=domain,
                ex_tenant_domain_id=domain,
                ex_force_microversion="2.61",
            )
        return self._driver

    def _pages(self, wire: Wire, path: str, key: str) -> Iterator[Mapping[str, Any]]:
        marker, pages = "", Pages(PROFILE.title)
        while True:
            more = {"marker": marker} if marker else {}
            answer = wire.get(path, {"limit": 500, **more})
            yield from answer[key]
            if not answer[key] or not answer.get(f"{key}_links"):
                return
            marker = answer[key][-1]["id"]
            pages.has(marker)

    def _act(self, server: Server, action: str, how: Any = None) -> None:
        self._nova.post(f"/servers/{server.id}/action", {action: how})

    def _flavor_id(self, name: str) -> str:
        for flavor in self._pages(self._nova, "/flavors/detail", "flavors"):
            if flavor["name"] == name:
                return str(flavor["id"])
        raise InvalidRequest(f"{PROFILE.title} {self.region} has no flavor {name}")

    def _image_id(self, image: str) -> str:
        if _UUID.fullmatch(image):
            return image
        found = self._glance.get("/v2/images", {"name": image, "status": "active"})["images"]
        if not found:
            raise InvalidRequest(f"{PROFILE.title} {self.region} has no image {image}")
        return str(found[0]["id"])

    # ---- answers

    def _server(self, body: Mapping[str, Any]) -> Server:
        state, failed = _state(body)
        started, stood = self._run(body, state)
        return Server(
            id=body["id"],
            state=state,
            size=body["flavor"].get("original_name") or body["flavor"].get("id", ""),
            region=self.region,
            zone=body.get("OS-EXT-AZ:availability_zone") or body["metadata"].get(_ZONE, ""),
            marks=body["metadata"],
            created_at=instant(body["created"]),
            run_started_at=started,
            run_ended_at=stood,
            failed=failed,
            confirm=body["OS-EXT-STS:vm_state"] == "resized"
            and not body.get("OS-EXT-STS:task_state"),
            message=(body.get("fault") or {}).get("message", ""),
            body=body,
        )

    def _run(
        self, body: Mapping[str, Any], state: MachineState
    ) -> tuple[datetime | None, datetime | None]:
        """From its log of actions, which is read when it has changed since it was read last."""
        launched = instant(body.get("OS-SRV-USG:launched_at"))
        if launched is None:
            return None, None
        stands = state is S.STOPPED
        seen = self._runs.get(body["id"])
        if seen is None or seen[0] != f"{body['updated']} {state}":
            seen = (f"{body['updated']} {state}", *self._logged(body["id"], launched))
            if len(self._runs) > _RUNS_KEPT:
                self._runs.clear()
            self._runs[body["id"]] = seen
        return seen[1], seen[2] if stands else None

    def _logged(self, id: str, launched: datetime) -> tuple[datetime, datetime | None]:
        try:
            log = self._nova.get(f"/servers/{id}/os-instance-actions")["instanceActions"]
        except ProviderError:
            return launched, None  # a policy may forbid it
        started, stood = launched, None
        for one in sorted(log, key=lambda one: one["start_time"]):
            if one["action"] in ("start", "unshelve", "resume"):
                started = max(launched, known(one["start_time"]))
            elif one["action"] in ("stop", "shelve", "suspend"):
                stood = known(one.get("updated_at") or one["start_time"])
        return started, stood

    def _disk(self, body: Mapping[str, Any]) -> Disk:
        """It says no zone: nova attaches across zones unless an operator forbids it."""
        attached = [one["server_id"] for one in body.get("attachments", ())]
        return Disk(
            id=body["id"],
            region=self.region,
            zone="",
            marks=body.get("metadata") or {},
            gib=body["size"],
            created_at=known(body["created_at"]),
            server_id=attached[0] if attached else None,
            ready=body["status"] == "available",
        )

    def _copy(self, body: Mapping[str, Any]) -> DiskCopy:
        return DiskCopy(
            id=body["id"],
            region=self.region,
            marks=body.get("metadata") or {},
            gib=body["size"],
            created_at=known(body["created_at"]),
            complete=body["status"] == "available",
        )


def _state(body: Mapping[str, Any]) -> tuple[MachineState, str]:
    """Its state, and why it will never run where that is so."""
    vm, task = body["OS-EXT-STS:vm_state"], body.get("OS-EXT-STS:task_state")
    if vm == "error":
        if body.get("OS-SRV-USG:launched_at"):
            return S.TERMINATING if task == "deleting" else S.RUNNING, ""
        why = (body.get("fault") or {}).get("message") or "it could not be built"
        return S.TERMINATING if task == "deleting" else S.PENDING, why
    if task in _ON_THE_WAY:
        return _ON_THE_WAY[task], ""
    if vm == "resized":
        return (S.STOPPED if body.get("OS-EXT-STS:power_state") == _OFF else S.RUNNING), ""
    return _STATES.get(vm, S.RUNNING), ""


def _gpus(specs: Mapping[str, str]) -> tuple[int, str | None]:
    """From the labels `gpu:count` and `gpu:model`, else from what the flavor reserves."""
    if "gpu:count" in specs:
        model = specs.get("gpu:model")
        return int(specs["gpu:count"]), canonical_gpu(model) if model else None
    for name, value in specs.items():
        if name.startswith("resources:CUSTOM_GPU") or name == "resources:VGPU":
            model = _GPU.sub("", name.removeprefix("resources:")).replace("_", "-")
            return int(value), canonical_gpu(model) if model else None
        if name == "pci_passthrough:alias":
            alias, _, count = value.partition(":")
            return int(count or 1), canonical_gpu(alias)
    return 0, None
