"""Offers as columns: a hundred thousand in 10 MB, filtered by arithmetic on whole arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.world import Offer, PurchaseMode, Resources

Numbers = npt.NDArray[Any]
MODES = tuple(sorted(PurchaseMode))


@dataclass(frozen=True, slots=True)
class Words:
    """A column of texts, each kept once: `words[codes[i]]` is that of row `i`."""

    codes: Numbers
    words: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Words:
        known: dict[str, int] = {}
        codes = [known.setdefault(text, len(known)) for text in texts]
        return cls(np.array(codes, dtype=np.int32), tuple(known))

    @classmethod
    def all_alike(cls, text: str, length: int) -> Words:
        return cls(np.zeros(length, dtype=np.int32), (text,))

    def take(self, rows: Numbers) -> Words:
        return Words(self.codes[rows], self.words)

    def renamed(self, names: Sequence[str]) -> Words:
        """With other words in the places of these; several that become one are kept once."""
        known = {name: code for code, name in enumerate(dict.fromkeys(names))}
        codes = np.array([known[name] for name in names], dtype=np.int32)
        return Words(codes[self.codes] if len(codes) else self.codes, tuple(known))

    def __getitem__(self, row: int) -> str:
        word: str = self.words[self.codes[row]]
        return word


@dataclass(frozen=True, slots=True)
class Columns:
    """Offers of one source, one a row. NaN is an unknown number, an empty word an unknown text."""

    provider: Words
    region: Words
    zone: Words
    instance_type: Words
    gpu_model: Words
    """Canonical; empty without a GPU."""
    arch: Words
    """`x86_64`, `arm64`."""
    currency: Words
    mode: Numbers
    """Index into `MODES`."""
    cpus: Numbers
    memory_gib: Numbers
    gpus: Numbers
    price: Numbers
    """Of an hour."""
    can_stop: Numbers

    def __len__(self) -> int:
        return len(self.price)

    def take(self, rows: Numbers) -> Columns:
        """Some rows, in the order given (positions, or a mask)."""
        taken: dict[str, Any] = {}
        for field in fields(self):
            column = getattr(self, field.name)
            taken[field.name] = column.take(rows) if isinstance(column, Words) else column[rows]
        return Columns(**taken)

    @classmethod
    def of(cls, offers: Sequence[Offer]) -> Columns:
        has = [offer.resources for offer in offers]
        return cls(
            provider=Words.of(offer.provider for offer in offers),
            region=Words.of(offer.region for offer in offers),
            zone=Words.of(offer.zone for offer in offers),
            instance_type=Words.of(offer.instance_type for offer in offers),
            gpu_model=Words.of(each.gpu_model or "" for each in has),
            arch=Words.all_alike("", len(offers)),
            currency=Words.of(offer.currency for offer in offers),
            mode=np.array([MODES.index(offer.mode) for offer in offers], dtype=np.int8),
            cpus=np.array([each.cpus for each in has], dtype=float),
            memory_gib=np.array([each.memory_gib for each in has], dtype=float),
            gpus=np.array([each.gpus for each in has], dtype=np.int32),
            price=np.array([float(offer.price_per_hour) for offer in offers]),
            can_stop=np.array([offer.can_stop for offer in offers], dtype=bool),
        )

    def offer(self, row: int) -> Offer:
        """One row as the value that policies decide on."""
        provider, region, zone = self.provider[row], self.region[row], self.zone[row]
        instance_type, mode = self.instance_type[row], MODES[self.mode[row]]
        return Offer(
            id=f"{provider}/{region}/{zone}/{instance_type}/{mode}",
            provider=provider,
            region=region,
            zone=zone,
            instance_type=instance_type,
            mode=mode,
            resources=Resources(
                float(self.cpus[row]),
                float(self.memory_gib[row]),
                int(self.gpus[row]),
                self.gpu_model[row] or None,
            ),
            # The shortest text of a float is the text that it was read from.
            price_per_hour=Decimal(repr(float(self.price[row]))),
            currency=self.currency[row],
            can_stop=bool(self.can_stop[row]),
        )

    def id(self, row: int) -> str:
        words = (self.provider[row], self.region[row], self.zone[row], self.instance_type[row])
        return "/".join((*words, MODES[self.mode[row]]))

    def by_price(self) -> Numbers:
        """The rows in the order of `policies.placement.by_price`: free ones first, then each
        currency by price, then by id.
        """
        free = self.price == 0
        keys = [self.mode, *map(_ranks, (self.instance_type, self.zone, self.region))]
        keys += [_ranks(self.provider), self.price]
        keys += [np.where(free, -1, _ranks(self.currency)), ~free]
        return np.lexsort([np.asarray(key) for key in keys])


def _ranks(words: Words) -> Numbers:
    """Numbers in the order of the words, as they would be compared within an id."""
    order = sorted(range(len(words.words)), key=lambda at: words.words[at] + "/")
    ranks = np.empty(len(order), dtype=np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    return ranks[words.codes] if len(order) else words.codes
