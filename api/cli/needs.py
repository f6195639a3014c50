"""The options that say which machine is needed; shared by workstations and jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def needs_options(function: F) -> F:
    """Give a command --cpus, --memory, --gpus, ...; what is not given is the server's choice."""
    options = (
        click.option("--cpus", type=float, help="CPUs at least."),
        click.option("--memory", "memory_gib", type=float, help="Memory in GiB at least."),
        click.option("--gpus", type=int, help="GPUs."),
        click.option("--gpu-model", help="GPU model, such as L4."),
        click.option("--spot", "mode", flag_value="spot", help="Only spot machines."),
        click.option("--on-demand", "mode", flag_value="on-demand", help="No spot machines."),
        click.option("--provider", help="Only this provider."),
        click.option("--region", help="Only this region, or a glob such as 'eu-*'."),
        click.option("--max-price", "max_price_per_hour", help="Price an hour at most."),
        click.option("--team", help="Team, when it is not your own."),
        click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, as the API's fields."""
    body = {name: value for name, value in options.items() if value is not None}
    labels = pairs(body.pop("labels", ()), "--label")
    return body | ({"labels": labels} if labels else {})


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """`KEY=VALUE` texts as a mapping."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{option} {text!r} is not KEY=VALUE.")
        found[key] = value
    return found


def when(text: str | None, option: str) -> str | None:
    """A time: RFC 3339, or a span from now such as `12h`."""
    if text is None or "T" in text.upper():
        return text
    from policies.quantities import Duration
    from provisioner.clock import SystemClock

    try:
        return (SystemClock().now() + Duration.parse(text).delta).isoformat()
    except (ValueError, OverflowError) as error:
        raise click.UsageError(
            f"{option} {text!r} is neither a span such as 12h nor a time such as "
            "2026-11-02T18:00:00Z."
        ) from error
