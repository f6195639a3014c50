"""Finds this installation's instances, and remembers in which region each of them is."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TypeVar

from provisioner.clock import Clock
from provisioner.errors import InvalidRequest, NotFound, ProviderError
from provisioner.providers.aws import tags
from provisioner.providers.aws.instance import Instance
from provisioner.providers.aws.instance_parser import INSTANCES
from provisioner.providers.aws.session import Aws

T = TypeVar("T")
LISTING_LAG = timedelta(seconds=60)
"""EC2 is eventually consistent: what was made a moment ago may not be found yet."""
_INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")
_LAUNCH_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


class Instances:
    """The instances of one installation in all of its regions."""

    def __init__(self, aws: Aws, regions: Sequence[str], installation: str, clock: Clock) -> None:
        self._aws = aws
        self._regions = regions
        self._installation = installation
        self._clock = clock
        self._region_of: dict[str, str] = {}
        self._made: dict[str, datetime] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(4 * len(regions), thread_name_prefix="aws-regions")

    def list(self, region: str, **values: str) -> tuple[Instance, ...]:
        """All of a region, of those that also match; see `tags.where`."""
        filters = tags.where(self._installation, **values)
        found: list[Instance] = []
        for page in self._aws.pages("ec2", region, "describe_instances", Filters=filters):
            found.extend(page[INSTANCES])
        self._region_of.update((instance.id, region) for instance in found)
        return tuple(found)

    def find(self, name: str) -> Instance:
        """The instance of an id or a launch id.

        Raises:
            NotFound: there is none, and none was made just now.
            ProviderError: one was made just now and cannot be seen yet, or a region is silent.
        """
        found = self._named(name)
        if found is not None:
            return found
        made = self._made.get(name)
        if made is not None and self._clock.now() - made < LISTING_LAG:
            raise ProviderError(
                f"machine {name} was asked for just now and EC2 does not show it yet",
                remedy="It is tried again.",
            )
        raise NotFound(f"there is no machine {name} in {', '.join(self._regions)}")

    def of_launch(self, region: str, launch_id: str) -> Instance | None:
        """The instance of a launch, an ended one too; of twins the one that lives.

        Raises:
            InvalidRequest: it cannot be a launch id.
        """
        if not _LAUNCH_ID.fullmatch(launch_id):
            raise InvalidRequest(f"{launch_id!r} cannot be the id of a launch")
        return _first(self.list(region, tag__launch=launch_id))

    def note(self, instance: Instance, region: str) -> None:
        """It was made just now."""
        self._region_of[instance.id] = region
        self.expect(instance.id)
        self.expect(instance.launch_id)

    def expect(self, name: str) -> None:
        """An instance of this id or launch id was made just now, or may have been."""
        now = self._clock.now()
        with self._lock:
            fresh = {one: at for one, at in self._made.items() if now - at < LISTING_LAG}
            self._made = {**fresh, name: now}

    def everywhere(self, ask: Callable[[str], T]) -> tuple[dict[str, T], ProviderError | None]:
        """What the regions answer, all asked at once, and how one failed that did not."""
        asked = {region: self._pool.submit(ask, region) for region in self._regions}
        answers: dict[str, T] = {}
        failure = None
        for region, future in asked.items():
            try:
                answers[region] = future.result()
            except ProviderError as error:
                failure = error
        return answers, failure

    def _named(self, name: str) -> Instance | None:
        known = self._region_of.get(name)
        if known is not None:
            return _first(self.list(known, instance_id=name))
        if _INSTANCE_ID.fullmatch(name):
            answers, failure = self.everywhere(lambda region: self.list(region, instance_id=name))
        elif _LAUNCH_ID.fullmatch(name):
            answers, failure = self.everywhere(lambda region: self.list(region, tag__launch=name))
        else:
            return None  # `*` and `?` stand for other names in a filter
        found = _first([one for same in answers.values() for one in same])
        if found is None and failure is not None:
            raise failure
        return found


def _first(same: Sequence[Instance]) -> Instance | None:
    return min(same, key=lambda one: (one.ended, one.id), default=None)
