"""Home volumes: disks of their own, each attached to one machine at a time.

A disk can be attached only to a machine that runs, and no call may wait for one (P8). So a launch
writes down in the machine's marks which home it is to have, makes the disk once the machine is
made, and leaves it to the first listing that sees the machine run to attach it. Whoever comes
across a machine without its home completes it, so that a crash at any point heals.

The home belongs to the machine whose marks name it, from its launch to its end: that is what the
listing says, and what keeps a second machine off.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from provisioner.errors import InvalidRequest, NotFound, ProviderError
from provisioner.providers.contract import LaunchRequest, MachineState, Volume, VolumeSnapshot
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.cloud import Cloud, Disk, DiskCopy, NewDisk, Server
from provisioner.providers.libcloud.connections import Clouds
from provisioner.providers.libcloud.keyed_locks import KeyedLocks
from provisioner.providers.libcloud.marks import Owner
from provisioner.providers.libcloud.servers import Servers

S = MachineState
_log = logging.getLogger(__name__)


class Homes:
    """The home volumes of one provider, and their snapshots."""

    def __init__(self, clouds: Clouds, servers: Servers, owner: Owner) -> None:
        self._clouds = clouds
        self._servers = servers
        self._owner = owner
        self._locks = KeyedLocks()

    # ---- for launches and listings

    def check(self, request: LaunchRequest) -> None:
        """Whether a launch can have the home that it asks for.

        Raises:
            InvalidRequest: the home lies elsewhere, or its snapshot is not there.
            ProviderError: another machine has it.
        """
        if request.volume_id is None:
            return
        cloud, zone = self._clouds.of_region(request.offer.region), request.offer.zone
        found = self._find(request.volume_id)
        if found is None and request.volume_from is not None:
            self._copy(cloud, request.volume_from)
        if found is not None and found[1].zone and found[1].zone != zone:
            raise InvalidRequest(
                f"volume {request.volume_id} lies in {found[1].zone},"
                f" a machine in {zone} cannot have it"
            )
        holder = _holder(cloud.servers(), request.volume_id)
        if holder is not None and holder.marks.get(marks.LAUNCH) != request.launch_id:
            raise _taken(request.volume_id, holder)

    def complete(self, cloud: Cloud, server: Server, disks: Iterable[Disk] | None = None) -> None:
        """Make the home that a machine is to have, and attach it if that can be done now."""
        volume_id = server.marks.get(marks.VOLUME)
        if volume_id is None or server.failed or server.state not in (S.PENDING, S.RUNNING):
            return
        same = _of(cloud.disks() if disks is None else disks, volume_id)
        disk = same[0] if same else self._made(cloud, server, volume_id)
        if server.state is S.RUNNING and disk.ready and disk.server_id is None:
            cloud.attach(server, disk)

    def complete_listed(
        self, cloud: Cloud, servers: Iterable[Server], disks: Sequence[Disk]
    ) -> dict[str, str]:
        """Give each machine the home that it lacks; what went wrong, by machine."""
        troubles = {}
        for server in servers:
            try:
                self.complete(cloud, server, disks)
            except ProviderError as error:
                _log.warning("machine %s is without its home: %s", server.id, error)
                troubles[server.id] = f"Its home volume is not attached yet: {error}"
        return troubles

    def listed(self, disks: Sequence[Disk], servers: Iterable[Server]) -> list[Volume]:
        """In the contract's words; of twins the first only."""
        holders = {
            server.marks.get(marks.VOLUME): server.id
            for server in servers
            if server.state is not S.TERMINATED
        }
        first = {disk.marks[marks.VOLUME]: disk for disk in reversed(_sorted(disks))}
        return [
            Volume(
                id=id,
                gib=disk.gib,
                created_at=disk.created_at,
                attached_to=holders.get(id) or disk.server_id,
                zone=disk.zone or None,
            )
            for id, disk in first.items()
        ]

    def twins(self, disks: Sequence[Disk]) -> list[Disk]:
        """Disks that two processes made for one volume: nothing needs the later ones."""
        seen: set[str] = set()
        later = []
        for disk in _sorted(disks):
            if disk.marks[marks.VOLUME] in seen and disk.server_id is None:
                later.append(disk)
            seen.add(disk.marks[marks.VOLUME])
        return later

    # ---- calls of the contract

    def delete(self, volume_id: str) -> None:
        """Delete a home; one that is gone is no error.

        Raises:
            ProviderError: a machine has it, or is to have it.
        """
        found = self._find(volume_id)
        if found is None:
            return
        endpoint, disk = found
        cloud = self._clouds.at(endpoint)
        holder = _holder(cloud.servers(), volume_id)
        if holder is not None:
            raise _taken(volume_id, holder)
        try:
            cloud.delete_disk(disk)
        except NotFound:
            return

    def snapshot(self, volume_id: str, snapshot_id: str) -> VolumeSnapshot:
        """Copy a home; asking again gives the same copy."""
        found = self._find(volume_id)
        if found is None:
            raise InvalidRequest(f"there is no volume {volume_id}")
        endpoint, disk = found
        cloud = self._clouds.at(endpoint)
        with self._locks.of(snapshot_id):
            for copy in cloud.copies():
                if copy.marks.get(marks.SNAPSHOT) != snapshot_id:
                    continue
                if copy.marks.get(marks.VOLUME) != volume_id:
                    raise InvalidRequest(f"snapshot {snapshot_id} is of another volume")
                return snapshot_of(copy)
            what = {marks.SNAPSHOT: snapshot_id, marks.VOLUME: volume_id}
            return snapshot_of(cloud.copy(disk, f"roost-{snapshot_id}", self._owner.marks | what))

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot; one that is gone is no error."""
        answers, failure = self._servers.everywhere(lambda cloud: list(cloud.copies()))
        for endpoint, copies in answers.items():
            for copy in copies:
                if copy.marks.get(marks.SNAPSHOT) == snapshot_id:
                    self._clouds.at(endpoint).delete_copy(copy)
                    return
        if failure is not None:
            raise failure

    def _find(self, volume_id: str) -> tuple[str, Disk] | None:
        """A home and its endpoint.

        Raises:
            ProviderError: it may be at an endpoint that does not answer.
        """
        answers, failure = self._servers.everywhere(lambda cloud: _of(cloud.disks(), volume_id))
        for endpoint, disks in answers.items():
            if disks:
                return endpoint, disks[0]
        if failure is not None:
            raise failure
        return None

    def _made(self, cloud: Cloud, server: Server, volume_id: str) -> Disk:
        with self._locks.of(volume_id):
            same = _of(cloud.disks(), volume_id)
            if same:
                return same[0]
            source = server.marks.get(marks.VOLUME_FROM)
            return cloud.create_disk(
                NewDisk(
                    name=f"roost-{volume_id}",
                    region=server.region,
                    zone=server.zone,
                    gib=int(server.marks[marks.VOLUME_GIB]),
                    marks=self._owner.marks | {marks.VOLUME: volume_id},
                    copy=self._copy(cloud, source) if source else None,
                )
            )

    def _copy(self, cloud: Cloud, snapshot_id: str) -> DiskCopy:
        for copy in cloud.copies():
            if copy.marks.get(marks.SNAPSHOT) == snapshot_id:
                return copy
        raise InvalidRequest(f"there is no snapshot {snapshot_id}")


def snapshot_of(copy: DiskCopy) -> VolumeSnapshot:
    """In the contract's words."""
    return VolumeSnapshot(
        id=copy.marks[marks.SNAPSHOT],
        volume_id=copy.marks.get(marks.VOLUME, ""),
        gib=copy.gib,
        created_at=copy.created_at,
        complete=copy.complete,
    )


def _of(disks: Iterable[Disk], volume_id: str) -> list[Disk]:
    return _sorted([disk for disk in disks if disk.marks.get(marks.VOLUME) == volume_id])


def _sorted(disks: Iterable[Disk]) -> list[Disk]:
    """The one that is attached first, then the oldest."""
    return sorted(disks, key=lambda disk: (disk.server_id is None, disk.created_at, disk.id))


def _holder(servers: Iterable[Server], volume_id: str) -> Server | None:
    return next(
        (
            server
            for server in servers
            if server.marks.get(marks.VOLUME) == volume_id and server.state is not S.TERMINATED
        ),
        None,
    )


def _taken(volume_id: str, holder: Server) -> ProviderError:
    return ProviderError(
        f"volume {volume_id} is the home of machine {holder.id}",
        remedy="Terminate that one first.",
    )
