"""What is looked for among the offers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from policies.problems import BadTextError
from policies.quantities import Range
from policies.world import Needs, PurchaseMode
from provisioner.errors import InvalidError
from provisioner.gpus import canonical_gpu

SOME = Range(Decimal(1), None)


@dataclass(frozen=True, slots=True)
class GpuWish:
    """GPUs that would do: `A100:8`, `H100:4+`, `L4` (one or more)."""

    model: str | None
    count: Range = SOME

    @classmethod
    def parse(cls, text: str) -> GpuWish:
        """Raises `InvalidError`."""
        model, colon, count = text.strip().rpartition(":") if ":" in text else (text, "", "")
        if not model.strip():
            raise _bad_gpu(text)
        try:
            wanted = Range.parse(count.strip()) if colon else SOME
        except BadTextError as error:
            raise _bad_gpu(text) from error
        return cls(canonical_gpu(model), wanted)


@dataclass(frozen=True, slots=True)
class OfferQuery:
    """All of it must fit; None, and an empty tuple, do not matter. Names are globs: `us-*`."""

    cpus: Range | None = None
    memory_gib: Range | None = None
    gpus: tuple[GpuWish, ...] = ()
    """Any of these."""
    gpu_memory_gib: Range | None = None
    """Of each GPU."""
    mode: PurchaseMode | None = None
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    """What is not known to be any of these does not fit."""
    max_price_per_hour: Decimal | None = None

    @classmethod
    def of(cls, needs: Needs) -> OfferQuery:
        """What `policies.placement.misfit` lets pass, and as fast as an index finds it."""
        has = needs.resources
        wish = GpuWish(has.gpu_model, _at_least(has.gpus))
        return cls(
            cpus=_at_least(has.cpus) if has.cpus else None,
            memory_gib=_at_least(has.memory_gib) if has.memory_gib else None,
            gpus=(wish,) if has.gpus or has.gpu_model else (),
            mode=needs.mode,
            providers=_named(needs.provider),
            regions=_named(needs.region),
            zones=_named(needs.zone),
            max_price_per_hour=needs.max_price_per_hour,
        )


def parse_range(text: str | None, name: str) -> Range | None:
    """`32+`, `4..8` or `8`. Raises `InvalidError`, which names what it was for."""
    if text is None:
        return None
    try:
        return Range.parse(text)
    except BadTextError as error:
        raise InvalidError(
            f"{name}: {text!r} is no range.", remedy="Write 32+, 4..8 or 8."
        ) from error


def parse_gpus(texts: Iterable[str]) -> tuple[GpuWish, ...]:
    """`A100:8,H100:4+`, also in several texts. Raises `InvalidError`."""
    words = [word for text in texts for word in text.split(",") if word.strip()]
    return tuple(GpuWish.parse(word) for word in words)


def _at_least(number: float) -> Range:
    return Range(Decimal(str(number)), None)


def _named(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)


def _bad_gpu(text: str) -> InvalidError:
    return InvalidError(f"{text!r} names no GPUs.", remedy="Write A100:8, H100:4+ or L4.")
