"""Resumed equals uninterrupted, bit for bit, wherever the training is cut."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from trainer_agent.train import randomness
from trainer_agent.train.signals import Notice
from trainer_agent.train.training import Training

TOTAL = 46
NewJob = Callable[[str], Any]


class PowerCutError(BaseException):
    """Nothing in the loop may catch it, as nothing catches a kill."""


def killed_at(step: int) -> Callable[[Training, Notice], Training]:
    def change(training: Training, _notice: Notice) -> Training:
        def learning_rate(now: int) -> float:
            if now == step:
                raise PowerCutError
            return training.learning_rate(now)

        return replace(training, learning_rate=learning_rate)

    return change


def noticed_at(step: int) -> Callable[[Training, Notice], Training]:
    def change(training: Training, notice: Notice) -> Training:
        def learning_rate(now: int) -> float:
            if now == step:
                notice.give()
            return training.learning_rate(now)

        return replace(training, learning_rate=learning_rate)

    return change


@pytest.mark.parametrize("cut", [0, 1, 6, 7, 8, 13, 22, 23, 24, 44, 45])
def test_a_kill_at_any_step(new_job: NewJob, uninterrupted: str, cut: int) -> None:
    job = new_job("killed")
    with pytest.raises(PowerCutError):
        job.attempt(killed_at(cut))
    assert job.attempt() == 0
    assert job.weights_sha256() == uninterrupted
    resumed = [record["step"] for record in job.records("resumed")]
    assert resumed == ([] if cut < 7 else [cut // 7 * 7])


@pytest.mark.parametrize("cut", [0, 1, 6, 13, 22, 45])
def test_a_notice_at_any_step_loses_no_step(new_job: NewJob, uninterrupted: str, cut: int) -> None:
    job = new_job("noticed")
    assert job.attempt(noticed_at(cut)) == 75
    assert job.records("left")[0]["step"] == cut + 1
    assert job.attempt() == 0
    assert [record["step"] for record in job.records("resumed")] == [cut + 1]
    assert job.weights_sha256() == uninterrupted


def test_many_cuts_of_both_kinds(new_job: NewJob, uninterrupted: str) -> None:
    job, draw, at = new_job("many"), random.Random(11), 0
    cuts = 0
    while at < TOTAL - 1:
        at = min(TOTAL - 1, at + draw.randint(1, 9))
        cuts += 1
        if draw.random() < 0.5:
            assert job.attempt(noticed_at(at)) == 75
            at += 1
        else:
            with pytest.raises(PowerCutError):
                job.attempt(killed_at(at))
            at = at // 7 * 7
    assert cuts >= 8
    assert job.attempt() == 0
    assert job.weights_sha256() == uninterrupted


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSprop"])
def test_other_optimizers_too(new_job: NewJob, optimizer: str) -> None:
    config = {"optimizer": optimizer, "weight_decay": 0.001, "schedule": "constant"}
    straight, cut = new_job("straight"), new_job("cut")
    assert straight.attempt(**config) == 0
    assert cut.attempt(noticed_at(10), **config) == 75
    assert cut.attempt(**config) == 0
    assert cut.weights_sha256() == straight.weights_sha256()


def test_evaluating_in_between_changes_nothing(new_job: NewJob, uninterrupted: str) -> None:
    job = new_job("evaluating")
    assert job.attempt(eval_every_steps=5) == 0
    assert job.weights_sha256() == uninterrupted
    assert len([record for record in job.records("step") if "accuracy" in record]) == 10


def test_dropout_and_shifts_were_really_on(new_job: NewJob, uninterrupted: str) -> None:
    for name, change in (("dropout", {"dropout": 0.0}), ("shifts", {"augment": 0})):
        job = new_job(name)
        job.attempt(**change)
        assert job.weights_sha256() != uninterrupted


def test_a_damaged_checkpoint_costs_steps_and_not_exactness(
    new_job: NewJob, uninterrupted: str
) -> None:
    job = new_job("damaged")
    with pytest.raises(PowerCutError):
        job.attempt(killed_at(30))
    (job.checkpoints / "step-0000000028" / "state.pt").write_bytes(b"nothing")
    assert job.attempt() == 0
    assert [record["step"] for record in job.records("resumed")] == [21]
    (skipped,) = job.records("skipped-checkpoint")
    assert skipped["message"].startswith("step-0000000028: state.pt has 7 bytes")
    assert job.weights_sha256() == uninterrupted


def test_all_generators_come_back() -> None:
    randomness.make_deterministic(5, 1)
    random.gauss(0, 1), np.random.normal(), torch.rand(1)
    state = randomness.capture()

    def draw() -> tuple[float, ...]:
        return random.gauss(0, 1), np.random.normal(), torch.rand(1).item()

    first = draw()
    assert draw() != first
    randomness.restore(state)
    assert draw() == first
