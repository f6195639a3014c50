"""One run of one recipe, from its configuration to an exit code. Imports torch.

Errors a person can act on end as one line on stderr and an `error` record; others keep their
traceback.
"""

from __future__ import annotations

import sys
from importlib import import_module

from trainer_agent.checkpoint.errors import CheckpointError
from trainer_agent.checkpoint.store import CheckpointStore
from trainer_agent.clock import SystemClock
from trainer_agent.data.datasets import DatasetError
from trainer_agent.recipes.registry import RECIPES
from trainer_agent.recipes.strict import ConfigError, parse
from trainer_agent.train.exits import Exit
from trainer_agent.train.loop import DivergedError, OtherConfigurationError, train
from trainer_agent.train.progress import Progress
from trainer_agent.train.signals import Notice
from trainer_agent.train.surroundings import Surroundings

_EXITS = {
    ConfigError: Exit.CONFIG,
    DatasetError: Exit.CONFIG,
    OtherConfigurationError: Exit.CONFIG,
    DivergedError: Exit.SOFTWARE,
    CheckpointError: Exit.STORE,
}


def run(name: str, config_text: str, surroundings: Surroundings, notice: Notice) -> Exit:
    """Build and train; the exit code says how it went."""
    clock = SystemClock()
    progress = Progress(surroundings.progress, clock=clock)
    try:
        recipe = import_module(RECIPES[name])
        config = parse(recipe.Config, config_text)
        training = recipe.build(config, surroundings.threads or 1)
        progress.total_steps = training.batches.total_steps
        store = CheckpointStore(surroundings.checkpoint_uri, config.keep, clock=clock)
        return train(training, store, progress, notice, clock)
    except Exception as error:
        progress.record("error", progress.last_step, message=str(error) or type(error).__name__)
        for kind, code in _EXITS.items():
            if isinstance(error, kind):
                print(f"{name}: {error}", file=sys.stderr)
                return code
        raise
    finally:
        progress.close()
