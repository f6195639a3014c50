"""Reading the plain words of a policy: every value arrives as a string, a list or a mapping.

Quantities have their own file. Nothing is converted silently: `NO` stays a region, and a flag is
`true` or `false`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from difflib import get_close_matches

from policies.problems import BadTextError
from policies.world import PurchaseMode

_GLOB = re.compile(r"[A-Za-z0-9_*.-]+", re.ASCII)
_LABEL = re.compile(r"[^=\s]+(=[^=]*)?")
_COUNT = re.compile(r"\d{1,6}", re.ASCII)


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the known word most like this one, or nothing."""
    found = get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"did you mean {found[0]}?" if found else ""


def read_word(value: object) -> str:
    if not isinstance(value, str):
        raise BadTextError(f"expected a word, found a {_shape(value)}")
    if not value.strip():
        raise BadTextError("there is no value here", "write one or remove the key")
    return value.strip()


def read_glob(value: object) -> str:
    word = read_word(value)
    if not _GLOB.fullmatch(word):
        raise BadTextError(
            f"{word!r} is no name", "letters, digits, - _ . and * for any number of them"
        )
    return word


def read_label(value: object) -> str:
    word = read_word(value)
    if not _LABEL.fullmatch(word):
        raise BadTextError(f"{word!r} is no label", "write key, or key=value")
    return word


def read_mode(value: object) -> PurchaseMode:
    word = read_word(value)
    try:
        return PurchaseMode(word.replace("_", "-"))
    except ValueError:
        known = [mode.value.replace("-", "_") for mode in PurchaseMode]
        hint = nearest(word, known) or "one of " + ", ".join(known)
        raise BadTextError(f"{word!r} is no purchase mode", hint) from None


def read_count(value: object) -> int:
    word = read_word(value)
    if not _COUNT.fullmatch(word):
        raise BadTextError(f"{word!r} is no whole number", "write 2")
    return int(word)


def read_flag(value: object) -> bool:
    word = read_word(value)
    if word not in {"true", "false"}:
        raise BadTextError(f"{word!r} is neither true nor false", "write true or false")
    return word == "true"


def read_date(value: object) -> date:
    word = read_word(value)
    try:
        return date.fromisoformat(word) if len(word) == len("2026-12-25") else _no_date(word)
    except ValueError:
        return _no_date(word)


def read_list(value: object) -> list[object]:
    if not isinstance(value, list):
        example = f"[{value}]" if isinstance(value, str) and value else "[a, b]"
        raise BadTextError(f"expected a list, found a {_shape(value)}", f"write {example}")
    if not value:
        raise BadTextError("this list is empty", "name at least one, or remove the key")
    return value


def read_one_or_many(value: object) -> list[object]:
    return [value] if isinstance(value, str) else read_list(value)


def _no_date(word: str) -> date:
    raise BadTextError(f"{word!r} is no date", "write 2026-12-25")


def _shape(value: object) -> str:
    if isinstance(value, dict):
        return "mapping"
    return "list" if isinstance(value, list) else "single value"
