"""Linode (Akamai). A machine that is off costs what one that runs costs; volumes have no snapshots.

API: techdocs.akamai.com/linode-api
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, ClassVar

from libcloud.compute.drivers.linode import LinodeNodeDriverV4

from provisioner.errors import AuthError, CapacityError, NotFound, QuotaError
from provisioner.gpus import canonical_gpu
from provisioner.ids import new_secret
from provisioner.providers.contract import MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.cloud import Cloud, Disk, NewDisk, NewServer, Server, Size
from provisioner.providers.libcloud.marks import Owner, of_words, words
from provisioner.providers.libcloud.profile import PriceSource, Profile, Support
from provisioner.providers.libcloud.refusals import Refusal
from provisioner.providers.libcloud.settings import CloudSettings
from provisioner.providers.libcloud.times import known
from provisioner.providers.libcloud.user_data import encoded
from provisioner.providers.libcloud.wire import Wire, driver_class

S = MachineState
_STATES = {
    "provisioning": S.PENDING,
    "booting": S.PENDING,
    "restoring": S.PENDING,
    "rebuilding": S.PENDING,
    "shutting_down": S.STOPPING,
    "offline": S.STOPPED,
    "stopped": S.STOPPED,
    "resizing": S.STOPPED,
    "deleting": S.TERMINATING,
}
_TAG = 50
_LABEL = 32
_GPU = re.compile(r"(\S*\d\S*(?: Ada)?)(?: GPU)? x\d")
"""As in `Dedicated 32GB + RTX6000 GPU x1` and `RTX4000 Ada x1 Small`."""

PROFILE = Profile(
    driver="linode",
    title="Linode",
    support=Support.EXPERIMENTAL,
    account={},
    secrets={"token": "personal access token"},
    refusals=(
        Refusal(r"account limit|limit reached", QuotaError),
        Refusal(r"(type|plan).{1,60}(not available|unavailable)", CapacityError),
        Refusal(r"^401 |^403 ", AuthError),
    ),
    regional=False,
    zones=False,
    bills_stopped=True,
    snapshots=False,
    price_source=PriceSource.API,
    default_image="linode/ubuntu24.04",
    user_data_bytes=49152,  # 65,535 letters of base64
    list_every_s=15.0,
)


class Linode(Cloud):
    """One account."""

    profile: ClassVar[Profile] = PROFILE

    def __init__(self, settings: CloudSettings, owner: Owner, region: str) -> None:
        super().__init__(settings, owner, region)
        self._wire = Wire(self._connect, PROFILE.refusals, PROFILE.title)

    def servers(self) -> Iterable[Server]:
        for body in self._pages("/v4/linode/instances"):
            server = _server(body)
            if self.owner.owns(server.marks):
                yield server

    def server(self, id: str) -> Server | None:
        try:
            server = _server(self._wire.get(f"/v4/linode/instances/{id}"))
        except NotFound:
            return None
        return server if self.owner.owns(server.marks) else None

    def sizes(self) -> Iterable[Size]:
        regions = {one["id"]: one["capabilities"] for one in self._pages("/v4/regions")}
        for body in self._pages("/v4/linode/types"):
            needed = "GPU Linodes" if body["gpus"] else "Linodes"
            model = _GPU.search(body["label"])
            here = [region for region, can in regions.items() if needed in can]
            price = Decimal(str(body["price"]["hourly"]))
            own = {
                one["id"]: Decimal(str(one["hourly"]))
                for one in body.get("region_prices") or ()
                if one.get("hourly") is not None
            }
            yield Size(
                name=body["id"],
                cpus=float(body["vcpus"]),
                memory_gib=body["memory"] / 1024,
                zones={region: (region,) for region in here},
                gpus=body["gpus"],
                gpu_model=canonical_gpu(model[1]) if model and body["gpus"] else None,
                prices_per_hour={region: own.get(region, price) for region in here},
            )

    def create(self, new: NewServer) -> Server:
        instance = {
            "label": new.name,
            "region": new.region,
            "type": new.size,
            "image": new.image,
            # It wants one, and nobody is to know it: the agent needs none.
            "root_pass": new_secret("Root1"),
            "metadata": {"user_data": encoded(new.user_data, PROFILE)},
            "tags": words(new.marks, _TAG),
            "booted": True,
            "backups_enabled": False,
        }
        return _server(self._wire.post("/v4/linode/instances", instance))

    def delete(self, server: Server) -> None:
        self._wire.delete(f"/v4/linode/instances/{server.id}")

    def start(self, server: Server) -> None:
        self._wire.post(f"/v4/linode/instances/{server.id}/boot")

    def stop(self, server: Server) -> None:
        self._wire.post(f"/v4/linode/instances/{server.id}/shutdown")

    def resize(self, server: Server, size: str) -> None:
        how = {"type": size, "allow_auto_disk_resize": False}
        self._wire.post(f"/v4/linode/instances/{server.id}/resize", how)

    def disks(self) -> Iterable[Disk]:
        for body in self._pages("/v4/volumes"):
            disk = _disk(body)
            if self.owner.owns(disk.marks) and marks.VOLUME in disk.marks:
                yield disk

    def create_disk(self, new: NewDisk) -> Disk:
        volume = {
            "label": _label(new.name, self.owner),
            "size": new.gib,
            "region": new.region,
            "tags": words(new.marks, _TAG),
        }
        return _disk(self._wire.post("/v4/volumes", volume))

    def delete_disk(self, disk: Disk) -> None:
        self._wire.delete(f"/v4/volumes/{disk.id}")

    def attach(self, server: Server, disk: Disk) -> None:
        to = {"linode_id": int(server.id), "persist_across_boots": True}
        self._wire.post(f"/v4/volumes/{disk.id}/attach", to)

    def _connect(self) -> Any:
        kind = driver_class(LinodeNodeDriverV4, self.settings.endpoint_url)
        return kind(self.settings.secret("token")).connection

    def _pages(self, path: str) -> Iterator[Mapping[str, Any]]:
        page, pages = 1, 1
        while page <= pages:
            answer = self._wire.get(path, {"page": page})
            yield from answer["data"]
            page, pages = page + 1, answer.get("pages", 1)


def _server(body: Mapping[str, Any]) -> Server:
    return Server(
        id=str(body["id"]),
        state=_STATES.get(body["status"], S.RUNNING),
        size=body["type"],
        region=body["region"],
        zone=body["region"],
        marks=of_words(body["tags"]),
        created_at=known(body["created"]),
        run_started_at=known(body["created"]),
    )


def _disk(body: Mapping[str, Any]) -> Disk:
    attached = body["linode_id"]
    return Disk(
        id=str(body["id"]),
        region=body["region"],
        zone=body["region"],
        marks=of_words(body["tags"]),
        gib=body["size"],
        created_at=known(body["created"]),
        server_id=str(attached) if attached is not None else None,
        ready=body["status"] == "active",
    )


def _label(name: str, owner: Owner) -> str:
    """One of its own in the whole account, in few letters."""
    whole = f"{owner.installation} {owner.provider} {name}"
    return f"roost-{hashlib.sha256(whole.encode()).hexdigest()}"[:_LABEL]
