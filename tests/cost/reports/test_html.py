"""The report as a page: it parses, it adds up, it says what it does not know."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html.parser import HTMLParser
from xml.etree import ElementTree

import pandas as pd
import pytest

from cost.budgets import Budget, budget_view
from cost.forecast import forecast_month
from cost.ledger import charge, total
from cost.periods import period_bounds
from cost.reports.charts import charts
from cost.reports.html import render_html
from cost.reports.model import build_report
from cost.reports.money import duration, money, rounded_money
from cost.usage import UsageInterval

TZ = "Europe/Berlin"
NOW = datetime(2026, 6, 18, 14, 3, tzinfo=UTC)
JUNE = period_bounds(NOW, TZ)
VOID = {"meta", "br", "link", "img", "path", "use"}


class Page(HTMLParser):
    """Text by table row, ids, and whether every tag was closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids.extend(v for k, v in attrs if k == "id")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.ids.extend(v for k, v in attrs if k == "id")

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


@pytest.fixture
def month(machine, flat_price):
    """Eighteen days of three owners, at amounts that do not round evenly."""
    found = []
    for n, (owner, mode) in enumerate(
        [("desk <b>", "on-demand"), ("fit", "spot"), ("odd", "spot")]
    ):
        rid = f"i-{n}"
        resource = machine(id=rid, owner_id=owner, owner_name=owner, mode=mode, user=f"user{n}")
        runs = [
            UsageInterval(rid, at, at + timedelta(hours=5, seconds=n), estimated=n == 1)
            for at in (JUNE.start + timedelta(days=d, hours=9) for d in range(17))
        ]
        prices = flat_price(None if owner == "odd" else f"0.13{n}7", rid)
        found += charge(runs, resource, prices, [TZ])
    return found


def page_of(charges, **more):
    report = build_report("vision", charges, JUNE, NOW, TZ, "USD", **more)
    return report, render_html(report)


def full(month):
    view = budget_view(Budget("vision", Decimal(40), "USD", TZ), month, [], NOW)
    forecast = forecast_month(
        pd.Series({(JUNE.start + timedelta(days=d, hours=9)).date(): 1.5 for d in range(17)}),
        NOW,
        JUNE.start,
        JUNE.end,
        Decimal("0.3"),
        spent=view.spent,
        zone=TZ,
    )
    return page_of(month, budget=view, forecast=forecast)


def test_the_page_is_well_formed_and_needs_nothing_from_elsewhere(month):
    _, text = full(month)
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert "script" not in page.tags
    assert not re.search(r'(src|href)="(?!#)', text)
    assert "url(http" not in text
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    assert "<b>desk" not in text
    assert "desk &lt;b&gt;" in text


def test_the_same_report_gives_the_same_page(month):
    assert full(month)[1] == full(month)[1]


def test_every_table_adds_up_to_the_total_as_shown(month):
    report, text = full(month)
    assert report.spent == total(month)
    shown, sums = [], Decimal(0)
    for name, *_, amount in Page(text).rows:
        if name == "Total":
            assert Decimal(amount.strip("$")) == sums
            shown.append(sums)
        sums = (
            Decimal(0)
            if name in ("Total", "Name")
            else sums + (Decimal(0) if amount == "unknown" else Decimal(amount.strip("$")))
        )
    assert len(shown) == 4
    assert set(shown) == {report.spent_shown}
    for table in report.tables:
        assert sum(r.shown for r in table.rows) == report.spent_shown


def test_unknown_and_estimated_are_said_and_unknown_is_not_zero(month):
    report, text = full(month)
    (odd,) = [r for r in Page(text).rows if r[0].startswith("odd")]
    assert odd[-1] == "unknown"
    assert any("no known price" in note for note in report.notes)
    assert any(note.startswith("Estimated") for note in report.notes)


def test_when_nothing_has_a_price_the_total_is_unknown(machine, flat_price):
    runs = [UsageInterval("i-1", NOW - timedelta(hours=2), NOW, open=True)]
    report, text = page_of(charge(runs, machine(), flat_price(None)))
    assert report.spent is None
    assert "<b>unknown</b>" in text
    Page(text)


def test_an_empty_period_says_so():
    report, text = page_of([])
    assert report.empty
    assert "Nothing was charged in this period" in text
    assert "<svg" not in text
    assert "$0.00" in text
    Page(text)


def test_a_demo_of_seconds_shows_fractions_of_a_cent_over_seconds(machine, flat_price):
    runs = [UsageInterval("i-1", NOW - timedelta(seconds=41), NOW, open=True)]
    charges = charge(runs, machine(), flat_price("0.035"), [TZ])
    budget = budget_view(Budget("vision", Decimal(50), "USD", TZ), charges, [], NOW)
    report, text = page_of(charges, budget=budget)
    assert report.spent_shown == Decimal("0.00040")
    assert "<b>$0.00040</b>" in text
    assert "41 s" in text
    assert re.search(r">16:02:\d\d<", text)
    assert "far above this chart" in text
    assert "still running" in text


def test_charts_carry_words_and_theme_colours(month):
    report, _ = full(month)
    drawn = charts(report)
    assert [c.title for c in drawn] == ["Spending and forecast", "Cost by workstation and job"]
    for chart in drawn:
        root = ElementTree.fromstring(chart.svg)
        assert root.get("role") == "img"
        described = [e.text for e in root if e.tag.endswith("desc")]
        assert described == [chart.alt]
        assert "var(--accent)" in chart.svg
        assert not re.search(r"#0[1-5]0[1-5]0[1-5]", chart.svg)
    assert "forecast $" in drawn[0].alt
    assert "desk <b> $" in drawn[1].alt


def test_a_past_period_shows_no_forecast(month):
    later = JUNE.end + timedelta(days=3)
    stale = forecast_month(pd.Series(dtype=object), NOW, JUNE.start, JUNE.end, Decimal(1), zone=TZ)
    report = build_report("vision", month, JUNE, later, TZ, "USD", forecast=stale)
    assert report.forecast is None
    assert "Forecast" not in render_html(report)


def test_the_cumulative_line_ends_at_the_total(month):
    report, _ = full(month)
    assert abs(report.cumulative[-1].amount - report.spent) < Decimal("1e-12")
    amounts = [p.amount for p in report.cumulative]
    assert amounts == sorted(amounts)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("1234.5", "$1,234.50"),
        ("0", "$0.00"),
        ("0.00041", "$0.00041"),
        ("-3.2", "-$3.20"),
        ("0.5", "$0.50"),
    ],
)
def test_money_is_written_with_the_places_it_needs(amount, text):
    assert money(Decimal(amount), "USD") == text


def test_money_without_a_symbol_unknown_and_too_small():
    assert money(Decimal(12), "CHF") == "CHF 12.00"
    assert money(None, "USD") == "unknown"
    assert rounded_money(Decimal("0.00"), Decimal("0.0004"), "USD", 2) == "under $0.01"


@pytest.mark.parametrize(("hours", "text"), [("0.01", "36 s"), ("0.5", "30 min"), ("24", "24.0 h")])
def test_durations_are_written_in_the_unit_that_fits(hours, text):
    assert duration(Decimal(hours)) == text
