"""The boot script as a cloud wants it."""

from __future__ import annotations

import base64
import gzip

from provisioner.errors import InvalidRequest
from provisioner.providers.libcloud.profile import Profile


def plain(script: str, profile: Profile) -> str:
    """As text; InvalidRequest where it is too long."""
    _limit(script.encode(), profile)
    return script


def encoded(script: str, profile: Profile) -> str:
    """In base64, compressed where it would be too long (cloud-init unpacks it)."""
    data = script.encode()
    if len(data) > profile.user_data_bytes and profile.packs_user_data:
        data = gzip.compress(data, mtime=0)
    _limit(data, profile)
    return base64.b64encode(data).decode()


def _limit(data: bytes, profile: Profile) -> None:
    if len(data) > profile.user_data_bytes:
        raise InvalidRequest(
            f"the bootstrap script is too long for {profile.title}: {len(data)} bytes"
            f" of {profile.user_data_bytes}"
        )
