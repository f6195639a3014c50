"""Names in a search that no offer has: a slip, and not a search that finds nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from provisioner.errors import InvalidError
from provisioner.offers.catalogue import Stock
from provisioner.offers.query import OfferQuery


def check_known(query: OfferQuery, asked: Sequence[Stock], every: Sequence[Stock]) -> None:
    """Each GPU, provider and region of a query must be known to the stocks that are asked.

    Raises:
        InvalidError: one is not; it says which are, or that other stocks know of it.
    """
    for column, name, words in (
        ("gpu_model", "GPU", [wish.model for wish in query.gpus if wish.model]),
        ("provider", "provider", query.providers),
        ("region", "region", query.regions),
    ):
        for word in words:
            if "*" in word or _knows(asked, column, word):
                continue
            if _knows(every, column, word):
                raise InvalidError(
                    f"No provider that is set up here sells the {name} {word!r}.",
                    remedy="Ask for everything to see what the other sources know of it.",
                )
            known = (stock.table.words(column) for stock in asked)
            raise _unknown(name, word, frozenset[str]().union(*known))


def _knows(stocks: Sequence[Stock], column: str, word: str) -> bool:
    return any(stock.table.knows(column, word) for stock in stocks)


def _unknown(name: str, word: str, known: Iterable[str]) -> InvalidError:
    texts = sorted(known)
    by_fold = {text.casefold(): text for text in texts}
    close = [by_fold[fold] for fold in get_close_matches(word.casefold(), by_fold, n=3, cutoff=0.5)]
    if close:
        remedy = f"Did you mean {' or '.join(close)}?"
    else:
        shown = ", ".join(texts[:12]) or "none"
        remedy = f"Known are: {shown}{', ...' if len(texts) > 12 else ''}."
    return InvalidError(f"No offer has the {name} {word!r}.", remedy=remedy)
