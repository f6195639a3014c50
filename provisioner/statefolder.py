"""The state folder: what a control plane keeps on disk, used by one control plane at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from provisioner.errors import StateError


class StateFolder:
    """A folder with the database, local machines, the jobs' checkpoints and the agent's wheel."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self._lock: IO[str] | None = None

    @property
    def machines(self) -> Path:
        return self.path / "local"

    @property
    def jobs(self) -> Path:
        return self.path / "jobs"

    @property
    def wheels(self) -> Path:
        return self.path / "wheels"

    def prepare(self) -> None:
        """Make the folder, for its owner only.

        Raises:
            StateError: it cannot be made or written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            for folder in (self.machines, self.jobs, self.wheels):
                folder.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise self._unusable(error) from error

    def lock(self) -> None:
        """Claim the folder until this process ends; a crash releases it.

        Raises:
            StateError: another control plane uses it, or it cannot be written.
        """
        self.prepare()
        try:
            file = (self.path / "lock").open("a+")
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise StateError(
                f"Another control plane (process {holder}) uses the state folder {self.path}.",
                remedy="Stop it first, or name another folder with --state.",
            ) from error
        try:
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        except OSError as error:
            raise self._unusable(error) from error
        self._lock = file

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _unusable(self, error: OSError) -> StateError:
        return StateError(
            f"The state folder {self.path} cannot be used: {error.strerror}.",
            remedy="Name another with --state, or correct its permissions and make room for it.",
        )
