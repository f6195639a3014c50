"""All machines under one root: finding, making, booting and clearing them away.

Methods that change something need the root's lock, which their caller holds (`locked`); `looked_at`
takes it by itself, and only where there is something to settle.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from provisioner.clock import Clock
from provisioner.errors import Ambiguous, InvalidRequest, NotFound, ProviderError
from provisioner.providers.contract import LaunchRequest, Machine, MachineState
from provisioner.providers.local import meter
from provisioner.providers.local.booting import Booting
from provisioner.providers.local.capacity import Allocation, allocate
from provisioner.providers.local.host import Host, this_host
from provisioner.providers.local.launcher import Launcher
from provisioner.providers.local.machine.files import (
    append_json,
    locked,
    names,
    read_lines,
    remove_tree,
    write_json,
    write_text,
)
from provisioner.providers.local.machine.record import (
    PENDING,
    meter_path,
    metered,
    run_pending,
    write_state,
)
from provisioner.providers.local.machine_folder import MachineFolder, Spec
from provisioner.providers.local.market import Market
from provisioner.providers.local.settings import LocalSettings
from provisioner.providers.local.settling import abandon, needs_settling, settle
from provisioner.providers.local.tariff import Tariff
from provisioner.providers.local.volumes import Volumes

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Fleet:
    """The machines of one installation, and the room that all machines of the root share."""

    def __init__(
        self,
        root: Path,
        installation: str,
        clock: Clock,
        settings: LocalSettings,
        market: Market,
        tariff: Tariff,
        launcher: Launcher,
    ) -> None:
        self.volumes = Volumes(root, installation)
        self._root = root
        self._installation = installation
        self._clock = clock
        self._settings = settings
        self._market = market
        self._tariff = tariff
        self._booting = Booting(root, settings, market, launcher)

    def make(self, folder: MachineFolder, spec: Spec, request: LaunchRequest) -> None:
        """Put the machine's folder there all at once, then boot it."""
        allocation = self._allocate(spec)
        self._clear_drafts()
        draft = folder.path.with_name(f".{folder.id}")
        os.mkdir(draft, mode=0o700)
        try:
            write_text(str(draft / "user-data"), request.user_data, mode=0o700)
            write_json(str(draft / "machine.json"), spec.to_json())
            run_pending(str(draft), 1)
            os.rename(draft, folder.path)
        except OSError:
            remove_tree(str(draft))
            raise
        self._boot(folder, spec, 1, allocation)

    def boot_again(self, folder: MachineFolder, spec: Spec, stopped: dict[str, Any]) -> None:
        """Boot a stopped machine for its next run."""
        allocation = self._allocate(spec)
        run_pending(str(folder.path), stopped["run"] + 1)
        self._boot(folder, spec, stopped["run"] + 1, allocation, former=stopped)

    def complete(self, folder: MachineFolder, spec: Spec) -> None:
        """Boot a machine whose launch or start was cut off before its init ran."""
        settle(folder, self._clock.now())
        state = folder.state()
        if state is not None and state["state"] == PENDING and not folder.alive():
            self._boot(folder, spec, state["run"], self._allocate(spec))

    def _boot(
        self,
        folder: MachineFolder,
        spec: Spec,
        run: int,
        allocation: Allocation,
        former: dict[str, Any] | None = None,
    ) -> None:
        """Boot a pending machine, or leave things as they were before."""
        now = self._clock.now()
        try:
            if not read_lines(self._meter(spec.launch_id)):
                append_json(self._meter(spec.launch_id), {"event": "launch", **spec.to_json()})
            home = None
            if spec.volume_id is not None:
                self.volumes.ensure(spec.volume_id, spec.volume_gib, now)
                home = self.volumes.home(spec.volume_id)
            self._booting.boot(folder, spec, run, home, allocation, now)
        except Ambiguous:
            raise
        except (ProviderError, OSError):
            self._call_off(folder, run, former)
            raise

    def _call_off(self, folder: MachineFolder, run: int, former: dict[str, Any] | None) -> None:
        abandon(folder, self._clock.now())
        if metered(str(folder.path), run)[0] is not None:
            return  # it did run for a moment: that stays on record
        if former is not None:
            write_state(str(folder.path), former)
        else:
            remove_tree(str(folder.path))
            remove_tree(self._meter(folder.id))

    def looked_at(self, folder: MachineFolder) -> Machine | None:
        """The machine in a folder, its end noticed; None when it is not to be listed (any more)."""
        spec = folder.spec()
        if spec is None or spec.installation != self._installation:
            return None
        if needs_settling(folder):
            with self.locked():
                settle(folder, self._clock.now())
        gone_at = folder.gone_at()
        visible = timedelta(seconds=self._settings.ended_visible_s)
        if gone_at is None or self._clock.now() < gone_at + visible:
            return folder.machine()
        with self.locked():
            if not folder.alive():
                remove_tree(str(folder.path))
        return None

    def settled(self, machine_id: str) -> tuple[MachineFolder, Spec, dict[str, Any], MachineState]:
        """A machine of this installation, its records up to date. Raises `NotFound`."""
        folder = self.folder(machine_id)
        spec = folder.spec() if _ID.fullmatch(machine_id) else None
        if spec is not None and spec.installation == self._installation:
            settle(folder, self._clock.now())
            state, machine = folder.state(), folder.machine()
            if state is not None and machine is not None:
                return folder, spec, state, machine.state
        raise NotFound(f"the local provider has no machine {machine_id}")

    def former(self, request: LaunchRequest) -> Machine | None:
        """The machine that this launch made once and that is listed no more."""
        lines = read_lines(self._meter(request.launch_id))
        runs = meter.runs(self._meter(request.launch_id))
        if not lines or not runs:
            return None
        check_same(request, self._installation, lines[0]["fingerprint"])
        return Machine(
            id=request.launch_id,
            launch_id=request.launch_id,
            state=MachineState.TERMINATED,
            offer_id=lines[0]["offer_id"],
            tags=request.tags,
            created_at=datetime.fromisoformat(lines[0]["created_at"]),
            run_started_at=runs[-1].start,
            run_ended_at=runs[-1].end,
            message="ended long ago",
        )

    def _allocate(self, spec: Spec) -> Allocation:
        for folder in self.folders():
            settle(folder, self._clock.now())  # the dead hold no room
        for volume_id, holder in self.attached().items():
            if volume_id == spec.volume_id and holder != spec.launch_id:
                raise attached_already(volume_id, holder)
        now = self._clock.now()
        return allocate(spec, self.folders(), self.host, self._settings, self._market, now)

    def attached(self) -> dict[str, str]:
        """The machine that holds each volume, stopped ones too."""
        held = {}
        for folder in self.folders():
            spec, machine = folder.spec(), folder.machine()
            if spec and spec.volume_id and machine and machine.state is not MachineState.TERMINATED:
                held[spec.volume_id] = spec.launch_id
        return held

    def folders(self) -> Iterator[MachineFolder]:
        for name in names(str(self._root / "machines")):
            if not name.startswith("."):
                yield self.folder(name)

    def folder(self, machine_id: str) -> MachineFolder:
        return MachineFolder(self._root / "machines" / machine_id)

    def _clear_drafts(self) -> None:
        """Remove what calls that were cut off have left; the lock says that none is at work."""
        for name in names(str(self._root / "machines")):
            if name.startswith("."):
                remove_tree(str(self._root / "machines" / name))
        self.volumes.remove_hidden()

    def record_prices(self) -> None:
        """Put down the prices of now as soon as anything is sold at them."""
        if self._root.exists() and not self._tariff.recorded:
            with self.locked():
                pass

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the root's lock."""
        for folder in (self._root, self._root / "machines", self._root / "meter"):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        with locked(str(self._root / "lock")):
            self._tariff.record()
            yield

    @cached_property
    def host(self) -> Host:
        return this_host()

    def _meter(self, machine_id: str) -> str:
        return meter_path(str(self._root / "machines" / machine_id))


