"""What the loop reports, when it leaves, and what it refuses."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer_agent.checkpoint.errors import CheckpointError
from trainer_agent.checkpoint.files import LocalFiles
from trainer_agent.checkpoint.serial import weights_sha256
from trainer_agent.train.loop import DivergedError, OtherConfigurationError
from trainer_agent.train.signals import Notice
from trainer_agent.train.training import Training


def test_a_training_from_start_to_done(job: Any) -> None:
    assert job.attempt() == 0
    events = [record["event"] for record in job.records()]
    assert events[0] == "start"
    assert events[-1] == "done"
    assert [record["step"] for record in job.records("checkpoint")] == [7, 14, 21, 28, 35, 42]
    assert {record["total_steps"] for record in job.records()} == {46}
    (done,) = job.records("done")
    assert done["step"] == 46
    assert done["accuracy"] > 0.2
    weights = torch.load(job.checkpoints / "final.pt", weights_only=True)
    assert weights_sha256(weights) == done["weights_sha256"]
    report = json.loads((job.checkpoints / "final.json").read_text())
    assert report["weights_sha256"] == done["weights_sha256"]


def test_a_finished_training_says_done_again_and_does_nothing(job: Any) -> None:
    job.attempt()
    before = sorted(path.stat().st_mtime_ns for path in job.checkpoints.rglob("*.pt"))
    assert job.attempt() == 0
    first, second = job.records("done")
    assert second["weights_sha256"] == first["weights_sha256"]
    assert job.records()[-2] == first
    assert sorted(path.stat().st_mtime_ns for path in job.checkpoints.rglob("*.pt")) == before


def test_a_damaged_result_is_made_again(job: Any) -> None:
    job.attempt()
    (job.checkpoints / "final.pt").write_bytes(b"nothing")
    assert job.attempt() == 0
    first, second = job.records("done")
    assert second["weights_sha256"] == first["weights_sha256"]
    weights = torch.load(job.checkpoints / "final.pt", weights_only=True)
    assert weights_sha256(weights) == first["weights_sha256"]


def test_a_notice_before_the_first_step(job: Any) -> None:
    def already(training: Training, notice: Notice) -> Training:
        notice.give()
        return training

    assert job.attempt(already) == 75
    assert [record["event"] for record in job.records()] == ["start", "left"]
    assert job.records("left")[0]["step"] == 0


def noticed_in_evaluation(training: Training, notice: Notice) -> Training:
    def evaluate(stop: Callable[[], bool]) -> float | None:
        notice.give()
        return training.evaluate(stop)

    return replace(training, evaluate=evaluate)


@pytest.mark.parametrize(("eval_every_steps", "left_at"), [(10, 10), (0, 46)])
def test_a_notice_in_the_evaluation(job: Any, eval_every_steps: int, left_at: int) -> None:
    assert job.attempt(noticed_in_evaluation, eval_every_steps=eval_every_steps) == 75
    assert job.records("left")[0]["step"] == left_at
    assert job.attempt() == 0
    assert job.records("resumed")[0]["step"] == left_at


def test_with_too_little_time_the_last_checkpoint_has_to_do(job: Any) -> None:
    def late(training: Training, notice: Notice) -> Training:
        def learning_rate(step: int) -> float:
            if step == 9:
                notice._grace_s = 0.0
                notice.give()
            return training.learning_rate(step)

        return replace(training, learning_rate=learning_rate)

    assert job.attempt(late) == 75
    (left,) = job.records("left")
    assert (left["step"], left["finished_steps"]) == (7, 10)
    (skipped,) = job.records("skipped-checkpoint")
    assert "s are left" in skipped["message"]


def test_a_failed_checkpoint_is_reported_and_training_goes_on(
    job: Any, monkeypatch: pytest.MonkeyPatch, uninterrupted: str
) -> None:
    full = iter([None, 10, 10])
    monkeypatch.setattr(LocalFiles, "free_bytes", lambda _self: next(full, None))
    assert job.attempt() == 0
    skipped = job.records("skipped-checkpoint")
    assert [record["step"] for record in skipped] == [14, 21]
    assert all("10 are free" in record["message"] for record in skipped)
    assert [record["step"] for record in job.records("checkpoint")] == [7, 28, 35, 42]
    assert job.weights_sha256() == uninterrupted


def test_an_unreadable_disk_is_named_in_the_report(
    job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = LocalFiles.write

    def failing(self: LocalFiles, name: str, *rest: Any) -> None:
        if name == "step-0000000021/state.pt":
            raise OSError(errno.EIO, "Input/output error")
        write(self, name, *rest)

    monkeypatch.setattr(LocalFiles, "write", failing)
    assert job.attempt() == 0
    (skipped,) = job.records("skipped-checkpoint")
    assert skipped["step"] == 21
    assert str(job.checkpoints) in skipped["message"]
    assert "Input/output error" in skipped["message"]
    assert [record["step"] for record in job.records("checkpoint")] == [7, 14, 28, 35, 42]


def test_an_unusable_folder_stops_at_once(job: Any, tmp_path: Path) -> None:
    job.checkpoints = tmp_path / "file" / "c"
    (tmp_path / "file").write_text("in the way")
    job.progress = tmp_path / "p.jsonl"
    with pytest.raises(CheckpointError, match=str(tmp_path / "file")):
        job.attempt()
    assert job.records() == []


@pytest.mark.parametrize("finished", [True, False])
def test_the_folder_of_another_training_is_refused(job: Any, finished: bool) -> None:
    job.attempt()
    if not finished:
        (job.checkpoints / "final.json").unlink()
    with pytest.raises(OtherConfigurationError, match="another configuration"):
        job.attempt(seed=1)
    assert job.attempt(keep=5) == 0


def test_a_loss_that_is_no_number_ends_the_training(job: Any) -> None:
    def diverging(training: Training, _notice: Notice) -> Training:
        return replace(training, loss=lambda *given: training.loss(*given) * float("nan"))

    with pytest.raises(DivergedError, match="lower the learning rate"):
        job.attempt(diverging)
    assert job.records("checkpoint") == []


def test_resuming_takes_the_threads_of_the_checkpoint(job: Any) -> None:
    assert job.attempt(noticed_in_evaluation, threads=2, epochs=1) == 75
    assert job.attempt(threads=None, epochs=1) == 0
    assert torch.get_num_threads() == 2
    (resumed,) = job.records("resumed")
    assert resumed["message"] is None


def test_another_number_of_threads_by_choice_is_said(job: Any) -> None:
    assert job.attempt(noticed_in_evaluation, threads=2, epochs=1) == 75
    assert job.attempt(threads=1, epochs=1) == 0
    (resumed,) = job.records("resumed")
    assert resumed["message"].endswith("threads 2 -> 1.")
