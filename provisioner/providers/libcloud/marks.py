"""How a machine, disk or snapshot says whose it is and what it was made for.

Clouds with tags or metadata of names and values hold the marks as they are. Clouds with plain words
for tags, short and in few letters, hold the two that are looked for in clear and all of them packed
into some more words. Clouds with a name only hold what fits there.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

INSTALLATION = "roost-installation"
PROVIDER = "roost-provider"
LAUNCH = "roost-launch"
FINGERPRINT = "roost-fingerprint"
VOLUME = "roost-volume"
"""On a machine: the home that it has or is to get; on a disk: our id of it."""
VOLUME_GIB = "roost-volume-gib"
VOLUME_FROM = "roost-volume-from"
SNAPSHOT = "roost-snapshot"
_OWN = "roost-"

Marks = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose the things are: two providers of one installation may share an account."""

    installation: str
    provider: str

    @property
    def marks(self) -> dict[str, str]:
        return {INSTALLATION: self.installation, PROVIDER: self.provider}

    def owns(self, marks: Marks) -> bool:
        return self.marks.items() <= marks.items()


def foreign(marks: Marks) -> tuple[tuple[str, str], ...]:
    """A machine's marks without ours: the tags that its launch was given."""
    given = (item for item in marks.items() if not item[0].startswith(_OWN) and item[0] != "Name")
    return tuple(sorted(given))


def pairs(listed: Iterable[Mapping[str, str]], key: str = "key", value: str = "value") -> Marks:
    """Of a list of `{key: ..., value: ...}`."""
    return {one[key]: one[value] for one in listed}


def words(marks: Marks, longest: int) -> list[str]:
    """As plain words of lower-case letters, digits, `:`, `-` and `_`, `longest` letters at most."""
    text = json.dumps(dict(sorted(marks.items())), separators=(",", ":"))
    packed = base64.b32encode(zlib.compress(text.encode(), 9)).decode().rstrip("=").lower()
    room = longest - len("roost-00:")
    chunks = [packed[start : start + room] for start in range(0, len(packed), room)]
    clear = [f"{name}:{marks[name]}" for name in (INSTALLATION, LAUNCH) if name in marks]
    return [*clear, *(f"roost-{index:02}:{chunk}" for index, chunk in enumerate(chunks))]


def of_words(given: Iterable[str]) -> Marks:
    """The marks in such words; none where they are not ours or have been changed."""
    chunks = sorted(word for word in given if re.match(r"roost-\d\d:", word))
    packed = "".join(chunk.partition(":")[2] for chunk in chunks).upper()
    try:
        text = zlib.decompress(base64.b32decode(packed + "=" * (-len(packed) % 8)))
        marks = json.loads(text)
    except (zlib.error, binascii.Error, ValueError):
        return {}
    return marks if isinstance(marks, dict) else {}


def disk_name(owner: Owner, volume_id: str) -> str:
    """For clouds whose disks have nothing but a name: says whose it is, too."""
    return f"roost.{owner.installation}.{owner.provider}.{volume_id}"


def of_disk_name(name: str) -> Marks:
    parts = name.split(".", 3)
    if len(parts) != 4 or parts[0] != "roost":
        return {}
    return {INSTALLATION: parts[1], PROVIDER: parts[2], VOLUME: parts[3]}
