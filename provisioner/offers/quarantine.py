"""Keeps dirty data from being sold: each row that is left out has a reason that a user can read.

A family is a type of one provider, in all its regions and zones, or a GPU model at all providers
(its price is that of one GPU); each in one mode and currency. A price of more than `FACTOR` times
its family's median, or less than a `FACTOR`th of it, is a slip of a keyboard far more often than
an offer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from policies.world import PurchaseMode
from provisioner.offers.columns import MODES, Columns, Numbers

FACTOR = 5.0
FAMILY = 5
"""Fewer offers than this have no median worth the name."""
MOST_CPUS, MOST_MEMORY_GIB, MOST_GPUS = 4096, 65536, 256
_MARKETS = 4096
"""More than there are modes and currencies."""
_SPOT = MODES.index(PurchaseMode.SPOT)
_CURRENCY = re.compile(r"[A-Z]{3}")


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One row that is not sold, and why."""

    source: str
    offer_id: str
    reason: str
    observed: str
    threshold: str


def sift(
    columns: Columns, source: str, *, may_be_free: bool = False
) -> tuple[Numbers, list[Quarantined]]:
    """Which rows may be sold (a mask), and the others with their reasons.

    `may_be_free` is for prices that their owner has set: there 0 is a price like any other.
    """
    clean = np.ones(len(columns), dtype=bool)
    if not len(columns):
        return clean, []
    found: list[Quarantined] = []
    with np.errstate(invalid="ignore", divide="ignore"):
        for reason, threshold, judge in _RULES[1 if may_be_free else 0 :]:
            bad, observed = judge(columns, clean)
            for row in np.flatnonzero(bad & clean):
                at = int(row)
                seen = f"{float(observed[at]):g}" if observed is not None else columns.currency[at]
                found.append(Quarantined(source, columns.id(at), reason, seen, threshold))
            clean &= ~bad
    return clean, found


Judged = tuple[Numbers, Numbers | None]
Judge = Callable[[Columns, Numbers], Judged]


def _no_price(columns: Columns, _clean: Numbers) -> Judged:
    return ~(columns.price > 0), columns.price


def _no_currency(columns: Columns, _clean: Numbers) -> Judged:
    good = np.array([bool(_CURRENCY.fullmatch(word)) for word in columns.currency.words])
    return ~good[columns.currency.codes], None


def _no_cpus(columns: Columns, _clean: Numbers) -> Judged:
    return ~((columns.cpus > 0) & (columns.cpus <= MOST_CPUS)), columns.cpus


def _no_memory(columns: Columns, _clean: Numbers) -> Judged:
    good = (columns.memory_gib > 0) & (columns.memory_gib <= MOST_MEMORY_GIB)
    return ~good, columns.memory_gib


def _no_gpus(columns: Columns, _clean: Numbers) -> Judged:
    named = np.array([bool(word) for word in columns.gpu_model.words])[columns.gpu_model.codes]
    good = (columns.gpus >= 0) & (columns.gpus <= MOST_GPUS) & (named <= (columns.gpus > 0))
    return ~good, columns.gpus


def _twice(columns: Columns, _clean: Numbers) -> Judged:
    """All but the dearest of several rows with one id: nobody can tell which of them holds."""
    key = _place(columns) * len(MODES) + columns.mode
    order = np.lexsort((-columns.price, key))
    again = np.zeros(len(columns), dtype=bool)
    again[order[1:]] = key[order[1:]] == key[order[:-1]]
    return again, columns.price


def _off_median(columns: Columns, clean: Numbers) -> Judged:
    """How many times the median of its family each price is; 1 where nothing is wrong with it."""
    market = columns.mode * len(columns.currency.words) + columns.currency.codes
    provider = columns.provider.codes.astype(np.int64) * len(columns.instance_type.words)
    of_type = (provider + columns.instance_type.codes) * _MARKETS + market
    of_type_ratio = _ratios(columns.price, of_type, np.flatnonzero(clean))
    with_gpu = columns.gpus > 0
    of_model = columns.gpu_model.codes.astype(np.int64) * _MARKETS + market
    each = columns.price / np.where(with_gpu, columns.gpus, 1)
    of_model_ratio = _ratios(each, of_model, np.flatnonzero(clean & with_gpu))
    # A machine with much beside its GPU may well cost a lot for a GPU; for little there is none.
    little = of_model_ratio < 1 / FACTOR
    lonely = np.isnan(of_type_ratio) & (of_model_ratio > FACTOR)
    ratio = np.where(little | lonely, of_model_ratio, of_type_ratio)
    return (ratio > FACTOR) | (ratio < 1 / FACTOR), ratio


def _ratios(prices: Numbers, family: Numbers, rows: Numbers) -> Numbers:
    """Each row's price by its family's median; NaN where the family is too small, or not asked."""
    ratio = np.full(len(prices), np.nan)
    order = rows[np.lexsort((prices[rows], family[rows]))]
    starts = np.flatnonzero(np.diff(family[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(order)))
    middle = starts + (sizes - 1) // 2
    medians = (prices[order[middle]] + prices[order[starts + sizes // 2]]) / 2
    known = np.repeat(np.where(sizes >= FAMILY, medians, np.nan), sizes)
    ratio[order] = prices[order] / known
    return ratio


def _spot_too_dear(columns: Columns, clean: Numbers) -> Judged:
    """Spot that costs more than the same machine on demand: nobody would choose it."""
    firm_mode = MODES.index(PurchaseMode.ON_DEMAND)
    place = _place(columns)
    firm = np.flatnonzero((columns.mode == firm_mode) & clean)
    order = firm[np.argsort(place[firm], kind="stable")]
    at = np.searchsorted(place[order], place)
    at = np.minimum(at, max(len(order) - 1, 0))
    dearer = np.zeros(len(columns), dtype=bool)
    if len(order):
        beside = order[at]
        same = place[beside] == place
        dearer = same & (columns.mode == _SPOT) & (columns.price > columns.price[beside])
    return dearer, columns.price


def _place(columns: Columns) -> Numbers:
    """One number for each provider, region, zone and type."""
    key = columns.provider.codes.astype(np.int64)
    for words in (columns.region, columns.zone, columns.instance_type):
        key = key * len(words.words) + words.codes
    return key


_RULES: tuple[tuple[str, str, Judge], ...] = (
    ("its price is not above zero", "> 0", _no_price),
    ("its currency is no ISO 4217 code", "such as USD", _no_currency),
    ("it has an impossible number of CPUs", f"1 to {MOST_CPUS}", _no_cpus),
    ("it has an impossible amount of memory", f"up to {MOST_MEMORY_GIB} GiB", _no_memory),
    ("it has an impossible number of GPUs", f"up to {MOST_GPUS}, and a model", _no_gpus),
    ("another row of this offer is dearer", "one row an offer", _twice),
    (
        "its price is off its family's median",
        f"within a factor of {FACTOR:g}",
        _off_median,
    ),
    ("as spot it costs more than on demand", "at most the price on demand", _spot_too_dear),
)
