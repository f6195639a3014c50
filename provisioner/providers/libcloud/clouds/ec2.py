"""EC2 and clouds that speak its API. For AWS itself the `aws` provider knows far more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urlencode, urlsplit

from libcloud.compute.drivers.ec2 import API_VERSION, EC2NodeDriver

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
from provisioner.providers.libcloud.marks import Marks, Owner
from provisioner.providers.libcloud.pages import Pages
from provisioner.providers.libcloud.profile import Profile, Support
from provisioner.providers.libcloud.refusals import Refusal
from provisioner.providers.libcloud.settings import CloudSettings
from provisioner.providers.libcloud.times import instant, known
from provisioner.providers.libcloud.user_data import encoded
from provisioner.providers.libcloud.wire import Wire, driver_class
from provisioner.providers.libcloud.xml import every, tags, text

S = MachineState
_STATES = {
    "pending": S.PENDING,
    "running": S.RUNNING,
    "stopping": S.STOPPING,
    "stopped": S.STOPPED,
    "shutting-down": S.TERMINATING,
    "terminated": S.TERMINATED,
}
_DEVICE = "/dev/sdf"
_STOOD_SINCE = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")

PROFILE = Profile(
    driver="ec2",
    title="EC2-compatible",
    support=Support.SUPPORTED,
    account={},
    secrets={"access_key": "access key id", "secret_key": "secret access key"},
    refusals=(
        Refusal(
            r"InsufficientInstanceCapacity|InsufficientHostCapacity|InsufficientCapacity"
            r"|SpotMaxPriceTooLow|Unsupported<",
            CapacityError,
        ),
        Refusal(r"RequestLimitExceeded|Throttling|SlowDown", ThrottledError),
        Refusal(r"LimitExceeded<|MaxSpotInstanceCountExceeded", QuotaError),
        Refusal(r"InvalidInstanceID", NotFound),
        Refusal(r"Invalid(Volume|Snapshot)\.NotFound", NotFound),
        Refusal(
            r"AuthFailure|InvalidClientTokenId|SignatureDoesNotMatch|UnauthorizedOperation"
            r"|RequestExpired|ExpiredToken|OptInRequired",
            AuthError,
        ),
        Refusal(r"IncorrectState|IncorrectInstanceState|VolumeInUse|DependencyV", ProviderError),
        Refusal(r"IdempotentParameterMismatch|<Code>(Invalid|Missing|Malformed)", InvalidRequest),
    ),
    regional=True,
    zones=True,
    spot=True,
    client_tokens=True,
    user_data_bytes=16384,
    interruption_notice_s=120.0,
    listing_lag_s=60.0,
    ended_visible_s=1800.0,
)


class Ec2(Cloud):
    """One region."""

    profile: ClassVar[Profile] = PROFILE

    def __init__(self, settings: CloudSettings, owner: Owner, region: str) -> None:
        super().__init__(settings, owner, region)
        self._wire = Wire(self._connect, PROFILE.refusals, f"{PROFILE.title} {region}", dumps=False)

    def servers(self) -> Iterable[Server]:
        for reservation in self._pages("DescribeInstances", "reservationSet/item", self._ours()):
            for element in every(reservation, "instancesSet/item"):
                yield self._server(element)

    def server(self, id: str) -> Server | None:
        try:
            answer = self._read("DescribeInstances", {"InstanceId.1": id})
        except NotFound:
            return None
        found = every(answer, "reservationSet/item/instancesSet/item")
        server = self._server(found[0]) if found else None
        return server if server is not None and self.owner.owns(server.marks) else None

    def sizes(self) -> Iterable[Size]:
        zones: dict[str, list[str]] = {}
        wanted = {"Filter.1.Name": "instance-type"}
        for index, pattern in enumerate(self.settings.types, 1):
            wanted[f"Filter.1.Value.{index}"] = pattern
        where = {**wanted, "LocationType": "availability-zone"}
        for one in self._pages(
            "DescribeInstanceTypeOfferings", "instanceTypeOfferingSet/item", where
        ):
            zones.setdefault(text(one, "instanceType"), []).append(text(one, "location"))
        for one in self._pages("DescribeInstanceTypes", "instanceTypeSet/item", wanted):
            name = text(one, "instanceType")
            if name in zones and "x86_64" in _all(one, "processorInfo/supportedArchitectures"):
                size = _size(one, name, {self.region: tuple(sorted(zones[name]))})
                # A type with a share of a GPU has 0 of them, and would be bought for its CPUs.
                if size.gpus or not every(one, "gpuInfo"):
                    yield size

    def create(self, new: NewServer) -> Server:
        params = {
            "ImageId": new.image,
            "InstanceType": new.size,
            "MinCount": "1",
            "MaxCount": "1",
            "ClientToken": new.launch_id,
            "Placement.AvailabilityZone": new.zone,
            "UserData": encoded(new.user_data, PROFILE),
            "MetadataOptions.HttpTokens": "required",
            "InstanceInitiatedShutdownBehavior": "terminate" if new.spot else "stop",
            **_tagged("instance", {"Name": new.name, **new.marks}),
            **self._interface(),
        }
        if new.spot:
            params["InstanceMarketOptions.MarketType"] = "spot"
            params["InstanceMarketOptions.SpotOptions.SpotInstanceType"] = "one-time"
            params["InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior"] = "terminate"
        made = every(self._change("RunInstances", params), "instancesSet/item")[0]
        return replace(self._server(made), marks=new.marks)  # not all clouds tell them here

    def delete(self, server: Server) -> None:
        self._change("TerminateInstances", {"InstanceId.1": server.id})

    def start(self, server: Server) -> None:
        self._change("StartInstances", {"InstanceId.1": server.id})

    def stop(self, server: Server) -> None:
        self._change("StopInstances", {"InstanceId.1": server.id})

    def resize(self, server: Server, size: str) -> None:
        params = {"InstanceId": server.id, "InstanceType.Value": size}
        self._change("ModifyInstanceAttribute", params)

    def disks(self) -> Iterable[Disk]:
        where = self._ours() | {"Filter.3.Name": "tag-key", "Filter.3.Value.1": marks.VOLUME}
        for one in self._pages("DescribeVolumes", "volumeSet/item", where):
            if text(one, "status") not in ("deleting", "deleted"):
                yield self._disk(one)

    def create_disk(self, new: NewDisk) -> Disk:
        params = {
            "AvailabilityZone": new.zone,
            "Size": str(new.gib),
            "VolumeType": "gp3",
            "ClientToken": f"{new.name}-{new.zone}"[:64],
            **_tagged("volume", {"Name": new.name, **new.marks}),
            **({"SnapshotId": new.copy.id} if new.copy else {}),
        }
        return replace(self._disk(self._change("CreateVolume", params)), marks=new.marks)

    def delete_disk(self, disk: Disk) -> None:
        self._change("DeleteVolume", {"VolumeId": disk.id})

    def attach(self, server: Server, disk: Disk) -> None:
        where = {"InstanceId": server.id, "Device": _DEVICE}
        self._change("AttachVolume", {"VolumeId": disk.id, **where})

    def copies(self) -> Iterable[DiskCopy]:
        where = self._ours() | {"Owner.1": "self"}
        for one in self._pages("DescribeSnapshots", "snapshotSet/item", where):
            if marks.SNAPSHOT in tags(one, "tagSet/item", "key", "value"):
                yield self._copy(one)

    def copy(self, disk: Disk, name: str, marks: Marks) -> DiskCopy:
        params = {"VolumeId": disk.id, **_tagged("snapshot", {"Name": name, **marks})}
        answer = self._change("CreateSnapshot", params)
        return DiskCopy(
            text(answer, "snapshotId"),
            self.region,
            marks,
            disk.gib,
            known(text(answer, "startTime")),
            complete=text(answer, "status") == "completed",
        )

    def delete_copy(self, copy: DiskCopy) -> None:
        self._change("DeleteSnapshot", {"SnapshotId": copy.id})

    # ---- requests

    def _connect(self) -> Any:
        """A signature covers the host, so an endpoint of its own is said to the driver itself."""
        at = urlsplit(self.settings.endpoint_url or "")
        where: dict[str, Any] = {}
        if at.hostname:
            port = at.port or (443 if at.scheme == "https" else 80)
            where = {"host": at.hostname, "port": port, "secure": at.scheme == "https"}
        kind = driver_class(EC2NodeDriver, None)
        driver = kind(
            self.settings.secret("access_key"),
            self.settings.secret("secret_key"),
            region=self.region,
            signature_version="4",
            **where,
        )
        return _Posting(driver.connection)

    def _interface(self) -> dict[str, str]:
        """Said in full, so that it goes with its machine on compatible clouds too."""
        said = {"DeviceIndex": "0", "DeleteOnTermination": "true"}
        if self.settings.network:
            said["SubnetId"] = self.settings.network
        for index, group in enumerate(self.settings.security_groups, 1):
            said[f"SecurityGroupId.{index}"] = group
        return {f"NetworkInterface.1.{key}": value for key, value in said.items()}

    def _ours(self) -> dict[str, str]:
        return {
            key: value
            for index, (name, mark) in enumerate(self.owner.marks.items(), 1)
            for key, value in (
                (f"Filter.{index}.Name", f"tag:{name}"),
                (f"Filter.{index}.Value.1", mark),
            )
        }

    def _read(self, action: str, params: Mapping[str, str]) -> Any:
        return self._wire.ask("/", {"Action": action, "Version": API_VERSION, **params})

    def _change(self, action: str, params: Mapping[str, str]) -> Any:
        return self._wire.post("/", {"Action": action, "Version": API_VERSION, **params})

    def _pages(self, action: str, path: str, params: Mapping[str, str]) -> Iterator[Any]:
        token, pages = "", Pages(PROFILE.title)
        while True:
            more = {"NextToken": token} if token else {}
            limit = {} if action == "DescribeInstanceTypes" else {"MaxResults": "1000"}
            answer = self._read(action, {**params, **limit, **more})
            yield from every(answer, path)
            token = text(answer, "nextToken")
            if not pages.has(token):
                return

    # ---- answers

    def _server(self, element: Any) -> Server:
        state = _STATES[text(element, "instanceState/name")]
        zone = text(element, "placement/availabilityZone")
        stood = _STOOD_SINCE.search(text(element, "reason"))
        stands = state in (S.STOPPED, S.TERMINATED)
        return Server(
            id=text(element, "instanceId"),
            state=state,
            size=text(element, "instanceType"),
            region=self.region,
            zone=zone,
            marks=_without_name(tags(element, "tagSet/item", "key", "value")),
            spot=text(element, "instanceLifecycle") == "spot",
            run_started_at=instant(text(element, "launchTime")),
            run_ended_at=instant(stood[1]) if stood and stands else None,
            end_reason=_end_reason(element) if state is S.TERMINATED else None,
            message=text(element, "stateReason/message"),
        )

    def _disk(self, element: Any) -> Disk:
        attached = [text(one, "instanceId") for one in every(element, "attachmentSet/item")]
        return Disk(
            id=text(element, "volumeId"),
            region=self.region,
            zone=text(element, "availabilityZone"),
            marks=_without_name(tags(element, "tagSet/item", "key", "value")),
            gib=int(text(element, "size")),
            created_at=known(text(element, "createTime")),
            server_id=attached[0] if attached else None,
            ready=text(element, "status") == "available",
        )

    def _copy(self, element: Any) -> DiskCopy:
        return DiskCopy(
            id=text(element, "snapshotId"),
            region=self.region,
            marks=_without_name(tags(element, "tagSet/item", "key", "value")),
            gib=int(text(element, "volumeSize")),
            created_at=known(text(element, "startTime")),
            complete=text(element, "status") == "completed",
        )


class _Posting:
    """libcloud sends all parameters in the URL; user data and its token have no business there."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def request(self, path: str, *, method: str, params: dict[str, str], data: Any) -> Any:
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        return self._connection.request(
            path, method=method, data=urlencode(data), headers=headers, params=params
        )


