"""Reads the sources of offers that are no providers, each in its own time, beside everything else.

A source that fails keeps what it told last, and says since when and why.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

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
from provisioner.offers.sources.csv_files import FILES_STALE_AFTER
from provisioner.offers.sources.csv_folder import CsvFolder
from provisioner.offers.sources.gcp_billing import gcp_prices, gcp_shape
from provisioner.offers.sources.own import own_offers

_log = logging.getLogger(__name__)
_FILES_EVERY = timedelta(minutes=1)
_RETRY = timedelta(minutes=5)
"""After a failure."""
_KEY = "offers of {}"
# No provider can be called so: these are no names of providers, which hold no spaces.
_OWN, _LIBCLOUD = "own offers", "libcloud price file"
_AZURE, _GOOGLE = "azure retail prices", "google billing catalogue"
_ADVISOR = "aws spot advisor"


@dataclass(frozen=True, slots=True)
class Source:
    """One place that offers are read from. `read` puts them where they belong."""

    name: str
    every: timedelta
    read: Callable[[datetime], None]


class Refresher:
    """Reads what is due, without waiting for it."""

    def __init__(self, sources: list[Source], clock: Clock, calls: Calls, market: Market) -> None:
        self._sources = {source.name: source for source in sources}
        self._clock = clock
        self._calls = calls
        self._market = market
        self._due_at: dict[str, datetime] = {}
        self._reading: set[str] = set()
        for source in sources:
            market.note_source(source.name, "It has not been read yet.")

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
        try:
            self._sources[name].read(self._clock.now())
        except RoostError as error:
            _log.warning("offers of %s: %s", name, error)
            return str(error)
        except Exception as error:  # noqa: BLE001 (one source must not stop the others)
            _log.exception("offers of %s", name)
            return f"{type(error).__name__}: {error}"
        return None


def sources_of(
    settings: OffersSettings, market: Market, http: Callable[[], httpx.Client]
) -> list[Source]:
    """What the settings name."""
    every = timedelta(hours=settings.every_hours)
    catalogue = market.catalogue
    found = []
    for path in map(Path.absolute, settings.csv):
        found.append(Source(str(path), _FILES_EVERY, CsvFolder(path, catalogue).read))
    if settings.own:
        found.append(Source(_OWN, every, functools.partial(_read_own, catalogue, settings)))
    if settings.libcloud_file:
        found.append(Source(_LIBCLOUD, every, functools.partial(_read_libcloud, catalogue)))
    if settings.azure_retail:
        read = functools.partial(_read_azure, catalogue, http, 2 * every)
        found.append(Source(_AZURE, every, read))
    if settings.gcp_billing_key is not None:
        key = settings.gcp_billing_key.get_secret_value()
        read = functools.partial(_read_gcp, catalogue, http, key, 2 * every)
        found.append(Source(_GOOGLE, every, read))
    if settings.spot_advisor:
        read = functools.partial(_read_advisor, market, http)
        found.append(Source(_ADVISOR, every, read))
    return found


def _read_own(catalogue: Catalogue, settings: OffersSettings, now: datetime) -> None:
    catalogue.update_columns(_OWN, own_offers(settings), now)


def _read_libcloud(catalogue: Catalogue, _now: datetime) -> None:
    from provisioner.offers.sources.libcloud_file import read_libcloud_prices, told_at

    catalogue.update_columns(_LIBCLOUD, read_libcloud_prices("ec2"), told_at(), FILES_STALE_AFTER)


def _read_azure(
    catalogue: Catalogue, http: Callable[[], httpx.Client], stale_after: timedelta, now: datetime
) -> None:
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
    catalogue.update_columns(_AZURE, columns, now, stale_after)


def _read_gcp(
    catalogue: Catalogue,
    http: Callable[[], httpx.Client],
    key: str,
    stale_after: timedelta,
    now: datetime,
) -> None:
    with http() as client:
        prices = gcp_prices(client, key)
    known: dict[str, Resources] = catalogue.shapes("gcp")
    columns = priced("gcp", prices, lambda name: known.get(name) or gcp_shape(name))
    catalogue.update_columns(_GOOGLE, columns, now, stale_after)


def _read_advisor(market: Market, http: Callable[[], httpx.Client], _now: datetime) -> None:
    with http() as client:
        market.interruptions = spot_advisor.interruption_rates(client)
