"""`roost demo`: see it work in a minute."""

from __future__ import annotations

import click

from api.cli.output import Output, json_option


@click.command(epilog="Example: roost demo")
@json_option
@click.pass_obj
def demo(output: Output) -> int:
    """Train through a preemption, on this machine alone, and show what happened."""
    from api.demo import demo as run

    code: int = run(output.as_json)
    output.emitted = True
    return code
