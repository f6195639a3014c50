"""Alibaba Cloud ECS. libcloud knows its API as of 2014 and waits in most calls; so the requests are
ours, and libcloud signs them.

API: alibabacloud.com/help/en/ecs/developer-reference
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import urlencode

from libcloud.compute.drivers.ecs import ECSConnection

from provisioner.errors import (
    AuthError,
    CapacityError,
    InvalidRequest,
    NotFound,
    ProviderError,
    QuotaError,
    ThrottledError,
)
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
from provisioner.providers.libcloud.wire import Wire, connection_class
from provisioner.providers.libcloud.xml import every, tags, text

S = MachineState
_STATES = {
    "Pending": S.PENDING,
    "Starting": S.PENDING,
    "Running": S.RUNNING,
    "Stopping": S.STOPPING,
    "Stopped": S.STOPPED,
}
_PAGE = 100
_AGAIN = "It is tried again."

PROFILE = Profile(
    driver="alibaba",
    title="Alibaba ECS",
    support=Support.EXPERIMENTAL,
    account={},
    secrets={"access_key": "access key id", "secret_key": "access key secret"},
    refusals=(
        Refusal(r"NoStock|Zone\.NotOnSale|NotEnoughCapacity|ResourceNotAvailable", CapacityError),
        Refusal(r"QuotaExceed|LimitExceed|BeyondLimit", QuotaError),
        Refusal(r"Throttling|ServiceUnavailable", ThrottledError),
        Refusal(r"Invalid(InstanceId|InstanceIds|DiskId|SnapshotId)\.NotFound", NotFound),
        Refusal(r"InvalidAccessKey|SignatureDoesNotMatch|Forbidden|IncompleteSignature", AuthError),
        Refusal(r"Incorrect\w*Status|OperationConflict|DependencyViolation", ProviderError),
        Refusal(r"IdempotentParameterMismatch|IdempotenceParamNotMatch", InvalidRequest),
    ),
    regional=True,
    zones=True,
    spot=True,
    client_tokens=True,
    user_data_bytes=16384,
    interruption_notice_s=300.0,
    listing_lag_s=30.0,
    needs_network=True,
)


class Alibaba(Cloud):
    """One region."""

    profile: ClassVar[Profile] = PROFILE

    def __init__(self, settings: CloudSettings, owner: Owner, region: str) -> None:
        super().__init__(settings, owner, region)
        self._wire = Wire(self._connect, PROFILE.refusals, f"{PROFILE.title} {region}", dumps=False)

    def servers(self) -> Iterable[Server]:
        for one in self._pages("DescribeInstances", "Instances/Instance", self._ours()):
            server = self._server(one)
            if self.owner.owns(server.marks):
                yield server

    def server(self, id: str) -> Server | None:
        where = {"InstanceIds": f'["{id}"]'}
        same = map(self._server, self._pages("DescribeInstances", "Instances/Instance", where))
        return next((one for one in same if one.id == id and self.owner.owns(one.marks)), None)

    def sizes(self) -> Iterable[Size]:
        zones: dict[str, list[str]] = {}
        for zone in every(self._read("DescribeZones", {}), "Zones/Zone"):
            for one in every(zone, "AvailableInstanceTypes/InstanceTypes"):
                zones.setdefault(one.text, []).append(text(zone, "ZoneId"))
        token, pages = "", Pages(PROFILE.title)
        while True:
            more = {"NextToken": token} if token else {}
            answer = self._read("DescribeInstanceTypes", more)
            for one in every(answer, "InstanceTypes/InstanceType"):
                name = text(one, "InstanceTypeId")
                if name in zones and text(one, "CpuArchitecture") in ("", "X86"):
                    yield _size(one, name, {self.region: tuple(sorted(zones[name]))})
            token = text(answer, "NextToken")
            if not pages.has(token):
                return

    def create(self, new: NewServer) -> Server:
        """`RunInstances`, which starts it too; libcloud's `CreateInstance` does not."""
        params = {
            "ZoneId": new.zone,
            "ImageId": new.image,
            "InstanceType": new.size,
            "InstanceName": new.name,
            "Amount": "1",
            "InstanceChargeType": "PostPaid",
            "UserData": encoded(new.user_data, PROFILE),
            "ClientToken": new.launch_id,
            **_tagged(new.marks),
            **({"VSwitchId": self.settings.network} if self.settings.network else {}),
        }
        for index, group in enumerate(self.settings.security_groups, 1):
            params[f"SecurityGroupIds.{index}"] = group
        if new.spot:
            params["SpotStrategy"] = "SpotAsPriceGo"
        answer = self._change("RunInstances", params)
        return Server(
            id=text(answer, "InstanceIdSets/InstanceIdSet"),
            state=S.PENDING,
            size=new.size,
            region=self.region,
            zone=new.zone,
            marks=new.marks,
            spot=new.spot,
        )

    def delete(self, server: Server) -> None:
        self._change("DeleteInstance", {"InstanceId": server.id, "Force": "true"})

    def start(self, server: Server) -> None:
        self._change("StartInstance", {"InstanceId": server.id})

    def stop(self, server: Server) -> None:
        self._change("StopInstance", {"InstanceId": server.id, "StoppedMode": "StopCharging"})

    def resize(self, server: Server, size: str) -> None:
        self._change("ModifyInstanceSpec", {"InstanceId": server.id, "InstanceType": size})

    def disks(self) -> Iterable[Disk]:
        where = self._ours() | {"DiskType": "data"}
        for one in self._pages("DescribeDisks", "Disks/Disk", where):
            disk = self._disk(one)
            if self.owner.owns(disk.marks) and marks.VOLUME in disk.marks:
                yield disk

    def create_disk(self, new: NewDisk) -> Disk:
        token = f"{self.owner.installation} {self.owner.provider} {new.name} {new.zone}"
        params = {
            "ZoneId": new.zone,
            "DiskName": new.name,
            "Size": str(new.gib),
            "DiskCategory": "cloud_essd",
            "ClientToken": hashlib.sha256(token.encode()).hexdigest(),
            **_tagged(new.marks),
            **({"SnapshotId": new.copy.id} if new.copy else {}),
        }
        id = text(self._change("CreateDisk", params), "DiskId")
        where = {"DiskIds": f'["{id}"]'}
        for one in self._pages("DescribeDisks", "Disks/Disk", where):
            if text(one, "DiskId") == id:
                return self._disk(one)
        raise ProviderError(f"disk {id} was made and cannot be seen yet", remedy=_AGAIN)

    def delete_disk(self, disk: Disk) -> None:
        self._change("DeleteDisk", {"DiskId": disk.id})

    def attach(self, server: Server, disk: Disk) -> None:
        how = {"InstanceId": server.id, "DeleteWithInstance": "false"}
        self._change("AttachDisk", {"DiskId": disk.id, **how})

    def copies(self) -> Iterable[DiskCopy]:
        for one in self._pages("DescribeSnapshots", "Snapshots/Snapshot", self._ours()):
            found = _marks(one)
            if self.owner.owns(found) and marks.SNAPSHOT in found:
                yield DiskCopy(
                    id=text(one, "SnapshotId"),
                    region=self.region,
                    marks=found,
                    gib=int(text(one, "SourceDiskSize")),
                    created_at=known(text(one, "CreationTime")),
                    complete=text(one, "Status") == "accomplished",
                )

    def copy(self, disk: Disk, name: str, marks: Marks) -> DiskCopy:
        params = {"DiskId": disk.id, "SnapshotName": name, **_tagged(marks)}
        id = text(self._change("CreateSnapshot", params), "SnapshotId")
        for made in self.copies():
            if made.id == id:
                return made
        raise ProviderError(f"snapshot {id} was made and cannot be seen yet", remedy=_AGAIN)

    def delete_copy(self, copy: DiskCopy) -> None:
        self._change("DeleteSnapshot", {"SnapshotId": copy.id})

    # ---- requests

    def _connect(self) -> Any:
        connection = connection_class(ECSConnection, self.settings.endpoint_url)(
            self.settings.secret("access_key"),
            self.settings.secret("secret_key"),
            host=f"ecs.{self.region}.aliyuncs.com",
        )
        return _Posting(connection)

    def _ours(self) -> dict[str, str]:
        return _tagged(self.owner.marks)

    def _read(self, action: str, params: Mapping[str, str]) -> Any:
        return self._wire.ask("/", {"Action": action, "RegionId": self.region, **params})

    def _change(self, action: str, params: Mapping[str, str]) -> Any:
        return self._wire.post("/", {"Action": action, "RegionId": self.region, **params})

    def _pages(self, action: str, path: str, params: Mapping[str, str]) -> Iterator[Any]:
        page = 1
        while True:
            where = {"PageNumber": str(page), "PageSize": str(_PAGE)}
            answer = self._read(action, {**params, **where})
            yield from every(answer, path)
            if page * _PAGE >= int(text(answer, "TotalCount") or 0):
                return
            page += 1

    # ---- answers

    def _server(self, element: Any) -> Server:
        spot = text(element, "SpotStrategy") not in ("", "NoSpot")
        return Server(
            id=text(element, "InstanceId"),
            state=_STATES.get(text(element, "Status"), S.RUNNING),
            size=text(element, "InstanceType"),
            region=self.region,
            zone=text(element, "ZoneId"),
            marks=_marks(element),
            spot=spot,
            created_at=instant(text(element, "CreationTime")),
            run_started_at=instant(text(element, "StartTime")),
        )

    def _disk(self, element: Any) -> Disk:
        return Disk(
            id=text(element, "DiskId"),
            region=self.region,
            zone=text(element, "ZoneId"),
            marks=_marks(element),
            gib=int(text(element, "Size")),
            created_at=known(text(element, "CreationTime")),
            server_id=text(element, "InstanceId") or None,
            ready=text(element, "Status") == "Available",
        )


