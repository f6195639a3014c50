"""The tags that Roost puts on what it makes, and the filters that find it by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

INSTALLATION = "roost:installation"
LAUNCH = "roost:launch"
FINGERPRINT = "roost:fingerprint"
"""Of the launch's parameters: tells a repeated launch from another one under its id."""
VOLUME = "roost:volume"
"""On a machine: the home that it has or is to get; on an EBS volume: our id of it."""
VOLUME_GIB = "roost:volume-gib"
VOLUME_FROM = "roost:volume-from"
SNAPSHOT = "roost:snapshot"
NAME = "Name"

Tags = Mapping[str, str]


def listed(tags: Tags) -> list[dict[str, str]]:
    """As the API wants them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def specification(kinds: Iterable[str], tags: Tags) -> list[dict[str, Any]]:
    """`TagSpecifications`: tags from the moment that a thing is made."""
    return [{"ResourceType": kind, "Tags": listed(tags)} for kind in kinds]


def of(described: Mapping[str, Any]) -> dict[str, str]:
    """The tags of something that the API described."""
    return {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}


def where(installation: str, **values: str | Iterable[str]) -> list[dict[str, Any]]:
    """Filters by our installation and by more, `tag__launch` standing for `tag:roost:launch`."""
    filters = [{"Name": f"tag:{INSTALLATION}", "Values": [installation]}]
    for name, value in values.items():
        name = name.replace("tag__", "tag:roost:").replace("_", "-")
        filters.append({"Name": name, "Values": [value] if isinstance(value, str) else [*value]})
    return filters


def foreign(tags: Tags, launch_id: str) -> tuple[tuple[str, str], ...]:
    """A machine's tags without ours: those that the launch was given."""
    return tuple(
        sorted(
            (key, value)
            for key, value in tags.items()
            if not key.startswith(("roost:", "aws:")) and (key, value) != (NAME, launch_id)
        )
    )
