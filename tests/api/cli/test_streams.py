"""What the command does when its streams or its arguments are not what one expects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def roost(line: str, home: Path, *arguments: bytes) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `$ROOST` is the command."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    given = {
        "XDG_CONFIG_HOME": str(home),
        "ROOST": f"{sys.executable} -m api.cli",
        "ROOST_URL": "http://127.0.0.1:9",
        "ROOST_TOKEN": "roost_x",
    }
    return subprocess.run(
        ["sh", "-c", line, "sh", *arguments],
        cwd=ROOT,
        env=kept | given,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_closed_streams_are_no_fault(tmp_path: Path) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text("policy: p\nversion: 1\nallow:\n  cpus: 1..4\n")
    for closed in (">&-", "<&- >&-", "<&- >&- 2>&-"):
        done = roost(f"$ROOST policy check --json {policy} {closed}", tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), closed


def test_a_full_stdout_is_told_in_one_line(tmp_path: Path) -> None:
    done = roost("$ROOST --help >/dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["roost: [Errno 28] No space left on device"]


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_an_argument_that_is_no_text_is_wrong_usage(tmp_path: Path, locale: str) -> None:
    line = f'LC_ALL={locale} $ROOST workstation exec desk -- echo "$1"'
    done = roost(line, tmp_path, b"\xff")
    assert done.returncode == 2
    assert "no text: \\udcff" in done.stderr
    assert "UTF-8" in done.stderr
