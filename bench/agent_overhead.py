"""What the agent costs a training: steps per second against a bare script with the same model.

    python bench/agent_overhead.py [--rounds 5] [--epochs 4] [--every 50 --every 200] [--shim]

bare         a plain loop: no progress, no checkpoints, no signals, no deterministic kernels
loop/N       the product's loop in a process of its own: progress, and a checkpoint every N steps
shim/N       the same, started and watched by the agent's task process

Each round runs every variant once, in an order that turns from round to round, and compares within
the round: a machine that gets slower slows all of them. Counted is from the first step to the final
evaluation's end; the start of the process is not.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

RECIPE = "image-classification"
LIMIT_S = 900


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--every", type=int, action="append", help="steps between checkpoints")
    parser.add_argument("--shim", action="store_true", help="also below the agent's task process")
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        print(bare(arguments.bare))
        return
    every = arguments.every or [50, 200]
    variants = ["bare", *(f"loop/{n}" for n in every)]
    if arguments.shim:
        variants += [f"shim/{n}" for n in every]
    measured: dict[str, list[Run]] = {variant: [] for variant in variants}
    for number in range(arguments.rounds):
        turn = number % len(variants)
        for variant in variants[turn:] + variants[:turn]:
            measured[variant].append(measure(variant, arguments.epochs))
        print(f"round {number + 1}: ", end="")
        print(
            ", ".join(f"{v} {measured[v][-1].steps_per_s:.2f}" for v in variants),
            "steps/s",
            flush=True,
        )
    report(measured)


@dataclass(frozen=True, slots=True)
class Run:
    """`stalled` is the share of the time in which the training stood still for its checkpoints;
    `cpu_s` is of all its processes from start to end, and moves less with what else runs here.
    """

    steps_per_s: float
    stalled: float
    cpu_s: float = 0.0


def report(measured: dict[str, list[Run]]) -> None:
    titles = ("ratio min", "median", "max", "stalled", "cpu ratio")
    print(f"\n{'variant':<10} {'steps/s':>8}", *(f"{title:>9}" for title in titles))
    for variant, runs in measured.items():
        pairs = list(zip(runs, measured["bare"], strict=True))
        ratios = [run.steps_per_s / plain.steps_per_s for run, plain in pairs]
        cpu = statistics.median(run.cpu_s / plain.cpu_s for run, plain in pairs)
        print(
            f"{variant:<10} {statistics.median(run.steps_per_s for run in runs):>8.2f} "
            f"{min(ratios):>9.4f} {statistics.median(ratios):>9.4f} {max(ratios):>9.4f} "
            f"{statistics.median(run.stalled for run in runs):>9.2%} {cpu:>9.4f}"
        )


def measure(variant: str, epochs: int) -> Run:
    """One run in a process and a folder of its own."""
    kind, _, every = variant.partition("/")
    config = {"data": "mnist5k", "epochs": epochs, "threads": 1}
    if every:
        config["checkpoint_every_steps"] = int(every)
    text = json.dumps(config)
    before_s = children_cpu_s()
    with tempfile.TemporaryDirectory(prefix="agent-overhead-") as folder:
        result = {"bare": alone, "loop": under_loop, "shim": under_shim}[kind](Path(folder), text)
    return replace(result, cpu_s=children_cpu_s() - before_s)


def children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def alone(_folder: Path, config: str) -> Run:
    return Run(float(run([sys.executable, __file__, "--bare", config], {})), 0.0)


def under_loop(folder: Path, config: str) -> Run:
    progress = folder / "progress"
    run(
        [sys.executable, "-m", "trainer_agent.recipes", RECIPE, "--config", config],
        {"ROOST_CHECKPOINT_URI": (folder / "c").as_uri(), "ROOST_PROGRESS": str(progress)},
    )
    return told(progress)


def under_shim(folder: Path, config: str) -> Run:
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from trainer_agent.launch.folder import TaskFolder
    from trainer_agent.launch.spec import TaskSpec
    from trainer_agent.launch.start import start_shim

    task = TaskFolder(folder / "task")
    task.ask(
        TaskSpec(
            id="task",
            job_id="job",
            attempt=1,
            argv=("python", "-m", "trainer_agent.recipes", RECIPE, "--config", config),
            checkpoint_uri=(folder / "c").as_uri(),
        )
    )
    start_shim(task).wait(LIMIT_S)
    end = task.exit()
    if end is None or end.exit_code != 0:
        raise SystemExit(f"the task failed: {end}\n{task.log.read_text()}")
    return told(task.progress)


def told(progress: Path) -> Run:
    records = [json.loads(line) for line in progress.read_text().splitlines()]
    done = records[-1]
    stall_s = sum(r["stall_s"] for r in records if r["event"] == "checkpoint")
    return Run(done["steps_per_s"], stall_s * done["steps_per_s"] / done["step"])


def run(command: list[str], environment: dict[str, str]) -> str:
    root = str(Path(__file__).parent.parent)
    whole = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": root, **environment}
    done = subprocess.run(
        command, env=whole, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout


def bare(config: str) -> float:
    """The plain loop somebody would write; steps per second, the final evaluation included."""
    import torch

    from trainer_agent.recipes import image_classification as recipe
    from trainer_agent.recipes.strict import parse

    training = recipe.build(parse(recipe.Config, config), 1)
    torch.use_deterministic_algorithms(False)
    model, optimizer, batches = training.model, training.optimizer, training.batches
    began = time.monotonic()
    for step in range(batches.total_steps):
        images, labels = batches.batch(batches.position(step))
        for group in optimizer.param_groups:
            group["lr"] = training.learning_rate(step)
        loss = training.loss(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    training.evaluate(lambda: False)
    return batches.total_steps / (time.monotonic() - began)


if __name__ == "__main__":
    main()
