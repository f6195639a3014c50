"""What a command shows: with --json one JSON value on stdout, else text for people.

Progress and errors go to stderr, so that stdout can be piped. Nothing is written twice.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import click

from cost.reports.money import places_for

F = TypeVar("F", bound=Callable[..., Any])
_PLAIN_WIDTH = 500
_LONG_AMOUNT = re.compile(r"-?\d{1,20}\.\d{5,}", re.ASCII)
"""Money is exact on the wire; people are shown cents, or two digits of a smaller amount."""


class Output:
    """Where one command's results go."""

    def __init__(self) -> None:
        self.as_json = False
        self.emitted = False

    def value(self, value: object) -> None:
        """The command's one JSON value."""
        self.emitted = True
        click.echo(json.dumps(value, ensure_ascii=False, default=str))

    def text(self, text: str) -> None:
        """Text for people, or a document."""
        self.emitted = True
        click.echo(text)

    def table(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[tuple[str, str]]) -> None:
        """A list: `columns` are the heading and the dotted path in a row."""
        rows = list(rows)
        if self.as_json:
            self.value(rows)
            return
        self.emitted = True
        cells = [[_cell(_at(row, path)) for _, path in columns] for row in rows]
        _draw([heading for heading, _ in columns], cells)

    def thing(self, value: Mapping[str, Any], fields: Sequence[tuple[str, str]]) -> None:
        """One thing: its `fields` that are set, one a line."""
        if self.as_json:
            self.value(value)
            return
        shown = [(name, _at(value, path)) for name, path in fields]
        shown = [(name, each) for name, each in shown if each not in (None, "", [], {})]
        width = max((len(name) for name, _ in shown), default=0)
        self.text("\n".join(f"{name:<{width}}  {_cell(each)}" for name, each in shown))


def note(text: str) -> None:
    """A line of progress or advice, on stderr."""
    click.echo(text, err=True)


def json_option(function: F) -> F:
    """Give a command its --json."""
    option = click.option(
        "--json",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_choose_json,
        help="Print one JSON value on stdout.",
    )
    return option(function)


def _choose_json(context: click.Context, _parameter: click.Parameter, chosen: bool) -> None:
    output = context.find_object(Output)
    if output is not None and chosen:
        output.as_json = True


def _at(row: Mapping[str, Any], path: str) -> Any:
    value: Any = row
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case list():
            return " ".join(str(each) for each in value)
        case dict():
            return " ".join(f"{key}={each}" for key, each in value.items())
    text = str(value)
    if _LONG_AMOUNT.fullmatch(text):
        amount = Decimal(text)
        return f"{amount:.{places_for(amount)}f}"
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _draw(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    seen = sys.stdout.isatty()
    console = Console(width=None if seen else _PLAIN_WIDTH, highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(Text(heading.upper(), style="bold"), overflow="fold", no_wrap=not seen)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
