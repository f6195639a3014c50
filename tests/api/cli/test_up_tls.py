"""`roost up` that serves TLS itself, and everybody who calls it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.cli.test_end_to_end import Up, up
from tests.api.cli.test_loading import roost
from tests.api.conftest import wait_until
from tests.certificates import Certificate, certificate

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("tls"), "roost", "127.0.0.1")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, shown: Certificate) -> Iterator[Up]:
    home = tmp_path_factory.mktemp("home")
    with up(home, "--port", "0", "--config", str(config(home, shown))) as started:
        yield started


def config(folder: Path, shown: Certificate, more: str = "") -> Path:
    path = folder / "config.toml"
    path.write_text(f'tls_certificate = "{shown.path}"\ntls_key = "{shown.key}"\n{more}')
    return path


def test_machines_and_the_command_call_it_by_the_pinned_certificate(running: Up) -> None:
    assert running.first["url"].startswith("https://127.0.0.1:")
    made = running.json("workstation", "create", "desk", "--cpus", "0.5", "--wait")
    assert isinstance(made, dict)
    assert made["phase"] == "ready", "its agent called in"
    running.json("workstation", "delete", "desk", "--yes")
    wait_until(lambda: running.json("instance", "list") == [], 60)


def test_others_name_who_vouches_for_it(running: Up, shown: Certificate, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(running.first["admin_token"])
    line = ("login", running.first["url"], "--token-file", str(token))
    refused = roost(*line, home=tmp_path)
    assert refused.returncode != 0
    assert "roost login --ca FILE" in refused.stderr
    named = roost(*line, home=tmp_path, ROOST_CA_FILE=str(shown.path))
    assert named.returncode == 0, named.stderr
    trusting = roost(*line, "--ca", str(shown.path), home=tmp_path)
    assert trusting.returncode == 0, trusting.stderr
    assert roost("status", home=tmp_path).returncode == 0, "it is stored"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('host = "0.0.0.0"', "none that a machine could call"),
        ('public_url = "https://roost.example.org"', "does not vouch for roost.example.org"),
    ],
)
def test_what_does_not_fit_stops_the_start(
    tmp_path: Path, shown: Certificate, more: str, words: str
) -> None:
    done = start(tmp_path, config(tmp_path, shown, more))
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_an_open_address_without_tls_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('host = "0.0.0.0"\n')
    done = start(tmp_path, path)
    assert done.returncode != 0
    assert "unencrypted" in done.stderr
    assert "tls_certificate" in done.stderr


def start(home: Path, config: Path) -> subprocess.CompletedProcess[str]:
    line = ("up", "--port", "0", "--state", str(home / "state"), "--config", str(config))
    return roost(*line, home=home, ROOST_LOCAL__LIMITS="none")
