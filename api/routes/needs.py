"""What is asked of a machine: the fields that workstations and jobs share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from api.values import Labels, Money, MoneyIn, Name, Number, Ref, Request, View, Whole, Word
from policies.world import PurchaseMode

Cpus = Annotated[Number, Field(ge=0.1, le=1024)]
Memory = Annotated[Number, Field(ge=0.1, le=32768)]
Gpus = Annotated[Whole, Field(ge=0, le=64)]


class ResourcesOut(View):
    """What a machine has, or what is asked of one."""

    cpus: float
    memory_gib: float
    gpus: int
    gpu_model: str | None


class NeedsOut(View):
    """What a workstation or job asks of its machine; null leaves it to the policy."""

    resources: ResourcesOut
    mode: PurchaseMode | None
    provider: str | None
    region: str | None
    max_price_per_hour: Money | None


class NeedsIn(Request):
    """What is asked of a machine; what is left out is left to the policy."""

    name: Name
    cpus: Cpus = 1.0
    memory_gib: Memory = 1.0
    gpus: Gpus = 0
    gpu_model: Word | None = None
    mode: PurchaseMode | None = None
    provider: Word | None = None
    region: Word | None = Field(default=None, description="A region, or a glob such as `eu-*`.")
    max_price_per_hour: MoneyIn | None = None
    team: Ref | None = Field(default=None, description="Id or name; without it your own team.")
    labels: Labels = Field(default_factory=dict)

    def given(self) -> dict[str, Any]:
        """The fields by name, as the services' dataclasses take them."""
        return {name: getattr(self, name) for name in type(self).model_fields}
