"""The recipes by name. A recipe's module has `Config` and `build(config, default_threads)`."""

from __future__ import annotations

RECIPES = {"image-classification": "trainer_agent.recipes.image_classification"}
"""Module names, not modules: to say that a name is wrong, nobody needs torch."""
