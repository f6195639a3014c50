"""Calls to the local provider of this host, asked from elsewhere: JSON comes in and goes out.

It is what `provisioner.providers.ssh` runs on a team's own machine. Standard library only, as all
that the local provider consists of.

    {"root", "installation", "terms", "call", "argument"} -> {"answer"} | {"error", ...}
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from policies.codec import value_from_json, value_to_json
from policies.world import Offer, PurchaseMode, Quota, QuotaUnit
from provisioner.clock import SystemClock
from provisioner.errors import ProviderError, RoostError
from provisioner.providers.contract import LaunchRequest, Listing, PricePoint, Rates
from provisioner.providers.local.capacity import Sold
from provisioner.providers.local.host import Host
from provisioner.providers.local.limits import LimitsUnavailableError, find_limits
from provisioner.providers.local.machine.scratch import obstacle
from provisioner.providers.local.offers import NAME
from provisioner.providers.local.provider import LocalProvider
from provisioner.providers.local.settings import LocalSettings

READY = b"roost answers\n"
"""What is said first: before it, a shell may say what it likes."""
LEAST_FREE_GIB = 2.0
IDLE_GPU_MIB = 1024
"""A GPU without processes may have some hundred MiB in use by its driver."""


@dataclass(frozen=True, slots=True)
class Look:
    """All that is worth knowing of a host, in one answer."""

    listing: Listing
    offers: tuple[Offer, ...]
    rates: Rates
    quotas: tuple[Quota, ...]
    """What there is to sell, and how much of it is taken."""
    troubles: tuple[str, ...]
    """Why nothing more should be put on it."""
    notes: tuple[str, ...]
    """What else people should see to."""


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
            private_scratch=True,
            idle_gpu_mib=IDLE_GPU_MIB,
        )


def main() -> int:
    """Answer calls, each in a line on stdin, until there are no more.

    An answer is a line with its length, and then as many bytes of JSON.
    """
    calls, answers = sys.stdin.buffer, sys.stdout.buffer
    with contextlib.suppress(BrokenPipeError):  # whoever asked waits no more
        answers.write(READY)
        answers.flush()
        while (line := calls.readline()).endswith(b"\n"):
            answer = json.dumps(_answered(line)).encode()
            answers.write(b"%d\n%b" % (len(answer), answer))
            answers.flush()
    return 0


def _answered(line: bytes) -> dict[str, Any]:
    try:
        return {"answer": _answer(json.loads(line))}
    except RoostError as error:
        return {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}
    except OSError as error:
        return {"error": "ProviderError", "message": f"the host fails: {error}", "remedy": None}


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
    listing = provider.list()  # settles what has ended, so that it holds nothing any more
    host, sold = provider.host, provider.sold()
    return Look(
        listing,
        tuple(one for one in provider.offers() if one.mode is PurchaseMode.ON_DEMAND),
        provider.rates(),
        _quotas(host, sold, terms),
        tuple(_troubles(root, host, terms)),
        tuple(_notes(host, sold)),
    )


def _quotas(host: Host, sold: Sold, terms: HostTerms) -> tuple[Quota, ...]:
    free = len(sold.free_gpus(host, IDLE_GPU_MIB))
    counts = (
        ("CPUs", QuotaUnit.CPUS, host.cpus * terms.overcommit, sold.cpus),
        ("GPUs", QuotaUnit.GPUS, float(len(host.gpus)), float(len(host.gpus) - free)),
    )
    return tuple(
        Quota(f"{what} of the host", NAME, terms.name, ("*",), unit, limit, used)
        for what, unit, limit, used in counts
    )


def _troubles(root: Path, host: Host, terms: HostTerms) -> Iterator[str]:
    free_gib = shutil.disk_usage(root).free / 2**30
    if free_gib < LEAST_FREE_GIB:
        yield f"{free_gib:.1f} GiB of disk are free, {LEAST_FREE_GIB:g} are needed"
    if terms.expected_gpus is not None and len(host.gpus) != terms.expected_gpus:
        yield f"{len(host.gpus)} GPUs answer, it has {terms.expected_gpus}"
    for gpu in host.gpus:
        if gpu.ecc_errors:
            yield f"{gpu.uuid} has {gpu.ecc_errors} uncorrected ECC errors"
    if terms.enforce_limits:
        try:
            find_limits()
        except LimitsUnavailableError as error:
            yield f"it cannot hold machines to their CPUs and memory: {error}"


def _notes(host: Host, sold: Sold) -> Iterator[str]:
    for gpu in host.gpus:
        if gpu.uuid not in sold.gpus and gpu.used_mib > IDLE_GPU_MIB:
            yield f"{gpu.uuid} has {gpu.used_mib} MiB in use by what is no machine"
    reason = obstacle()
    if reason is not None:
        yield (
            f"machines get no /tmp and /dev/shm of their own ({reason}): what they leave there, "
            "stays there"
        )
