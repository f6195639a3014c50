"""The errors of the cost floor; each says what, which one, and what to do next.

CostError                   a ValueError: the figures given make no sense together
├── UnknownZone             not an IANA time zone, or a fixed offset
├── CurrencyMismatch        amounts of two currencies would be added
└── TotalMismatch           rows do not add up to the total they are shown with
"""

from __future__ import annotations


class CostError(ValueError):
    """Base of all."""


class UnknownZone(CostError):  # noqa: N818 (named for what it says)
    """The zone is no IANA name of a place (or UTC)."""


class CurrencyMismatch(CostError):  # noqa: N818
    """Amounts of two currencies met without a rate between them."""


class TotalMismatch(CostError):  # noqa: N818
    """Rows and total disagree before any rounding."""
