"""The training loop: resumes where the last checkpoint stands, leaves on notice, ends exactly.

Resumed equals uninterrupted: the state is weights, optimizer, generators and one position, so the
final weights are the same bits after any number of kills (same torch, processor features and
threads). It knows no recipe, and it reads no environment.
"""

from __future__ import annotations

import math
import time

import torch

from trainer_agent.checkpoint import final
from trainer_agent.checkpoint.errors import CheckpointError
from trainer_agent.checkpoint.serial import made_with
from trainer_agent.checkpoint.store import Checkpoint, CheckpointStore, Skipped
from trainer_agent.clock import Clock
from trainer_agent.train import randomness
from trainer_agent.train.exits import Exit
from trainer_agent.train.progress import Progress
from trainer_agent.train.signals import Notice
from trainer_agent.train.training import Training

REPORT_EVERY_S = 0.25
UNMEASURED_WRITE_BYTES_PER_S = 100e6
UNMEASURED_WRITE_S = 0.2


class OtherConfigurationError(Exception):
    """The folder holds another training; the message says what to do."""


class DivergedError(Exception):
    """The loss is not a finite number any more."""


def train(
    training: Training, store: CheckpointStore, progress: Progress, notice: Notice, clock: Clock
) -> Exit:
    """Train from the last checkpoint to the end, or to the notice.

    Raises CheckpointError when the folder is unusable at the start or the result cannot be written,
    OtherConfigurationError when the folder belongs to another training, DivergedError.
    """
    store.prepare()
    finished = final.read(store.files)
    if finished is not None:
        _require_same(training.fingerprint, finished.fingerprint, store)
        _report_done(progress, finished)
        return Exit.DONE
    loop = Loop(training, store, progress, notice)
    loop.resume()
    while loop.step < training.batches.total_steps:
        if notice.given:
            return loop.leave()
        loop.advance()
    accuracy = loop.evaluate()
    if accuracy is None:
        return loop.leave()
    finished = final.export(
        store.files,
        training.model.state_dict(),
        step=loop.step,
        accuracy=accuracy,
        fingerprint=training.fingerprint,
        at=clock.now().isoformat(),
    )
    _report_done(progress, finished, steps_per_s=loop.steps_per_s())
    return Exit.DONE


