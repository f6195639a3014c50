"""Saving, loading, damage, retention."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from trainer_agent.checkpoint.errors import DamagedError
from trainer_agent.checkpoint.store import CheckpointStore, Skipped

Open = Callable[..., CheckpointStore]
Save = Callable[..., str]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "c").iterdir())


def test_what_is_saved_is_loaded(opened: Open, save: Save) -> None:
    save(opened(), 7)
    loaded = opened().load_latest()
    assert loaded is not None
    assert torch.equal(loaded.state["weights"], torch.full((500,), 7.0))
    assert loaded.state["generators"] == ("a", (1, 2))
    manifest = loaded.manifest
    assert (manifest.step, manifest.position, manifest.fingerprint) == (7, 56, "f")
    assert manifest.made_with["torch"] == torch.__version__
    assert manifest.made_with["threads"] == torch.get_num_threads()
    assert manifest.at == "2026-01-02T03:04:05+00:00"


def test_an_empty_folder_has_none(opened: Open) -> None:
    assert opened().load_latest() is None


def test_the_newest_by_number_is_loaded(opened: Open, save: Save) -> None:
    store = opened(keep=5)
    for step in (9, 10, 10**10, 10**10 + 1):
        save(store, step)
    loaded = opened().load_latest()
    assert loaded is not None
    assert loaded.manifest.step == 10**10 + 1


def test_only_the_newest_ones_are_kept(opened: Open, tmp_path: Path, save: Save) -> None:
    store = opened(keep=2)
    for step in (1, 2, 3, 4):
        save(store, step)
    assert names(tmp_path) == ["step-0000000003", "step-0000000004"]


def test_one_that_was_not_read_back_clean_deletes_nothing(
    opened: Open, tmp_path: Path, save: Save
) -> None:
    save(opened(keep=1), 1)
    target = tmp_path / "c" / "step-0000000002" / "state.pt"

    def bad_disk(point: str) -> None:
        if point == "state.pt:renamed":
            target.write_bytes(flipped(target.read_bytes(), 4000))

    with pytest.raises(DamagedError, match=r"step-0000000002 in .* is damaged: the checksum"):
        save(opened(keep=1, reached=bad_disk), 2)
    loaded = opened().load_latest()
    assert loaded is not None
    assert loaded.manifest.step == 1
    assert names(tmp_path) == ["step-0000000001"]


def test_a_step_saved_again_overwrites_nothing(opened: Open, tmp_path: Path, save: Save) -> None:
    store = opened(keep=3)
    save(store, 5)
    before = (tmp_path / "c/step-0000000005/state.pt").stat()
    assert save(store, 5) == "step-0000000005-2"
    assert (tmp_path / "c/step-0000000005/state.pt").stat() == before
    loaded = opened().load_latest()
    assert loaded is not None
    assert loaded.name == "step-0000000005-2"


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("file", ["state.pt", "manifest.json"])
def test_every_flipped_bit_is_seen(opened: Open, tmp_path: Path, file: str, save: Save) -> None:
    store = opened()
    save(store, 1, size=16)
    save(store, 2, size=16)
    target = tmp_path / "c" / "step-0000000002" / file
    whole = target.read_bytes()
    chosen = random.Random(20).sample(range(len(whole) * 8), 300)
    for bit in chosen:
        target.write_bytes(flipped(whole, bit))
        skipped: list[Skipped] = []
        loaded = store.load_latest(skipped.append)
        assert loaded is not None, bit
        assert loaded.manifest.step == 1, bit
        assert [skip.name for skip in skipped] == ["step-0000000002"], bit
    target.write_bytes(whole)
    latest = store.load_latest()
    assert latest is not None
    assert latest.manifest.step == 2


@pytest.mark.parametrize(
    ("file", "length", "why"),
    [
        ("state.pt", 0, "state.pt has 0 bytes, the manifest says"),
        ("state.pt", 700, "state.pt has 700 bytes, the manifest says"),
        ("state.pt", None, "state.pt is missing"),
        ("manifest.json", 0, "the manifest is not JSON"),
        ("manifest.json", 100, "the manifest is not JSON"),
    ],
)
def test_truncated_and_missing_files_are_passed_over(
    opened: Open, tmp_path: Path, file: str, length: int | None, why: str, save: Save
) -> None:
    store = opened()
    save(store, 1)
    save(store, 2)
    target = tmp_path / "c" / "step-0000000002" / file
    if length is None:
        target.unlink()
    else:
        target.write_bytes(target.read_bytes()[:length])
    skipped: list[Skipped] = []
    loaded = opened().load_latest(skipped.append)
    assert loaded is not None
    assert loaded.manifest.step == 1
    assert len(skipped) == 1
    assert skipped[0].why.startswith(why)


def test_all_damaged_is_none_and_all_are_reported(opened: Open, tmp_path: Path, save: Save) -> None:
    store = opened()
    for step in (1, 2):
        save(store, step)
        (tmp_path / f"c/step-000000000{step}/state.pt").write_bytes(b"x")
    skipped: list[Skipped] = []
    assert opened().load_latest(skipped.append) is None
    assert [skip.name for skip in skipped] == ["step-0000000002", "step-0000000001"]


def test_a_damaged_one_never_counts_as_one_of_those_kept(
    opened: Open, tmp_path: Path, save: Save
) -> None:
    store = opened(keep=2)
    for step in (1, 2):
        save(store, step)
    (tmp_path / "c/step-0000000002/state.pt").write_bytes(b"x")
    store = opened(keep=2)
    store.load_latest()
    save(store, 3)
    assert names(tmp_path) == ["step-0000000001", "step-0000000003"]


def test_code_in_a_state_is_not_run(opened: Open, tmp_path: Path, save: Save) -> None:
    store = opened()
    save(store, 1)
    store.save(2, {"weights": Path("/evil")}, position=0, fingerprint="f")
    skipped: list[Skipped] = []
    loaded = opened().load_latest(skipped.append)
    assert loaded is not None
    assert loaded.manifest.step == 1
    assert "cannot read it" in skipped[0].why


def test_leftovers_are_cleared_and_strangers_are_not(
    opened: Open, tmp_path: Path, save: Save
) -> None:
    save(opened(), 1)
    partial = tmp_path / "c" / "step-0000000002"
    partial.mkdir()
    (partial / "state.pt.tmp").write_bytes(b"half")
    (tmp_path / "c" / "final.json.tmp").write_bytes(b"half")
    (tmp_path / "c" / "notes.txt").write_text("mine")
    opened()
    assert names(tmp_path) == ["notes.txt", "step-0000000001"]


def test_keep_of_none_is_refused(open_at: Open) -> None:
    with pytest.raises(ValueError, match="keep must be at least 1"):
        open_at("file:///nowhere", 0)


def test_an_object_store_works_the_same(save: Save, open_at: Open) -> None:
    store = open_at("memory://bucket/job")
    store.prepare()
    assert store.load_latest() is None
    for step in (1, 2, 3):
        save(store, step)
    assert store.files.names() == ["step-0000000002", "step-0000000003"]
    store.files.write("step-0000000003/state.pt", b"other")
    skipped: list[Skipped] = []
    loaded = store.load_latest(skipped.append)
    assert loaded is not None
    assert loaded.manifest.step == 2
    assert len(skipped) == 1
