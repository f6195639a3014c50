"""Settings that make no sense are refused with their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from provisioner.providers.ssh.settings import HostSettings, SshSettings

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINvSYmCTBzTGXHmqxx4G3RtNxVrYAEbJWHCQsEkJcFpB roost"
HOST: dict[str, Any] = {
    "name": "ada",
    "address": "10.0.0.7",
    "user": "roost",
    "key_file": Path("/etc/roost/key"),
    "host_key": KEY,
}


def test_a_host_needs_few_words() -> None:
    host = HostSettings(**HOST)
    assert (host.port, host.folder, host.python) == (22, "~/.roost-host", "python3")
    assert host.price_per_gpu_hour == 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"host_key": "ssh-ed25519 AAAAC3Nz"}, "no whole public key"),
        ({"host_key": KEY.replace("ssh-ed25519", "ssh-rsa")}, "no whole public key"),
        ({"host_key": "ssh-ed25519 A"}, "no whole public key"),
        ({"host_key": "ssh-dss AAAA"}, "host_key"),
        ({"folder": "roost"}, "must be absolute"),
        ({"folder": "/srv/../etc"}, "must be absolute"),
        ({"python": "python3 -c"}, "python"),
        ({"name": "a/b"}, "name"),
        ({"price_per_gpu_hour": "-1"}, "price_per_gpu_hour"),
        ({"overcommit": 0.5}, "overcommit"),
        ({"password": "x"}, "password"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        HostSettings(**(HOST | changes))


def test_hosts_have_names_of_their_own_and_are_there_or_gone() -> None:
    with pytest.raises(ValidationError, match="two hosts have one name"):
        SshSettings(hosts=(HostSettings(**HOST), HostSettings(**HOST)))
    with pytest.raises(ValidationError, match="ada cannot be gone"):
        SshSettings(hosts=(HostSettings(**HOST),), gone=frozenset({"ada"}))
