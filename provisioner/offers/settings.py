"""Where offers come from beside the providers: the table `[offers]` of the configuration file."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from policies.world import PurchaseMode

_Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^/\s]+$")]


class OwnOffer(BaseModel):
    """A price that you know and no list tells, to be compared with the others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: _Name
    region: _Name
    zone: _Name | None = None
    """The region, where there are no zones."""
    type: _Name
    mode: PurchaseMode = PurchaseMode.ON_DEMAND
    cpus: float = Field(gt=0)
    memory_gib: float = Field(gt=0)
    gpus: int = Field(default=0, ge=0)
    gpu_model: str | None = None
    price_per_hour: Decimal = Field(gt=0)
    currency: str = Field(default="USD", pattern="^[A-Z]{3}$")


class OffersSettings(BaseModel):
    """What is read, and how often. Nothing is read unless it is named here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    csv: tuple[Path, ...] = ()
    """Files, or folders of files, with SkyPilot's columns; a file's name is its provider's."""
    own: tuple[OwnOffer, ...] = ()
    libcloud_file: bool = False
    """EC2's prices from the file that libcloud brings with it: old, and said to be."""
    azure_retail: bool = False
    gcp_billing_key: SecretStr | None = None
    """An API key for Google's billing catalogue."""
    spot_advisor: bool = False
    """How often AWS takes back spot machines of a type."""
    every_hours: float = Field(default=12.0, ge=0.1, le=720)
    """How far apart the price lists are read."""
