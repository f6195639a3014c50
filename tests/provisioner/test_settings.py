from __future__ import annotations

import os
import stat
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from provisioner.clock import SystemClock
from provisioner.errors import StateError
from provisioner.installation import load_installation
from provisioner.settings import Settings, config_file, default_state_folder
from provisioner.statefolder import StateFolder
from provisioner.store.engine import Store


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("ROOST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "roost" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_without_anything_there_are_defaults(tmp_path: Path) -> None:
    settings = Settings.load()
    assert settings.state == tmp_path / "data" / "roost" == default_state_folder()
    assert (settings.host, settings.port) == ("127.0.0.1", 8470)
    assert settings.database == f"sqlite:///{settings.state}/roost.db"
    assert config_file() == tmp_path / "config" / "roost" / "config.toml"


def test_file_then_environment_then_flags(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("port = 1001\ntick_s = 2.0\nheartbeat_s = 3.0\n")
    monkeypatch.setenv("ROOST_PORT", "1002")
    monkeypatch.setenv("ROOST_TICK_S", "4.0")
    settings = Settings.load(port=1003, tick_s=None)
    assert (settings.port, settings.tick_s, settings.heartbeat_s) == (1003, 4.0, 3.0)


def test_tables_are_merged_value_by_value(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('[local]\ncurrency = "EUR"\nlimits = "enforce"\nprice_per_cpu_hour = "0.07"\n')
    monkeypatch.setenv("ROOST_LOCAL__LIMITS", "none")
    local = Settings.load().local
    assert (local.currency, local.limits) == ("EUR", "none")
    assert local.price_per_cpu_hour == Decimal("0.07")
    flagged = Settings.load(local={"currency": "CHF"}).local
    assert (flagged.currency, flagged.limits) == ("CHF", "none")


def test_what_belongs_to_the_client_and_the_agent_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROOST_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("ROOST_TOKEN", "roost_x")
    monkeypatch.setenv("ROOST_INSTANCE_ID", "ins_1")
    assert Settings.load().public_url is None


def test_all_wrong_values_are_named_at_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("prot = 1\ntick_s = 0\n")
    monkeypatch.setenv("ROOST_PORT", "70000")
    monkeypatch.setenv("ROOST_LOCAL__CURENCY", "EUR")
    with pytest.raises(StateError) as error:
        Settings.load()
    for name in ("prot", "tick_s", "port", "local.curency"):
        assert name in str(error.value)


@pytest.mark.parametrize("content", [b"port = ", b"\xff\xfe\x00", b"a = 1\na = 2\n"])
def test_a_file_that_cannot_be_read_is_named(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(StateError, match=r"config\.toml"):
        Settings.load()


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"missing\.toml"):
        Settings.load(tmp_path / "missing.toml")


# ---- the state folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_and_the_key_are_its_owners_alone(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "deep" / "state")
    old = os.umask(0)
    try:
        folder.prepare()
    finally:
        os.umask(old)
    assert mode(folder.path) == 0o700
    assert all(mode(part) == 0o700 for part in (folder.machines, folder.jobs, folder.wheels))


def test_the_key_is_made_once_and_kept(lite: Store, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        first = load_installation(lite, tmp_path, SystemClock())
    finally:
        os.umask(old)
    assert mode(tmp_path / "key") == 0o600
    again = load_installation(lite, tmp_path, SystemClock())
    assert (again.id, again.key) == (first.id, first.key)
    assert again.bootstrap_token("a") == first.bootstrap_token("a") != first.bootstrap_token("b")
    assert first.key.decode() not in repr(first.bootstrap_token("a"))


def test_a_damaged_key_is_said_and_not_replaced(lite: Store, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("short")
    with pytest.raises(StateError, match="damaged"):
        load_installation(lite, tmp_path, SystemClock())
    assert (tmp_path / "key").read_text() == "short"


def test_a_folder_is_used_by_one_control_plane(tmp_path: Path) -> None:
    first, second = StateFolder(tmp_path), StateFolder(tmp_path)
    first.lock()
    with pytest.raises(StateError, match=f"process {os.getpid()}"):
        second.lock()
    first.unlock()
    second.lock()
    second.unlock()


def test_a_control_plane_that_was_killed_holds_no_lock(tmp_path: Path) -> None:
    code = (
        "import sys, os, signal; from pathlib import Path;"
        "from provisioner.statefolder import StateFolder;"
        "folder = StateFolder(Path(sys.argv[1])); folder.lock();"
        "print('locked', flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert run.stdout == "locked\n", run.stderr
    folder = StateFolder(tmp_path)
    folder.lock()
    folder.unlock()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="file/state"):
        StateFolder(tmp_path / "file" / "state").prepare()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('tls_certificate = "/a.pem"', "belong together"),
        ('tls_key = "/a.key"', "belong together"),
        ('[machines]\npackages = ["--index-url=http://a"]', r"machines\.packages\.0"),
        ('[machines]\npackages = ["torch>=2"]', r"machines\.packages\.0"),
        ('[machines]\npackage_index = "http://mirror.example.org"', "https"),
        ('[machines]\npackage_index = "https://me:secret@mirror.example.org"', "no password"),
        ('[machines]\ngpu_driver = "570"', r"machines\.gpu_driver"),
    ],
)
def test_what_machines_elsewhere_would_suffer_from_is_refused(
    file: Path, text: str, words: str
) -> None:
    file.write_text(text)
    with pytest.raises(StateError, match=words):
        Settings.load()


def test_machines_elsewhere(file: Path) -> None:
    file.write_text(
        'tls_certificate = "/a.pem"\ntls_key = "/a.key"\n[machines]\npython = "/opt/bin/python"\n'
        'packages = ["torch==2.9.0+cu128", "numpy"]\npackage_index = "https://mirror.example.org"\n'
    )
    machines = Settings.load().machines
    assert machines.packages == ("torch==2.9.0+cu128", "numpy")
    assert machines.python == "/opt/bin/python"
