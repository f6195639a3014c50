"""What the provider holds, endpoint by endpoint and all of them at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from provisioner.errors import NotFound, ProviderError
from provisioner.providers.contract import Leftover, Listing, MachineState
from provisioner.providers.libcloud.cloud import Disk, DiskCopy, Server
from provisioner.providers.libcloud.connections import Clouds
from provisioner.providers.libcloud.homes import Homes, snapshot_of
from provisioner.providers.libcloud.memory import Memory

ANSWER_WITHIN_S = 8.0
"""An endpoint that takes longer is silent: it must not hold up what is known of the others."""
DISK = "disk"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Held:
    """What one endpoint answers."""

    servers: Sequence[Server]
    disks: Sequence[Disk]
    copies: Sequence[DiskCopy]
    leftovers: Sequence[Leftover]


class Listings:
    """Lists all endpoints in parallel, and finishes beside it what calls have begun."""

    def __init__(
        self, title: str, regions: Sequence[str], clouds: Clouds, homes: Homes, memory: Memory
    ) -> None:
        self._title = title
        self._regions = regions
        self._clouds = clouds
        self._homes = homes
        self._memory = memory
        self._pool = ThreadPoolExecutor(2 * len(clouds.endpoints), thread_name_prefix="cloud-list")
        self._late: dict[str, Future[_Held]] = {}
        self._finishing: dict[str, Future[dict[str, str]]] = {}

    def list(self) -> Listing:
        """All that is there; regions that do not answer in time are named.

        Raises:
            ProviderError: no endpoint answered.
        """
        asked = {
            endpoint: self._pool.submit(self._ask, endpoint)
            for endpoint in self._clouds.endpoints
            if not self._is_late(endpoint)
        }
        wait(asked.values(), ANSWER_WITHIN_S)
        heard: dict[str, Listing] = {}
        failure: ProviderError | None = None
        for endpoint, answer in asked.items():
            try:
                heard[endpoint] = self._heard(endpoint, answer)
            except ProviderError as error:
                _log.warning("%s does not tell what it holds: %s", self._name(endpoint), error)
                failure = error
        if not heard:
            raise failure or self._silent("")
        silent = set(self._clouds.endpoints) - heard.keys()
        return Listing(
            tuple(machine for one in heard.values() for machine in one.machines),
            tuple(volume for one in heard.values() for volume in one.volumes),
            tuple(snapshot for one in heard.values() for snapshot in one.snapshots),
            tuple(leftover for one in heard.values() for leftover in one.leftovers),
            frozenset(silent),
        )

    def _ask(self, endpoint: str) -> _Held:
        cloud = self._clouds.at(endpoint)
        return _Held(
            tuple(cloud.servers()),
            tuple(cloud.disks()) if cloud.settings.volumes else (),
            tuple(cloud.copies()) if cloud.settings.volumes else (),
            tuple(cloud.leftovers()),
        )

    def _heard(self, endpoint: str, answer: Future[_Held]) -> Listing:
        if not answer.done():
            self._late[endpoint] = answer
            raise self._silent(endpoint)
        held = answer.result()
        cloud = self._clouds.at(endpoint)
        machines = self._memory.listed(endpoint, held.servers, cloud.end_of)
        troubles = self._finish(endpoint, held)
        twins = [Leftover(DISK, disk.id) for disk in self._homes.twins(held.disks)]
        return Listing(
            tuple(
                replace(one, message=one.message or troubles.get(one.id, "")) for one in machines
            ),
            tuple(self._homes.listed(held.disks, held.servers)),
            tuple(map(snapshot_of, held.copies)),
            (*held.leftovers, *twins),
        )

    def _finish(self, endpoint: str, held: _Held) -> dict[str, str]:
        """Have what calls have begun finished beside the listing; what went wrong last time."""
        before = self._finishing.get(endpoint)
        if before is not None and not before.done():
            return {}
        self._finishing[endpoint] = self._pool.submit(self._finished, endpoint, held)
        return before.result() if before is not None else {}

    def _finished(self, endpoint: str, held: _Held) -> dict[str, str]:
        cloud = self._clouds.at(endpoint)
        troubles: dict[str, str] = {}
        for server in held.servers:
            try:
                if server.failed and server.state is not MachineState.TERMINATING:
                    # It takes up quota, and some clouds bill it.
                    cloud.delete(server)
                elif server.confirm:
                    cloud.confirm(server)
            except NotFound:
                continue
            except ProviderError as error:
                _log.warning("machine %s is not finished: %s", server.id, error)
                troubles[server.id] = str(error)
        if cloud.settings.volumes:
            troubles |= self._homes.complete_listed(cloud, held.servers, held.disks)
        return troubles

    def _is_late(self, endpoint: str) -> bool:
        """Whether an earlier question is still open: another is not put on top of it."""
        late = self._late.get(endpoint)
        if late is None or late.done():
            self._late.pop(endpoint, None)
            return False
        return True

    def _silent(self, endpoint: str) -> ProviderError:
        return ProviderError(
            f"{self._name(endpoint)} has not answered within {ANSWER_WITHIN_S:g} s",
            remedy="It is asked again.",
        )

    def _name(self, endpoint: str) -> str:
        return f"{self._title} {endpoint}".rstrip()
