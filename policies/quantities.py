"""The quantities that a policy is written in: each is read from text and written back as text.

`parse(str(x)) == x` for each of them. Nothing is guessed: a quantity without its unit or currency
is refused with a hint. They know nothing of YAML or of the rules that use them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from policies.problems import BadTextError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTES_A_DAY = 24 * 60

_DURATION = re.compile(r"(?:(\d{1,5})d)?(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9})s)?", re.ASCII)
_PERCENT = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s?%", re.ASCII)
_MONEY = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ([A-Z]{3})", re.ASCII)
_RANGE = re.compile(
    r"(\d{1,9}(?:\.\d{1,3})?)(?:(\+)|\.\.(\d{1,9}(?:\.\d{1,3})?))?(?: ?GiB)?", re.ASCII
)
_WINDOW = re.compile(r"(?:([a-z,-]+) )?(\d\d):(\d\d)-(\d\d):(\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time in whole seconds, more than zero: `30m`, `72h`, `1d12h`."""

    seconds: int

    @classmethod
    def parse(cls, text: object) -> Duration:
        found = _DURATION.fullmatch(_scalar(text, "a duration"))
        parts = [int(part or 0) for part in found.groups()] if found else [0, 0, 0, 0]
        total = sum(part * unit for part, unit in zip(parts, (86400, 3600, 60, 1), strict=True))
        if total == 0:
            raise BadTextError(f"{text!r} is not a duration", "write 90s, 30m, 72h or 7d")
        return cls(total)

    @property
    def delta(self) -> timedelta:
        return timedelta(seconds=self.seconds)

    def __str__(self) -> str:
        minutes, seconds = divmod(self.seconds, 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        parts = ((days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"))
        return "".join(f"{count}{unit}" for count, unit in parts if count)


@dataclass(frozen=True, slots=True)
class Percent:
    """A share in hundredths: `5%`. More than 100 is allowed."""

    value: Decimal

    @classmethod
    def parse(cls, text: object) -> Percent:
        found = _PERCENT.fullmatch(_scalar(text, "a percentage"))
        if not found:
            raise BadTextError(f"{text!r} is not a percentage", "write 80%")
        return cls(Decimal(found[1]))

    def of(self, amount: Decimal) -> Decimal:
        return amount * self.value / 100

    def __str__(self) -> str:
        return f"{self.value}%"


@dataclass(frozen=True, slots=True)
class Money:
    """An amount and its currency, which is never left out: `4.00 USD`."""

    amount: Decimal
    currency: str

    @classmethod
    def parse(cls, text: object) -> Money:
        found = _MONEY.fullmatch(_scalar(text, "an amount of money"))
        if not found:
            raise BadTextError(
                f"{text!r} is not an amount of money",
                "write the amount and its currency: 4.00 USD",
            )
        return cls(Decimal(found[1]), found[2])

    @classmethod
    def parse_up_to(cls, text: object) -> Money:
        """Read an upper limit, `up to 4.00 USD`."""
        words = _scalar(text, "a price limit")
        if not words.startswith("up to "):
            raise BadTextError(f"{text!r} is not a price limit", "write: up to 4.00 USD")
        return cls.parse(words.removeprefix("up to "))

    def __str__(self) -> str:
        return f"{self.amount} {self.currency}"


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `low` to `high`, both included; `high` None has no end: `1..4`, `32+`, `4`."""

    low: Decimal
    high: Decimal | None

    @classmethod
    def parse(cls, text: object) -> Range:
        found = _RANGE.fullmatch(_scalar(text, "a range"))
        if not found:
            raise BadTextError(f"{text!r} is not a range", "write 1..4, 32+ or 4")
        low = Decimal(found[1])
        high = None if found[2] else Decimal(found[3] or found[1])
        if high is not None and high < low:
            raise BadTextError(f"the range {text!r} ends before it begins", f"write {high}..{low}")
        return cls(low, high)

    def holds(self, number: float) -> bool:
        return self.low <= number and (self.high is None or number <= self.high)

    def meets(self, other: Range) -> bool:
        """Whether some number lies in both."""
        return (other.high is None or self.low <= other.high) and (
            self.high is None or other.low <= self.high
        )

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.low}+"
        return f"{self.low}" if self.low == self.high else f"{self.low}..{self.high}"


@dataclass(frozen=True, slots=True)
class Window:
    """Weekly times in minutes after midnight: `mon-fri 08:00-19:00`, `22:00-06:00` (every day).

    `end` before `start` means the next day; the days are those on which it starts.
    """

    days: frozenset[int]
    """0 is Monday."""
    start: int
    end: int

    @classmethod
    def parse(cls, text: object) -> Window:
        found = _WINDOW.fullmatch(_scalar(text, "a time window"))
        if not found:
            raise BadTextError(f"{text!r} is not a time window", "write mon-fri 08:00-19:00")
        start, end = _minutes(found[2], found[3], text), _minutes(found[4], found[5], text)
        if start in {MINUTES_A_DAY, end}:
            raise BadTextError(f"the window {text!r} has no length", "the whole day is 00:00-24:00")
        return cls(_days(found[1], text), start, end)

    def __str__(self) -> str:
        times = f"{_clock(self.start)}-{_clock(self.end)}"
        if len(self.days) == len(DAYS):
            return times
        return f"{','.join(_runs(sorted(self.days)))} {times}"


def _scalar(text: object, what: str) -> str:
    if isinstance(text, str):
        return text.strip()
    raise BadTextError(
        f"expected {what}, found a {'list' if isinstance(text, list) else 'mapping'}"
    )


def _minutes(hours: str, minutes: str, text: object) -> int:
    total = int(hours) * 60 + int(minutes)
    if int(minutes) > 59 or total > MINUTES_A_DAY:
        raise BadTextError(f"{hours}:{minutes} in {text!r} is no time of day", "00:00 to 24:00")
    return total


def _days(text: str | None, whole: object) -> frozenset[int]:
    if text is None:
        return frozenset(range(7))
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise BadTextError(
                f"{part!r} in {whole!r} is no day", "the days are " + ", ".join(DAYS)
            )
        begin, end = DAYS.index(first), DAYS.index(last or first)
        days.update((begin + step) % 7 for step in range((end - begin) % 7 + 1))
    return frozenset(days)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _runs(days: list[int]) -> list[str]:
    """Neighbouring days joined: [0, 1, 2, 5] is mon-wed, sat."""
    runs: list[list[int]] = []
    for day in days:
        if runs and runs[-1][-1] == day - 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    return [DAYS[r[0]] if len(r) == 1 else f"{DAYS[r[0]]}-{DAYS[r[-1]]}" for r in runs]