def _tagged(kind: str, tags: Marks) -> dict[str, str]:
    params = {"TagSpecification.1.ResourceType": kind}
    for index, (key, value) in enumerate(tags.items(), 1):
        params[f"TagSpecification.1.Tag.{index}.Key"] = key
        params[f"TagSpecification.1.Tag.{index}.Value"] = value
    return params


def _without_name(tags: Marks) -> Marks:
    return {key: value for key, value in tags.items() if key != "Name"}


def _end_reason(element: Any) -> EndReason:
    code = text(element, "stateReason/code")
    if code in ("Server.SpotInstanceTermination", "Server.SpotInstanceShutdown"):
        return EndReason.RECLAIMED
    if code.startswith("Client.UserInitiated") or text(element, "reason").startswith("User"):
        return EndReason.ASKED
    failed = code.startswith(("Server.", "Client.")) and "InstanceInitiated" not in code
    return EndReason.FAILED if failed else EndReason.UNKNOWN


def _size(element: Any, name: str, zones: Mapping[str, tuple[str, ...]]) -> Size:
    gpus, model = 0, None
    for one in every(element, "gpuInfo/gpus/item"):
        mib = float(text(one, "memoryInfo/sizeInMiB") or 0)
        gpus += int(text(one, "count") or 0)
        model = canonical_gpu(text(one, "name"), mib / 1024)
    return Size(
        name=name,
        cpus=float(text(element, "vCpuInfo/defaultVCpus")),
        memory_gib=float(text(element, "memoryInfo/sizeInMiB")) / 1024,
        zones=zones,
        gpus=gpus,
        gpu_model=model if gpus else None,
        spot="spot" in _all(element, "supportedUsageClasses"),
    )


def _all(element: Any, path: str) -> list[str]:
    return [one.text for one in every(element, f"{path}/item")]
