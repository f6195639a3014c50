"""`roost status`."""

from __future__ import annotations

import click

from api.cli.connection import connect
from api.cli.output import Output, json_option


@click.command(epilog="Example: roost status")
@json_option
@click.pass_obj
def status(output: Output) -> None:
    """How the control plane is: its reconciler, its providers, what is being avoided."""
    with connect() as client:
        now = client.status()
        url = client.url
    output.thing(
        {**now, "url": url},
        [
            ("url", "url"),
            ("version", "version"),
            ("installation", "installation_id"),
            ("reconciler", "reconciler_holder"),
            ("epoch", "epoch"),
            ("last tick", "last_tick_at"),
            ("tick took (ms)", "tick_ms"),
        ],
    )
    if output.as_json:
        return
    output.table(
        now["providers"],
        [
            ("provider", "name"),
            ("listed at", "listed_at"),
            ("stale", "stale"),
            ("message", "message"),
        ],
    )
    if now["cooldowns"]:
        output.table(
            now["cooldowns"], [("avoided", "scope"), ("until", "until"), ("reason", "reason")]
        )
