"""Reads the sources of offers that are no providers, each in its own time, beside everything else.

A source that fails keeps what it told last, and says since when and why.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import httpx

from policies.world import Resources
from provisioner.calls import Calls
from provisioner.clock import Clock
from provisioner.errors import ProviderError, RoostError
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.market import Market
from provisioner.offers.prices import priced
from provisioner.offers.settings import OffersSettings
from provisioner.offers.sources import spot_advisor
from provisioner.offers.sources.azure_retail import azure_prices
from provisioner.offers.sources.csv_files import csv_files, read_csv
from provisioner.offers.sources.gcp_billing import gcp_prices, gcp_shape

_log = logging.getLogger(__name__)
_FILES_EVERY = timedelta(minutes=1)
_RETRY = timedelta(minutes=5)
"""After a failure."""
_KEY = "offers of {}"


@dataclass(frozen=True, slots=True)
class Source:
    """One place that offers are read from. `read` puts them where they belong."""

    name: str
    every: timedelta
    read: Callable[[datetime], None]
    changed: Callable[[], object] = object
    """A value that stays equal while there is nothing new to read."""


class Refresher:
    """Reads what is due, without waiting for it."""

    def __init__(self, sources: list[Source], clock: Clock, calls: Calls, market: Market) -> None:
        self._sources = {source.name: source for source in sources}
        self._clock = clock
        self._calls = calls
        self._market = market
        self._due_at: dict[str, datetime] = {}
        self._known: dict[str, object] = {}
        self._reading: set[str] = set()

    def refresh(self, wait_s: float = 0.0) -> None:
        """Begin to read what is due, and take note of what has been read."""
        now = self._clock.now()
        due = [
            name
            for name in self._sources
            if name in self._reading or name not in self._due_at or now >= self._due_at[name]
        ]
        asked = {_KEY.format(name): functools.partial(self._read, name) for name in due}
        answers: Mapping[str, str | None] = self._calls.gather(asked, wait_s)
        for name in due:
            key = _KEY.format(name)
            if key not in answers:
                self._reading.add(name)
                continue
            self._reading.discard(name)
            error = answers[key]
            self._market.note_source(name, error)
            every = self._sources[name].every
            self._due_at[name] = now + (every if error is None else min(every, _RETRY))

    def _read(self, name: str) -> str | None:
        """Read one source; what went wrong, None when nothing did."""
        source = self._sources[name]
        try:
            state = source.changed()
            if state != self._known.get(name, _NEVER):
                source.read(self._clock.now())
                self._known[name] = state
        except RoostError as error:
            _log.warning("offers of %s: %s", name, error)
            return str(error)
        except Exception as error:  # noqa: BLE001 (one source must not stop the others)
            _log.exception("offers of %s", name)
            return f"{type(error).__name__}: {error}"
        return None


_NEVER = object()


def sources_of(
    settings: OffersSettings, market: Market, http: Callable[[], httpx.Client]
) -> list[Source]:
    """What the settings name."""
    every = timedelta(hours=settings.every_hours)
    catalogue = market.catalogue
    found = [
        Source(
            str(path),
            _FILES_EVERY,
            functools.partial(_read_files, catalogue, path),
            functools.partial(_stamps, path),
        )
        for path in settings.csv
    ]
    if settings.libcloud_file:
        found.append(Source("libcloud", every, functools.partial(_read_libcloud, catalogue)))
    if settings.azure_retail:
        read = functools.partial(_read_azure, catalogue, http)
        found.append(Source("azure retail prices", every, read))
    if settings.gcp_billing_key is not None:
        key = settings.gcp_billing_key.get_secret_value()
        read = functools.partial(_read_gcp, catalogue, http, key)
        found.append(Source("google billing catalogue", every, read))
    if settings.spot_advisor:
        read = functools.partial(_read_advisor, market, http)
        found.append(Source("aws spot advisor", every, read))
    return found


def _read_files(catalogue: Catalogue, path: Any, now: datetime) -> None:
    for file in csv_files(path):
        catalogue.update_columns(str(file), read_csv(file), _written_at(file, now))


def _stamps(path: Any) -> object:
    return tuple((str(file), file.stat().st_mtime_ns) for file in csv_files(path))


def _written_at(file: Any, now: datetime) -> datetime:
    """A file is as old as its last change; not younger than now, whatever its time says."""
    return min(datetime.fromtimestamp(file.stat().st_mtime, now.tzinfo), now)


def _read_libcloud(catalogue: Catalogue, _now: datetime) -> None:
    from provisioner.offers.sources.libcloud_file import read_libcloud_prices, told_at

    catalogue.update_columns("libcloud", read_libcloud_prices("ec2"), told_at())


def _read_azure(catalogue: Catalogue, http: Callable[[], httpx.Client], now: datetime) -> None:
    shapes = catalogue.shapes("azure")
    if not shapes:
        raise ProviderError(
            "Azure's price list names types without their CPUs and memory, and nothing is known of "
            "those yet.",
            remedy="Set up Azure as a provider, or name a CSV file with its types.",
        )
    with http() as client:
        prices = list(azure_prices(client))
    columns = priced("azure", prices, shapes.get)
    catalogue.update_columns("azure retail prices", columns, now)


def _read_gcp(
    catalogue: Catalogue, http: Callable[[], httpx.Client], key: str, now: datetime
) -> None:
    with http() as client:
        prices = gcp_prices(client, key)
    known: dict[str, Resources] = catalogue.shapes("gcp")
    columns = priced("gcp", prices, lambda name: known.get(name) or gcp_shape(name))
    catalogue.update_columns("google billing catalogue", columns, now)


def _read_advisor(market: Market, http: Callable[[], httpx.Client], _now: datetime) -> None:
    with http() as client:
        market.interruptions = spot_advisor.interruption_rates(client)
