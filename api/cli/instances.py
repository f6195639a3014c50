"""`roost instance`: the machines."""

from __future__ import annotations

import click

from api.cli.connection import connect
from api.cli.output import Output, json_option


@click.group()
def instance() -> None:
    """Machines."""


@instance.command("list", epilog="Example: roost instance list --all")
@click.option("--all", "all_", is_flag=True, help="Those that have ended, too.")
@json_option
@click.pass_obj
def list_(output: Output, all_: bool) -> None:
    """The machines you may see."""
    columns = [
        ("id", "id"),
        ("state", "state"),
        ("why", "reason"),
        ("for", "owner_id"),
        ("type", "instance_type"),
        ("mode", "mode"),
        ("zone", "zone"),
        ("price/h", "price_per_hour"),
        ("", "currency"),
    ]
    with connect() as client:
        output.table(client.instances(live=not all_), columns)


@instance.command(epilog="Example: roost instance reclaim ins_4f0a --notice 30")
@click.argument("instance_id")
@click.option(
    "--notice",
    "notice_s",
    type=click.FloatRange(min=0, max=3600),
    default=120.0,
    show_default=True,
    help="Seconds between the notice and the end.",
)
@json_option
@click.pass_obj
def reclaim(output: Output, instance_id: str, notice_s: float) -> None:
    """Rehearse a spot reclaim: take a machine away as the market would."""
    with connect() as client:
        taken = client.rehearse_reclaim(instance_id, {"notice_s": notice_s})
    output.thing(
        taken,
        [("id", "id"), ("state", "state"), ("ends at", "notice_deadline"), ("for", "owner_id")],
    )
