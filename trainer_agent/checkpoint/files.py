"""Whole files in one folder, written so that a reader never sees a part of one.

On a local disk: temporary name, fsync, rename, fsync of the folder. On an object store a put is
whole or absent by itself, so the file is put under its own name. Nothing here knows what a
checkpoint is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from trainer_agent.checkpoint.errors import StoreUnusableError

Reached = Callable[[str], None]
"""Called with the name of each point that a write passes."""

TEMPORARY = ".tmp"


def nothing(_point: str) -> None:
    """The observer of somebody who does not care."""


class Files(Protocol):
    """What the store needs of a place. Every method raises OSError as the place says it."""

    location: str

    def make(self) -> None:
        """Create the folder and prove that it can be written."""
        ...

    def names(self) -> list[str]:
        """The entries directly in the folder."""
        ...

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, data: bytes | memoryview, reached: Reached = nothing) -> None:
        """Put one whole file at `entry/file` or `file`; never half of it, even at power loss."""
        ...

    def claim(self, entry: str) -> bool:
        """Take the entry for a new checkpoint; False when it is there already."""
        ...

    def remove(self, name: str) -> None:
        """Remove one file; no error when it is not there."""
        ...

    def remove_entry(self, entry: str) -> None:
        """Remove an entry and what is in it; no error when it is not there."""
        ...

    def free_bytes(self) -> int | None:
        """What this user may still write; None where the place has no limit to ask for."""
        ...


def open_files(uri: str) -> Files:
    """The files of a folder by its address: `file:///...` or any object store that fsspec knows.

    In a file address `%20` stands for a blank and so on (RFC 8089). Raises StoreUnusableError for
    an address that nothing here understands.
    """
    if uri.startswith("file:///"):
        return LocalFiles(Path(unquote(uri.removeprefix("file://"))))
    try:
        fs, root = url_to_fs(uri)
    except (ValueError, ImportError) as error:
        raise StoreUnusableError(
            f"The checkpoint address {uri!r} cannot be opened: {error}.",
            "Use file:///path, or install the fsspec package of that store.",
        ) from error
    if isinstance(fs, LocalFileSystem):
        raise StoreUnusableError(
            f"The checkpoint address {uri!r} is no absolute one.", "Write it as file:///path."
        )
    return ObjectFiles(fs, root, uri)


class LocalFiles:
    """A folder of a local or mounted file system."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.location = str(root)

    def make(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        probe = f"probe-{os.getpid()}"
        try:
            self.write(probe, b"can this folder be written?")
        finally:
            with contextlib.suppress(OSError):
                self.remove(probe)

    def names(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(os.listdir(self._root))
        return []

    def read(self, name: str) -> bytes:
        """Read from the disk itself where the system allows it, not from its cache of our write."""
        with (self._root / name).open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return file.read()

    def write(self, name: str, data: bytes | memoryview, reached: Reached = nothing) -> None:
        target = self._root / name
        temporary = target.with_name(target.name + TEMPORARY)
        whole = memoryview(data)
        half = len(whole) // 2
        try:
            with temporary.open("wb", buffering=0) as file:
                _write_all(file.fileno(), whole[:half])
                reached(f"{target.name}:half-written")
                _write_all(file.fileno(), whole[half:])
                reached(f"{target.name}:written")
                os.fsync(file.fileno())
                reached(f"{target.name}:synced")
            temporary.replace(target)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        reached(f"{target.name}:renamed")
        _sync_folder(target.parent)

    def claim(self, entry: str) -> bool:
        try:
            (self._root / entry).mkdir()
        except FileExistsError:
            return False
        _sync_folder(self._root)
        return True

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            _sync_folder((self._root / name).parent)

    def remove_entry(self, entry: str) -> None:
        path = self._root / entry
        with contextlib.suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def free_bytes(self) -> int | None:
        room = os.statvfs(self._root)
        return room.f_bavail * room.f_frsize


class ObjectFiles:
    """A prefix of an object store: there are no folders, and a put is atomic."""

    def __init__(self, fs: Any, root: str, uri: str) -> None:
        self._fs = fs
        self._root = root.rstrip("/")
        self.location = uri

    def make(self) -> None:
        self.write("probe", b"can this prefix be written?")
        self.remove("probe")

    def names(self) -> list[str]:
        self._fs.invalidate_cache()
        try:
            listing = self._fs.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(path).rstrip("/").rsplit("/", 1)[-1] for path in listing)

    def read(self, name: str) -> bytes:
        return bytes(self._fs.cat_file(self._path(name)))

    def write(self, name: str, data: bytes | memoryview, reached: Reached = nothing) -> None:
        self._fs.pipe_file(self._path(name), bytes(data))
        reached(f"{name.rsplit('/', 1)[-1]}:renamed")

    def claim(self, entry: str) -> bool:
        self._fs.invalidate_cache()
        return not self._fs.exists(self._path(entry))

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(name))

    def remove_entry(self, entry: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm(self._path(entry), recursive=True)

    def free_bytes(self) -> int | None:
        return None

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
