"""The progress file: whole lines, whatever happened to the writer before."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from trainer_agent.clock import SystemClock
from trainer_agent.train.progress import Progress


def test_records_are_appended_as_lines(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    for attempt in range(2):
        progress = Progress(path, clock=SystemClock())
        progress.total_steps = 9
        progress.record("step", attempt, loss=0.5)
        progress.close()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["step"] for record in records] == [0, 1]
    assert records[0]["loss"] == 0.5
    assert records[0]["at"].endswith("+00:00")


def test_a_torn_line_spoils_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"event": "st')
    progress = Progress(path, clock=SystemClock())
    progress.record("step", 1)
    progress.record("step", 2)
    progress.close()
    torn, *whole = path.read_text().splitlines()
    assert torn == '{"event": "st'
    assert [json.loads(line)["step"] for line in whole] == [1, 2]


def test_without_a_path_nothing_happens() -> None:
    progress = Progress(None, clock=SystemClock())
    progress.record("step", 1)
    progress.close()


def test_a_full_disk_does_not_stop_the_training(capsys: pytest.CaptureFixture[str]) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    progress = Progress(Path("/dev/full"), clock=SystemClock())
    progress.record("step", 3)
    progress.close()
    assert "record of step 3 is lost" in capsys.readouterr().err


def test_a_place_that_cannot_be_opened_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress(tmp_path / "missing" / "p.jsonl", clock=SystemClock())
    progress.record("step", 1)
    assert capsys.readouterr().err.count("nothing will be reported") == 1
