"""The console of a machine: what its boot script writes, in a file that cannot grow without end."""

from __future__ import annotations

import contextlib
import os

_CHUNK = 65536
_CHUNKS_A_LOOK = 16


class Console:
    """Copies a pipe into `path`; at half of `limit` bytes that file becomes `path`.old."""

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._half = max(limit // 2, 1)
        self._pipe: int | None = None
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._last = b""

    def open(self) -> int:
        """The end to write to, for the boot script."""
        self._pipe, end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._pipe, False)
        return end

    def descriptors(self) -> list[int]:
        """What to wait for."""
        return [] if self._pipe is None else [self._pipe]

    def pump(self) -> None:
        """Copy what is there, up to a bound: a chatty machine must not keep init from its work."""
        for _ in range(_CHUNKS_A_LOOK):
            if self._pipe is None:
                return
            try:
                chunk = os.read(self._pipe, min(_CHUNK, self._half))
            except BlockingIOError:
                return
            if not chunk:
                self.close()
                return
            self._last = (self._last + chunk)[-1024:]
            with contextlib.suppress(OSError):  # a full disk costs the console, not the machine
                self._write(chunk)

    def last_line(self) -> str:
        lines = self._last.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _write(self, chunk: bytes) -> None:
        if os.fstat(self._file).st_size + len(chunk) > self._half:
            os.replace(self._path, self._path + ".old")
            os.close(self._file)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
        os.write(self._file, chunk)
