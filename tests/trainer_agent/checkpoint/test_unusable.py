"""Folders that are full, read-only, forbidden or no folders: named, cleaned up, nothing lost."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from trainer_agent.checkpoint.errors import CheckpointError, NoSpaceError, StoreUnusableError
from trainer_agent.checkpoint.store import CheckpointStore

Open = Callable[..., CheckpointStore]
Save = Callable[..., str]

NOBODY = 65534


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of one mebibyte, where the system lets us mount one."""
    path = Path(tempfile.mkdtemp(prefix="small-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    mounted = False
    with suppress(OSError):
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    if not mounted:
        path.rmdir()
        pytest.skip("mounting needs root; the file size limit test covers the same code")
    yield path
    subprocess.run(["umount", str(path)], check=True)
    path.rmdir()


def test_too_little_room_is_seen_before_writing(
    small_disk: Path, save: Save, open_at: Open
) -> None:
    store = open_at(small_disk)
    store.prepare()
    save(store, 1)
    with pytest.raises(NoSpaceError, match=r"step 2 in .*small-disk.* are free") as raised:
        save(store, 2, size=300_000)
    assert "Free some space there" in str(raised.value)
    assert os.listdir(small_disk) == ["step-0000000001"]


def test_a_disk_that_fills_up_meanwhile(small_disk: Path, save: Save, open_at: Open) -> None:
    save(open_at(small_disk), 1)

    def fill(point: str) -> None:
        if point == "state.pt:half-written":
            with suppress(OSError), (small_disk / "somebody-elses").open("wb", 0) as file:
                while True:
                    file.write(bytes(4096))

    with pytest.raises(NoSpaceError, match=r"save the checkpoint of step 2 in .* is full"):
        save(open_at(small_disk, reached=fill), 2, size=50_000)
    assert sorted(os.listdir(small_disk)) == ["somebody-elses", "step-0000000001"]
    loaded = open_at(small_disk).load_latest()
    assert loaded is not None
    assert loaded.manifest.step == 1


def test_a_read_only_file_system(small_disk: Path, save: Save, open_at: Open) -> None:
    save(open_at(small_disk), 1)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StoreUnusableError, match="the file system is read-only"):
        open_at(small_disk).prepare()
    with pytest.raises(StoreUnusableError, match="the file system is read-only"):
        save(open_at(small_disk), 2)
    loaded = open_at(small_disk).load_latest()
    assert loaded is not None
    assert loaded.manifest.step == 1


def test_the_file_size_limit(opened: Open, tmp_path: Path, save: Save) -> None:
    save(opened(), 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(NoSpaceError, match="the file size limit is full"):
            save(opened(), 2, size=50_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path / "c") == ["step-0000000001"]
    assert save(opened(), 3, size=50_000) == "step-0000000003"


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, which would be let in everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def forbidden(save: Save, open_at: Open) -> Iterator[Path]:
    """A folder that may be read and not be written."""
    path = Path(tempfile.mkdtemp(prefix="forbidden-"))
    save(open_at(path), 1)
    path.chmod(0o555)
    yield path
    path.chmod(0o755)
    subprocess.run(["rm", "-r", str(path)], check=True)


def test_a_folder_without_permission(forbidden: Path, save: Save, open_at: Open) -> None:
    with as_nobody():
        with pytest.raises(StoreUnusableError, match=r"forbidden-.*: no permission") as raised:
            open_at(forbidden).prepare()
        assert "Let this user write there" in raised.value.remedy
        with pytest.raises(StoreUnusableError, match="no permission"):
            save(open_at(forbidden), 2)
        with pytest.raises(StoreUnusableError, match="no permission"):
            open_at(forbidden / "deeper").prepare()
        loaded = open_at(forbidden).load_latest()
    assert loaded is not None
    assert loaded.manifest.step == 1


def test_a_file_in_the_way(tmp_path: Path, open_at: Open) -> None:
    (tmp_path / "file").write_text("not a folder")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(CheckpointError, match=str(path)):
            open_at(path).prepare()
    assert (tmp_path / "file").read_text() == "not a folder"


@pytest.mark.parametrize("address", ["relative/path", "file://c", "nosuch://bucket/x", "/absolute"])
def test_an_address_that_means_nothing(address: str, open_at: Open) -> None:
    with pytest.raises(StoreUnusableError, match=re.escape(repr(address))):
        open_at(address)


def test_an_escaped_address_is_the_folder_it_means(
    tmp_path: Path, save: Save, open_at: Open
) -> None:
    store = open_at(tmp_path / "with blank: and 100%")
    store.prepare()
    save(store, 1)
    assert (tmp_path / "with blank: and 100%" / "step-0000000001").is_dir()
