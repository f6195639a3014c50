"""What an operator sets about one account at one cloud that is reached through libcloud."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from provisioner.errors import AuthError

Price = Annotated[Decimal, Field(gt=0)]


class CloudSettings(BaseModel):
    """One provider. Which names `account` and `secrets` hold depends on `driver`; see the docs.

    A secret's value says where it is: `env:NAME` or `file:PATH`. It is read when it is needed and
    kept nowhere else.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,19}$")
    """The first part of its offers' ids."""
    driver: str
    account: dict[str, str] = {}
    secrets: dict[str, SecretStr] = {}
    regions: tuple[str, ...] = Field(min_length=1)
    endpoint_url: str | None = None
    """One address for all of the cloud's own: a private endpoint, or a compatible cloud."""
    image: str = ""
    """The cloud's own word for it; empty takes the driver's default."""
    image_gpu: str = ""
    """For types with GPUs: it must hold their driver. Empty: `image`."""
    network: str = ""
    """Network or subnet that machines are put into; empty takes the cloud's default."""
    security_groups: tuple[str, ...] = ()
    types: tuple[str, ...] = ("*",)
    """Patterns of the instance types to be sold."""
    volumes: bool = True
    """False where the account has no block storage."""
    spot: bool = True
    """False where spot must not be sold though the cloud has it."""
    currency: str = "USD"
    """Of the prices below."""
    prices: dict[str, Price] = {}
    """Of an hour on demand, by pattern of the type; the first that matches. Outranks all others."""
    spot_prices: dict[str, Price] = {}
    price_per_gib_month: Price | None = None
    """Of a GiB of a home volume."""

    @field_validator("secrets")
    @classmethod
    def _say_where(cls, secrets: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, where in secrets.items():
            if where.get_secret_value().partition(":")[0] not in ("env", "file"):
                raise ValueError(f"say where {name} is: env:NAME or file:PATH, not its value")
        return secrets

    @model_validator(mode="after")
    def _once_each(self) -> Self:
        if len(set(self.regions)) != len(self.regions):
            raise ValueError(f"regions {list(self.regions)}: name each one once")
        return self

    def secret(self, name: str) -> str:
        """The secret itself.

        Raises:
            AuthError: it is not where the settings say.
        """
        if name not in self.secrets:
            raise AuthError(f"provider {self.name} has no secret {name}", remedy="Name it.")
        kind, _, where = self.secrets[name].get_secret_value().partition(":")
        try:
            found = os.environ[where] if kind == "env" else Path(where).read_text()
        except (KeyError, OSError) as error:
            raise AuthError(
                f"the secret {name} of provider {self.name} is not in {kind}:{where}",
                remedy="Put it there, or name another place.",
            ) from error
        return found.strip()
