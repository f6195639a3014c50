"""A report as one HTML page: no scripts, no external assets, fit for mail, phone and paper."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from jinja2 import Environment, PackageLoader, StrictUndefined

from cost.periods import zone
from cost.reports.charts import amount_text, charts
from cost.reports.model import Report
from cost.reports.money import duration, money

_PAGES = Environment(
    loader=PackageLoader("cost.reports", "."),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render_html(report: Report) -> str:
    """The page; the same report gives the same text."""
    return _PAGES.get_template("report.html.j2").render(
        report=report,
        title=f"Costs of {report.team}, {_period_name(report)}",
        period_name=_period_name(report),
        as_of=_local(report, report.now),
        spent=_spent(report),
        charts=charts(report),
        budget_percent=_budget_percent(report),
        money=lambda amount, places=None: money(amount, report.currency, places),
        rounded=lambda row: amount_text(report, row),
        duration=duration,
    )


def _spent(report: Report) -> str:
    if report.spent is None:
        return "unknown"
    return money(report.spent_shown, report.currency, report.places)


def _budget_percent(report: Report) -> Decimal | None:
    """Share of the budget that is spent or committed; None without a budget."""
    if report.budget is None or report.budget.amount <= 0:
        return None
    used = report.budget.spent + report.budget.committed
    return (used * 100 / report.budget.amount).quantize(Decimal("0.1"))


def _period_name(report: Report) -> str:
    """`June 2026` for a month, else first and last day."""
    tz = zone(report.zone)
    first = report.period.start.astimezone(tz)
    last = (report.period.end - timedelta(microseconds=1)).astimezone(tz)
    if first.day == 1 and (last + timedelta(days=1)).day == 1 and first.month == last.month:
        return f"{first:%B %Y}"
    return f"{first:%-d %B %Y} to {last:%-d %B %Y}"


def _local(report: Report, at: datetime) -> str:
    return f"{at.astimezone(zone(report.zone)):%-d %B %Y, %H:%M} ({report.zone})"
