"""What people write when they look for offers, made into a search."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from policies.world import PurchaseMode
from provisioner.errors import InvalidError
from provisioner.gpus import canonical_gpu
from provisioner.offers.beside import Beside
from provisioner.offers.query import OfferQuery, parse_gpus, parse_range
from provisioner.offers.search import Order, Search

_MOST_GIB = 1e6
_ARCHS = {"amd64": "x86_64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A search in words: ranges such as `32+`, lists separated by commas."""

    cpus: str | None = None
    memory_gib: str | None = None
    gpu: str | None = None
    gpu_memory_gib: str | None = None
    mode: PurchaseMode | None = None
    provider: str | None = None
    region: str | None = None
    zone: str | None = None
    type: str | None = None
    arch: str | None = None
    max_price_per_hour: Decimal | None = None
    order: Order = Order.PRICE
    in_order_of_gpus: bool = False
    throughput: str | None = None
    disk_gib: float = 0.0
    address: bool = False
    egress_gib_per_hour: float = 0.0
    everything: bool = False


def search_of(asked: Asked) -> Search:
    """Raises `InvalidError`, which names what cannot be read."""
    query = OfferQuery(
        cpus=parse_range(asked.cpus, "cpus"),
        memory_gib=parse_range(asked.memory_gib, "memory_gib"),
        gpus=parse_gpus((asked.gpu,)) if asked.gpu else (),
        gpu_memory_gib=parse_range(asked.gpu_memory_gib, "gpu_memory_gib"),
        mode=asked.mode,
        providers=_listed(asked.provider),
        regions=_listed(asked.region),
        zones=_listed(asked.zone),
        types=_listed(asked.type),
        archs=tuple(_ARCHS.get(word.casefold(), word) for word in _listed(asked.arch)),
        max_price_per_hour=asked.max_price_per_hour,
    )
    return Search(
        query,
        asked.order,
        asked.in_order_of_gpus,
        _throughput(asked.throughput),
        Beside(
            _amount(asked.disk_gib, "disk_gib"),
            asked.address,
            _amount(asked.egress_gib_per_hour, "egress_gib_per_hour"),
        ),
        asked.everything,
    )


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _amount(number: float, name: str) -> float:
    if not 0 <= number <= _MOST_GIB:
        raise InvalidError(f"{name}: {number:g} is no amount of GiB.", remedy="Write 200.")
    return number


def _throughput(text: str | None) -> dict[str, float]:
    found = {}
    for word in _listed(text):
        model, equals, number = word.partition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = 0.0
        if not equals or not model or not 0 < rate < float("inf"):
            raise InvalidError(
                f"{word!r} is no throughput of a GPU.", remedy="Write A100=100,H100=220."
            )
        found[canonical_gpu(model)] = rate
    return found
