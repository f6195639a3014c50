"""`roost cost` and `roost report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from api.cli.connection import connect
from api.cli.output import Output, json_option


@click.group()
def cost() -> None:
    """What it costs."""


@cost.command(epilog="Example: roost cost show --by job")
@click.option("--team", help="Team, when it is not your own.")
@click.option("--start", help="From when, such as 2026-11-01T00:00:00Z; else this month.")
@click.option("--end", help="Until when.")
@click.option(
    "--by",
    "group_by",
    type=click.Choice(["person", "job", "workstation", "mode", "day", "team"]),
    default="person",
    show_default=True,
    help="A row for each of these.",
)
@json_option
@click.pass_obj
def show(output: Output, /, **query: Any) -> None:
    """What was spent, what it would have been on demand, and where the budget stands."""
    with connect() as client:
        shown = client.costs(query)
    if output.as_json:
        output.value(shown)
        return
    output.table(
        shown["rows"],
        [
            (query["group_by"], "name"),
            ("cost", "cost"),
            ("on demand", "on_demand_cost"),
            ("hours", "hours"),
            ("estimated", "estimated"),
        ],
    )
    output.text("")
    output.thing(
        shown,
        [
            ("from", "start"),
            ("until", "end"),
            ("total", "total"),
            ("on demand", "on_demand_total"),
            ("saved", "saved"),
            ("currency", "currency"),
            ("budget", "budget_amount"),
            ("spent", "budget_spent"),
            ("committed", "budget_committed"),
            ("remaining", "budget_remaining"),
            ("forecast", "forecast"),
            ("forecast, low", "forecast_low"),
            ("forecast, high", "forecast_high"),
            ("forecast, note", "forecast_note"),
        ],
    )
    if shown["unknown_prices"]:
        output.text(f"{shown['unknown_prices']} intervals have no known price and are not in it.")


@click.command(epilog="Example: roost report --out november.html")
@click.option("--team", help="Team, when it is not your own.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@json_option
@click.pass_obj
def report(output: Output, team: str | None, out: Path | None) -> None:
    """The current month's report, as HTML, to a file or to stdout."""
    with connect() as client:
        html = client.report(team)
    if out is not None:
        out.write_text(html, encoding="utf-8")
    if output.as_json:
        output.value({"file": str(out)} if out else {"html": html})
    else:
        output.text(f"Written to {out}." if out else html)
