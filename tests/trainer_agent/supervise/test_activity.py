from __future__ import annotations

import os
import pty
from datetime import UTC, datetime
from pathlib import Path

from trainer_agent.supervise.activity import LastInput
from trainer_agent.supervise.telemetry import GpuMeter, Meter

NOW = datetime(2040, 1, 1, tzinfo=UTC)


class Then:
    def now(self) -> datetime:
        return NOW


def test_the_newest_sign_counts(tmp_path: Path) -> None:
    quiet = LastInput(tmp_path, terminals=False, clock=Then())
    assert quiet.measure() == {"last_input_age_s": None}
    (tmp_path / "activity").touch()
    os.utime(tmp_path / "activity", (0, NOW.timestamp() - 42))
    assert quiet.measure() == {"last_input_age_s": 42.0}


def test_terminals_count_only_when_asked_for(tmp_path: Path) -> None:
    outer, inner = pty.openpty()
    try:
        os.utime(os.ttyname(inner), (NOW.timestamp() - 7, 0))
        watching = LastInput(tmp_path, terminals=True, clock=Then())
        assert watching.measure() == {"last_input_age_s": 7.0}
        assert (
            LastInput(tmp_path, terminals=False, clock=Then()).measure()["last_input_age_s"] is None
        )
    finally:
        os.close(outer)
        os.close(inner)


def test_the_machine_is_measured(tmp_path: Path) -> None:
    meter = Meter(tmp_path, GpuMeter())
    sum(range(2_000_000))
    measured = meter.measure()
    assert measured["cpu_percent"] is None or 0 <= measured["cpu_percent"] <= 100
    assert measured["memory_bytes"] is not None
    assert measured["memory_bytes"] > 1 << 20
    assert measured["disk_free_bytes"] is not None
    assert measured["disk_free_bytes"] > 0
