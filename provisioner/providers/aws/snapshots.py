"""Snapshots of home volumes, found again by the caller's id in their tags.

`CreateSnapshot` knows no client token. It is called once and never repeated unseen; should its
answer be lost and the snapshot be asked for again before EC2 shows it, there are two: the older one
counts, the other is a leftover.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any

from provisioner.errors import InvalidRequest, ProviderError
from provisioner.providers.aws import tags
from provisioner.providers.aws.errors import code_of
from provisioner.providers.aws.instances import Instances
from provisioner.providers.aws.session import Aws
from provisioner.providers.contract import VolumeSnapshot

Ebs = Mapping[str, Any]


class Snapshots:
    """The snapshots of one installation."""

    def __init__(self, aws: Aws, instances: Instances, installation: str) -> None:
        self._aws = aws
        self._instances = instances
        self._installation = installation

    def take(self, region: str, ebs_id: str, volume_id: str, snapshot_id: str) -> VolumeSnapshot:
        """Copy a volume under an id, or give back the copy that has it.

        Raises:
            InvalidRequest: the id is that of another volume's snapshot.
        """
        for known in self.described(region, snapshot_id):
            snapshot = _snapshot(known)
            if snapshot.volume_id != volume_id:
                raise InvalidRequest(f"snapshot {snapshot_id} is of volume {snapshot.volume_id}")
            return snapshot
        made = self._aws.call_once(
            "ec2",
            region,
            "create_snapshot",
            VolumeId=ebs_id,
            Description=f"Roost: home {volume_id}",
            TagSpecifications=tags.specification(
                ["snapshot"],
                {
                    tags.INSTALLATION: self._installation,
                    tags.VOLUME: volume_id,
                    tags.SNAPSHOT: snapshot_id,
                },
            ),
        )
        return _snapshot(made)

    def ebs_id(self, region: str, snapshot_id: str) -> str:
        """Its id at EBS, where volumes of a region are made from it.

        Raises:
            InvalidRequest: it is not there.
        """
        for known in self.described(region, snapshot_id):
            return str(known["SnapshotId"])
        raise InvalidRequest(f"there is no snapshot {snapshot_id} in {region}")

    def delete(self, snapshot_id: str) -> None:
        """Delete it and its twins; one that is gone is no error."""
        answers, failure = self._instances.everywhere(
            lambda region: self.described(region, snapshot_id)
        )
        for region, found in answers.items():
            for one in found:
                self.delete_ebs(region, one["SnapshotId"])
        if failure is not None and not any(answers.values()):
            raise failure

    def delete_ebs(self, region: str, ebs_id: str) -> None:
        try:
            self._aws.call("ec2", region, "delete_snapshot", SnapshotId=ebs_id)
        except ProviderError as error:
            if code_of(error) != "InvalidSnapshot.NotFound":
                raise

    def described(self, region: str, snapshot_id: str | None = None) -> list[Ebs]:
        """The region's snapshots as EC2 describes them, oldest first, or those of one id."""
        wanted = {"tag__snapshot": snapshot_id} if snapshot_id else {"tag_key": tags.SNAPSHOT}
        filters = tags.where(self._installation, **wanted)
        pages = self._aws.pages(
            "ec2", region, "describe_snapshots", OwnerIds=["self"], Filters=filters
        )
        found = [snapshot for page in pages for snapshot in page["Snapshots"]]
        found = [one for one in found if snapshot_id in (None, tags.of(one)[tags.SNAPSHOT])]
        return sorted(found, key=lambda one: (one["StartTime"], one["SnapshotId"]))

    def listed(self, described: Iterable[Ebs]) -> tuple[list[VolumeSnapshot], list[str]]:
        """In the contract's words, and the EBS ids of those that nobody knows: later twins."""
        first: dict[str, Ebs] = {}
        twins = []
        for one in described:
            if first.setdefault(tags.of(one)[tags.SNAPSHOT], one) is not one:
                twins.append(one["SnapshotId"])
        return [_snapshot(one) for one in first.values()], twins


def _snapshot(told: Ebs) -> VolumeSnapshot:
    known = tags.of(told)
    return VolumeSnapshot(
        id=known[tags.SNAPSHOT],
        volume_id=known[tags.VOLUME],
        gib=told["VolumeSize"],
        created_at=told["StartTime"].astimezone(UTC),
        complete=told["State"] == "completed",
    )
