"""`roost launches`: the attempts to get machines."""

from __future__ import annotations

import click

from api.cli.connection import connect
from api.cli.output import Output, json_option


@click.command(epilog="Example: roost launches digits")
@click.argument("target", required=False)
@json_option
@click.pass_obj
def launches(output: Output, target: str | None) -> None:
    """The attempts to get a machine, for one TARGET (a workstation or job) or for all."""
    columns = [
        ("at", "created_at"),
        ("for", "owner_id"),
        ("offer", "offer_id"),
        ("price/h", "price_per_hour"),
        ("outcome", "outcome"),
        ("error", "error"),
        ("message", "message"),
    ]
    with connect() as client:
        output.table(client.launches(target), columns)
