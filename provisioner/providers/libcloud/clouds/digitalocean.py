"""DigitalOcean. A droplet that is off costs what one that runs costs.

API: docs.digitalocean.com/reference/api
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

from libcloud.compute.drivers.digitalocean import DigitalOcean_v2_NodeDriver

from policies.world import Quota, QuotaUnit
from provisioner.errors import AuthError, CapacityError, NotFound, QuotaError
from provisioner.gpus import canonical_gpu
from provisioner.providers.contract import MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.cloud import (
    Cloud,
    Disk,
    DiskCopy,
    NewDisk,
    NewServer,
    Server,
    Size,
)
from provisioner.providers.libcloud.marks import Marks, Owner, of_words, words
from provisioner.providers.libcloud.profile import PriceSource, Profile, Support
from provisioner.providers.libcloud.refusals import Refusal
from provisioner.providers.libcloud.settings import CloudSettings
from provisioner.providers.libcloud.times import known
from provisioner.providers.libcloud.user_data import plain
from provisioner.providers.libcloud.wire import Wire, driver_class

S = MachineState
_STATES = {"new": S.PENDING, "active": S.RUNNING, "off": S.STOPPED, "archive": S.TERMINATED}
_TAG = 255

PROFILE = Profile(
    driver="digitalocean",
    title="DigitalOcean",
    support=Support.EXPERIMENTAL,
    account={},
    secrets={"token": "personal access token"},
    refusals=(
        Refusal(r"exceed your (droplet|volume) limit|droplet limit", QuotaError),
        Refusal(r"size.{1,40}(not available|unavailable|restricted)", CapacityError),
        Refusal(r"^401 ", AuthError),
    ),
    regional=False,
    zones=False,
    bills_stopped=True,
    price_source=PriceSource.API,
    default_image="ubuntu-24-04-x64",
    packs_user_data=False,
    list_every_s=15.0,
)


class DigitalOcean(Cloud):
    """One account."""

    profile: ClassVar[Profile] = PROFILE

    def __init__(self, settings: CloudSettings, owner: Owner, region: str) -> None:
        super().__init__(settings, owner, region)
        self._wire = Wire(self._connect, PROFILE.refusals, PROFILE.title)

    def servers(self) -> Iterable[Server]:
        where = {"tag_name": f"{marks.INSTALLATION}:{self.owner.installation}"}
        for body in self._pages("/v2/droplets", "droplets", where):
            server = _server(body)
            if self.owner.owns(server.marks):
                yield server

    def server(self, id: str) -> Server | None:
        try:
            server = _server(self._wire.get(f"/v2/droplets/{id}")["droplet"])
        except NotFound:
            return None
        return server if self.owner.owns(server.marks) else None

    def sizes(self) -> Iterable[Size]:
        for body in self._pages("/v2/sizes", "sizes", {}):
            if not body.get("available", True):
                continue
            gpu = body.get("gpu_info") or {}
            price = Decimal(str(body["price_hourly"]))
            regions = body["regions"]
            yield Size(
                name=body["slug"],
                cpus=float(body["vcpus"]),
                memory_gib=body["memory"] / 1024,
                zones={region: (region,) for region in regions},
                gpus=gpu.get("count", 0),
                gpu_model=canonical_gpu(gpu["model"]) if gpu else None,
                prices_per_hour=dict.fromkeys(regions, price),
            )

    def quotas(self) -> Sequence[Quota]:
        limit = self._wire.get("/v2/account")["account"]["droplet_limit"]
        used = self._wire.get("/v2/droplets", {"page": 1})["meta"]["total"]
        return [
            Quota(
                "droplet limit",
                self.settings.name,
                region,
                ("*",),
                QuotaUnit.MACHINES,
                float(limit),
                float(used),
            )
            for region in self.settings.regions
        ]

    def create(self, new: NewServer) -> Server:
        network = self.settings.network
        droplet = {
            "name": new.name,
            "region": new.region,
            "size": new.size,
            "image": new.image,
            "user_data": plain(new.user_data, PROFILE),
            "tags": words(new.marks, _TAG),
            **({"vpc_uuid": network} if network else {}),
        }
        return _server(self._wire.post("/v2/droplets", droplet)["droplet"])

    def delete(self, server: Server) -> None:
        self._wire.delete(f"/v2/droplets/{server.id}")

    def start(self, server: Server) -> None:
        self._act(server, type="power_on")

    def stop(self, server: Server) -> None:
        self._act(server, type="shutdown")

    def resize(self, server: Server, size: str) -> None:
        """Without its disk, so that it can become smaller again."""
        self._act(server, type="resize", size=size, disk=False)

    def disks(self) -> Iterable[Disk]:
        for body in self._pages("/v2/volumes", "volumes", {}):
            disk = _disk(body)
            if self.owner.owns(disk.marks) and marks.VOLUME in disk.marks:
                yield disk

    def create_disk(self, new: NewDisk) -> Disk:
        volume = {
            "name": _name(new.name),
            "region": new.region,
            "size_gigabytes": new.gib,
            "tags": words(new.marks, _TAG),
            **({"snapshot_id": new.copy.id} if new.copy else {}),
        }
        return _disk(self._wire.post("/v2/volumes", volume)["volume"])

    def delete_disk(self, disk: Disk) -> None:
        self._wire.delete(f"/v2/volumes/{disk.id}")

    def attach(self, server: Server, disk: Disk) -> None:
        what = {"volume_name": disk.body["name"], "region": disk.region}
        self._wire.post("/v2/volumes/actions", {"type": "attach", "droplet_id": server.id, **what})

    def copies(self) -> Iterable[DiskCopy]:
        for body in self._pages("/v2/snapshots", "snapshots", {"resource_type": "volume"}):
            copy = _copy(body)
            if self.owner.owns(copy.marks) and marks.SNAPSHOT in copy.marks:
                yield copy

    def copy(self, disk: Disk, name: str, marks: Marks) -> DiskCopy:
        body = {"name": _name(name), "tags": words(marks, _TAG)}
        return _copy(self._wire.post(f"/v2/volumes/{disk.id}/snapshots", body)["snapshot"])

    def delete_copy(self, copy: DiskCopy) -> None:
        self._wire.delete(f"/v2/snapshots/{copy.id}")

    def _connect(self) -> Any:
        kind = driver_class(DigitalOcean_v2_NodeDriver, self.settings.endpoint_url)
        return kind(self.settings.secret("token")).connection

    def _pages(self, path: str, key: str, params: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        page = 1
        while True:
            answer = self._wire.get(path, {**params, "page": page})
            yield from answer[key]
            more = (answer.get("links") or {}).get("pages", {}).get("next")
            if not more or not answer[key]:
                return
            page += 1

    def _act(self, server: Server, **how: object) -> None:
        self._wire.post(f"/v2/droplets/{server.id}/actions", how)


def _server(body: Mapping[str, Any]) -> Server:
    region = body["region"]["slug"]
    return Server(
        id=str(body["id"]),
        state=_STATES.get(body["status"], S.RUNNING),
        size=body["size_slug"],
        region=region,
        zone=region,
        marks=of_words(body.get("tags", ())),
        created_at=known(body["created_at"]),
        run_started_at=known(body["created_at"]),
        body=body,
    )


def _disk(body: Mapping[str, Any]) -> Disk:
    region = body["region"]["slug"]
    attached = [str(id) for id in body["droplet_ids"]]
    return Disk(
        id=body["id"],
        region=region,
        zone=region,
        marks=of_words(body.get("tags", ())),
        gib=body["size_gigabytes"],
        created_at=known(body["created_at"]),
        server_id=attached[0] if attached else None,
        body=body,
    )


def _copy(body: Mapping[str, Any]) -> DiskCopy:
    return DiskCopy(
        id=body["id"],
        region=body["regions"][0],
        marks=of_words(body.get("tags") or ()),
        gib=body["min_disk_size"],
        created_at=known(body["created_at"]),
    )


def _name(name: str) -> str:
    """Lower-case letters, digits and dashes, 64 at most."""
    return re.sub(r"[^a-z0-9-]", "-", name.lower())[:64].rstrip("-")
