"""Google's billing catalogue: prices of cores, memory and GPUs, from which machines are priced.

cloud.google.com/billing/docs/how-to/get-pricing-information-api; it wants an API key. The shapes of
the predefined machine types are rules of Google's documentation
(cloud.google.com/compute/docs/machine-resource); types of other families are left out.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import nan
from typing import Any

import httpx

from policies.world import PurchaseMode, Resources
from provisioner.errors import ProviderError
from provisioner.gpus import canonical_gpu
from provisioner.offers.prices import Price
from provisioner.offers.sources.http import MOST_PAGES, get_json, rows_of

_log = logging.getLogger(__name__)
URL = "https://cloudbilling.googleapis.com/v1/services/6F81-5844-456A/skus"
_PART = re.compile(
    r"(?:Spot Preemptible )?(?P<family>[A-Z]\d[A-Z]?) (?:Predefined |AMD |Arm )*Instance "
    r"(?P<part>Core|Ram)\b"
)
_GPU = re.compile(r"(?:Spot Preemptible )?Nvidia (?P<model>.+?) GPU\b(?!.*Commit)")
_MODES = {"OnDemand": PurchaseMode.ON_DEMAND, "Preemptible": PurchaseMode.SPOT}


@dataclass(frozen=True, slots=True)
class _Family:
    """Types of one name: GiB for a CPU, the sizes in CPUs, and GPUs by size."""

    sku: str
    gib: float
    sizes: tuple[int, ...]
    gpu: str | None = None
    gpus: tuple[int, ...] = ()


_POWERS = (2, 4, 8, 16, 32)
_FAMILIES = {
    "n1-standard": _Family("N1", 3.75, (1, *_POWERS, 64, 96)),
    "n1-highmem": _Family("N1", 6.5, (*_POWERS, 64, 96)),
    "n2-standard": _Family("N2", 4, (*_POWERS, 48, 64, 80, 96, 128)),
    "n2-highmem": _Family("N2", 8, (*_POWERS, 48, 64, 80)),
    "n2d-standard": _Family("N2D", 4, (*_POWERS, 48, 64, 80, 96, 128, 224)),
    "e2-standard": _Family("E2", 4, _POWERS),
    "e2-highmem": _Family("E2", 8, _POWERS[:-1]),
    "g2-standard": _Family("G2", 4, (4, 8, 12, 16, 32, 24, 48, 96), "L4", (1, 1, 1, 1, 1, 2, 4, 8)),
}
_OPTIMISED = {
    "a2-highgpu": ("A2", "A100", 12, 85.0, (1, 2, 4, 8)),
    "a2-ultragpu": ("A2", "A100-80GB", 12, 170.0, (1, 2, 4, 8)),
    "a3-highgpu": ("A3", "H100", 26, 234.0, (1, 2, 4, 8)),
}
"""The SKU's family, the GPU, and what comes with each: CPUs, GiB; then the counts of GPUs."""


def gcp_prices(client: httpx.Client, key: str, url: str = URL) -> list[Price]:
    """Prices of the predefined types in all regions.

    `key` is sent in a header, not in the URL.

    Raises:
        ProviderError: the service does not answer, or refuses the key.
    """
    units: dict[tuple[str, str, PurchaseMode], tuple[float, str]] = {}
    page: dict[str, str] = {}
    for _ in range(MOST_PAGES):
        answer = get_json(client, url, {"pageSize": "5000"} | page, {"X-Goog-Api-Key": key})
        for sku in rows_of(answer, "skus"):
            units.update(_units(sku))
        if not answer.get("nextPageToken"):
            return list(_machines(units))
        page = {"pageToken": str(answer["nextPageToken"])}
    raise ProviderError(f"{url} has more than {MOST_PAGES} pages")


def gcp_shape(instance_type: str) -> Resources | None:
    """What a predefined type has."""
    return _SHAPES.get(instance_type)


Units = dict[tuple[str, str, PurchaseMode], tuple[float, str]]
"""Price and currency of an hour by part (`N2 Core`, `A100 GPU`), region and mode."""


def _units(sku: dict[str, Any]) -> Units:
    """What one row prices; nothing where it is not a part of a machine, or cannot be read."""
    try:
        mode = _MODES.get(sku["category"]["usageType"])
        part = _part(sku["description"])
        if mode is None or part is None:
            return {}
        price = sku["pricingInfo"][-1]["pricingExpression"]["tieredRates"][-1]["unitPrice"]
        amount = int(price.get("units") or 0) + int(price.get("nanos") or 0) / 1e9
        told = (amount, str(price["currencyCode"]))
        return {(part, str(region), mode): told for region in sku["serviceRegions"]}
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        _log.warning("a row of Google's billing catalogue cannot be read: %r", error)
        return {}


def _part(description: str) -> str | None:
    found = _PART.match(description)
    if found is not None:
        return f"{found['family']} {found['part']}"
    gpu = _GPU.match(description)
    return None if gpu is None else f"{canonical_gpu(gpu['model'])} GPU"


def _machines(units: Units) -> Iterator[Price]:
    """All types wherever each of their parts has a price."""
    places = {(region, mode) for _, region, mode in units}
    for instance_type, has in _SHAPES.items():
        sku = _SKU_OF[instance_type]
        parts = [(f"{sku} Core", has.cpus), (f"{sku} Ram", has.memory_gib)]
        parts += [(f"{has.gpu_model} GPU", float(has.gpus))] if has.gpus else []
        for region, mode in sorted(places):
            known = [units.get((part, region, mode)) for part, _ in parts]
            if any(one is None for one in known):
                continue
            amounts = [one[0] for one in known if one is not None]
            # A part for nothing is a part whose price is not known, and so is the whole then.
            total = sum(a * n if a > 0 else nan for a, (_, n) in zip(amounts, parts, strict=True))
            currency = next(one[1] for one in known if one is not None)
            yield Price(region, instance_type, mode, round(total, 6), currency)


def _shapes() -> Iterable[tuple[str, str, Resources]]:
    for name, family in _FAMILIES.items():
        for at, cpus in enumerate(family.sizes):
            gpus = family.gpus[at] if family.gpus else 0
            model = family.gpu if gpus else None
            has = Resources(float(cpus), cpus * family.gib, gpus, model)
            yield f"{name}-{cpus}", family.sku, has
    for name, (sku, gpu, cpus, gib, counts) in _OPTIMISED.items():
        for count in counts:
            yield f"{name}-{count}g", sku, Resources(float(cpus * count), gib * count, count, gpu)


_SHAPES = {name: has for name, _, has in _shapes()}
_SKU_OF = {name: sku for name, sku, _ in _shapes()}
