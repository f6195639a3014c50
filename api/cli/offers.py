"""`roost offers`: what could be bought now; with --catalog of files, without a control plane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import click

from api.cli.connection import connect
from api.cli.output import Output, json_option

_COLUMNS = [
    ("offer", "id"),
    ("cpus", "resources.cpus"),
    ("GiB", "resources.memory_gib"),
    ("gpus", "resources.gpus"),
    ("model", "resources.gpu_model"),
    ("price/h", "price_per_hour"),
    ("", "currency"),
]
_WHEN_KNOWN = [
    ("arch", "arch"),
    ("per GPU", "price_per_gpu_hour"),
    ("per work", "price_per_work"),
    ("taken back", "interruption_rate"),
]
_BESIDE = [("beside/h", "beside_per_hour"), ("total/h", "total_per_hour")]
"""Shown when asked for, also where it is unknown: that is not 0."""
_ORDERS = click.Choice(["price", "price-per-gpu", "price-per-work"])


@click.command(
    epilog="Example: roost offers --gpu A100:8,H100:4+ --spot --region 'us-*' --max-price 20"
)
@click.option("--gpu", help="Any of these GPUs, such as A100:8,H100:4+,L4.")
@click.option("--cpus", help="CPUs: 32+, 4..8 or 8.")
@click.option("--memory", "memory_gib", help="Memory in GiB: 128+, 16..64 or 64.")
@click.option("--gpu-memory", "gpu_memory_gib", help="Memory of each GPU in GiB.")
@click.option("--spot", "mode", flag_value="spot", help="Only spot.")
@click.option("--on-demand", "mode", flag_value="on-demand", help="Only on-demand.")
@click.option("--provider", help="Only these providers.")
@click.option("--region", help="Only these regions, or globs such as 'us-*'.")
@click.option("--zone", help="Only these zones, or globs.")
@click.option("--type", help="Only these instance types, or globs.")
@click.option("--arch", help="Only x86_64, or arm64.")
@click.option("--max-price", "max_price_per_hour", help="Price an hour at most.")
@click.option("--order", type=_ORDERS, default="price", show_default=True, help="What comes first.")
@click.option(
    "--ordered",
    "in_order_of_gpus",
    is_flag=True,
    help="All offers of the first GPU before those of the second.",
)
@click.option("--throughput", help="Work of one GPU by model, as measured: A100=100,H100=220.")
@click.option("--disk", "disk_gib", type=float, help="GiB of disk, to be priced beside it.")
@click.option("--address", is_flag=True, help="A public address, to be priced beside it.")
@click.option("--egress", "egress_gib_per_hour", type=float, help="GiB sent an hour.")
@click.option("--everything", is_flag=True, help="Also what no provider that is set up sells.")
@click.option("--catalog", type=click.Path(exists=True), help="CSV files to search instead.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100000),
    default=20,
    show_default=True,
    help="How many at most.",
)
@click.option("--explain", is_flag=True, help="Say why the other offers do not fit.")
@click.option("--sources", is_flag=True, help="Show where offers come from, and how old they are.")
@click.option("--quarantined", is_flag=True, help="Show the rows that are not believed.")
@json_option
@click.pass_obj
def offers(
    output: Output,
    /,
    catalog: str | None,
    limit: int,
    explain: bool,
    sources: bool,
    quarantined: bool,
    **query: Any,
) -> None:
    """What could be bought now, the best first."""
    asked = {name: value for name, value in query.items() if value not in (None, False)}
    with _shop(catalog) as shop:
        if sources:
            output.table(shop.offer_sources(), _SOURCES)
        elif quarantined:
            output.table(islice(shop.quarantined(), limit), _QUARANTINED)
        elif explain:
            output.table(shop.offers_left_out(asked), _LEFT_OUT)
        else:
            found = list(islice(shop.offers(asked), limit))
            beside = _BESIDE if {"disk_gib", "address", "egress_gib_per_hour"} & set(asked) else []
            known = [column for column in _WHEN_KNOWN if _is_known(found, column[1])]
            output.table(found, [*_COLUMNS, *beside, *known])
            _note_stale(found)


_SOURCES = [
    ("source", "name"),
    ("offers", "offers"),
    ("not believed", "quarantined"),
    ("can be bought", "buyable"),
    ("as of", "at"),
    ("stale", "stale"),
    ("new", "diff.added"),
    ("gone", "diff.removed"),
    ("repriced", "diff.repriced"),
    ("", "error"),
]
_QUARANTINED = [
    ("offer", "offer_id"),
    ("source", "source"),
    ("because", "reason"),
    ("seen", "observed"),
    ("believed", "threshold"),
]
_LEFT_OUT = [
    ("left out by", "because"),
    ("offers", "count"),
    ("cheapest of them", "example.id"),
    ("price/h", "example.price_per_hour"),
    ("", "example.currency"),
]


def _shop(catalog: str | None) -> Any:
    """Whoever answers: the control plane, or the files."""
    if catalog is None:
        return connect()
    from api.cli.catalog import FileShop
    from provisioner.clock import SystemClock

    return FileShop(catalog, SystemClock())


def _is_known(found: Iterable[Mapping[str, Any]], name: str) -> bool:
    return any(one.get(name) is not None for one in found)


def _note_stale(found: Iterable[Mapping[str, Any]]) -> None:
    old = sorted({one["source"] for one in found if one["stale"]})
    if old:
        click.echo(f"These sources are stale: {', '.join(old)}.", err=True)
