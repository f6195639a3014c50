from __future__ import annotations

from pathlib import Path

import pytest

from trainer_agent.supervise.batch import (
    LIMIT_BYTES,
    LIMIT_RECORDS,
    log_batch,
    progress_batch,
)


def same(data: bytes) -> bytes:
    return data


def told(path: Path, *, ended: bool = True) -> str:
    """The whole log, batch by batch."""
    text, offset = "", 0
    while batch := log_batch(path, offset, ended=ended, redact=same):
        piece = batch.content["text"]
        assert len(piece.encode()) == batch.end - batch.offset <= LIMIT_BYTES
        text += piece
        offset = batch.end
    return text


@pytest.mark.parametrize("line", ["é✓𝄞" * 100_000, "x" * 17 + "✓" * 200_000, "short\n" * 99_999])
def test_a_log_is_cut_between_characters(tmp_path: Path, line: str) -> None:
    (tmp_path / "log").write_text(line)
    assert told(tmp_path / "log") == line


def test_offsets_stay_true_with_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"a\xff\xfe\xc3\n\0b\xe2\x9c\n")
    assert told(tmp_path / "log") == "a???\n?b??\n"


def test_an_open_line_waits_for_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert log_batch(log, 0, ended=False, redact=same) is None
    log.write_bytes(b"whole\nopen")
    assert told(log, ended=False) == "whole\n"
    log.write_bytes(b"whole\n 10%\r 20%")
    assert told(log, ended=False) == "whole\n 10%\r"
    assert told(log) == "whole\n 10%\r 20%"


def test_records_are_whole_and_others_are_passed_over(tmp_path: Path) -> None:
    progress = tmp_path / "progress"
    progress.write_bytes(b'{"step": 1}\nnoise\n[1]\n{"step": 2}\n{"step": 3')
    batch = progress_batch(progress, 0, ended=False, redact=same)
    assert batch is not None
    assert batch.content["records"] == [{"step": 1}, {"step": 2}]
    assert batch.end == progress.read_bytes().rfind(b"\n") + 1
    assert progress_batch(progress, batch.end, ended=False, redact=same) is None


def test_no_batch_has_more_records_than_are_taken_at_once(tmp_path: Path) -> None:
    progress = tmp_path / "progress"
    progress.write_bytes(b"{}\n" * (LIMIT_RECORDS + 5) + b'{"a":' + b"[" * 9000 + b"\n")
    first = progress_batch(progress, 0, ended=True, redact=same)
    assert first is not None
    assert len(first.content["records"]) == LIMIT_RECORDS
    second = progress_batch(progress, first.end, ended=True, redact=same)
    assert second is not None
    assert len(second.content["records"]) == 5
    assert second.end == progress.stat().st_size
