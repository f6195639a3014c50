"""Settings of the control plane: a TOML file, the environment, then flags; the later one wins."""

from __future__ import annotations

import os
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from provisioner.errors import StateError
from provisioner.offers.settings import OffersSettings
from provisioner.providers.aws.settings import AwsSettings
from provisioner.providers.libcloud.settings import CloudSettings
from provisioner.providers.ssh.settings import SshSettings

_REQUIREMENT = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(==[A-Za-z0-9.+!_-]+)?$"
"""A package as `name` or `name==version`."""


class LocalProviderSettings(BaseModel):
    """The `local` provider: machines cut from this host. Its prices are yours to set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
    limits: Literal["enforce", "none"] = "enforce"
    overcommit: float = Field(default=1.0, ge=1.0, le=64.0)
    zones: tuple[str, ...] = ("local-a", "local-b")
    currency: str = "USD"
    price_per_cpu_hour: Decimal = Field(default=Decimal("0.04"), ge=0)
    price_per_gib_hour: Decimal = Field(default=Decimal("0.005"), ge=0)
    price_per_gpu_hour: Decimal = Field(default=Decimal("0.90"), ge=0)
    price_per_gib_month: Decimal = Field(default=Decimal("0.10"), ge=0)
    spot_price_share: Decimal = Field(default=Decimal("0.35"), gt=0, le=1)
    spot_seed: int = 0
    spot_mean_hours_between_reclaims: float = Field(default=0.0, ge=0.0)
    spot_trace: Path | None = None
    spot_trace_starts_at: AwareDatetime | None = None
    spot_notice_s: float = Field(default=120.0, ge=0.0)


class MachineSettings(BaseModel):
    """What machines elsewhere have of Python: from their image, else from an index or a cache."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    python: str = Field(default="python3", min_length=1, max_length=256)
    packages: tuple[Annotated[str, Field(pattern=_REQUIREMENT)], ...] = ()
    package_index: str | None = None

    @field_validator("package_index")
    @classmethod
    def _safe(cls, url: str | None) -> str | None:
        """What is installed runs as root, so nobody on the way may change it."""
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise ValueError("it must be an https:// URL")
        if parts.username is not None or parts.password is not None:
            raise ValueError("it must hold no user and no password: each machine would show them")
        return url


class Settings(BaseSettings):
    """Everything that can be set; environment variables are `ROOST_PORT`, `ROOST_LOCAL__LIMITS`."""

    model_config = SettingsConfigDict(
        env_prefix="ROOST_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    state: Path
    host: str = "127.0.0.1"
    port: int = Field(default=8470, ge=0, le=65535)
    public_url: str | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
    database_url: str | None = None
    tick_s: float = Field(default=1.0, gt=0, le=60)
    heartbeat_s: float = Field(default=1.0, gt=0, le=60)
    lease_s: float = Field(default=15.0, ge=2)
    machines: MachineSettings = MachineSettings()
    local: LocalProviderSettings = LocalProviderSettings()
    ssh: SshSettings | None = None
    aws: AwsSettings | None = None
    clouds: tuple[CloudSettings, ...] = ()
    offers: OffersSettings = OffersSettings()

    @model_validator(mode="after")
    def _certificate_and_key(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key belong together: give both or none")
        return self

    @classmethod
    def load(cls, config: Path | None = None, **flags: Any) -> Self:
        """Read the file (default: `config_file()`, if there), the environment, then `flags`.

        Raises:
            StateError: the file cannot be read, or a value is wrong; all wrong values are named.
        """
        values = _read(config)
        given = {key: value for key, value in flags.items() if value is not None}
        try:
            return cls(
                **{"state": default_state_folder(), **_over(_over(values, _environment()), given)}
            )
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(str(part) for part in e['loc']) or 'settings'}: {e['msg']}"
                for e in error.errors()
            )
            raise StateError(
                f"Wrong settings: {problems}.",
                remedy="Correct the configuration file, the ROOST_ variables or the flags.",
            ) from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """`load` merges the sources itself, in its documented order."""
        return (init_settings,)

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{self.state / 'roost.db'}"


def config_file() -> Path:
    """Where the configuration file lies unless a flag says otherwise."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "roost" / "config.toml"


def default_state_folder() -> Path:
    """The state folder unless a setting says otherwise."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "roost"


def _read(config: Path | None) -> dict[str, Any]:
    path = config or config_file()
    if config is None and not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise StateError(
            f"Cannot read the configuration file {path}: {error}.",
            remedy="Name another with --config, or correct it.",
        ) from error


def _over(values: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """`later` wins, value by value: a table is merged, not replaced."""
    merged = dict(values)
    for key, value in later.items():
        before = merged.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            value = {**before, **value}
        merged[key] = value
    return merged


def _environment() -> dict[str, Any]:
    """`ROOST_A__B=c` as `{"a": {"b": "c"}}`; variables that are no settings are left."""
    values: dict[str, Any] = {}
    for name in Settings.model_fields:
        variable = f"ROOST_{name.upper()}"
        if variable in os.environ:
            values[name] = os.environ[variable]
        prefix = f"{variable}__"
        nested = {
            key.removeprefix(prefix).lower(): value
            for key, value in os.environ.items()
            if key.startswith(prefix)
        }
        if nested:
            values[name] = nested
    return values
