"""The report's drawings as inline SVG: deterministic, themed by the page's CSS, with alt text.

Figures are drawn with placeholder colours that become CSS variables, so that one drawing serves
light, dark and print. No pyplot: nothing global is drawn on. The two settings below are the
process's only choice for SVG anyway: text stays text, and ids depend on the drawing alone.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.dates import AutoDateLocator, DateFormatter, date2num, num2date
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from cost.periods import zone
from cost.reports.model import Report, Row, Table
from cost.reports.money import money, places_for, rounded_money
from cost.savings import Dimension

mpl.rcParams["svg.hashsalt"] = "roost"
mpl.rcParams["svg.fonttype"] = "none"

_INK, _MUTED, _LINE, _ACCENT, _WARN = "#010101", "#020202", "#030303", "#040404", "#050505"
_VARIABLES = {
    _INK: "var(--ink)",
    _MUTED: "var(--muted)",
    _LINE: "var(--line)",
    _ACCENT: "var(--accent)",
    _WARN: "var(--warn)",
}
_SHORT = timedelta(days=3)
_BARS = 8


@dataclass(frozen=True, slots=True)
class Chart:
    """One drawing: SVG markup that is safe to put into a page, and the same in words."""

    title: str
    svg: str
    alt: str
    caption: str


def charts(report: Report) -> tuple[Chart, ...]:
    """The drawings that the report has data for; none when nothing was charged."""
    drawings = []
    if report.cumulative:
        drawings.append(_spending(report))
    owners = next((t for t in report.tables if t.dimension is Dimension.OWNER), None)
    if owners is not None and any(row.exact for row in owners.rows):
        drawings.append(_owners(report, owners))
    return tuple(drawings)


def amount_text(report: Report, row: Row) -> str:
    """A row's amount as it is written everywhere in the report."""
    if not row.priced:
        return "unknown"
    return rounded_money(row.shown, row.exact, report.currency, report.places)


def _spending(report: Report) -> Chart:
    """Cumulative spend; over a month with budget and forecast, over a short span by the minute."""
    figure, axes = _figure(3.1)
    points = report.cumulative
    at = [_num(p.at) for p in points]
    amounts = [float(p.amount) for p in points]
    short = points[-1].at - points[0].at < _SHORT
    until = points[-1].at if short else min(report.now, report.period.end)
    at.append(_num(until))
    amounts.append(amounts[-1])
    if not short:
        at.insert(0, _num(report.period.start))
        amounts.insert(0, 0.0)
    axes.fill_between(at, amounts, color=_ACCENT, alpha=0.15, linewidth=0)
    axes.plot(at, amounts, color=_ACCENT, linewidth=1.8)
    parts = [f"{money(report.spent_shown, report.currency, report.places)} spent"]
    if not short:
        axes.set_xlim(_num(report.period.start), _num(report.period.end))
        parts.extend(_forecast(report, axes, until))
    caption = _budget(report, axes)
    axes.set_ylim(bottom=0)
    _time_axis(report, axes)
    _money_axis(report, axes)
    title = "Spending so far" if short or not report.forecast else "Spending and forecast"
    span = _span(report, points[0].at, until) if short else "this period"
    alt = f"Cumulative cost over {span}: {'; '.join(parts)}."
    return Chart(title, _svg(figure, "spend", title, alt), alt, caption)


def _forecast(report: Report, axes: Axes, since: datetime) -> list[str]:
    """The band from now to the end of the period, and what it says."""
    if report.forecast is None or report.spent is None:
        return []
    ends = [_num(since), _num(report.period.end)]
    spent = float(report.spent)
    low, median, high = (
        float(v) for v in (report.forecast.low, report.forecast.median, report.forecast.high)
    )
    axes.fill_between(ends, [spent, low], [spent, high], color=_MUTED, alpha=0.2, linewidth=0)
    axes.plot(ends, [spent, median], color=_MUTED, linewidth=1.4, linestyle=(0, (4, 2)))
    figures = [money(v, report.currency) for v in (report.forecast.median, report.forecast.low)]
    high_text = money(report.forecast.high, report.currency)
    return [f"forecast {figures[0]}, between {figures[1]} and {high_text}"]


