"""One call to the local provider of this host, asked from elsewhere: JSON comes in and goes out.

It is what `provisioner.providers.ssh` runs on a team's own machine. Standard library only, as all
that the local provider consists of.

    {"root", "installation", "settings", "call", "argument"} -> {"answer"} | {"error", ...}
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from policies.codec import value_from_json, value_to_json
from policies.world import Offer, PurchaseMode
from provisioner.clock import SystemClock
from provisioner.errors import ProviderError, RoostError
from provisioner.providers.contract import LaunchRequest, Listing, PricePoint, Rates
from provisioner.providers.local.provider import LocalProvider
from provisioner.providers.local.settings import LocalSettings

LEAST_FREE_GIB = 2.0
_ECC = ("nvidia-smi", "--query-gpu=ecc.errors.uncorrected.volatile.total", "--format=csv,noheader")


@dataclass(frozen=True, slots=True)
class Look:
    """All that is worth knowing of a host, in one answer."""

    listing: Listing
    offers: tuple[Offer, ...]
    rates: Rates
    troubles: tuple[str, ...]
    """Why nothing more should be put on it."""


@dataclass(frozen=True, slots=True)
class PriceSpan:
    """A question for prices."""

    instance_type: str
    zone: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class PricesOf:
    """Its answer."""

    points: tuple[PricePoint, ...]


@dataclass(frozen=True, slots=True)
class HostTerms:
    """What a host is called and what it costs; the rest of the local settings has no say here."""

    name: str
    currency: str
    price_per_cpu_hour: Decimal
    price_per_gib_hour: Decimal
    price_per_gpu_hour: Decimal
    price_per_volume_gib_month: Decimal
    overcommit: float
    enforce_limits: bool
    expected_gpus: int | None = None

    def settings(self) -> LocalSettings:
        return LocalSettings(
            region=self.name,
            zones=(self.name,),
            currency=self.currency,
            price_per_cpu_hour=self.price_per_cpu_hour,
            price_per_gib_hour=self.price_per_gib_hour,
            price_per_gpu_hour=self.price_per_gpu_hour,
            price_per_volume_gib_month=self.price_per_volume_gib_month,
            overcommit=self.overcommit,
            limits="enforce" if self.enforce_limits else "none",
        )


def main() -> int:
    """Answer the question on stdin."""
    try:
        asked = json.load(sys.stdin)
        answer: dict[str, Any] = {"answer": _answer(asked)}
    except RoostError as error:
        answer = {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}
    except OSError as error:
        answer = {"error": "ProviderError", "message": f"the host fails: {error}", "remedy": None}
    json.dump(answer, sys.stdout)
    return 0


def _answer(asked: dict[str, Any]) -> Any:
    root = Path(os.path.expanduser(asked["root"]))
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    terms = value_from_json(asked["terms"], HostTerms)
    provider = LocalProvider(root, asked["installation"], SystemClock(), terms.settings())
    call, argument = asked["call"], asked["argument"]
    if call == "look":
        return value_to_json(_look(provider, root, terms))
    if call == "launch":
        return value_to_json(provider.launch(value_from_json(argument, LaunchRequest)))
    if call == "prices":
        span = value_from_json(argument, PriceSpan)
        points = provider.prices(
            span.instance_type, span.zone, PurchaseMode.ON_DEMAND, span.start, span.end
        )
        return value_to_json(PricesOf(tuple(points)))
    acts: dict[str, Callable[[str], None]] = {
        "start": provider.start,
        "stop": provider.stop,
        "terminate": provider.terminate,
        "delete_volume": provider.delete_volume,
    }
    if call not in acts:
        raise ProviderError(f"this host's program knows no call {call!r}")
    return acts[call](argument)


def _look(provider: LocalProvider, root: Path, terms: HostTerms) -> Look:
    offers = tuple(one for one in provider.offers() if one.mode is PurchaseMode.ON_DEMAND)
    troubles = tuple(_troubles(root, terms, offers))
    return Look(provider.list(), offers, provider.rates(), troubles)


def _troubles(root: Path, terms: HostTerms, offers: tuple[Offer, ...]) -> list[str]:
    found = []
    free_gib = shutil.disk_usage(root).free / 2**30
    if free_gib < LEAST_FREE_GIB:
        found.append(f"{free_gib:.1f} GiB of disk are free, {LEAST_FREE_GIB:g} are needed")
    gpus = max((offer.resources.gpus for offer in offers), default=0)
    if terms.expected_gpus is not None and gpus != terms.expected_gpus:
        found.append(f"{gpus} GPUs answer, it has {terms.expected_gpus}")
    if gpus and _ecc_errors():
        found.append("a GPU has uncorrected ECC errors")
    return found


def _ecc_errors() -> bool:
    try:
        told = subprocess.run(_ECC, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return False  # a GPU without ECC, or without a driver: that is said elsewhere
    return any(line.strip().isdigit() and int(line) > 0 for line in told.splitlines())
