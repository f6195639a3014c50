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
            ("offers as of", "offered_at"),
            ("", "offers_message"),
        ],
    )
    if now["closures"]:
        output.table(
            now["closures"], [("closed", "scope"), ("because", "reason"), ("mend it", "remedy")]
        )
    if now["cooldowns"]:
        output.table(
            now["cooldowns"], [("avoided", "scope"), ("until", "until"), ("reason", "reason")]
        )


@click.command(epilog="Example: roost quotas")
@json_option
@click.pass_obj
def quotas(output: Output) -> None:
    """The limits of the cloud accounts, and how much of them is used."""
    columns = [
        ("provider", "provider"),
        ("region", "region"),
        ("limit of", "name"),
        ("unit", "unit"),
        ("limit", "limit"),
        ("used", "used"),
    ]
    with connect() as client:
        output.table(client.quotas(), columns)
