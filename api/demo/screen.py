"""How the demo speaks: steps with live progress for people, nothing at all for `--json`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table

from api.demo.proof import Check, Summary

Update = Callable[..., None]
"""`update(text, done=..., of=...)` changes the line in progress."""


class Screen:
    """Writes to the error stream, so that the output stream holds the answer alone."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)

    def title(self, text: str) -> None:
        self.console.print(Panel.fit(text, style="bold"))

    def step(self, number: int, text: str) -> None:
        self.console.print(f"\n[bold cyan]{number}[/]  [bold]{text}[/]")

    def say(self, text: str) -> None:
        self.console.print(f"   {text}")

    def held(self, check: Check) -> None:
        mark = "[green]✓[/]" if check.held else "[red]✗[/]"
        self.console.print(f"   {mark} {check.claim}: [dim]{check.seen}[/]")

    def yaml(self, text: str) -> None:
        self.console.print(
            Syntax(text.strip(), "yaml", theme="ansi_dark", padding=(0, 3), word_wrap=True)
        )

    @contextmanager
    def progress(self, text: str, of: float | None = None) -> Iterator[Update]:
        """A line that moves until the block ends."""
        with Progress(
            TextColumn("  "),
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        ) as bars:
            task = bars.add_task(text, total=of)

            def update(
                text: str | None = None, *, done: float | None = None, of: float | None = None
            ) -> None:
                bars.update(task, description=text, completed=done, total=of)

            yield update

    def table(self, title: str, columns: list[str], rows: list[list[Any]]) -> None:
        table = Table(title=title, title_justify="left", box=None, padding=(0, 2))
        for index, column in enumerate(columns):
            table.add_column(column, justify="left" if index == 0 else "right")
        for row in rows:
            table.add_row(*(str(cell) for cell in row))
        self.console.print(table)

    def end(self, summary: Summary) -> None:
        failed = [check.claim for check in summary.checks if not check.held]
        if summary.ok:
            text = f"[green]All {len(summary.checks)} claims held[/] in {summary.seconds:.0f} s."
        else:
            text = f"[red]It did not hold:[/] {summary.error or '; '.join(failed)}"
        self.console.print(f"\n{text}")
        if summary.report:
            self.console.print(f"Report: {summary.report}")