def _budget(report: Report, axes: Axes) -> str:
    """The budget as a line, unless it lies so far above that nothing else could be seen."""
    if report.budget is None:
        return ""
    amount = report.budget.amount
    text = f"Budget {money(amount, report.currency, max(2, places_for(amount)))}"
    if float(amount) > 3.0 * axes.get_ylim()[1]:
        return f"{text}, far above this chart."
    axes.axhline(float(amount), color=_WARN, linewidth=1.2)
    axes.annotate(
        "Budget",
        (0.01, float(amount)),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        color=_WARN,
        fontsize=8,
    )
    axes.set_ylim(top=max(axes.get_ylim()[1], float(amount) * 1.12))
    return ""


def _owners(report: Report, table: Table) -> Chart:
    """The dearest workstations and jobs as bars, the rest as one."""
    rows = _with_rest(table)
    figure, axes = _figure(0.7 + 0.3 * max(3, len(rows)))
    values = [float(row.exact) for row in rows]
    places = range(len(rows))
    axes.barh(places, values, color=_ACCENT, height=0.62)
    axes.set_yticks(places, [_cut(row.name) for row in rows])
    axes.set_ylim(max(3, len(rows)) - 0.5, -0.5)
    axes.set_xlim(0, max(values) * 1.3)
    axes.xaxis.set_visible(False)
    axes.grid(visible=False)
    texts = [amount_text(report, row) for row in rows]
    for place, value, text in zip(places, values, texts, strict=True):
        axes.annotate(
            _plain(text),
            (value, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=_INK,
            fontsize=8,
        )
    title = "Cost by workstation and job"
    alt = "; ".join(f"{row.name} {text}" for row, text in zip(rows, texts, strict=True))
    alt = f"{title}: {alt}."
    return Chart(title, _svg(figure, "owners", title, alt), alt, "")


def _with_rest(table: Table) -> list[Row]:
    rows = list(table.rows)
    if len(rows) <= _BARS:
        return rows
    top, rest = rows[: _BARS - 1], rows[_BARS - 1 :]
    return [
        *top,
        Row(
            name=f"{len(rest)} others",
            shown=sum((r.shown for r in rest), Decimal(0)),
            exact=sum((r.exact for r in rest), Decimal(0)),
            hours=sum((r.hours for r in rest), Decimal(0)),
            unpriced_hours=sum((r.unpriced_hours for r in rest), Decimal(0)),
            estimated=any(r.estimated for r in rest),
            priced=any(r.priced for r in rest),
        ),
    ]


def _figure(height_in: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.2, height_in), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    axes.patch.set_visible(False)
    figure.patch.set_visible(False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_LINE)
    axes.tick_params(colors=_MUTED, labelsize=8, length=0)
    axes.grid(visible=True, axis="y", color=_LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _time_axis(report: Report, axes: Axes) -> None:
    tz = zone(report.zone)
    low, high = (num2date(x) for x in axes.get_xlim())  # type: ignore[no-untyped-call]
    locator = AutoDateLocator(tz=tz, minticks=3, maxticks=5)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(DateFormatter(_time_format(high - low), tz=tz))  # type: ignore[no-untyped-call]


def _time_format(span: timedelta) -> str:
    if span < timedelta(minutes=5):
        return "%H:%M:%S"
    if span < timedelta(days=1):
        return "%H:%M"
    return "%-d %b" if span > 2 * _SHORT else "%-d %b %H:%M"


def _money_axis(report: Report, axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=3))
    ticks = [t for t in axes.get_yticks() if t > 0]
    step = Decimal(str(min(ticks))) if ticks else Decimal(1)
    whole = all(float(t).is_integer() for t in ticks)
    places = 0 if whole else places_for(step)
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda v, _: _plain(money(Decimal(str(v)), report.currency, places)))
    )


def _svg(figure: Figure, name: str, title: str, alt: str) -> str:
    """Markup for inlining: no prolog, own id space, CSS colours, title and description."""
    out = io.StringIO()
    figure.savefig(
        out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="#|url\(#)', rf"\1{name}-", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, variable)
    opening = re.compile(r"<svg[^>]*>")
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'{box.group()} role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{_escape(title)}</title><desc id="{name}-d">{_escape(alt)}</desc>'
    )
    return opening.sub(lambda _: head, text, count=1)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str) -> str:
    """A label as it stands: matplotlib would read $...$ as mathematics."""
    return text.replace("$", r"\$")


def _cut(name: str) -> str:
    return _plain(name if len(name) <= 22 else name[:21] + "…")


def _span(report: Report, start: datetime, end: datetime) -> str:
    tz = zone(report.zone)
    return f"{start.astimezone(tz):%H:%M:%S} to {end.astimezone(tz):%H:%M:%S}"


def _num(at: datetime) -> float:
    return float(date2num(at))  # type: ignore[no-untyped-call]
