"""Checkpoints in a folder or a bucket that survive a kill, a full disk and a flipped bit.

    <uri>/step-0000000120/state.pt         the state; written first
    <uri>/step-0000000120/manifest.json    written last: with it, the checkpoint exists

Never overwrites: a step that is saved again (after a fall-back past a damaged one) gets a name of
its own, `step-0000000120-2`. One process writes to a folder at a time: the caller ensures that.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from trainer_agent.checkpoint import serial
from trainer_agent.checkpoint.errors import (
    CheckpointError,
    DamagedError,
    NoSpaceError,
    from_os_error,
)
from trainer_agent.checkpoint.files import TEMPORARY, Reached, nothing, open_files
from trainer_agent.checkpoint.manifest import FileSum, InvalidManifestError, Manifest
from trainer_agent.clock import Clock

STATE = "state.pt"
MANIFEST = "manifest.json"
RESERVE_BYTES = 64 * 1024
"""Room beside the state itself: the manifest, directory blocks, the final report."""

_NAME = re.compile(r"step-(\d{10,})(?:-(\d+))?")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose manifest and checksums were found right."""

    name: str
    manifest: Manifest
    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A checkpoint that could not be used, and why."""

    name: str
    why: str


class CheckpointStore:
    """The checkpoints at one address, the newest `keep` good ones of them.

    `reached` is told each point that a save passes, so that a test can end the process there.
    """

    def __init__(
        self, uri: str, keep: int = 2, *, clock: Clock, reached: Reached = nothing
    ) -> None:
        if keep < 1:
            raise ValueError("keep must be at least 1: the only good checkpoint is never deleted")
        self.files = open_files(uri)
        self._keep = keep
        self._clock = clock
        self._reached = reached
        self._good: set[str] = set()
        self._bad: set[str] = set()

    def prepare(self) -> None:
        """Make the folder, prove that it can be written, clear what an interrupted save left.

        Raises CheckpointError when the folder cannot be used.
        """
        with self._explained("use the checkpoint folder"):
            self.files.make()
            self._clear_leftovers()

    def save(self, step: int, state: serial.State, *, position: int, fingerprint: str) -> str:
        """Write a checkpoint, read it back, then drop what `keep` does not cover; returns its name.

        Raises CheckpointError; then nothing of it is left and the ones before are untouched.
        """
        data = serial.dump(state)
        manifest = Manifest(
            step=step,
            position=position,
            fingerprint=fingerprint,
            files={STATE: FileSum.of(data)},
            made_with=serial.made_with(),
            at=self._clock.now().isoformat(),
        )
        with self._explained(f"save the checkpoint of step {step}"):
            self._require_room(len(data), step)
            name = self._claim(step)
            try:
                self._reached("claimed")
                self.files.write(f"{name}/{STATE}", data, self._reached)
                self.files.write(f"{name}/{MANIFEST}", manifest.encode(), self._reached)
                self._verified(name)
            except (OSError, CheckpointError):
                self._discard(name)
                raise
            self._reached("verified")
        # The checkpoint is safe from here on: a failure to tidy up must not be taken for a failed
        # save.
        with contextlib.suppress(OSError):
            self._retain()
        return name

    def load_latest(
        self, report: Callable[[Skipped], None] = lambda _skipped: None
    ) -> Checkpoint | None:
        """The newest checkpoint that verifies, None when there is none; `report` hears of the rest.

        Raises CheckpointError only when the folder itself cannot be read.
        """
        with self._explained("look for checkpoints"):
            names = self._complete()
        for name in names:
            try:
                manifest, data = self._verified(name)
                checkpoint = Checkpoint(name, manifest, serial.load(data))
            except DamagedError as error:
                self._bad.add(name)
                report(Skipped(name, error.why))
            except serial.UnreadableStateError as error:
                report(Skipped(name, str(error)))
            except OSError as error:
                report(Skipped(name, from_os_error(error, name, "read the checkpoint").message))
            else:
                self._good.add(name)
                return checkpoint
        return None

    def _verified(self, name: str) -> tuple[Manifest, bytes]:
        """Manifest and state as stored; DamagedError when they are not what was written."""
        raw = self._read(name, MANIFEST)
        try:
            manifest = Manifest.decode(raw)
        except InvalidManifestError as error:
            raise self._damaged(name, str(error)) from error
        data = self._read(name, STATE)
        stated = manifest.files.get(STATE)
        if stated is None or stated.size_bytes != len(data):
            size = "no" if stated is None else stated.size_bytes
            raise self._damaged(name, f"{STATE} has {len(data)} bytes, the manifest says {size}")
        if stated != FileSum.of(data):
            raise self._damaged(name, f"the checksum of {STATE} does not match")
        self._good.add(name)
        return manifest, data

    def _damaged(self, name: str, why: str) -> DamagedError:
        return DamagedError(name, self.files.location, why)

    def _read(self, name: str, file: str) -> bytes:
        try:
            return self.files.read(f"{name}/{file}")
        except FileNotFoundError as error:
            raise self._damaged(name, f"{file} is missing") from error

    def _retain(self) -> None:
        """Drop damaged ones and those older than the newest `keep` that are known to be good."""
        good = 0
        for name in self._complete():
            if name in self._bad or good >= self._keep:
                self._delete(name)
            elif name in self._good:
                good += 1
        self._clear_leftovers()

    def _delete(self, name: str) -> None:
        """Manifest first: what is half deleted does not exist."""
        self.files.remove(f"{name}/{MANIFEST}")
        self._reached("deleting")
        self.files.remove_entry(name)
        self._good.discard(name)
        self._bad.discard(name)

    def _discard(self, name: str) -> None:
        self._good.discard(name)
        with contextlib.suppress(OSError):
            self._delete(name)

    def _claim(self, step: int) -> str:
        base = f"step-{step:010d}"
        name, generation = base, 1
        while not self.files.claim(name):
            generation += 1
            name = f"{base}-{generation}"
        return name

    def _require_room(self, size_bytes: int, step: int) -> None:
        free = self.files.free_bytes()
        needed = size_bytes + RESERVE_BYTES
        if free is not None and free < needed:
            raise NoSpaceError(
                f"Cannot save the checkpoint of step {step} in {self.files.location}: "
                f"it needs {needed} bytes and {free} are free.",
                "Free some space there, keep fewer checkpoints, or choose another folder.",
            )

    def _complete(self) -> list[str]:
        """Names of the checkpoints that have a manifest, the newest first."""
        found = [name for name in self._entries() if self._has_manifest(name)]
        return sorted(found, key=_age, reverse=True)

    def _clear_leftovers(self) -> None:
        for name in self._entries():
            if not self._has_manifest(name):
                self.files.remove_entry(name)
        for name in self.files.names():
            if name.endswith(TEMPORARY):
                self.files.remove(name)

    def _entries(self) -> list[str]:
        return [name for name in self.files.names() if _NAME.fullmatch(name)]

    def _has_manifest(self, name: str) -> bool:
        try:
            self.files.read(f"{name}/{MANIFEST}")
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # it is there and cannot be read: not ours to clear away
        return True

    @contextlib.contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise from_os_error(error, self.files.location, doing) from error


def _age(name: str) -> tuple[int, int]:
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match[1]), int(match[2] or 1)
