"""Files that survive a crash at any instant: atomic writes, appended lines, locks, removal.

Standard library only; see the package's docstring.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import threading
from collections.abc import Iterator
from typing import Any


def read_json(path: str) -> dict[str, Any] | None:
    """The object in a file, or None when there is no such file. ValueError: it is damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds no JSON object")
    return value


def write_json(path: str, value: dict[str, Any]) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def write_text(path: str, text: str, mode: int = 0o600) -> None:
    """Replace a file at once: after a crash there is the old or the new content, no mixture."""
    draft = f"{path}.{os.getpid()}.{threading.get_ident()}.new"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
    sync_folder(os.path.dirname(path))


def append_json(path: str, value: dict[str, Any]) -> None:
    """Append one line; several processes may do so at once. A line torn by a crash is cut off."""
    line = json.dumps(value, sort_keys=True).encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            size = os.pread(descriptor, size, 0).rfind(b"\n") + 1
            os.ftruncate(descriptor, size)
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError(errno.ENOSPC, "no space for a whole line", path)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def read_lines(path: str) -> list[dict[str, Any]]:
    """The lines of an appended file; a last line cut off by a crash is left out."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in content.split(b"\n")[:-1] if line]


def names(folder: str) -> list[str]:
    """What is in a folder, sorted; nothing when there is none."""
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock of a file against other threads and other processes."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_held(path: str) -> bool:
    """Whether somebody holds the exclusive lock of a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def remove_tree(path: str) -> None:
    """Remove a folder with all in it, read-only folders too; follows no link; absent is fine."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return
        os.chmod(path, stat.S_IRWXU)
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            remove_tree(os.path.join(path, name))
        os.rmdir(path)
