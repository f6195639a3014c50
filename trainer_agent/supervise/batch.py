"""The next piece of a log or progress file to be told, cut where nothing is torn apart."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer_agent.supervise.progress import records

LIMIT_BYTES = 256 << 10
LIMIT_RECORDS = 10_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Bytes `offset` to `end` of a file, as the control plane wants them."""

    offset: int
    end: int
    content: dict[str, Any]


Redact = Callable[[bytes], bytes]


def log_batch(path: Path, offset: int, *, ended: bool, redact: Redact) -> Batch | None:
    """Whole lines, unless the last has ended or one is longer than a batch.

    The text has as many bytes in UTF-8 as the file has here, so that offsets agree on both sides:
    a byte that is no UTF-8, or NUL, becomes a question mark.
    """
    data = _read(path, offset)
    last = ended and len(data) < LIMIT_BYTES
    if not last:
        line = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        data = data[:line] if line or len(data) < LIMIT_BYTES else _whole_characters(data)
    if not data:
        return None
    text = redact(data).replace(b"\0", b"?").decode(errors="same-length")
    return Batch(offset, offset + len(data), {"text": text})


def progress_batch(path: Path, offset: int, *, ended: bool, redact: Redact) -> Batch | None:
    """Whole records. What is none is passed over, but counts in the offsets."""
    data = _read(path, offset)
    last = ended and len(data) < LIMIT_BYTES
    if not last:
        line = data.rfind(b"\n") + 1
        data = data[:line] if line or len(data) < LIMIT_BYTES else data
    if not data:
        return None
    data = b"".join(data.splitlines(keepends=True)[:LIMIT_RECORDS])
    end = offset + len(data)
    return Batch(offset, end, {"records": records(redact(data)), "next_offset": end})


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(LIMIT_BYTES)
    except FileNotFoundError:
        return b""


def _whole_characters(data: bytes) -> bytes:
    """`data` without the beginning of a UTF-8 character whose rest is still to come."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
    return data


def _same_length(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "?" * (error.end - error.start), error.end


codecs.register_error("same-length", _same_length)
