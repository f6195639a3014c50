"""The account's limits of vCPUs, by family class and market, and what is used of them.

Everybody's machines in the account count, not only ours: those of others are counted now and then,
ours are known from each listing. Stopped machines do not count.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from policies.globs import matches_glob
from policies.world import PurchaseMode, Quota, QuotaUnit
from provisioner.clock import Clock
from provisioner.errors import ProviderError
from provisioner.providers.aws import tags
from provisioner.providers.aws.cache import Cache
from provisioner.providers.aws.instance import NAME, Instance
from provisioner.providers.aws.instance_parser import INSTANCES
from provisioner.providers.aws.instance_types import InstanceTypes
from provisioner.providers.aws.session import Aws

_LIMITS_FOR = timedelta(hours=1)
"""An increase that was asked for shows after at most that."""
_OTHERS_FOR = timedelta(minutes=5)
_COUNTED = ("pending", "running", "stopping", "shutting-down")
_ON_DEMAND, _SPOT = PurchaseMode.ON_DEMAND, PurchaseMode.SPOT
_log = logging.getLogger(__name__)


def _families(letters: str) -> tuple[str, ...]:
    return tuple(f"{letter}{number}*" for letter in letters for number in range(1, 10))


_STANDARD = (*_families("dhit"), "a*", "c*", "im*", "is*", "m*", "r*", "z*")
"""A, C, D, H, I, M, R, T, Z; not dl, hpc, inf and trn, which have limits of their own."""


@dataclass(frozen=True, slots=True)
class Class:
    """A limit of the Service Quotas: its code, and what counts."""

    code: str
    mode: PurchaseMode
    types: tuple[str, ...]

    def counts(self, instance_type: str, mode: PurchaseMode) -> bool:
        return mode is self.mode and any(matches_glob(one, instance_type) for one in self.types)


CLASSES = (
    Class("L-1216C47A", _ON_DEMAND, _STANDARD),
    Class("L-DB2E81BA", _ON_DEMAND, ("g*", "vt*")),
    Class("L-417A185B", _ON_DEMAND, ("p*",)),
    Class("L-74FC7D96", _ON_DEMAND, ("f*",)),
    Class("L-1945791B", _ON_DEMAND, ("inf*",)),
    Class("L-2C3B7624", _ON_DEMAND, ("trn*",)),
    Class("L-7295265B", _ON_DEMAND, ("x*",)),
    Class("L-43DA4232", _ON_DEMAND, ("u*",)),
    Class("L-6E869C2A", _ON_DEMAND, ("dl*",)),
    Class("L-F7808C92", _ON_DEMAND, ("hpc*",)),
    Class("L-34B43A08", _SPOT, _STANDARD),
    Class("L-3819A6DF", _SPOT, ("g*", "vt*")),
    Class("L-7212CCBC", _SPOT, ("p2*", "p3*", "p4*")),
    Class("L-C4BD4855", _SPOT, ("p5*",)),
    Class("L-88CF9481", _SPOT, ("f*",)),
    Class("L-B5D1601B", _SPOT, ("inf*",)),
    Class("L-6B0D517C", _SPOT, ("trn*",)),
    Class("L-E3A00192", _SPOT, ("x*",)),
    Class("L-85EED4F7", _SPOT, ("dl*",)),
)


class Quotas:
    """The quotas of all regions; `ours` tells a region's instances as they were last listed."""

    def __init__(
        self,
        aws: Aws,
        regions: Sequence[str],
        installation: str,
        types: InstanceTypes,
        ours: Callable[[str], Sequence[Instance]],
        clock: Clock,
    ) -> None:
        self._aws = aws
        self._regions = regions
        self._installation = installation
        self._types = types
        self._ours = ours
        self._limits = Cache(self._load_limits, _LIMITS_FOR, clock)
        self._others = Cache(self._load_others, _OTHERS_FOR, clock)

    def all(self) -> list[Quota]:
        """Those that could be learnt.

        Raises:
            ProviderError: no region answered.
        """
        found: list[Quota] = []
        failures: list[ProviderError] = []
        for region in self._regions:
            try:
                found += self._region(region)
            except ProviderError as error:
                _log.warning("AWS %s does not tell its quotas: %s", region, error)
                failures.append(error)
        if len(failures) == len(self._regions):
            raise failures[0]
        return found

    def _region(self, region: str) -> list[Quota]:
        limits = self._limits.get(region)
        counted = [*self._others.get(region)]
        counted += [(one.type, one.mode) for one in self._ours(region) if one.state in _COUNTED]
        cpus = self._types.cpus(region, (name for name, _ in counted))
        quotas = []
        for one in CLASSES:
            if one.code not in limits:
                continue
            name, limit = limits[one.code]
            used = sum(
                cpus[type_name] for type_name, mode in counted if one.counts(type_name, mode)
            )
            quotas.append(
                Quota(name, NAME, region, one.types, QuotaUnit.CPUS, limit, used, one.mode)
            )
        return quotas

    def _load_limits(self, region: str) -> Mapping[str, tuple[str, float]]:
        pages = self._aws.pages("service-quotas", region, "list_service_quotas", ServiceCode="ec2")
        return {
            one["QuotaCode"]: (one["QuotaName"], float(one["Value"]))
            for page in pages
            for one in page["Quotas"]
        }

    def _load_others(self, region: str) -> Sequence[tuple[str, PurchaseMode]]:
        """Type and market of each instance that is not ours."""
        filters = [{"Name": "instance-state-name", "Values": list(_COUNTED)}]
        pages = self._aws.pages("ec2", region, "describe_instances", Filters=filters)
        return [
            (one.type, one.mode)
            for page in pages
            for one in page[INSTANCES]
            if one.tags.get(tags.INSTALLATION) != self._installation
        ]
