"""The rows of several tables as one list, put in order by arithmetic on whole columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from provisioner.offers.columns import Columns, Numbers


def in_order(
    tables: Sequence[Columns], rows: Sequence[Numbers], values: Sequence[Numbers], start: int = 0
) -> Iterator[tuple[int, int]]:
    """Table and row of each, the lowest value first, from the one at `start` on.

    What is unknown (NaN) comes last. Values compare within one currency: free machines come first,
    then each currency in turn, as in `policies.placement.by_price`; equal ones are told apart by
    their price, then by their id.
    """
    of_table = np.repeat(np.arange(len(tables)), [len(some) for some in rows])
    if start >= len(of_table):
        return
    row = np.concatenate(rows)
    value = np.concatenate(values)
    price = np.concatenate([table.price[some] for table, some in zip(tables, rows, strict=True)])
    unknown = np.isnan(value)
    keys = (price, np.where(unknown, 0, value), _currencies(tables, rows, price), unknown)
    order = np.lexsort(keys)
    differs = np.zeros(len(order) - 1, dtype=bool)
    for key in keys:
        differs |= key[order[1:]] != key[order[:-1]]
    bounds = np.concatenate(([0], np.flatnonzero(differs) + 1, [len(order)]))
    for at in range(int(np.searchsorted(bounds, start, side="right")) - 1, len(bounds) - 1):
        begin, end = int(bounds[at]), int(bounds[at + 1])
        tied = [(int(of_table[each]), int(row[each])) for each in order[begin:end]]
        if len({table for table, _ in tied}) > 1:  # within one they are in order already
            tied.sort(key=lambda each: tables[each[0]].id(each[1]))
        yield from tied[max(0, start - begin) :]


def _currencies(tables: Sequence[Columns], rows: Sequence[Numbers], price: Numbers) -> Numbers:
    """A number for each row's currency, in the order of their names; -1 for free machines."""
    names = sorted({word for table in tables for word in table.currency.words})
    ranks = {name: rank for rank, name in enumerate(names)}
    found = [
        np.array([ranks[word] for word in table.currency.words], dtype=np.int32)[
            table.currency.codes[some]
        ]
        for table, some in zip(tables, rows, strict=True)
    ]
    return np.where(price == 0, -1, np.concatenate(found))
