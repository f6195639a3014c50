"""Home volumes: folders that outlive machines. Their size is what is billed; it is not enforced."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from provisioner.errors import InvalidRequest
from provisioner.providers.contract import Volume
from provisioner.providers.local.machine.files import (
    append_json,
    names,
    read_json,
    read_lines,
    remove_tree,
    write_json,
)
from provisioner.providers.local.meter import HOURS_A_MONTH, PricePoints, cost, runs


class Volumes:
    """The volumes under a provider's root. Whoever writes holds the root's lock."""

    def __init__(self, root: Path, installation: str) -> None:
        self._folder = root / "volumes"
        self._meter = root / "meter" / "volumes"
        self._installation = installation

    def home(self, volume_id: str) -> Path:
        """The folder that a machine gets as its home."""
        return self._folder / volume_id / "home"

    def ensure(self, volume_id: str, gib: int, now: datetime) -> None:
        """Create the volume, empty, unless it exists. Raises `InvalidRequest` for another's."""
        known = read_json(self._record(volume_id))
        if known is not None and known["installation"] != self._installation:
            raise InvalidRequest(
                f"volume {volume_id} belongs to another installation", remedy="Choose another id."
            )
        if known is not None:
            return
        os.makedirs(self.home(volume_id), mode=0o700, exist_ok=True)
        os.makedirs(self._meter, mode=0o700, exist_ok=True)
        meter = self._meter_of(volume_id)
        generation = len(runs(meter)) + 1
        line = {"event": "start", "run": generation, "at": now.isoformat(), "gib": gib}
        append_json(meter, line | {"installation": self._installation})
        value = {"id": volume_id, "gib": gib, "created_at": now.isoformat()}
        write_json(self._record(volume_id), value | {"installation": self._installation})

    def retire(self, volume_id: str, now: datetime) -> Path | None:
        """Take a volume out of the list and off the bill; returns what is left to `remove_tree`."""
        known = read_json(self._record(volume_id))
        if known is None or known["installation"] != self._installation:
            return None
        meter = self._meter_of(volume_id)
        line = {"event": "end", "run": len(runs(meter)), "at": now.isoformat()}
        append_json(meter, line)
        hidden = self._folder / f".{volume_id}.{os.urandom(4).hex()}"
        os.rename(self._folder / volume_id, hidden)
        return hidden

    def remove_hidden(self) -> None:
        """Remove what a crash in the middle of a removal has left."""
        for name in names(str(self._folder)):
            if name.startswith("."):
                remove_tree(str(self._folder / name))

    def list(self, attached: Mapping[str, str]) -> tuple[Volume, ...]:
        """This installation's volumes; `attached` is the machine of each attached one."""
        found = []
        for name in names(str(self._folder)):
            value = None if name.startswith(".") else read_json(self._record(name))
            if value and value["installation"] == self._installation:
                created = datetime.fromisoformat(value["created_at"])
                found.append(Volume(name, value["gib"], created, attached.get(name)))
        return tuple(found)

    def bill(self, start: datetime, end: datetime, gib_months: PricePoints) -> dict[str, Decimal]:
        """What each volume cost inside [start, end)."""
        bill = {}
        for name in names(str(self._meter)):
            path = os.path.join(self._meter, name)
            started = [line for line in read_lines(path) if line["event"] == "start"]
            if not started or started[0]["installation"] != self._installation:
                continue
            total = Decimal(0)
            for span, line in zip(runs(path), started, strict=True):
                total += cost([span], start, end, gib_months) * line["gib"] / HOURS_A_MONTH
            bill[name.removesuffix(".jsonl")] = total
        return bill

    def _record(self, volume_id: str) -> str:
        return str(self._folder / volume_id / "volume.json")

    def _meter_of(self, volume_id: str) -> str:
        return str(self._meter / f"{volume_id}.jsonl")
