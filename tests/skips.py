"""No test is skipped unnoticed: with this plugin a skip that nobody expects is a failure.

    python -m pytest -p tests.skips --expected-skips tests/expected-skips.txt

Each line of the file is a part of a reason, and after `#` why a test may be skipped for it.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)
_EXPECTED: pytest.StashKey[tuple[str, ...]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--expected-skips", type=Path, metavar="FILE", help="fail on skips not in this file"
    )


def pytest_configure(config: pytest.Config) -> None:
    path: Path | None = config.getoption("--expected-skips")
    if path is not None:
        lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
        config.stash[_EXPECTED] = tuple(line for line in lines if line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return _judged(report, item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return _judged(report, collector.config)


def _judged(report: Report, config: pytest.Config) -> Report:
    expected = config.stash.get(_EXPECTED, None)
    if expected is None or not report.skipped or hasattr(report, "wasxfail"):
        return report
    reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    if not any(words in reason for words in expected):
        report.outcome = "failed"
        report.longrepr = f"unexpected skip, it is not in the list of expected ones: {reason}"
    return report
