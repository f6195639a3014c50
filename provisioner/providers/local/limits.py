"""Holding a group of processes to cpus and memory: cgroup v2, cgroup v1, or a systemd scope.

Which one works is found out by doing it: a group is made, limited, and a child is moved into it and
seen there. What cannot be enforced is never claimed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from provisioner.providers.local.machine.processes import remove_groups

_PERIOD_US = 100_000
_PROBE_BYTES = 64 << 20
_PROBE_TIMEOUT_S = 15.0


class LimitsUnavailableError(Exception):
    """No way on this host; says for each way why."""


@dataclass(frozen=True, slots=True)
class Enclosure:
    """What holds one run: a command prefix, or groups to join."""

    prefix: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()


class Limits(Protocol):
    """One way that has been seen to work."""

    def enclose(self, name: str, cpus: float, memory_bytes: int) -> Enclosure:
        """Make what holds a run of that name. Raises `LimitsUnavailableError`."""
        ...


def find_limits() -> Limits:
    """The first way that works here. Raises `LimitsUnavailableError` with every reason."""
    reasons = []
    for find in (CgroupV2.find, CgroupV1.find, SystemdScope.find):
        try:
            return find()
        except (LimitsUnavailableError, OSError) as error:
            reasons.append(str(error))
    raise LimitsUnavailableError("; ".join(reasons))


class CgroupV2:
    """Groups below `parent` in the unified hierarchy."""

    def __init__(self, parent: str) -> None:
        self._parent = parent

    @classmethod
    def find(cls) -> CgroupV2:
        """Tries the own group, then those above: one with processes cannot hand on limits."""
        for mount in _mounts():
            if mount.kind != "cgroup2":
                continue
            own = mount.place(_own_groups().get("", "/"))
            while own.startswith(mount.path):
                found = cls(own)
                with contextlib.suppress(OSError, LimitsUnavailableError):
                    found._hand_on()
                    _prove(found)
                    return found
                own = os.path.dirname(own)
        raise LimitsUnavailableError("no cgroup v2 group with cpu and memory may be made")

    def enclose(self, name: str, cpus: float, memory_bytes: int) -> Enclosure:
        group = os.path.join(self._parent, name)
        try:
            _make(group)
            _set(group, "cpu.max", f"{int(cpus * _PERIOD_US)} {_PERIOD_US}")
            _set(group, "memory.max", str(memory_bytes))
            if os.path.exists(os.path.join(group, "memory.swap.max")):
                _set(group, "memory.swap.max", "0")
        except OSError as error:
            remove_groups([group])
            raise LimitsUnavailableError(f"cgroup v2: {error}") from error
        return Enclosure(cgroups=(group,))

    def _hand_on(self) -> None:
        with open(os.path.join(self._parent, "cgroup.subtree_control"), encoding="ascii") as file:
            handed_on = file.read().split()
        for controller in ("cpu", "memory"):
            if controller not in handed_on:
                _set(self._parent, "cgroup.subtree_control", f"+{controller}")


class CgroupV1:
    """Groups in the two separate hierarchies of cpu and memory."""

    def __init__(self, cpu: str, memory: str) -> None:
        self._cpu = cpu
        self._memory = memory

    @classmethod
    def find(cls) -> CgroupV1:
        own = _own_groups()
        places: dict[str, str] = {}
        for mount in _mounts():
            for controller in {"cpu", "memory"} & set(mount.options):
                if mount.kind == "cgroup":
                    places[controller] = mount.place(own.get(controller, "/"))
        if len(places) < 2:
            raise LimitsUnavailableError("no cgroup v1 hierarchies of cpu and memory are mounted")
        found = cls(places["cpu"], places["memory"])
        _prove(found)
        return found

    def enclose(self, name: str, cpus: float, memory_bytes: int) -> Enclosure:
        cpu, memory = os.path.join(self._cpu, name), os.path.join(self._memory, name)
        groups = tuple(dict.fromkeys((cpu, memory)))
        try:
            for group in groups:
                _make(group)
            _set(cpu, "cpu.cfs_period_us", str(_PERIOD_US))
            _set(cpu, "cpu.cfs_quota_us", str(int(cpus * _PERIOD_US)))
            _set(memory, "memory.limit_in_bytes", str(memory_bytes))
            with contextlib.suppress(FileNotFoundError):
                _set(memory, "memory.memsw.limit_in_bytes", str(memory_bytes))
        except OSError as error:
            remove_groups(groups)
            raise LimitsUnavailableError(f"cgroup v1: {error}") from error
        return Enclosure(cgroups=groups)


class SystemdScope:
    """A transient scope of the user's own systemd."""

    _SESSION = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")

    @classmethod
    def find(cls) -> SystemdScope:
        found = cls()
        enclosure = found.enclose(f"roost-probe-{os.getpid()}", 1.0, _PROBE_BYTES)
        show = 'cat "/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/memory.max"'
        try:
            seen = subprocess.run(
                (*enclosure.prefix, "/bin/sh", "-c", show),
                capture_output=True,
                text=True,
                timeout=_PROBE_TIMEOUT_S,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise LimitsUnavailableError(f"systemd-run: {error}") from error
        if seen.stdout.strip() != str(_PROBE_BYTES):
            cause = seen.stderr.strip().splitlines()
            raise LimitsUnavailableError(f"systemd-run: {cause[-1] if cause else 'no limit seen'}")
        return found

    def enclose(self, name: str, cpus: float, memory_bytes: int) -> Enclosure:
        session = [f"{key}={os.environ[key]}" for key in self._SESSION if key in os.environ]
        limits = (f"MemoryMax={memory_bytes}", "MemorySwapMax=0", f"CPUQuota={int(cpus * 100)}%")
        properties = [part for limit in limits for part in ("-p", limit)]
        scope = ("systemd-run", "--user", "--scope", "--quiet", "--collect", f"--unit={name}")
        forget = [part for key in self._SESSION for part in ("-u", key)]
        return Enclosure(prefix=("env", *session, *scope, *properties, "--", "env", *forget))


@dataclass(frozen=True, slots=True)
class _Mount:
    root: str
    path: str
    kind: str
    options: tuple[str, ...]

    def place(self, group: str) -> str:
        """The folder of a group; in a container the mount's root is a group of the host."""
        below = os.path.relpath(group, self.root)
        inside = "" if below == "." or below.startswith("..") else below
        return os.path.join(self.path, inside).rstrip("/")


def _mounts() -> Sequence[_Mount]:
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            _, _, _, root, path = before.split()[:5]
            kind, _, options = after.split()[:3]
            if kind in ("cgroup", "cgroup2"):
                found.append(_Mount(root, path, kind, tuple(options.split(","))))
    return found


def _own_groups() -> dict[str, str]:
    """This process's group by controller; the unified hierarchy has the empty name."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split(":", 2) for line in file]
    return {name: group for _, names, group in rows for name in names.split(",")}


def _prove(limits: Limits) -> None:
    """Move a child into a limited group and see it there."""
    groups = limits.enclose(f"roost-probe-{os.getpid()}-{os.urandom(4).hex()}", 1.0, _PROBE_BYTES)
    try:
        with subprocess.Popen(
            ("/bin/sh", "-c", "read line"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        ) as child:
            for group in groups.cgroups:
                _set(group, "cgroup.procs", str(child.pid))
                with open(os.path.join(group, "cgroup.procs"), encoding="ascii") as file:
                    if str(child.pid) not in file.read().split():
                        raise LimitsUnavailableError(f"a child does not stay in {group}")
    finally:
        remove_groups(groups.cgroups)


def _make(group: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(group, 0o755)


def _set(group: str, name: str, value: str) -> None:
    with open(os.path.join(group, name), "w", encoding="ascii") as file:
        file.write(value)
