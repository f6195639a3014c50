"""What a price is held against: the median of its family.

A family is a type of one provider, in all its regions and zones; or a GPU model (its price is that
of one GPU); or the sizes of one series of a provider, such as `m5.*` (the price is that of
a CPU, and of a GiB). Each is of one mode and currency. A price of more than `FACTOR` times its
family's median, or less than a `FACTOR`th of it, is a slip far more often than an offer.
"""

from __future__ import annotations

import re

import numpy as np

from provisioner.offers.columns import MODES, Columns, Numbers, Words

FACTOR = 5.0
FAMILY = 5
"""Fewer offers than this have no median worth the name."""


def times_median(columns: Columns, clean: Numbers) -> Numbers:
    """How many times the median of its family each price of a clean row is; NaN without any."""
    price = columns.price
    named = np.array([bool(word) for word in columns.gpu_model.words])[columns.gpu_model.codes]
    with_gpu = clean & named
    of_type = _ratios(price, _family(columns, columns.instance_type), clean)
    each = price / np.maximum(columns.gpus, 1)
    of_model = _ratios(each, _family(columns, columns.gpu_model, anywhere=True), with_gpu)
    # A machine with much beside its GPU may well cost a lot for a GPU; for little there is none.
    alone = np.isnan(of_type)
    by_model = (of_model < 1 / FACTOR) | (alone & (of_model > FACTOR))
    plain = clean & ~(columns.gpus > 0)
    of_series = _times_series(columns, plain, alone & plain)
    return np.where(by_model, of_model, np.where(alone & plain, of_series, of_type))


def _times_series(columns: Columns, plain: Numbers, asked: Numbers) -> Numbers:
    """Of some machines without GPUs, by the other sizes of their series.

    Sizes have more memory for a CPU or less: off is what is off by both.
    """
    series = columns.instance_type.renamed([_series(w) for w in columns.instance_type.words])
    family = _family(columns, series)
    rows = plain & np.isin(family, np.unique(family[asked]))
    by_cpu = _ratios(columns.price / columns.cpus, family, rows)
    by_gib = _ratios(columns.price / columns.memory_gib, family, rows)
    dear, cheap = np.minimum(by_cpu, by_gib), np.maximum(by_cpu, by_gib)
    return np.where(dear > 1, dear, np.where(cheap < 1, cheap, 1))


def _family(columns: Columns, words: Words, *, anywhere: bool = False) -> Numbers:
    """A number for each word, mode and currency, and for each provider unless it is `anywhere`."""
    key = words.codes.astype(np.int64)
    if not anywhere:
        key = key + columns.provider.codes.astype(np.int64) * len(words.words)
    return (key * len(MODES) + columns.mode) * len(columns.currency.words) + columns.currency.codes


def _series(instance_type: str) -> str:
    """`m5.xlarge` and `m6.large` are of one, and so are `Standard_D2s_v5` and `Standard_D8s_v3`."""
    return re.sub(r"\d+", "#", instance_type.partition(".")[0])


def _ratios(prices: Numbers, family: Numbers, asked: Numbers) -> Numbers:
    """Each row's price by its family's median; NaN where the family is too small, or not asked."""
    ratio = np.full(len(prices), np.nan)
    rows = np.flatnonzero(asked)
    order = rows[np.lexsort((prices[rows], family[rows]))]
    starts = np.flatnonzero(np.diff(family[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(order)))
    middle = starts + (sizes - 1) // 2
    medians = (prices[order[middle]] + prices[order[starts + sizes // 2]]) / 2
    known = np.repeat(np.where((sizes >= FAMILY) & (medians > 0), medians, np.nan), sizes)
    ratio[order] = prices[order] / known
    return ratio
