"""The offers of one source, sorted by price and indexed by GPU. Immutable: readers need no lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.globs import matches_glob
from policies.quantities import Range
from policies.world import Offer, PurchaseMode, Resources
from provisioner.gpus import GPUS
from provisioner.offers.columns import MODES, Columns, Numbers, Words
from provisioner.offers.query import GpuWish, OfferQuery


@dataclass(frozen=True, slots=True)
class Dropped:
    """Offers that one part of a query left out, the cheapest of them as an example."""

    because: str
    count: int
    example: Offer


class Table:
    """Rows are numbered in the order of `policies.placement.by_price`."""

    def __init__(self, columns: Columns, made: Sequence[Offer] | None = None) -> None:
        """`made` are the same offers as values, where there are such already."""
        order = columns.by_price()
        self._columns = columns.take(order)
        self._made = None if made is None else [made[row] for row in order]
        self._of_model = _rows_by_word(self._columns.gpu_model)
        self._models_by_name: dict[str, list[str]] = {}
        for model in filter(None, self._of_model):
            self._models_by_name.setdefault(model.casefold(), []).append(model)
        self._everything = np.arange(len(columns))
        self._words: dict[str, frozenset[str]] = {}
        """By column, once they have been asked for."""

    def __len__(self) -> int:
        return len(self._columns)

    def offer(self, row: int) -> Offer:
        return self._columns.offer(row) if self._made is None else self._made[row]

    def offers(self) -> Iterator[Offer]:
        return map(self.offer, range(len(self)))

    def words(self, column: str) -> frozenset[str]:
        """The different texts of a column: `region`, `gpu_model`."""
        if column not in self._words:
            found: Words = getattr(self._columns, column)
            used = np.unique(found.codes)
            self._words[column] = frozenset(found.words[code] for code in used) - {""}
        return self._words[column]

    def knows(self, column: str, word: str) -> bool:
        """Whether a text is in a column, in upper case or lower."""
        return word in self.words(column) or word.casefold() in map(
            str.casefold, self.words(column)
        )

    def shapes(self, provider: str) -> dict[str, Resources]:
        """What each of a provider's types has."""
        c, types = self._columns, self._columns.instance_type
        ours = np.flatnonzero(c.provider.codes == _code(c.provider, provider))
        _, first = np.unique(types.codes[ours], return_index=True)
        return {types[row]: self.offer(row).resources for row in map(int, ours[first])}

    @property
    def columns(self) -> Columns:
        return self._columns

    def select(self, query: OfferQuery, dropped: list[Dropped] | None = None) -> Numbers:
        """The rows that fit, cheapest first; what left out the others goes to `dropped`."""
        rows = self._with_gpus(query.gpus) if dropped is None else self._everything
        for because, test in self._tests(query, with_gpus=dropped is not None):
            passed = test(rows)
            if dropped is not None and not passed.all():
                out = rows[~passed]
                dropped.append(Dropped(because, len(out), self.offer(int(out[0]))))
            rows = rows[passed]
            if not len(rows):
                break
        return rows

    def same(self, offer: Offer, mode: PurchaseMode) -> Offer | None:
        """The same machine in the same zone, bought in another mode; None when it is not sold."""
        c = self._columns
        found = c.mode == MODES.index(mode)
        for name in ("instance_type", "zone", "region"):
            words: Words = getattr(c, name)
            found &= words.codes == _code(words, getattr(offer, name))
        rows = np.flatnonzero(found)
        return self.offer(int(rows[0])) if len(rows) else None

    def cheapest(
        self, provider: str, region: str, instance_type: str, mode: PurchaseMode
    ) -> Offer | None:
        """A type's cheapest offer in a region, in whichever zone; None when it is not sold."""
        key = 0
        for codes, text in zip(self._codes, (provider, region, instance_type), strict=True):
            if text not in codes:
                return None
            key = key * len(codes) + codes[text]
        key = key * len(MODES) + MODES.index(mode)
        keys, rows = self._first_of_type
        at = int(np.searchsorted(keys, key))
        return self.offer(int(rows[at])) if at < len(keys) and keys[at] == key else None

    @cached_property
    def _codes(self) -> list[dict[str, int]]:
        """Of the words that name a type in a region."""
        c = self._columns
        return [
            {word: code for code, word in enumerate(words.words)}
            for words in (c.provider, c.region, c.instance_type)
        ]

    @cached_property
    def _first_of_type(self) -> tuple[Numbers, Numbers]:
        """One number for each type in a region and mode, rising, and the first row of each."""
        c = self._columns
        keys = np.zeros(len(self), dtype=np.int64)
        for codes, words in zip(self._codes, (c.provider, c.region, c.instance_type), strict=True):
            keys = keys * len(codes) + words.codes
        return np.unique(keys * len(MODES) + c.mode, return_index=True)

    def _with_gpus(self, wishes: tuple[GpuWish, ...]) -> Numbers:
        """The rows that have any of the GPUs, by the index."""
        if not wishes:
            return self._everything
        found = []
        for wish in wishes:
            for model in self._models(wish.model):
                rows = self._of_model[model]
                found.append(rows[_within(self._columns.gpus[rows], wish.count)])
        if len(found) == 1:
            return found[0]
        return np.unique(np.concatenate(found)) if found else np.arange(0)

    def _models(self, wanted: str | None) -> list[str]:
        """The models that a name means here; all of them for None."""
        if wanted is not None and "*" not in wanted:
            return self._models_by_name.get(wanted.casefold(), [])
        models = [model for model in self._of_model if model]
        good = _matching((wanted or "*",), models)
        return [model for model, fits in zip(models, good, strict=True) if fits]

    def _tests(
        self, query: OfferQuery, *, with_gpus: bool
    ) -> Iterator[tuple[str, Callable[[Numbers], Numbers]]]:
        """Each part of a query with its test of some rows, the sharpest first."""
        c = self._columns
        if with_gpus and query.gpus:
            fitting = np.zeros(len(self), dtype=bool)
            fitting[self._with_gpus(query.gpus)] = True
            yield "gpu", lambda rows: fitting[rows]
        if query.mode is not None:
            code = MODES.index(query.mode)
            yield "mode", lambda rows: c.mode[rows] == code
        for name, wanted in (
            ("provider", query.providers),
            ("region", query.regions),
            ("zone", query.zones),
            ("instance_type", query.types),
            ("arch", query.archs),
        ):
            if wanted:
                words: Words = getattr(c, name)
                matching = _matching(wanted, words.words)
                yield name, lambda rows, m=matching, w=words: m[w.codes[rows]]  # type: ignore[misc]
        for name, span in (("cpus", query.cpus), ("memory_gib", query.memory_gib)):
            if span is not None:
                numbers = getattr(c, name)
                yield name, lambda rows, n=numbers, s=span: _within(n[rows], s)  # type: ignore[misc]
        if query.gpu_memory_gib is not None:
            sizes = np.array([_gpu_memory(model) for model in c.gpu_model.words])
            wanted_size = query.gpu_memory_gib
            yield "gpu_memory", lambda rows: _within(sizes[c.gpu_model.codes[rows]], wanted_size)
        if query.max_price_per_hour is not None:
            most = float(query.max_price_per_hour)
            yield "max_price", lambda rows: c.price[rows] <= most


def _rows_by_word(words: Words) -> dict[str, Numbers]:
    """The rows of each word, in order."""
    order = np.argsort(words.codes, kind="stable")
    starts = np.searchsorted(words.codes[order], np.arange(len(words.words) + 1))
    return {word: order[starts[code] : starts[code + 1]] for code, word in enumerate(words.words)}


def _within(numbers: Numbers, span: Range) -> Numbers:
    above: Numbers = numbers >= float(span.low)
    return above if span.high is None else above & (numbers <= float(span.high))


def _matching(wanted: Sequence[str], words: Sequence[str]) -> Numbers:
    """Which words have one of the names, or are what one of the globs says."""
    folded = [pattern.casefold() for pattern in wanted]
    names = {pattern for pattern in folded if "*" not in pattern}
    globs = [pattern for pattern in folded if "*" in pattern]
    return np.array(
        [
            word in names or any(matches_glob(glob, word) for glob in globs)
            for word in map(str.casefold, words)
        ],
        dtype=bool,
    )


def _gpu_memory(model: str) -> float:
    gpu = GPUS.get(model)
    return float("nan") if gpu is None else gpu.memory_gib


def _code(words: Words, text: str) -> int:
    return words.words.index(text) if text in words.words else -1
