"""What the provider says about the machine's end, from inside the machine.

Each provider has its own place for it; a `Source` reads one. The local provider's is a folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from trainer_agent.supervise.wire import NoticeReport, read_time

POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Notice:
    """The machine will be taken (reclaim), or is likelier to be than before (rebalance)."""

    kind: Literal["reclaim", "rebalance"]
    source: str
    deadline: datetime | None = None

    def report(self) -> NoticeReport:
        deadline = self.deadline.isoformat() if self.deadline else None
        return NoticeReport(kind=self.kind, deadline=deadline, source=self.source)


class Source(Protocol):
    """One place where notices appear. `read` is called every 0.2 s and must return at once."""

    def read(self) -> Sequence[Notice]: ...


class MetadataFolder:
    """The local provider's: `spot/instance-action` appears when the market takes the machine."""

    def __init__(self, folder: Path) -> None:
        self._action = folder / "spot" / "instance-action"

    def read(self) -> Sequence[Notice]:
        try:
            content = self._action.read_bytes()
        except OSError:
            return ()
        try:
            deadline = read_time(json.loads(content)["time"])
        except (ValueError, LookupError, TypeError):
            deadline = None  # half written, perhaps: that it is there is notice enough
        return (Notice("reclaim", "metadata", deadline),)


class Notices:
    """All notices of this boot. One that was seen stays: what began to drain does not come back."""

    def __init__(self, sources: Sequence[Source], on_change: Callable[[Notice], None]) -> None:
        self._sources = sources
        self._on_change = on_change
        self._seen: dict[tuple[str, str], Notice] = {}

    def poll(self) -> None:
        """Look once, and tell of each notice that is new or says more than before."""
        for source in self._sources:
            for notice in source.read():
                key = (notice.source, notice.kind)
                known = self._seen.get(key)
                if known is None or notice.deadline not in (None, known.deadline):
                    self._seen[key] = notice
                    self._on_change(notice)

    def reclaim(self) -> Notice | None:
        return next((one for one in self.seen() if one.kind == "reclaim"), None)

    def seen(self) -> list[Notice]:
        return list(self._seen.values())
