"""Offers from CSV files with SkyPilot's columns, as they are; the file's name is the provider's.

`InstanceType, AcceleratorName, AcceleratorCount, vCPUs, MemoryGiB, Price, SpotPrice, Region` and,
where they are, `AvailabilityZone` and `Arch`; others are left aside. What has an empty price is not
sold in that mode. A `Currency` column may be added; it is USD without one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from policies.world import PurchaseMode
from provisioner.errors import InvalidError
from provisioner.gpus import canonical_gpu
from provisioner.offers.columns import MODES, Columns, Numbers, Words
from provisioner.offers.sources.attached_gpus import attach

FILES_STALE_AFTER = timedelta(days=30)
"""A price list that nobody has touched for longer is out of date."""
_LONGEST_HEADER = 1 << 16
_NEEDED = ("InstanceType", "vCPUs", "MemoryGiB", "Region")
_TEXTS = ("InstanceType", "Region", "AvailabilityZone", "AcceleratorName", "Arch", "Currency")
_NUMBERS = ("AcceleratorCount", "vCPUs", "MemoryGiB", "Price", "SpotPrice")
_PRICES = ((PurchaseMode.ON_DEMAND, "Price"), (PurchaseMode.SPOT, "SpotPrice"))


def csv_files(path: Path) -> list[Path]:
    """The files to read: the path itself, or the CSV files of a folder that hold offers.

    Raises:
        InvalidError: there is none.
    """
    if path.is_file():
        return [path]
    found = sorted(file for file in path.glob("*.csv") if _holds_offers(file))
    if not found:
        raise InvalidError(
            f"There are no CSV files with offers in {path}.",
            remedy=f"Their first line has to name {', '.join(_NEEDED)} and Price or SpotPrice.",
        )
    return found


def written_at(path: Path, now: datetime) -> datetime:
    """A file is as old as its last change; not younger than now, whatever its time says."""
    return min(datetime.fromtimestamp(path.stat().st_mtime, now.tzinfo), now)


def read_csv(path: Path, provider: str | None = None) -> Columns:
    """The offers of one file, both modes.

    Raises:
        InvalidError: it cannot be read, or lacks a column; the message names it.
    """
    import pandas as pd  # costs half a second, and commands that read no file need none

    try:
        head = _header(path)
        kept = [name for name in (*_TEXTS, *_NUMBERS) if name in head]
        missing = [name for name in _NEEDED if name not in kept]
        if missing or not {"Price", "SpotPrice"} & set(kept):
            raise InvalidError(
                f"{path} lacks the column {(missing or ['Price'])[0]}.",
                remedy=f"Its first line has to name {', '.join(_NEEDED)} and Price or SpotPrice.",
            )
        texts = {name: "category" for name in _TEXTS if name in kept}
        frame = pd.read_csv(path, usecols=kept, dtype=texts, low_memory=False)
        for name in _NUMBERS:
            if name in kept:
                frame[name] = pd.to_numeric(frame[name], errors="coerce")
    except (OSError, UnicodeError, ValueError) as error:
        raise InvalidError(
            f"{path} cannot be read as CSV: {error}.", remedy="Correct or remove it."
        ) from error
    return _columns(attach(frame), provider or path.stem)


def _columns(frame: Any, provider: str) -> Columns:
    """Rows with a price on demand, then rows with one as spot."""
    parts = [
        (np.flatnonzero(~np.isnan(price)), mode, price)
        for mode, name in _PRICES
        if name in frame
        for price in [frame[name].to_numpy(dtype=float)]
    ]
    rows = np.concatenate([rows for rows, _, _ in parts])
    price = np.concatenate([price[rows] for rows, _, price in parts])
    modes = [np.full(len(rows), MODES.index(mode), dtype=np.int8) for rows, mode, _ in parts]
    mode = np.concatenate(modes)
    region = _words(frame, "Region", "")
    gpus = _numbers(frame, "AcceleratorCount")
    model = _words(frame, "AcceleratorName", "")
    names = [canonical_gpu(word) if word else "" for word in model.words]
    return Columns(
        provider=Words.all_alike(provider, len(rows)),
        region=region.take(rows),
        zone=_zones(frame, region).take(rows),
        instance_type=_words(frame, "InstanceType", "").take(rows),
        gpu_model=model.renamed(names).take(rows),
        arch=_words(frame, "Arch", "").take(rows),
        currency=_words(frame, "Currency", "USD").take(rows),
        mode=mode,
        cpus=_numbers(frame, "vCPUs")[rows],
        memory_gib=_numbers(frame, "MemoryGiB")[rows],
        gpus=np.nan_to_num(gpus[rows], nan=0.0, posinf=0.0, neginf=0.0).astype(np.int32),
        price=price,
        can_stop=mode == MODES.index(PurchaseMode.ON_DEMAND),
    )


def _words(frame: Any, name: str, default: str) -> Words:
    if name not in frame:
        return Words.all_alike(default, len(frame))
    column = frame[name].cat
    words = (*(str(word).strip() for word in column.categories), default)
    codes = column.codes.to_numpy(dtype=np.int32, copy=True)
    codes[codes < 0] = len(words) - 1
    return Words(codes, words).renamed([word or default for word in words])


def _zones(frame: Any, region: Words) -> Words:
    """Where no zone is named, the region is one."""
    zone = _words(frame, "AvailabilityZone", "")
    nowhere = np.array([not word for word in zone.words])[zone.codes]
    codes = np.where(nowhere, len(zone.words) + region.codes, zone.codes)
    words = (*zone.words, *region.words)
    return Words(codes.astype(np.int32), words).renamed(words)


def _numbers(frame: Any, name: str) -> Numbers:
    if name not in frame:
        return np.zeros(len(frame))
    found: Numbers = frame[name].to_numpy(dtype=float)
    return found


def _header(path: Path) -> list[str]:
    with path.open("rb") as file:
        first = file.readline(_LONGEST_HEADER).decode("utf-8-sig")
    return [name.strip().strip('"') for name in first.split(",")]


def _holds_offers(path: Path) -> bool:
    try:
        names: Iterable[str] = _header(path)
    except (OSError, UnicodeError):
        return False
    return set(_NEEDED) <= set(names)
