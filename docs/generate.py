"""Writes the parts of docs/reference that repeat the code: cli.md, and the calls in api.md.

python docs/generate.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from fastapi.routing import APIRoute

REFERENCE = Path(__file__).parent / "reference"
sys.path.insert(0, str(Path(__file__).parents[1]))

from api.app import ROUTERS  # noqa: E402
from api.cli.root import root  # noqa: E402


def main() -> None:
    (REFERENCE / "cli.md").write_text("\n".join(_commands()) + "\n")
    page = REFERENCE / "api.md"
    intro = page.read_text().partition("## Calls")[0]
    page.write_text(intro + "## Calls\n\n" + "\n".join(_calls()) + "\n")


def _commands() -> Iterator[str]:
    yield "# The roost command\n"
    yield "Made by `docs/generate.py` from the command; `roost COMMAND --help` says the same.\n"
    yield "Every command takes `--json`: one JSON value on stdout, also for an error. Progress and"
    yield "errors for people go to stderr.\n"
    yield "| exit code | |\n|---|---|"
    for code, meaning in re.findall(r"^  (\d+) +(.+)$", root.epilog or "", re.MULTILINE):
        yield f"| {code} | {meaning} |"
    yield "\n`workstation exec` ends with the exit code of the command it ran.\n"
    for path, command in _leaves(root, "roost"):
        yield f"## {path}\n"
        yield " ".join((command.help or "").split()) + "\n"
        yield f"    {click.Context(command, info_name=path).get_usage().removeprefix('Usage: ')}\n"
        options = [o for o in command.params if isinstance(o, click.Option) and o.name != "json"]
        for option in options:
            with click.Context(command) as context:
                names, text = option.get_help_record(context) or ("", "")
            yield f"- `{names}`: {text}"
        if options:
            yield ""
        if command.epilog:
            yield f"{command.epilog}\n"


def _leaves(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from _leaves(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _calls() -> Iterator[str]:
    yield "| call | |"
    yield "|---|---|"
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute):
                for method in sorted(route.methods or ()):
                    yield f"| `{method} {route.path}` | {route.summary} |"


if __name__ == "__main__":
    main()
