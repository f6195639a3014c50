"""moto's model of the account: the only place that knows how moto keeps things."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.sqs.models import sqs_backends
from werkzeug.test import Client

from tests.clouds.aws.wire import Answer, Request, mended

QUEUE = "notices"


class Account:
    """One account, empty at first."""

    def __init__(self) -> None:
        self._moto = Client(DomainDispatcherApplication(create_backend_app))
        self._pruned: set[str] = set()

    def ask(self, request: Request) -> Answer:
        """moto's own answer."""
        headers = {k: v for k, v in request.headers.items() if k.lower() != "content-length"}
        told = self._moto.post(request.path, headers=headers, data=request.body)
        return mended(Answer(told.status_code, told.headers["Content-Type"], told.data))

    def reset(self) -> None:
        self._pruned.clear()
        self._moto.post("/moto-api/reset")

    def region(self, name: str) -> Any:
        """A region of EC2, without the snapshots of moto's images: each listing reads them all."""
        backend = ec2_backends[DEFAULT_ACCOUNT_ID][name]
        if name not in self._pruned:
            backend.snapshots.clear()
            self._pruned.add(name)
        return backend

    def regions(self) -> list[str]:
        """Those that were used since the reset."""
        return sorted(self._pruned)

    def instances(self, region: str) -> Iterator[Any]:
        """Newest first."""
        for reservation in reversed(self.region(region).reservations.values()):
            yield from reservation.instances

    def instance(self, region: str, id: str) -> Any | None:
        return next((one for one in self.instances(region) if one.id == id), None)

    def forget(self, region: str, ids: set[str]) -> None:
        """Instances that are not even listed any more."""
        kept = self.region(region).reservations
        for name, reservation in list(kept.items()):
            if all(one.id in ids for one in reservation.instances):
                del kept[name]

    def zone_of_subnet(self, region: str, subnet_id: str) -> str:
        found = [one for zone in self.region(region).subnets.values() for one in zone.values()]
        return next((str(one.availability_zone) for one in found if one.id == subnet_id), "")

    def put_event(self, region: str, event: dict[str, Any]) -> None:
        """Put an event into the region's queue, where there is one."""
        sqs = sqs_backends[DEFAULT_ACCOUNT_ID][region]
        if QUEUE in sqs.queues:
            sqs.send_message(QUEUE, json.dumps({"account": DEFAULT_ACCOUNT_ID, **event}))

    def notices_queue(self, region: str) -> str:
        """The path of a queue that gets all events of EC2 in a region."""
        sqs = sqs_backends[DEFAULT_ACCOUNT_ID][region]
        if QUEUE not in sqs.queues:
            sqs.create_queue(QUEUE, tags={})
        return f"/{DEFAULT_ACCOUNT_ID}/{QUEUE}"

    def inventory(self) -> dict[str, list[str]]:
        """The ids of all that costs money or stays behind, terminated instances left out."""
        found: dict[str, list[str]] = {}
        for name in self.regions():
            region = self.region(name)
            held = {
                "instance": [i.id for i in self.instances(name) if i.state != "terminated"],
                "volume": list(region.volumes),
                "snapshot": list(region.snapshots),
                "address": list(region.addresses),
                "network-interface": list(region.enis),
                "launch-template": list(region.launch_templates),
                "security-group": [
                    group.id
                    for groups in region.groups.values()
                    for group in groups.values()
                    if group.name != "default"
                ],
            }
            found |= {f"{name} {kind}": sorted(ids) for kind, ids in held.items() if ids}
        return found
