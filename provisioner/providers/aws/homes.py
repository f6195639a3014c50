"""Home volumes: EBS volumes of their own, each attached to one machine at a time.

An EBS volume can be attached only to an instance that runs, and no call may wait for one (P8). So
a launch writes down in the instance's tags which home it is to have. The home is made once the
instance is, in its zone, so that a launch that finds no capacity leaves no volume that would bind
its owner to that zone. It is attached by the first listing that sees the instance run. Whoever
comes across an instance without its home completes it, so that a crash at any point heals.

The home belongs to the machine whose tags name it, from its launch to its end: that is what the
listing says and what keeps a second machine off. Should two be launched at the same instant, EC2
itself attaches the volume to one of them only.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any

from provisioner.errors import InvalidRequest, ProviderError
from provisioner.providers.aws import tags
from provisioner.providers.aws.errors import code_of
from provisioner.providers.aws.instance import Instance
from provisioner.providers.aws.instances import Instances
from provisioner.providers.aws.session import Aws
from provisioner.providers.aws.snapshots import Snapshots
from provisioner.providers.contract import LaunchRequest, MachineState, Volume

DEVICE = "/dev/sdf"
"""A name only: on current instances the system shows it as an NVMe disk."""
_RUNS = (MachineState.PENDING, MachineState.RUNNING)
_log = logging.getLogger(__name__)
Ebs = Mapping[str, Any]
"""A volume as EC2 describes it."""


class Homes:
    """The home volumes of one installation."""

    def __init__(
        self, aws: Aws, instances: Instances, snapshots: Snapshots, installation: str
    ) -> None:
        self._aws = aws
        self._instances = instances
        self._snapshots = snapshots
        self._installation = installation

    def check(self, request: LaunchRequest) -> str | None:
        """Whether a launch can have the home that it asks for; the zone that binds it to.

        Raises:
            InvalidRequest: the home lies in another zone, or its snapshot is not there.
            ProviderError: another machine has it.
        """
        if request.volume_id is None:
            return None
        region, zone = request.offer.region, request.offer.zone
        found = self._find(request.volume_id, first=region)
        if found is None and request.volume_from is not None:
            self._snapshots.ebs_id(region, request.volume_from)
        if found is not None and found[1]["AvailabilityZone"] != zone:
            raise InvalidRequest(
                f"volume {request.volume_id} lies in {found[1]['AvailabilityZone']},"
                f" a machine in {zone} cannot have it"
            )
        holder = self._holder(region, request.volume_id)
        if holder is not None and holder.launch_id != request.launch_id:
            raise ProviderError(
                f"volume {request.volume_id} is the home of machine {holder.id}",
                remedy="Terminate that one first.",
            )
        return zone if found else None

    def complete(self, instance: Instance, region: str) -> None:
        """Make the home that a new instance is to have, and attach it if that can be done now."""
        volume_id = instance.tags.get(tags.VOLUME)
        if volume_id is None or instance.machine_state not in _RUNS:
            return
        volumes = list(self.described(region, volume_id))
        self.attach(instance, volumes[0] if volumes else self._create(instance, region), region)

    def complete_listed(
        self, listed: Iterable[Instance], volumes: Iterable[Ebs], region: str
    ) -> dict[str, str]:
        """Give each listed instance the home that it lacks; what went wrong, by instance."""
        homes = {tags.of(volume)[tags.VOLUME]: volume for volume in volumes}
        troubles = {}
        for instance in listed:
            wanted = instance.tags.get(tags.VOLUME)
            if wanted is None or instance.machine_state not in _RUNS:
                continue
            home = homes.get(wanted)
            if home is not None and home["VolumeId"] in instance.volumes:
                continue
            try:
                self.attach(instance, home or self._create(instance, region), region)
            except ProviderError as error:
                _log.warning("machine %s is without its home: %s", instance.id, error)
                troubles[instance.id] = f"Its home volume is not attached yet: {error}"
        return troubles

    def attach(self, instance: Instance, volume: Ebs, region: str) -> None:
        """Attach a home where that can be done now; where not, a later listing does."""
        runs = instance.machine_state is MachineState.RUNNING
        if not runs or volume.get("State") != "available":
            return
        try:
            self._aws.call(
                "ec2",
                region,
                "attach_volume",
                VolumeId=volume["VolumeId"],
                InstanceId=instance.id,
                Device=DEVICE,
            )
        except ProviderError as error:
            # It has been attached meanwhile, or it or the machine is on its way somewhere.
            if code_of(error) not in ("VolumeInUse", "IncorrectState", "IncorrectInstanceState"):
                raise

    def delete(self, volume_id: str) -> None:
        """Delete a home; one that is gone is no error.

        Raises:
            ProviderError: a machine has it, or is to have it.
        """
        found = self._find(volume_id)
        if found is None:
            return
        region, volume = found
        holder = self._holder(region, volume_id)
        if holder is not None:
            raise ProviderError(
                f"volume {volume_id} is the home of machine {holder.id}",
                remedy="Terminate that one first.",
            )
        try:
            self._aws.call("ec2", region, "delete_volume", VolumeId=volume["VolumeId"])
        except ProviderError as error:
            if code_of(error) != "InvalidVolume.NotFound":
                raise

    def ebs_id(self, volume_id: str) -> tuple[str, str]:
        """The region and EBS id of a home.

        Raises:
            InvalidRequest: there is none.
        """
        found = self._find(volume_id)
        if found is None:
            raise InvalidRequest(f"there is no volume {volume_id}")
        return found[0], found[1]["VolumeId"]

    def described(self, region: str, volume_id: str | None = None) -> Iterable[Ebs]:
        """The region's homes as EC2 describes them, or the one of an id."""
        wanted = {"tag__volume": volume_id} if volume_id else {"tag_key": tags.VOLUME}
        filters = tags.where(self._installation, **wanted)
        for page in self._aws.pages("ec2", region, "describe_volumes", Filters=filters):
            for volume in page["Volumes"]:
                gone = volume["State"] in ("deleting", "deleted")
                if not gone and volume_id in (None, tags.of(volume)[tags.VOLUME]):
                    yield volume

    def listed(self, volumes: Iterable[Ebs], instances: Iterable[Instance]) -> list[Volume]:
        """In the contract's words."""
        holders = {
            instance.tags.get(tags.VOLUME): instance.id
            for instance in instances
            if instance.machine_state is not MachineState.TERMINATED
        }
        return [_volume(volume, holders) for volume in volumes]

    def _find(self, volume_id: str, first: str | None = None) -> tuple[str, Ebs] | None:
        """A home and its region; `first` is where it most likely is.

        Raises:
            ProviderError: it may be in a region that does not answer.
        """
        for volume in self.described(first, volume_id) if first else ():
            return str(first), volume
        answers, failure = self._instances.everywhere(
            lambda region: list(self.described(region, volume_id))
        )
        for region, found in answers.items():
            for volume in found:
                return region, volume
        if failure is not None:
            raise failure
        return None

    def _holder(self, region: str, volume_id: str) -> Instance | None:
        same = self._instances.list(region, tag__volume=volume_id)
        return next(
            (
                instance
                for instance in same
                if instance.tags.get(tags.VOLUME) == volume_id
                and instance.machine_state is not MachineState.TERMINATED
            ),
            None,
        )

    def _create(self, instance: Instance, region: str) -> Ebs:
        """The token makes one volume of several calls, whichever machine they are made for."""
        volume_id = instance.tags[tags.VOLUME]
        source = instance.tags.get(tags.VOLUME_FROM)
        snapshot = {"SnapshotId": self._snapshots.ebs_id(region, source)} if source else {}
        token = hashlib.sha256(f"{self._installation}\n{volume_id}".encode()).hexdigest()
        return self._aws.call(
            "ec2",
            region,
            "create_volume",
            AvailabilityZone=instance.zone,
            Size=int(instance.tags[tags.VOLUME_GIB]),
            VolumeType="gp3",
            Encrypted=True,
            ClientToken=token,
            TagSpecifications=tags.specification(
                ["volume"],
                {
                    tags.INSTALLATION: self._installation,
                    tags.VOLUME: volume_id,
                    tags.NAME: f"home {volume_id}",
                },
            ),
            **snapshot,
        )


def _volume(volume: Ebs, holders: Mapping[str | None, str]) -> Volume:
    id = tags.of(volume)[tags.VOLUME]
    attached = [one["InstanceId"] for one in volume.get("Attachments", ())]
    return Volume(
        id=id,
        gib=volume["Size"],
        created_at=volume["CreateTime"].astimezone(UTC),
        attached_to=holders.get(id) or next(iter(attached), None),
        zone=volume["AvailabilityZone"],
    )
