"""One result out of the ends of several ranks."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from trainer_agent.launch.folder import LEFT, Exit


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How one rank ended."""

    rank: int
    status: int
    """Its exit code; the negative of a signal's number when that killed it."""


def result(ends: Sequence[RankEnd], *, drained: bool, overdue: bool) -> Exit:
    """`ends` in the order in which they happened: the first that failed took the others with it.

    `overdue`: the grace was over before all had ended.
    """
    failed = [end for end in ends if end.status not in (0, LEFT)]
    left = [end for end in ends if end.status == LEFT]
    decisive = (failed or left or list(ends))[0]
    code, number = split(decisive.status)
    return Exit(
        exit_code=code,
        signal=number,
        drained=drained,
        message=_message(decisive, overdue=overdue) if failed else None,
        ranks=tuple(_record(end) for end in ends),
    )


def split(status: int) -> tuple[int | None, int | None]:
    """(exit code, signal) of a status; exactly one of them is None."""
    return (None, -status) if status < 0 else (status, None)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _message(end: RankEnd, *, overdue: bool) -> str:
    if end.status >= 0:
        return f"rank {end.rank} ended with exit code {end.status}; its log says why"
    if overdue and -end.status == signal.SIGKILL:
        return f"rank {end.rank} did not leave within its grace and was killed"
    name = signal_name(-end.status)
    hint = "; the machine may be out of memory" if name == "SIGKILL" else ""
    return f"rank {end.rank} was ended by {name}{hint}"


def _record(end: RankEnd) -> dict[str, int | None]:
    code, number = split(end.status)
    return {"rank": end.rank, "exit_code": code, "signal": number}