def fingerprint(request: LaunchRequest, installation: str) -> str:
    """Digest of all parameters of a launch but its id."""
    parameters = (
        installation,
        request.offer.id,
        request.user_data,
        request.tags,
        request.volume_id,
        request.volume_gib,
    )
    return hashlib.sha256(json.dumps(parameters).encode()).hexdigest()


def check_same(request: LaunchRequest, installation: str, known: str) -> None:
    if known != fingerprint(request, installation):
        raise InvalidRequest(
            f"launch id {request.launch_id} was used before with other parameters",
            remedy="Use another launch id.",
        )


def check_request(request: LaunchRequest) -> None:
    """Raise `InvalidRequest` for what could never become a machine."""
    check_id("launch id", request.launch_id)
    if request.volume_id is not None:
        check_id("volume id", request.volume_id)
        if request.volume_gib < 1:
            raise InvalidRequest(f"a volume cannot have {request.volume_gib} GiB")
    try:
        request.user_data.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"the user data is no text: {error}") from error


def check_id(what: str, value: str) -> None:
    if not _ID.fullmatch(value):
        raise InvalidRequest(
            f"{value!r} cannot be a {what}",
            remedy="Use up to 128 letters, digits, dots, dashes and underscores.",
        )


def attached_already(volume_id: str, machine_id: str) -> ProviderError:
    return ProviderError(
        f"volume {volume_id} is attached to machine {machine_id}",
        remedy="Terminate that machine first, and wait until it has ended.",
    )
