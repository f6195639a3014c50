"""Files that are there whole or not at all, whoever is killed while they are written."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_atomic(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace `path` by `data`, readable by its owner alone.

    `durable` also waits for the disk; without it a power cut may bring the former content back.
    """
    draft = _draft(path, data, durable=durable)
    draft.replace(path)


def create_json(path: Path, value: Mapping[str, Any]) -> bool:
    """Make `path` with `value` unless it exists; of several callers exactly one gets True."""
    draft = _draft(path, json.dumps(value).encode(), durable=True)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def write_json(path: Path, value: Mapping[str, Any], *, durable: bool = True) -> None:
    write_atomic(path, json.dumps(value).encode(), durable=durable)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in `path`; None when it is missing or holds no JSON object."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _draft(path: Path, data: bytes, *, durable: bool) -> Path:
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    return draft
