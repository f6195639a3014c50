"""A catalogue of CSV files, searched in this process and shown as the API shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Self

from policies.world import PurchaseMode
from provisioner.clock import Clock
from provisioner.errors import InvalidError
from provisioner.offers.asking import Asked, search_of
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.search import Order, Search, Searcher
from provisioner.offers.service import source_view
from provisioner.offers.sources.csv_files import FILES_STALE_AFTER, csv_files, read_csv, written_at

Json = dict[str, Any]


class FileShop:
    """Answers as `api.client.Client` does, from files."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._catalogue = Catalogue()
        self._now = clock.now()
        for file in csv_files(Path(path)):
            at, columns = written_at(file, self._now), read_csv(file)
            self._catalogue.update_columns(file.stem, columns, at, FILES_STALE_AFTER)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def offers(self, query: Json) -> Iterator[Json]:
        for found in self._searcher().find(_search(query)):
            shown = _shown(found)
            yield shown.pop("offer") | shown

    def offers_left_out(self, query: Json) -> list[Json]:
        return [_shown(one) for one in self._searcher().left_out(_search(query))]

    def offer_sources(self) -> list[Json]:
        return [_shown(source_view(s, self._now, None)) for s in self._catalogue.stocks()]

    def quarantined(self) -> Iterator[Json]:
        for stock in self._catalogue.stocks():
            for row in stock.quarantined:
                yield _shown(row)

    def _searcher(self) -> Searcher:
        return Searcher(self._catalogue, {}, {}, self._now)


def _shown(value: Any) -> Json:
    """A value as the API shows it: money and enumerations are texts."""
    return asdict(value, dict_factory=lambda pairs: {name: _plain(each) for name, each in pairs})


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.value if isinstance(value, PurchaseMode) else value


def _search(query: Json) -> Search:
    """What the command was given, as the API would read it."""
    typed = dict(query)
    if "mode" in typed:
        typed["mode"] = PurchaseMode(typed["mode"])
    typed["order"] = Order(typed.get("order", Order.PRICE))
    if "max_price_per_hour" in typed:
        typed["max_price_per_hour"] = _money(typed["max_price_per_hour"])
    return search_of(Asked(**{**typed, "everything": True}))


def _money(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not 0 <= amount < Decimal("1e12"):
        raise InvalidError(f"{text!r} is no price.", remedy="Write a number such as 20 or 0.35.")
    return amount
