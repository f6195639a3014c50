"""The recipe as a rank runs it: real processes, real SIGKILL and SIGTERM, the same bits."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CONFIG = {
    "data": "digits",
    "epochs": 8,
    "batch_size": 32,
    "learning_rate": 0.004,
    "checkpoint_every_steps": 20,
}
TOTAL = 362
DEADLINE_S = 60.0
POLL_S = 0.01
BEGINNINGS = ("start", "resumed")


class Rank:
    """One rank's folder, and its processes one after another."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.progress = folder / "progress.jsonl"
        self.uri = (folder / "checkpoints").as_uri()

    def start(self, config: object = CONFIG, **environment: str) -> subprocess.Popen[str]:
        """A process as the agent starts it."""
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "trainer_agent.recipes", "image-classification"),
                *("--config", config if isinstance(config, str) else json.dumps(config)),
            ],
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "WORLD_SIZE": "1",
                "ROOST_CHECKPOINT_URI": self.uri,
                "ROOST_PROGRESS": str(self.progress),
                "ROOST_GRACE_S": "20",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, config: object = CONFIG, **environment: str) -> tuple[int, str]:
        with self.start(config, **environment) as process:
            _out, err = process.communicate(timeout=DEADLINE_S)
        return process.returncode, err

    def records(self, event: str | None = None) -> list[dict[str, Any]]:
        if not self.progress.exists():
            return []
        lines = self.progress.read_bytes().splitlines(keepends=True)
        records = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [record for record in records if event in (None, record["event"])]

    def wait_for_step(self, process: subprocess.Popen[str], step: int, attempt: int) -> None:
        """Until the given attempt, counted from 1, has reported that step or a later one."""

        def reached() -> bool:
            records = self.records()
            begun = [n for n, record in enumerate(records) if record["event"] in BEGINNINGS]
            if len(begun) < attempt:
                return False
            return any(record["step"] >= step for record in records[begun[attempt - 1] :])

        self.wait_until(process, reached)

    def wait_until(self, process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
        """Wait for the condition as long as the process lives."""
        for _ in range(int(DEADLINE_S / POLL_S)):
            if condition():
                return
            try:
                process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                continue
            assert condition(), process.stderr and process.stderr.read()
            return
        raise AssertionError("the deadline passed")


@pytest.fixture
def new_rank(tmp_path: Path) -> Callable[[str], Rank]:
    return lambda name: Rank(tmp_path / name)


@pytest.mark.e2e
def test_kills_and_notices_at_random_moments_change_no_bit(
    new_rank: Callable[[str], Rank],
) -> None:
    straight, hunted = new_rank("straight"), new_rank("hunted")
    # The undisturbed one runs beside the hunted one, so that the test takes half as long.
    with straight.start() as undisturbed:
        draw = random.Random(2026)
        targets = sorted(draw.sample(range(10, TOTAL - 60), 6))
        for number, target in enumerate(targets):
            how = (signal.SIGKILL, signal.SIGTERM)[number % 2]
            with hunted.start() as process:
                hunted.wait_for_step(process, target, attempt=number + 1)
                try:
                    process.wait(draw.random() * 0.2)  # anywhere in a step, a save or a report
                except subprocess.TimeoutExpired:
                    process.send_signal(how)
                process.communicate(timeout=DEADLINE_S)
            assert process.returncode == (-9 if how == signal.SIGKILL else 75)
        assert hunted.run()[0] == 0
        undisturbed.communicate(timeout=DEADLINE_S)
    (expected,), (got,) = straight.records("done"), hunted.records("done")
    assert got["weights_sha256"] == expected["weights_sha256"]
    assert got["accuracy"] == expected["accuracy"] > 0.9
    assert len(hunted.records("resumed")) >= 5
    for record in hunted.records("left"):
        assert record["step"] == record["finished_steps"]


@pytest.mark.e2e
def test_a_notice_while_torch_is_imported(
    new_rank: Callable[[str], Rank],
) -> None:
    rank = new_rank("early")
    config = CONFIG | {"epochs": 1}
    with rank.start(config) as process:
        maps = Path(f"/proc/{process.pid}/maps")
        rank.wait_until(process, lambda: "libtorch_cpu" in maps.read_text())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 75
    assert [record["event"] for record in rank.records()] == ["start", "left"]
    assert rank.run(config)[0] == 0
    assert len(rank.records("done")) == 1


@pytest.mark.e2e
def test_an_unusable_folder_is_74(new_rank: Callable[[str], Rank]) -> None:
    rank = new_rank("unusable")
    (rank.folder / "checkpoints").write_text("a file in the way")
    code, err = rank.run()
    assert code == 74
    assert str(rank.folder / "checkpoints") in err
    assert "Traceback" not in err
    assert [record["event"] for record in rank.records()] == ["error"]


@pytest.mark.e2e
def test_a_wrong_configuration_is_64_and_named(new_rank: Callable[[str], Rank]) -> None:
    rank = new_rank("wrong")
    code, err = rank.run('{"epocs": 3}')
    assert code == 64
    assert "Did you mean 'epochs'?" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"ROOST_CHECKPOINT_URI": ""}, "ROOST_CHECKPOINT_URI is not set"),
        ({"ROOST_GRACE_S": "soon"}, "ROOST_GRACE_S is 'soon'"),
        ({"WORLD_SIZE": "2"}, "ask for one node with one process"),
    ],
)
def test_wrong_surroundings_are_64(
    new_rank: Callable[[str], Rank], environment: dict[str, str], says: str
) -> None:
    code, err = new_rank("surroundings").run(**environment)
    assert code == 64
    assert says in err


def test_an_unknown_recipe_is_64() -> None:
    command = [sys.executable, "-m", "trainer_agent.recipes", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 64
    assert "image-classification" in done.stderr
