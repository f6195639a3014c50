"""The `roost` command. What is imported here loads fast: click, and nothing that talks or draws."""

from api.cli.root import main

__all__ = ["main"]
