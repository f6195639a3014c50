"""What is done with machines that are there: start, stop, resize, terminate."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from policies.world import Offer, PurchaseMode
from provisioner.errors import InvalidRequest, NotFound, ProviderError
from provisioner.providers.contract import MachineState
from provisioner.providers.libcloud.cloud import Cloud, Server
from provisioner.providers.libcloud.connections import Clouds
from provisioner.providers.libcloud.memory import Memory
from provisioner.providers.libcloud.servers import Servers

S = MachineState
_ENDED = (S.TERMINATING, S.TERMINATED)


class Machines:
    """Calls about one machine, by its id or launch id; each returns once the cloud accepted it."""

    def __init__(self, provider: str, clouds: Clouds, servers: Servers, memory: Memory) -> None:
        self._provider = provider
        self._clouds = clouds
        self._servers = servers
        self._memory = memory

    def start(self, machine_id: str) -> None:
        server, cloud, state = self._stoppable(machine_id, "started")
        if server.confirm:
            cloud.confirm(server)
            raise ProviderError(
                f"machine {machine_id} is still being resized", remedy="It is tried again."
            )
        if state in (S.PENDING, S.RUNNING):
            return
        if server.state is S.STOPPING:
            raise ProviderError(
                f"machine {machine_id} has not stopped yet", remedy="It is tried again."
            )
        cloud.start(server)
        self._memory.asked(server, S.PENDING)

    def stop(self, machine_id: str) -> None:
        server, cloud, state = self._stoppable(machine_id, "stopped")
        if state in (S.STOPPING, S.STOPPED):
            return
        cloud.stop(server)
        self._memory.asked(server, S.STOPPING)

    def terminate(self, machine_id: str) -> None:
        if self._memory.ended(machine_id) is not None:
            return
        server, cloud = self._find(machine_id)
        if self._state(server) in _ENDED and not server.failed:
            return
        with suppress(NotFound):  # it went while we asked
            cloud.delete(server)
        self._memory.asked(server, S.TERMINATING)

    def resize(self, machine_id: str, offer: Offer) -> None:
        if self._memory.ended(machine_id) is not None:
            raise InvalidRequest(f"machine {machine_id} has ended")
        server, cloud = self._find(machine_id)
        becomes = replace(server, size=offer.instance_type).offer_id(self._provider)
        if becomes != offer.id:
            raise InvalidRequest(f"machine {machine_id} cannot become {offer.id} in place")
        if server.size == offer.instance_type:
            return
        if server.mode is PurchaseMode.SPOT or self._state(server) is not S.STOPPED:
            what = "spot" if server.spot else self._state(server)
            raise InvalidRequest(f"machine {machine_id} cannot be resized in place: it is {what}")
        if server.confirm:
            cloud.confirm(server)
            raise ProviderError(
                f"machine {machine_id} is still being resized", remedy="It is tried again."
            )
        cloud.resize(server, offer.instance_type)
        self._memory.resized(server, offer.instance_type)

    def _stoppable(self, machine_id: str, done: str) -> tuple[Server, Cloud, MachineState]:
        if self._memory.ended(machine_id) is not None:
            raise InvalidRequest(f"machine {machine_id} has ended and cannot be {done}")
        server, cloud = self._find(machine_id)
        state = self._state(server)
        if server.mode is PurchaseMode.SPOT:
            raise InvalidRequest(
                f"machine {machine_id} is spot and cannot be {done}",
                remedy="Terminate it instead.",
            )
        if state in _ENDED:
            raise InvalidRequest(f"machine {machine_id} is {state} and cannot be {done}")
        return server, cloud, state

    def _find(self, machine_id: str) -> tuple[Server, Cloud]:
        server = self._servers.find(machine_id)
        return server, self._clouds.of_region(server.region)

    def _state(self, server: Server) -> MachineState:
        return self._memory.machine(server).state
