"""How amounts and durations are written for people. Changes no amount that is kept."""

from __future__ import annotations

from decimal import Decimal

_SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£", "INR": "₹", "JPY": "¥"}
_MAX_PLACES = 12


def places_for(amount: Decimal) -> int:
    """Cents; for amounts below one, enough places for two significant digits."""
    if amount == 0 or abs(amount) >= 1:
        return 2
    return min(_MAX_PLACES, max(2, 1 - amount.adjusted()))


def money(amount: Decimal | None, currency: str, places: int | None = None) -> str:
    """`$1,234.50`, `-$0.00041`, `CHF 12.00`; `unknown` for None."""
    if amount is None:
        return "unknown"
    places = places_for(amount) if places is None else places
    text = f"{abs(amount):,.{places}f}"
    sign = "-" if amount < 0 and text.strip("0.,") else ""
    symbol = _SYMBOLS.get(currency)
    return f"{sign}{symbol}{text}" if symbol else f"{sign}{currency} {text}"


def rounded_money(shown: Decimal, exact: Decimal, currency: str, places: int) -> str:
    """A rounded amount; `under $0.01` where something was charged that rounds to nothing."""
    if shown == 0 and exact > 0:
        return f"under {money(Decimal(1).scaleb(-places), currency, places)}"
    return money(shown, currency, places)


def duration(hours: Decimal) -> str:
    """`42 s`, `12 min`, `3.4 h`, `1,204 h`."""
    seconds = hours * 3600
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{hours:,.1f} h" if hours < 100 else f"{hours:,.0f} h"
