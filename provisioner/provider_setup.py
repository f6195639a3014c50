"""Makes the providers that the settings name. Each kind's library is loaded only if it is used."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from policies.world import PurchaseMode
from provisioner.clock import Clock
from provisioner.errors import StateError
from provisioner.offers.market import Market
from provisioner.providers.contract import PricePoint, Provider, Rates
from provisioner.providers.local.limits import LimitsUnavailableError, find_limits
from provisioner.providers.local.market import MarketSettings, TraceSettings
from provisioner.providers.local.provider import LocalProvider
from provisioner.providers.local.settings import LocalSettings
from provisioner.settings import LocalProviderSettings, Settings
from provisioner.statefolder import StateFolder


def make_providers(
    settings: Settings, folder: StateFolder, installation: str, clock: Clock, market: Market
) -> dict[str, Provider]:
    """By name, the first part of their offers' ids.

    Raises:
        StateError: two have one name, or the local one cannot keep what its settings promise.
    """
    found: dict[str, Provider] = {}
    for provider in _made(settings, folder, installation, clock, market):
        if provider.name in found:
            raise StateError(
                f"Two providers are called {provider.name!r}.",
                remedy="Give one of `[[clouds]]` another name.",
            )
        found[provider.name] = provider
    return found


def _made(
    settings: Settings, folder: StateFolder, installation: str, clock: Clock, market: Market
) -> Iterator[Provider]:
    if settings.local.enabled:
        if settings.local.limits == "enforce":
            _require_limits()
        yield LocalProvider(folder.machines, installation, clock, local_settings(settings.local))
    if settings.ssh is not None:
        from provisioner.providers.ssh.provider import SshProvider

        yield SshProvider(settings.ssh, installation, folder.path / "ssh-hosts.json")
    if settings.aws is not None:
        from provisioner.providers.aws.provider import AwsProvider

        yield AwsProvider(settings.aws, installation, clock)
    for cloud in settings.clouds:
        from provisioner.providers.libcloud.provider import LibcloudProvider

        yield LibcloudProvider(cloud, installation, clock, _Prices(market, cloud.name))


class _Prices:
    """What other sources of offers say that a cloud charges."""

    def __init__(self, market: Market, provider: str) -> None:
        self._market = market
        self._provider = provider

    def price(self, region: str, instance_type: str, mode: PurchaseMode) -> PricePoint | None:
        catalogue = self._market.catalogue
        return catalogue.price_elsewhere(self._provider, region, instance_type, mode)

    def rates(self, region: str) -> Rates:
        return Rates()


def _require_limits() -> None:
    """Refuse at the start, and not at the first machine, what this host cannot keep."""
    try:
        find_limits()
    except LimitsUnavailableError as error:
        raise StateError(
            f"This host cannot hold machines to their CPUs and memory: {error}.",
            remedy='Say that they need no limits: `limits = "none"` under `[local]` in the '
            "configuration file, or ROOST_LOCAL__LIMITS=none. (A systemd user session or a "
            "delegated cgroup v2 would do as well.)",
        ) from error


def local_settings(given: LocalProviderSettings) -> LocalSettings:
    """The local provider's own form of what the configuration says."""
    traces: tuple[TraceSettings, ...] = ()
    if given.spot_trace is not None:
        start = given.spot_trace_starts_at or datetime(1970, 1, 1, tzinfo=UTC)
        traces = tuple(TraceSettings(zone, given.spot_trace, start) for zone in given.zones)
    return LocalSettings(
        zones=given.zones,
        currency=given.currency,
        price_per_cpu_hour=given.price_per_cpu_hour,
        price_per_gib_hour=given.price_per_gib_hour,
        price_per_gpu_hour=given.price_per_gpu_hour,
        price_per_volume_gib_month=given.price_per_gib_month,
        overcommit=given.overcommit,
        limits=given.limits,
        market=MarketSettings(
            seed=given.spot_seed,
            spot_price_fraction=given.spot_price_share,
            mean_hours_between_reclaims=given.spot_mean_hours_between_reclaims,
            notice_s=given.spot_notice_s,
            traces=traces,
        ),
    )
