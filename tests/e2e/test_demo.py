"""The demo as people start it: what it prints, and that it leaves nothing, however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.plane import wait_until

pytestmark = pytest.mark.e2e

LIMIT_S = 400.0
KEYS = {
    "ok",
    "accuracy",
    "interruptions",
    "weights_sha256",
    "reference_weights_sha256",
    "cost",
    "on_demand_cost",
    "currency",
    "forecast",
    "report",
    "seconds",
    "checks",
    "error",
}


class Demo:
    """A demo in a process and a temporary folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {key: text for key, text in os.environ.items() if not key.startswith("ROOST_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "api.cli", "demo", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=kept | {"TMPDIR": str(folder), "COLUMNS": "200"},
            start_new_session=True,
        )
        self.lines: list[str] = []
        self.machines: set[str] = set()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        self.lines.extend(self._process.stderr)

    def wait_for(self, words: str) -> None:
        """Until a line of the screen has these words."""

        def said() -> bool:
            assert self._process.poll() is None, self.screen
            return any(words in line for line in list(self.lines))

        wait_until(said, f"the demo says {words!r}")

    @property
    def screen(self) -> str:
        return "".join(self.lines)

    def interrupt(self) -> None:
        """Ctrl-C; the machines of this moment are remembered, by their markers."""
        self.machines = _machines(str(self.folder))
        self._process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, dict[str, Any]]:
        """Its exit code and what it printed."""
        assert self._process.stdout is not None
        printed = self._process.stdout.read()
        code = self._process.wait(LIMIT_S)
        self._reader.join()
        return code, json.loads(printed)

    def close(self) -> None:
        """Let it clean up after a test that failed in between."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait(LIMIT_S)
        self._reader.join()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def left(self) -> list[str]:
        """Processes that have something of this demo in their environment, and its folders."""
        processes = {
            f"process {pid}: {name}"
            for words in (str(self.folder), *self.machines)
            for pid, name in _processes(words)
        }
        return sorted(processes) + [f"folder {path}" for path in self.folder.glob("roost-demo-*")]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    started = Demo(tmp_path)
    yield started
    started.close()


def test_every_claim_holds_and_nothing_is_left(demo: Demo) -> None:
    code, told = demo.end()
    assert code == 0, (told["error"], demo.screen)
    assert set(told) == KEYS
    assert told["ok"] is True
    assert told["error"] is None
    assert all(check["held"] for check in told["checks"])
    assert told["accuracy"] >= 0.9
    assert told["weights_sha256"] == told["reference_weights_sha256"]
    announced, killed = told["interruptions"]
    assert (announced["notice"], announced["steps_redone"]) == (True, 0)
    assert (killed["notice"], killed["steps_redone"] <= 20) == (False, True)
    assert float(told["cost"]) < float(told["on_demand_cost"])
    assert "<svg" in Path(told["report"]).read_text()
    assert demo.left() == []


@pytest.mark.parametrize(
    ("moment", "machines"),
    [
        pytest.param("a workstation and a spot training job", 0, id="while-it-starts"),
        pytest.param("A workstation for Ana", 0, id="while-a-machine-boots"),
        pytest.param("The spot market takes the machine twice", 0, id="while-jobs-are-placed"),
        pytest.param("s notice", 2, id="while-a-machine-is-reclaimed"),
    ],
)
def test_an_interrupted_demo_leaves_nothing(demo: Demo, moment: str, machines: int) -> None:
    """`machines` is how many there are at that moment at least."""
    demo.wait_for(moment)
    assert demo.left()
    demo.interrupt()
    assert len(demo.machines) >= machines
    code, told = demo.end()
    assert code == 130, demo.screen
    assert told["error"] == "interrupted"
    assert told["checks"][-1] == {
        "claim": "nothing is left behind",
        "held": True,
        "seen": "no process, no machine",
    }
    assert demo.left() == []


def _machines(text: str) -> set[str]:
    """The markers of machines whose processes have `text` in their environment."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "environ").read_bytes().decode(errors="replace")
            if text in words:
                found |= {w for w in words.split("\0") if w.startswith("ROOST_MACHINE=")}
    return found


def _processes(text: str) -> Iterator[tuple[int, str]]:
    """Living processes with `text` in their environment or arguments."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
            if text.encode() in words and alive:
                yield int(entry.name), (entry / "comm").read_text().strip()
