"""The volumes and snapshots of the fake cloud."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from provisioner.errors import InvalidRequest, ProviderError
from provisioner.providers.contract import LaunchRequest, Volume, VolumeSnapshot


class Disks:
    """Volumes outlive their machines, and snapshots outlive their volumes.

    With `zoned`, a volume lies in the zone of its first machine and no other zone attaches it.
    """

    def __init__(self, *, zoned: bool) -> None:
        self._zoned = zoned
        self._volumes: dict[str, Volume] = {}
        self._snapshots: dict[str, VolumeSnapshot] = {}

    def volumes(self) -> tuple[Volume, ...]:
        return tuple(self._volumes.values())

    def snapshots(self) -> tuple[VolumeSnapshot, ...]:
        return tuple(self._snapshots.values())

    def check(self, request: LaunchRequest) -> None:
        """Whether a launch can have the volume that it asks for."""
        source = request.volume_from
        if source is not None and source not in self._snapshots:
            raise InvalidRequest(f"there is no snapshot {source}")
        volume = self._volumes.get(request.volume_id or "")
        if volume is None:
            return
        if volume.attached_to:
            raise ProviderError(f"volume {volume.id} is attached to {volume.attached_to}")
        if volume.zone not in (None, request.offer.zone):
            raise InvalidRequest(f"volume {volume.id} lies in {volume.zone}")

    def attach(self, request: LaunchRequest, machine_id: str, now: datetime) -> None:
        if request.volume_id is None:
            return
        zone = request.offer.zone if self._zoned else None
        made = Volume(request.volume_id, request.volume_gib, now, zone=zone)
        volume = self._volumes.get(request.volume_id, made)
        self._volumes[volume.id] = replace(volume, attached_to=machine_id)

    def detach(self, machine_id: str) -> None:
        for volume in self._volumes.values():
            if volume.attached_to == machine_id:
                self._volumes[volume.id] = replace(volume, attached_to=None)
                return

    def delete(self, volume_id: str) -> None:
        volume = self._volumes.get(volume_id)
        if volume and volume.attached_to:
            raise ProviderError(f"volume {volume_id} is attached to {volume.attached_to}")
        self._volumes.pop(volume_id, None)

    def snapshot(self, volume_id: str, snapshot_id: str, now: datetime) -> VolumeSnapshot:
        known = self._snapshots.get(snapshot_id)
        if known is not None:
            if known.volume_id != volume_id:
                raise InvalidRequest(f"snapshot {snapshot_id} is of volume {known.volume_id}")
            return known
        volume = self._volumes.get(volume_id)
        if volume is None:
            raise InvalidRequest(f"there is no volume {volume_id}")
        made = VolumeSnapshot(snapshot_id, volume_id, volume.gib, now)
        self._snapshots[snapshot_id] = made
        return made

    def delete_snapshot(self, snapshot_id: str) -> None:
        self._snapshots.pop(snapshot_id, None)
