"""From a command to the control plane: the client with the URL and token that are in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.cli import profile

if TYPE_CHECKING:
    from api.client import Client


def connect() -> Client:
    """A client, to be closed by `with`."""
    url, token = profile.choose()
    from api.client import Client

    return Client(url, token, ca=profile.authority(url))
