"""What is known of each cloud before it is asked anything: data only, and no call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from provisioner.providers.libcloud.refusals import Refusal


class Support(StrEnum):
    """How far a cloud can be trusted here."""

    SUPPORTED = "supported"
    """It passes the contract suite against a cloud that keeps state."""
    EXPERIMENTAL = "experimental"
    """Its requests are right as far as recorded answers can tell; nothing more was tried."""


class PriceSource(StrEnum):
    """Where the price of a machine may come from, beside the settings and a price book."""

    BOOK = "book"
    """Its API states none."""
    API = "api"
    """Its API states one, in a unit that its module turns into hours."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One cloud as libcloud reaches it. Fields that a setting may narrow say so."""

    driver: str
    """Its name in settings, such as `openstack`."""
    title: str
    support: Support
    account: Mapping[str, str]
    """What must be said of the account in clear, with what it is; optional ones end with `?`."""
    secrets: Mapping[str, str]
    """What must be known to sign in, with what it is."""
    refusals: tuple[Refusal, ...]
    """How it says no, tried in order before what holds for all."""
    regional: bool
    """Whether each region is an endpoint of its own; else one endpoint answers for all."""
    zones: bool
    """Whether a region has zones that volumes are bound to; else a region is its only zone."""
    spot: bool = False
    bills_stopped: bool = False
    """Whether a stopped machine costs what a running one costs: then it is not worth stopping."""
    client_tokens: bool = False
    snapshots: bool = True
    price_source: PriceSource = PriceSource.BOOK
    default_image: str = ""
    """Empty: the settings must name one."""
    user_data_bytes: int = 65536
    packs_user_data: bool = True
    """Whether user data may be binary, and so be compressed where it is too long."""
    interruption_notice_s: float = 0.0
    listing_lag_s: float = 10.0
    list_every_s: float = 10.0
    ended_visible_s: float = 0.0
    """How long it shows machines that have ended; 0: it forgets them at once."""
    leftovers: tuple[str, ...] = ()
    """What its module makes beside machines, disks and snapshots."""
    needs_network: bool = False
    one_region: bool = False
    """Whether its volumes say no zone, so that several regions could not be told apart."""
