"""Where offers come from beside the providers: the table `[offers]` of the configuration file."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class OffersSettings(BaseModel):
    """What is read, and how often. Nothing is read unless it is named here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    csv: tuple[Path, ...] = ()
    """Files, or folders of files, with SkyPilot's columns; a file's name is its provider's."""
    libcloud_file: bool = False
    """EC2's prices from the file that libcloud brings with it: old, and said to be."""
    azure_retail: bool = False
    gcp_billing_key: SecretStr | None = None
    """An API key for Google's billing catalogue."""
    spot_advisor: bool = False
    """How often AWS takes back spot machines of a type."""
    every_hours: float = Field(default=12.0, ge=0.1, le=720)
    """How far apart the price lists are read."""
