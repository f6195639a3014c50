"""What the installation holds, region by region and all of them at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime
from typing import Any

from provisioner.clock import Clock
from provisioner.errors import ProviderError
from provisioner.providers.aws.fleet import Fleets
from provisioner.providers.aws.homes import Ebs, Homes
from provisioner.providers.aws.instance import Instance
from provisioner.providers.aws.instances import Instances
from provisioner.providers.aws.networks import Networks
from provisioner.providers.aws.snapshots import Snapshots
from provisioner.providers.contract import Leftover, Listing, MachineState

GROUP, TEMPLATE, SNAPSHOT = "security-group", "launch-template", "snapshot"
ANSWER_WITHIN_S = 8.0
"""A region that takes longer is silent: it must not hold up what is known of the others."""
_STILL = (MachineState.STOPPED, MachineState.TERMINATED)
Answers = list[Future[Any]]
_log = logging.getLogger(__name__)


class Listings:
    """Lists all regions in parallel, and gives new machines their homes."""

    def __init__(
        self,
        regions: Sequence[str],
        instances: Instances,
        homes: Homes,
        snapshots: Snapshots,
        networks: Networks,
        fleets: Fleets,
        clock: Clock,
    ) -> None:
        self._regions = regions
        self._homes = homes
        self._snapshots = snapshots
        self._clock = clock
        self._asks: tuple[Callable[[str], Any], ...] = (
            instances.list,
            lambda region: list(homes.described(region)),
            snapshots.described,
            networks.groups,
            fleets.templates,
        )
        self._pool = ThreadPoolExecutor(
            (len(self._asks) + 1) * len(regions), thread_name_prefix="aws-list"
        )
        self._late: dict[str, Answers] = {}
        self._completing: dict[str, Future[dict[str, str]]] = {}
        self._ends_seen: dict[str, datetime] = {}
        self.last: dict[str, tuple[Instance, ...]] = {}
        """The instances of each region when it was last listed."""

    def list(self) -> Listing:
        """All that is there; regions that do not answer in time are named.

        Raises:
            ProviderError: no region answered.
        """
        asked = {region: self._ask(region) for region in self._regions if not self._is_late(region)}
        wait([answer for answers in asked.values() for answer in answers], ANSWER_WITHIN_S)
        heard: dict[str, Listing] = {}
        failure: ProviderError | None = None
        for region, answers in asked.items():
            try:
                heard[region] = self._heard(region, answers)
            except ProviderError as error:
                _log.warning("AWS %s does not tell what it holds: %s", region, error)
                failure = error
        if not heard:
            raise failure or _silent(", ".join(self._regions))
        machines = tuple(machine for one in heard.values() for machine in one.machines)
        if len(heard) == len(self._regions):
            for gone in self._ends_seen.keys() - {machine.id for machine in machines}:
                self._ends_seen.pop(gone, None)
        return Listing(
            machines,
            tuple(volume for one in heard.values() for volume in one.volumes),
            tuple(snapshot for one in heard.values() for snapshot in one.snapshots),
            tuple(leftover for one in heard.values() for leftover in one.leftovers),
            frozenset(set(self._regions) - heard.keys()),
        )

    def _is_late(self, region: str) -> bool:
        """Whether an earlier question is still open: another is not put on top of it."""
        if all(answer.done() for answer in self._late.get(region, ())):
            self._late.pop(region, None)
            return False
        return True

    def _ask(self, region: str) -> Answers:
        return [self._pool.submit(ask, region) for ask in self._asks]

    def _heard(self, region: str, answers: Answers) -> Listing:
        if not all(answer.done() for answer in answers):
            self._late[region] = answers
            raise _silent(region)
        found: tuple[Instance, ...]
        found, homes, snapshots, groups, templates = (answer.result() for answer in answers)
        found = tuple(instance for instance in found if instance.launch_id)
        self.last[region] = found
        troubles = self._complete(region, found, homes)
        used = {
            group
            for instance in found
            if instance.machine_state is not MachineState.TERMINATED
            for group in instance.groups
        }
        known, twins = self._snapshots.listed(snapshots)
        left = [(GROUP, group) for group in groups if group not in used]
        left += [(TEMPLATE, template) for template in templates]
        left += [(SNAPSHOT, twin) for twin in twins]
        return Listing(
            tuple(one.machine(self._ended_at(one), troubles.get(one.id, "")) for one in found),
            tuple(self._homes.listed(homes, found)),
            tuple(known),
            tuple(Leftover(kind, f"{region}/{id}") for kind, id in left),
        )

    def _complete(
        self, region: str, found: Sequence[Instance], homes: Sequence[Ebs]
    ) -> dict[str, str]:
        """Have homes made and attached beside the listing; what went wrong the last time."""
        before = self._completing.get(region)
        if before is not None and not before.done():
            return {}
        self._completing[region] = self._pool.submit(
            self._homes.complete_listed, found, homes, region
        )
        return before.result() if before is not None else {}

    def _ended_at(self, instance: Instance) -> datetime | None:
        """Since when it is seen to stand still, for where EC2 does not say."""
        if instance.machine_state not in _STILL or instance.stood_since is not None:
            self._ends_seen.pop(instance.id, None)
            return None
        return self._ends_seen.setdefault(instance.id, self._clock.now())


def _silent(region: str) -> ProviderError:
    return ProviderError(
        f"AWS {region} has not answered within {ANSWER_WITHIN_S:g} s", remedy="It is asked again."
    )
