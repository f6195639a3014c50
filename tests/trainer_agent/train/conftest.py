"""Trainings on the digits, small enough for a fraction of a second, with dropout and shifts on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer_agent.checkpoint.store import CheckpointStore
from trainer_agent.clock import SystemClock
from trainer_agent.recipes import image_classification
from trainer_agent.recipes.strict import parse
from trainer_agent.train.loop import train
from trainer_agent.train.progress import Progress
from trainer_agent.train.signals import Notice
from trainer_agent.train.training import Training

SMALL: dict[str, Any] = {
    "data": "digits",
    "epochs": 2,
    "batch_size": 64,
    "width": 4,
    "learning_rate": 0.01,
    "checkpoint_every_steps": 7,
    "threads": 1,
}
Change = Callable[[Training, Notice], Training]


@pytest.fixture(autouse=True)
def settings_put_back() -> Iterator[None]:
    """Training changes settings of the whole process."""
    threads = torch.get_num_threads()
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


class Job:
    """One job: a folder of checkpoints and a file of progress, for any number of attempts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.checkpoints = folder / "checkpoints"
        self.progress = folder / "progress.jsonl"
        self.notice = Notice(30.0)

    def attempt(self, change: Change = lambda training, _notice: training, **config: Any) -> int:
        """Build anew, as a new process would, and train; `change` puts the accident in."""
        parsed = parse(image_classification.Config, json.dumps(SMALL | config))
        self.notice = Notice(30.0)
        training = change(image_classification.build(parsed, 1), self.notice)
        clock = SystemClock()
        store = CheckpointStore(self.checkpoints.as_uri(), parsed.keep, clock=clock)
        progress = Progress(self.progress, clock=clock)
        progress.total_steps = training.batches.total_steps
        try:
            return train(training, store, progress, self.notice, clock)
        finally:
            progress.close()

    def records(self, event: str | None = None) -> list[dict[str, Any]]:
        lines = self.progress.read_text().splitlines()
        records = [json.loads(line) for line in lines]
        return [record for record in records if event in (None, record["event"])]

    def weights_sha256(self) -> str:
        (done,) = self.records("done")[:1]
        return str(done["weights_sha256"])


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "job")


@pytest.fixture
def new_job(tmp_path: Path) -> Callable[[str], Job]:
    return lambda name: Job(tmp_path / name)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The hash of the weights of the small training that nobody disturbed."""
    job = Job(tmp_path_factory.mktemp("uninterrupted") / "job")
    assert job.attempt() == 0
    return job.weights_sha256()
