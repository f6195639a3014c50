"""`roost offers`: what could be bought now."""

from __future__ import annotations

from typing import Any

import click

from api.cli.connection import connect
from api.cli.output import Output, json_option


@click.command(epilog="Example: roost offers --gpus 1 --spot --region 'eu-*'")
@click.option("--cpus", type=float, help="CPUs at least.")
@click.option("--memory", "memory_gib", type=float, help="Memory in GiB at least.")
@click.option("--gpus", type=int, help="GPUs at least.")
@click.option("--gpu-model", help="GPU model, such as L4.")
@click.option("--spot", "mode", flag_value="spot", help="Only spot.")
@click.option("--on-demand", "mode", flag_value="on-demand", help="Only on-demand.")
@click.option("--provider", help="Only this provider.")
@click.option("--region", help="Only this region, or a glob.")
@click.option("--max-price", "max_price_per_hour", help="Price an hour at most.")
@json_option
@click.pass_obj
def offers(output: Output, /, **query: Any) -> None:
    """What could be bought now, cheapest first."""
    columns = [
        ("offer", "id"),
        ("mode", "mode"),
        ("cpus", "resources.cpus"),
        ("GiB", "resources.memory_gib"),
        ("gpus", "resources.gpus"),
        ("model", "resources.gpu_model"),
        ("price/h", "price_per_hour"),
        ("", "currency"),
    ]
    with connect() as client:
        output.table(client.offers(query), columns)
