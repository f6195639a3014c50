"""Train by a recipe: `python -m trainer_agent.recipes NAME --config JSON`.

What a launcher says comes by the environment (train/surroundings.py); exit codes in train/exits.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import NoReturn

from trainer_agent.recipes.registry import RECIPES
from trainer_agent.train.exits import Exit
from trainer_agent.train.signals import Notice
from trainer_agent.train.surroundings import Surroundings, SurroundingsError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(Exit.CONFIG, f"{self.prog}: {message}\n")


def main(argv: list[str]) -> int:
    parser = _Parser(prog="trainer_agent.recipes", description="Train by a recipe.")
    parser.add_argument("recipe", choices=sorted(RECIPES))
    parser.add_argument("--config", default="{}", help="the recipe's configuration as JSON")
    arguments = parser.parse_args(argv)
    try:
        surroundings = Surroundings.read(os.environ)
        if surroundings.world_size != 1:
            raise SurroundingsError(
                f"WORLD_SIZE is {surroundings.world_size}: {arguments.recipe} trains in one "
                "process, so ask for one node with one process."
            )
    except SurroundingsError as error:
        print(f"trainer_agent.recipes: {error}", file=sys.stderr)
        return Exit.CONFIG
    notice = Notice(surroundings.grace_s)
    notice.install()
    # Only now: importing torch takes seconds, and a notice in that time must count.
    session = import_module("trainer_agent.recipes.session")
    code: int = session.run(arguments.recipe, arguments.config, surroundings, notice)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
