"""Booting a machine: what init is told, and the start of its two processes."""

from __future__ import annotations

import hashlib
import os
import pwd
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

from policies.world import PurchaseMode, Resources
from provisioner.errors import Ambiguous, ProviderError
from provisioner.providers.local.capacity import Allocation
from provisioner.providers.local.host import boot_id
from provisioner.providers.local.launcher import Launcher
from provisioner.providers.local.machine.files import remove_tree, write_json
from provisioner.providers.local.machine.processes import MARKER
from provisioner.providers.local.machine.scratch import obstacle
from provisioner.providers.local.machine_folder import MachineFolder, Spec
from provisioner.providers.local.market import Market
from provisioner.providers.local.settings import LocalSettings

_CODE = Path(__file__).parents[3]
_KEEPER = (
    "import sys; sys.path.append({code!r});"
    " from provisioner.providers.local.machine.keeper import main; sys.exit(main())"
)
_BOOT_TIMEOUT_S = 60.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HARMLESS = ("LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""All that a machine inherits of the control plane's environment, the PATH apart: no secrets."""


class Booting:
    """Boots machines under one root. The caller holds the root's lock."""

    def __init__(
        self,
        root: Path,
        settings: LocalSettings,
        market: Market,
        launcher: Launcher,
    ) -> None:
        self._root = root
        self._settings = settings
        self._market = market
        self._launcher = launcher
        self._digest = hashlib.sha256(str(root).encode()).hexdigest()[:8]

    def boot(
        self,
        folder: MachineFolder,
        spec: Spec,
        run: int,
        home: Path | None,
        allocation: Allocation,
        now: datetime,
    ) -> None:
        """Return when init runs. Raises `ProviderError` if it cannot, `Ambiguous` if unknown."""
        disk = folder.path / "disk"
        home = home or disk / "home"
        for needed in (disk / "agent", home, folder.path / "metadata"):
            os.makedirs(needed, mode=0o700, exist_ok=True)
        if self._settings.private_scratch:
            remove_tree(str(disk / "tmp"))  # of the run before: a /tmp is empty after a boot
            os.mkdir(disk / "tmp")
            os.chmod(disk / "tmp", 0o1777)  # noqa: S103 (as /tmp is)
        told = self._told(folder, spec, run, home, allocation, now)
        write_json(folder.file("boot.json"), told)
        self._spawn(folder)

    def _told(
        self,
        folder: MachineFolder,
        spec: Spec,
        run: int,
        home: Path,
        allocation: Allocation,
        now: datetime,
    ) -> dict[str, Any]:
        script = folder.path / "user-data"
        marker = f"{spec.launch_id}/{self._digest}"
        boot = self._launcher.prepare(
            f"roost-{self._digest}-{spec.launch_id}-{run}",
            Resources(spec.cpus, spec.memory_gib, spec.gpus),
            script.read_text(encoding="utf-8"),
            str(script),
        )
        spot = spec.mode is PurchaseMode.SPOT
        reclaim_at = (
            self._market.reclaim_at(spec.zone, spec.launch_id, allocation.slot, now)
            if spot
            else None
        )
        settings = self._settings
        scratch = self._scratch(folder, spec)
        return {
            "run": run,
            "boot_id": boot_id(),
            "marker": marker,
            "argv": boot.argv,
            "cgroups": boot.cgroups,
            "env": self._environment(folder, home, allocation, scratch) | {MARKER: marker},
            "cwd": str(folder.path / "disk"),
            "scratch": scratch,
            "gpus": allocation.gpus,
            "slot": allocation.slot,
            "can_stop": not spot,
            "reclaim_at": reclaim_at.isoformat() if reclaim_at else None,
            "notice_s": settings.market.notice_s,
            "console_bytes": settings.console_bytes,
            "grace_s": {
                "stop": settings.stop_grace_s,
                "shutdown": settings.stop_grace_s,
                "terminate": settings.terminate_grace_s,
            },
        }

    def _scratch(self, folder: MachineFolder, spec: Spec) -> dict[str, Any] | None:
        """What `scratch.enter` is given; None where the machine shares the host's."""
        if not self._settings.private_scratch or obstacle() is not None:
            return None
        needed = (os.path.realpath(self._root), os.path.realpath(self._settings.python))
        hidden = any(path.startswith("/tmp/") for path in needed)  # noqa: S108 (what it would hide)
        tmp = None if hidden else str(folder.path / "disk" / "tmp")
        return {"tmp": tmp, "shm_bytes": int(spec.memory_gib * 2**30)}

    def _environment(
        self,
        folder: MachineFolder,
        home: Path,
        allocation: Allocation,
        scratch: dict[str, Any] | None,
    ) -> dict[str, str]:
        user = _user_name()
        own_tmp = self._settings.private_scratch and (scratch is None or scratch["tmp"] is None)
        interpreter = os.path.dirname(os.path.abspath(self._settings.python))
        return {name: os.environ[name] for name in _HARMLESS if name in os.environ} | {
            "PATH": f"{interpreter}:{os.environ.get('PATH', _PATH)}",
            "HOME": str(home),
            "USER": user,
            "LOGNAME": user,
            "SHELL": "/bin/sh",
            "ROOST_HOME": str(home),
            "ROOST_STATE_DIR": str(folder.path / "disk" / "agent"),
            "ROOST_METADATA": str(folder.path / "metadata"),
            "CUDA_VISIBLE_DEVICES": ",".join(allocation.gpus),
            **({"TMPDIR": str(folder.path / "disk" / "tmp")} if own_tmp else {}),
        }

    def _spawn(self, folder: MachineFolder) -> None:
        code = _KEEPER.format(code=str(_CODE))
        environment = {name: os.environ[name] for name in _HARMLESS if name in os.environ}
        try:
            starter = subprocess.run(
                (self._settings.python, "-I", "-S", "-c", code, str(folder.path)),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=environment,
                cwd="/",
                timeout=_BOOT_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as error:
            raise Ambiguous(
                f"machine {folder.id} did not come up within {_BOOT_TIMEOUT_S:g} s"
            ) from error
        except OSError as error:
            raise ProviderError(
                f"machine {folder.id} cannot boot: {self._settings.python} cannot be run:"
                f" {error.strerror}.",
                remedy="Set `python` of the local provider to a Python interpreter.",
            ) from error
        if starter.returncode != 0:
            cause = starter.stderr.strip().splitlines() or [f"exit code {starter.returncode}"]
            raise ProviderError(
                f"machine {folder.id} cannot boot: its init did not start: {cause[-1]}.",
                remedy=f"Check that {self._settings.python} works for this user and that"
                " the host has memory and processes to spare.",
            )


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
