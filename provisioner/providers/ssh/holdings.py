"""What each host was seen to hold, kept in a file: all that is left of a host that is taken out.

A host that is in the settings no more says nothing of its machines, and nobody may think them lost.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from provisioner.errors import StateError
from provisioner.providers.contract import Listing, MachineState
from provisioner.providers.local.machine.files import read_json, write_json

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Held:
    """Of one host: launch ids of its machines, ids of its homes."""

    machines: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()

    @classmethod
    def of(cls, listing: Listing) -> Held:
        """What of a host's listing would be missed."""
        return cls(
            tuple(
                sorted(
                    machine.launch_id
                    for machine in listing.machines
                    if machine.state is not MachineState.TERMINATED
                )
            ),
            tuple(sorted(volume.id for volume in listing.volumes)),
        )

    def __bool__(self) -> bool:
        return bool(self.machines or self.volumes)


class Holdings:
    """By host's name; those that hold nothing are not in it."""

    def __init__(self, path: Path | None) -> None:
        """Without a file it is known only for as long as this process lives.

        Raises `StateError` when there is one that cannot be read.
        """
        self._path = path
        self._writing = threading.Lock()
        self._by_host: Mapping[str, Held] = {} if path is None else _read(path)

    def __getitem__(self, host: str) -> Held:
        return self._by_host.get(host, Held())

    def hosts(self) -> frozenset[str]:
        return frozenset(self._by_host)

    def note(self, host: str, held: Held) -> None:
        """What a host holds now."""
        with self._writing:
            if held == self[host]:
                return
            others = {name: known for name, known in self._by_host.items() if name != host}
            self._by_host = others | ({host: held} if held else {})
            if self._path is not None:
                self._write(self._path)

    def _write(self, path: Path) -> None:
        try:
            write_json(str(path), {name: asdict(held) for name, held in self._by_host.items()})
        except OSError as error:
            _log.warning("what the hosts hold cannot be kept in %s: %s", path, error)


def _read(path: Path) -> dict[str, Held]:
    try:
        known = read_json(str(path)) or {}
        return {
            host: Held(tuple(held["machines"]), tuple(held["volumes"]))
            for host, held in known.items()
        }
    except (OSError, json.JSONDecodeError, ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{path} cannot be read: {error}.",
            remedy="It says what the ssh hosts held when they were seen last. Restore it, or "
            "remove it if no host was taken out of the settings.",
        ) from error
