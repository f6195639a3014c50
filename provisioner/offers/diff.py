"""What has changed between two tables of one source."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provisioner.offers.columns import MODES, Columns, Numbers, Words
from provisioner.offers.table import Table

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Diff:
    """How many offers are new, gone, or have another price; some of each by id."""

    added: int = 0
    removed: int = 0
    repriced: int = 0
    examples: tuple[str, ...] = ()
    """`+ id`, `- id`, `~ id 0.30 -> 0.35`."""


NOTHING = Diff()


def difference(before: Table, after: Table) -> Diff:
    """What `after` has that `before` had not, and the other way round."""
    if not len(before):
        return Diff(added=len(after))
    was, now = before.columns, after.columns
    keys_was, keys_now = _keys(was, now)
    added = np.flatnonzero(~np.isin(keys_now, keys_was))
    removed = np.flatnonzero(~np.isin(keys_was, keys_now))
    _, at_was, at_now = np.intersect1d(keys_was, keys_now, assume_unique=True, return_indices=True)
    other = was.price[at_was] != now.price[at_now]
    at_was, at_now = at_was[other], at_now[other]
    repriced = zip(at_was[:EXAMPLES], at_now[:EXAMPLES], strict=True)
    examples = (
        *(f"+ {now.id(int(row))}" for row in added[:EXAMPLES]),
        *(f"- {was.id(int(row))}" for row in removed[:EXAMPLES]),
        *(f"~ {now.id(int(n))} {was.price[w]:g} -> {now.price[n]:g}" for w, n in repriced),
    )
    return Diff(len(added), len(removed), len(at_now), examples)


def _keys(was: Columns, now: Columns) -> tuple[Numbers, Numbers]:
    """One number for each offer of either, the same for the same id."""
    keys = [np.zeros(len(columns), dtype=np.int64) for columns in (was, now)]
    for name in ("provider", "region", "zone", "instance_type"):
        pair: list[Words] = [getattr(columns, name) for columns in (was, now)]
        known = {
            word: at for at, word in enumerate(dict.fromkeys((*pair[0].words, *pair[1].words)))
        }
        for side, words in enumerate(pair):
            codes = np.array([known[word] for word in words.words], dtype=np.int64)
            keys[side] = keys[side] * len(known) + codes[words.codes]
    return keys[0] * len(MODES) + was.mode, keys[1] * len(MODES) + now.mode
