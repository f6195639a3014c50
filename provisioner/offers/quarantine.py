"""Keeps dirty data from being sold: each row that is left out has a reason that a user can read.

What is wrong with one row is seen in itself, in the row of the same machine on demand, or in its
family (`provisioner.offers.families`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from policies.world import PurchaseMode
from provisioner.offers.columns import MODES, Columns, Numbers
from provisioner.offers.families import FACTOR, times_median

MOST_CPUS, MOST_MEMORY_GIB, MOST_GPUS = 4096, 65536, 256
MOST_PRICE = 1e10
"""Of an hour, in any currency."""
MOST_LISTED = 10_000
"""Rows of one source that can be read; the others are only counted."""
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
    """Which rows may be sold (a mask), and the others with their reasons, `MOST_LISTED` at most.

    `may_be_free` is for prices that their owner has set: there 0 is a price like any other.
    """
    clean = np.ones(len(columns), dtype=bool)
    if not len(columns):
        return clean, []
    found: list[Quarantined] = []
    with np.errstate(invalid="ignore", divide="ignore"):
        for reason, threshold, judge in (_FREE if may_be_free else _SOLD, *_RULES):
            bad, told = judge(columns, clean)
            for row in np.flatnonzero(bad & clean)[: MOST_LISTED - len(found)]:
                at = int(row)
                found.append(Quarantined(source, columns.id(at), reason, told(at), threshold))
            clean &= ~bad
    return clean, found


Judged = tuple[Numbers, Callable[[int], str]]
"""Which rows are bad, and what is seen in one of them."""
Judge = Callable[[Columns, Numbers], Judged]


def _number(column: Numbers) -> Callable[[int], str]:
    return lambda row: f"{float(column[row]):g}"


def _no_price(columns: Columns, _clean: Numbers) -> Judged:
    return ~(columns.price > 0), _number(columns.price)


def _negative_price(columns: Columns, _clean: Numbers) -> Judged:
    return ~(columns.price >= 0), _number(columns.price)


def _no_sum(columns: Columns, _clean: Numbers) -> Judged:
    return columns.price > MOST_PRICE, _number(columns.price)


def _no_place(columns: Columns, _clean: Numbers) -> Judged:
    empty = np.zeros(len(columns), dtype=bool)
    for words in (columns.provider, columns.region, columns.zone, columns.instance_type):
        # Names are parts of an id, which slashes keep apart.
        bad = np.array([not word or "/" in word or not word.isprintable() for word in words.words])
        empty |= bad[words.codes]
    return empty, columns.id


def _not_known(columns: Columns, _clean: Numbers) -> Judged:
    return np.isnan(columns.cpus) & np.isnan(columns.memory_gib), _number(columns.cpus)


def _no_currency(columns: Columns, _clean: Numbers) -> Judged:
    good = np.array([bool(_CURRENCY.fullmatch(word)) for word in columns.currency.words])
    return ~good[columns.currency.codes], lambda row: columns.currency[row]


def _no_cpus(columns: Columns, _clean: Numbers) -> Judged:
    return ~((columns.cpus > 0) & (columns.cpus <= MOST_CPUS)), _number(columns.cpus)


def _no_memory(columns: Columns, _clean: Numbers) -> Judged:
    good = (columns.memory_gib > 0) & (columns.memory_gib <= MOST_MEMORY_GIB)
    return ~good, _number(columns.memory_gib)


def _no_gpus(columns: Columns, _clean: Numbers) -> Judged:
    named = np.array([bool(word) for word in columns.gpu_model.words])[columns.gpu_model.codes]
    good = (columns.gpus >= 0) & (columns.gpus <= MOST_GPUS) & (named <= (columns.gpus > 0))
    return ~good, _number(columns.gpus)


def _twice(columns: Columns, clean: Numbers) -> Judged:
    """All but the dearest of several rows with one id: nobody can tell which of them holds."""
    key = _place(columns) * len(MODES) + columns.mode
    order = np.lexsort((-columns.price, key))
    order = order[clean[order]]
    again = np.zeros(len(columns), dtype=bool)
    again[order[1:]] = key[order[1:]] == key[order[:-1]]
    return again, _number(columns.price)


def _off_median(columns: Columns, clean: Numbers) -> Judged:
    ratio = times_median(columns, clean)
    return (ratio > FACTOR) | (ratio < 1 / FACTOR), _number(ratio)


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
    return dearer, _number(columns.price)


def _place(columns: Columns) -> Numbers:
    """One number for each provider, region, zone and type."""
    key = columns.provider.codes.astype(np.int64)
    for words in (columns.region, columns.zone, columns.instance_type):
        key = key * len(words.words) + words.codes
    return key


_SOLD = ("its price is not above zero", "> 0", _no_price)
_FREE = ("its price is below zero", ">= 0", _negative_price)
_RULES: tuple[tuple[str, str, Judge], ...] = (
    ("its price is no sum that anybody pays", f"up to {MOST_PRICE:g}", _no_sum),
    ("it lacks a name of its provider, region or type", "names without slashes", _no_place),
    ("its currency is no ISO 4217 code", "such as USD", _no_currency),
    ("nothing is known of its CPUs and memory", "numbers", _not_known),
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