class _Posting:
    """libcloud signs and sends all parameters in the URL; user data has no business there."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._signer = connection.signer
        connection.add_default_params = lambda params: params

    def request(self, path: str, *, method: str, params: dict[str, str], data: Any) -> Any:
        signed = self._signer.get_request_params(params=dict(data), method=method, path=path)
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        body = urlencode(signed)
        return self._connection.request(
            path, method=method, data=body, headers=headers, params=params
        )


def _tagged(tags: Marks) -> dict[str, str]:
    params = {}
    for index, (key, value) in enumerate(tags.items(), 1):
        params[f"Tag.{index}.Key"] = key
        params[f"Tag.{index}.Value"] = value
    return params


def _marks(element: Any) -> Marks:
    found = tags(element, "Tags/Tag", "TagKey", "TagValue")
    return {key: value for key, value in found.items() if key}


def _size(element: Any, name: str, zones: Mapping[str, tuple[str, ...]]) -> Size:
    gpus = int(text(element, "GPUAmount") or 0)
    return Size(
        name=name,
        cpus=float(text(element, "CpuCoreCount")),
        memory_gib=float(text(element, "MemorySize")),
        zones=zones,
        gpus=gpus,
        gpu_model=canonical_gpu(text(element, "GPUSpec")) if gpus else None,
    )
