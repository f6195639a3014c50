"""How a machine is put between walls: the seam behind which containers or namespaces fit.

A launcher says, in plain values that init understands, how a boot script is started and by what all
of its processes can be found again. `PlainLauncher` has no walls but the limits on cpus and memory:
a machine's processes run as the user of the control plane and see that user's files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from policies.world import Resources
from provisioner.errors import InvalidRequest
from provisioner.providers.local.limits import (
    Enclosure,
    Limits,
    LimitsUnavailableError,
    find_limits,
)


@dataclass(frozen=True, slots=True)
class Boot:
    """What init executes."""

    argv: tuple[str, ...]
    """Empty: the machine boots without a script."""
    cgroups: tuple[str, ...]
    """The script joins them before it is executed; all in them is killed, and they are removed, at
    the run's end."""


class Launcher(Protocol):
    """Prepares one run of a machine. Raises `InvalidRequest` where a limit cannot be enforced."""

    def prepare(self, run_name: str, resources: Resources, script: str, path: str) -> Boot:
        """`run_name` is unique on this host; `script` is the user data, stored at `path`."""
        ...


class PlainLauncher:
    """Runs the script as it is; `enforce` holds it to the resources that were sold."""

    def __init__(self, *, enforce: bool) -> None:
        self._enforce = enforce
        self._limits: Limits | None = None

    def prepare(self, run_name: str, resources: Resources, script: str, path: str) -> Boot:
        enclosure = self._enclose(run_name, resources) if self._enforce else Enclosure()
        command = interpreter(script, path)
        return Boot((*enclosure.prefix, *command) if command else (), enclosure.cgroups)

    def _enclose(self, run_name: str, resources: Resources) -> Enclosure:
        try:
            if self._limits is None:
                self._limits = find_limits()
            memory_bytes = int(resources.memory_gib * 2**30)
            return self._limits.enclose(run_name, resources.cpus, memory_bytes)
        except LimitsUnavailableError as error:
            raise InvalidRequest(
                f"this host cannot hold a machine to its cpus and memory: {error}",
                remedy="Give the control plane a delegated cgroup v2 or a systemd user session,"
                " or set `limits: none` for the local provider.",
            ) from error


def interpreter(script: str, path: str) -> tuple[str, ...]:
    """The command that runs a script by its first line; works on file systems without execution."""
    if not script.strip():
        return ()
    first = script.split("\n", 1)[0].strip()
    if not first.startswith("#!"):
        return ("/bin/sh", path)
    return (*first[2:].split(maxsplit=1), path)