class Loop:
    """One attempt: what it has done, and what of that is safe."""

    def __init__(
        self, training: Training, store: CheckpointStore, progress: Progress, notice: Notice
    ) -> None:
        self.step = 0
        self._saved_step = 0
        self._training = training
        self._store = store
        self._progress = progress
        self._notice = notice
        self._slowest_save_s: float | None = None
        self._began = self._reported = time.monotonic()
        self._began_step = self._reported_step = 0
        self._metrics: dict[str, float] = {}

    def resume(self) -> None:
        """Take up the newest good checkpoint, or start from nothing."""
        checkpoint = self._store.load_latest(self._report_skipped)
        if checkpoint is None:
            self._progress.record("start", 0, **made_with())
        else:
            self._take_up(checkpoint)
        self._began = self._reported = time.monotonic()
        self._began_step = self._reported_step = self.step

    def advance(self) -> None:
        """One optimizer step, and what is due after it."""
        training = self._training
        inputs, targets = training.batches.batch(training.batches.position(self.step))
        for group in training.optimizer.param_groups:
            group["lr"] = training.learning_rate(self.step)
        loss = training.loss(training.model(inputs), targets)
        training.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        training.optimizer.step()
        self.step += 1
        last = self.step == training.batches.total_steps
        checkpoint = not last and _due(self.step, training.checkpoint_every_steps)
        if last or checkpoint or time.monotonic() - self._reported >= REPORT_EVERY_S:
            self._report_step(loss)
        if checkpoint:
            self._save()
        if not last and _due(self.step, training.eval_every_steps):
            self.evaluate()

    def evaluate(self) -> float | None:
        """Test accuracy; None when the notice came in between."""
        accuracy = self._training.evaluate(lambda: self._notice.given)
        if accuracy is not None:
            self._metrics["accuracy"] = accuracy
            self._progress.record("step", self.step, accuracy=accuracy)
        return accuracy

    def leave(self) -> Exit:
        """Make safe what can be made safe in the time left, say so and go."""
        if self.step > self._saved_step:
            expected_s, left_s = self._expected_save_s(), self._notice.left_s()
            if expected_s <= left_s:
                self._save()
            else:
                self._skipped_checkpoint(
                    f"a checkpoint takes about {expected_s:.1f} s and {left_s:.1f} s are left"
                )
        self._progress.record("left", self._saved_step, finished_steps=self.step)
        return Exit.LEFT

    def steps_per_s(self) -> float:
        """Of this attempt, evaluation and checkpoints included."""
        return (self.step - self._began_step) / max(time.monotonic() - self._began, 1e-9)

    def _save(self) -> None:
        """Write a checkpoint; a failed one is reported and the training goes on."""
        training = self._training
        position = training.batches.position(self.step)
        state = {
            "model": training.model.state_dict(),
            "optimizer": training.optimizer.state_dict(),
            "generators": randomness.capture(),
            "step": self.step,
            "position": position,
            "metrics": self._metrics,
        }
        began = time.monotonic()
        try:
            name = self._store.save(
                self.step, state, position=position, fingerprint=training.fingerprint
            )
        except CheckpointError as error:
            self._skipped_checkpoint(str(error))
            return
        stall_s = time.monotonic() - began
        self._slowest_save_s = max(stall_s, self._slowest_save_s or 0.0)
        self._saved_step = self.step
        self._progress.record("checkpoint", self.step, stall_s=round(stall_s, 4), name=name)

    def _take_up(self, checkpoint: Checkpoint) -> None:
        training, state, manifest = self._training, checkpoint.state, checkpoint.manifest
        _require_same(training.fingerprint, manifest.fingerprint, self._store)
        threads = manifest.made_with.get("threads")
        if not training.threads_chosen and isinstance(threads, int):
            torch.set_num_threads(threads)
        training.model.load_state_dict(state["model"])
        training.optimizer.load_state_dict(state["optimizer"])
        self.step = self._saved_step = state["step"]
        self._metrics = dict(state["metrics"])
        if training.batches.position(self.step) != state["position"]:
            raise OtherConfigurationError(
                f"{checkpoint.name} stands at sample {state['position']}, where this training does "
                "not come by. Use another checkpoint folder."
            )
        randomness.restore(state["generators"])
        self._progress.record(
            "resumed", self.step, name=checkpoint.name, message=_differences(manifest.made_with)
        )

    def _report_step(self, loss: torch.Tensor) -> None:
        now, value = time.monotonic(), loss.item()
        if not math.isfinite(value):
            raise DivergedError(
                f"The loss is {value} at step {self.step}: lower the learning rate."
            )
        self._metrics["loss"] = value
        rate = (self.step - self._reported_step) / max(now - self._reported, 1e-9)
        self._progress.record("step", self.step, loss=value, steps_per_s=round(rate, 2))
        self._reported, self._reported_step = now, self.step

    def _report_skipped(self, skipped: Skipped) -> None:
        self._skipped_checkpoint(f"{skipped.name}: {skipped.why}")

    def _skipped_checkpoint(self, message: str) -> None:
        print(f"checkpoint: {message}", flush=True)
        self._progress.record("skipped-checkpoint", self.step, message=message)

    def _expected_save_s(self) -> float:
        if self._slowest_save_s is not None:
            return self._slowest_save_s
        weights = sum(p.numel() * p.element_size() for p in self._training.model.parameters())
        return UNMEASURED_WRITE_S + 3 * weights / UNMEASURED_WRITE_BYTES_PER_S


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _differences(then: object) -> str | None:
    """What differs from the machine of the checkpoint, in words; None when nothing does."""
    assert isinstance(then, dict)
    now = made_with()
    changed = [f"{key} {then.get(key)} -> {now[key]}" for key in now if then.get(key) != now[key]]
    if not changed:
        return None
    return f"The last bits may differ from an uninterrupted run: {', '.join(changed)}."


def _require_same(mine: str, stored: str, store: CheckpointStore) -> None:
    if mine != stored:
        raise OtherConfigurationError(
            f"{store.files.location} holds a training with another configuration. "
            "Use another checkpoint folder, or the configuration it was begun with."
        )


def _report_done(progress: Progress, result: final.Final, **metrics: float) -> None:
    progress.record(
        "done",
        result.step,
        accuracy=result.accuracy,
        weights_sha256=result.weights_sha256,
        **metrics,
    )
    print(f"done: accuracy {result.accuracy:.4f}, weights {result.weights_sha256}", flush=True)
