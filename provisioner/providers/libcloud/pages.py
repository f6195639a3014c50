"""Goes through an answer's pages, and not round in circles (Azure has been seen to)."""

from __future__ import annotations

from provisioner.errors import ProviderError


class Pages:
    """Which marks of pages one listing has come by."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._seen: set[str] = set()

    def has(self, mark: str | None) -> bool:
        """Whether another page follows: its mark is not empty.

        Raises:
            ProviderError: it has been read already. Half a listing would make machines look gone.
        """
        if not mark:
            return False
        if mark in self._seen:
            raise ProviderError(f"{self._who} gives the same page again", remedy="It is retried.")
        self._seen.add(mark)
        return True
