"""The manifest of a checkpoint: what was written, by what, and how to know that it still is that.

A checkpoint exists when its manifest does. The manifest carries a checksum of itself and has one
spelling only, so that any changed bit in it is seen, a changed blank too. It does no input or
output.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

import xxhash

FORMAT = 1
_SELF = "manifest_xxh3_128"


class InvalidManifestError(ValueError):
    """The bytes are no manifest that this version wrote; the message says why."""


@dataclass(frozen=True, slots=True)
class FileSum:
    """Size and checksum of one file of the checkpoint."""

    size_bytes: int
    xxh3_128: str

    @classmethod
    def of(cls, data: bytes | memoryview) -> FileSum:
        return cls(len(data), xxhash.xxh3_128_hexdigest(data))


@dataclass(frozen=True, slots=True)
class Manifest:
    """`step` counts finished optimizer steps, `position` consumed samples of the whole stream.

    `fingerprint` identifies the configuration that the state belongs to; `made_with` says what
    decides the last bits of a result (torch version, device, CPU capability, threads).
    """

    step: int
    position: int
    fingerprint: str
    files: Mapping[str, FileSum]
    made_with: Mapping[str, str | int]
    at: str

    def encode(self) -> bytes:
        body = {"format": FORMAT, **asdict(self)}
        return _spell({**body, _SELF: xxhash.xxh3_128_hexdigest(_spell(body))})

    @classmethod
    def decode(cls, raw: bytes) -> Manifest:
        """The manifest in `raw`; InvalidManifestError when it is not exactly what was written."""
        try:
            body = json.loads(raw)
        except ValueError as error:
            raise InvalidManifestError("the manifest is not JSON") from error
        if not isinstance(body, dict) or _spell(body) != raw:
            raise InvalidManifestError("the manifest is not as it was written")
        claimed = body.pop(_SELF, None)
        if claimed != xxhash.xxh3_128_hexdigest(_spell(body)):
            raise InvalidManifestError("the manifest's checksum does not match")
        version = body.pop("format", None)
        if version != FORMAT:
            raise InvalidManifestError(f"format {version} is not the format {FORMAT} known here")
        if body.keys() != {field.name for field in fields(cls)}:
            raise InvalidManifestError("the manifest has other fields than this format")
        body["files"] = {name: FileSum(**value) for name, value in body["files"].items()}
        return cls(**body)


def _spell(body: Mapping[str, object]) -> bytes:
    return json.dumps(body, sort_keys=True, indent=1).encode() + b"\n"
