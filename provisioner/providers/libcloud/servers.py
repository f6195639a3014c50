"""Finds this provider's machines, wherever they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from provisioner.errors import NotFound, ProviderError
from provisioner.providers.contract import MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.cloud import Cloud, Server
from provisioner.providers.libcloud.connections import Clouds
from provisioner.providers.libcloud.memory import Memory

T = TypeVar("T")
_ENDED = (MachineState.TERMINATING, MachineState.TERMINATED)
_NAME = re.compile(r"[A-Za-z0-9](?!.*\.\.)[A-Za-z0-9._:-]{0,127}")
"""What may be put into a path: ids of machines and of launches, and nothing else."""


class Servers:
    """The machines of one provider in all of its regions."""

    def __init__(self, clouds: Clouds, memory: Memory) -> None:
        self._clouds = clouds
        self._memory = memory
        self._pool = ThreadPoolExecutor(
            2 * len(clouds.endpoints), thread_name_prefix="cloud-endpoints"
        )

    def find(self, name: str) -> Server:
        """The machine of an id or a launch id, as its cloud shows it now.

        Raises:
            NotFound: there is none, and none was made just now.
            ProviderError: one was made just now and cannot be seen yet, or an endpoint is silent.
        """
        if not _NAME.fullmatch(name):
            raise NotFound(f"{name!r} is no machine's name")
        known = self._memory.known(name)
        endpoint = self._memory.endpoint_of(known.id) if known else None
        if known is not None and endpoint is not None:
            found = self._clouds.at(endpoint).server(known.id)
            if found is not None:
                return found
            if self._memory.is_new(known.id):
                raise ProviderError(
                    f"machine {name} was made just now and cannot be seen yet",
                    remedy="It is tried again.",
                )
        return self._everywhere_named(name)

    def of_launch(self, region: str, launch_id: str) -> Server | None:
        """The machine of a launch, of twins the one that lives."""
        same = [
            server
            for server in self._clouds.of_region(region).servers()
            if server.marks.get(marks.LAUNCH) == launch_id
        ]
        found = min(same, key=_last, default=None)
        return found or self._memory.known(launch_id)

    def everywhere(self, ask: Callable[[Cloud], T]) -> tuple[dict[str, T], ProviderError | None]:
        """What the endpoints answer, all asked at once, and how one failed that did not."""
        asked = {
            endpoint: self._pool.submit(self._ask, ask, endpoint)
            for endpoint in self._clouds.endpoints
        }
        answers: dict[str, T] = {}
        failure = None
        for endpoint, future in asked.items():
            try:
                answers[endpoint] = future.result()
            except ProviderError as error:
                failure = error
        return answers, failure

    def _ask(self, ask: Callable[[Cloud], T], endpoint: str) -> T:
        return ask(self._clouds.at(endpoint))

    def _everywhere_named(self, name: str) -> Server:
        def named(cloud: Cloud) -> list[Server]:
            return [
                server
                for server in cloud.servers()
                if name in (server.id, server.marks.get(marks.LAUNCH))
            ]

        answers, failure = self.everywhere(named)
        found = [server for same in answers.values() for server in same]
        if found:
            return min(found, key=_last)
        if failure is not None:
            raise failure
        raise NotFound(f"there is no machine {name}")


def _last(server: Server) -> tuple[bool, str]:
    """Of twins, the one that lives counts."""
    return server.state in _ENDED, server.id
