"""Vultr. A machine that is off costs what one that runs costs; block storage has no snapshots, and
nothing but a label to say whose it is.

API: vultr.com/api
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, ClassVar

from libcloud.compute.drivers.vultr import VultrNodeDriverV2

from provisioner.errors import AuthError, CapacityError, NotFound, QuotaError
from provisioner.gpus import GPUS, canonical_gpu
from provisioner.providers.contract import MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.cloud import Cloud, Disk, NewDisk, NewServer, Server, Size
from provisioner.providers.libcloud.marks import Owner, disk_name, of_disk_name, of_words, words
from provisioner.providers.libcloud.pages import Pages
from provisioner.providers.libcloud.profile import PriceSource, Profile, Support
from provisioner.providers.libcloud.refusals import Refusal
from provisioner.providers.libcloud.settings import CloudSettings
from provisioner.providers.libcloud.times import known
from provisioner.providers.libcloud.user_data import encoded
from provisioner.providers.libcloud.wire import Wire, driver_class

S = MachineState
HOURS_OF_A_MONTH = 672
"""It charges by the hour, 1/672 of the monthly price, up to that price."""
_TAG = 120

PROFILE = Profile(
    driver="vultr",
    title="Vultr",
    support=Support.EXPERIMENTAL,
    account={},
    secrets={"api_key": "API key"},
    refusals=(
        Refusal(r"maximum (monthly fee|number|instances)|account limit", QuotaError),
        Refusal(r"(plan|server).{1,60}(not available|unavailable|sold out)", CapacityError),
        Refusal(r"^401 ", AuthError),
    ),
    regional=False,
    zones=False,
    bills_stopped=True,
    snapshots=False,
    price_source=PriceSource.API,
    default_image="2284",  # Ubuntu 24.04 LTS x64
    list_every_s=15.0,
)


class Vultr(Cloud):
    """One account."""

    profile: ClassVar[Profile] = PROFILE

    def __init__(self, settings: CloudSettings, owner: Owner, region: str) -> None:
        super().__init__(settings, owner, region)
        self._wire = Wire(self._connect, PROFILE.refusals, PROFILE.title)

    def servers(self) -> Iterable[Server]:
        for body in self._pages("/v2/instances", "instances"):
            server = _server(body)
            if self.owner.owns(server.marks):
                yield server

    def server(self, id: str) -> Server | None:
        try:
            server = _server(self._wire.get(f"/v2/instances/{id}")["instance"])
        except NotFound:
            return None
        return server if self.owner.owns(server.marks) else None

    def sizes(self) -> Iterable[Size]:
        for body in self._pages("/v2/plans", "plans"):
            gpus, model = _gpus(body)
            if body.get("gpu_vram_gb") and not gpus:
                continue  # a slice of a GPU
            price = Decimal(str(body["monthly_cost"])) / HOURS_OF_A_MONTH
            yield Size(
                name=body["id"],
                cpus=float(body["vcpu_count"]),
                memory_gib=body["ram"] / 1024,
                zones={region: (region,) for region in body["locations"]},
                gpus=gpus,
                gpu_model=model,
                prices_per_hour=dict.fromkeys(body["locations"], price),
            )

    def create(self, new: NewServer) -> Server:
        network = self.settings.network
        image = {"os_id": int(new.image)} if new.image.isdigit() else {"snapshot_id": new.image}
        instance = {
            "label": new.name,
            "region": new.region,
            "plan": new.size,
            "user_data": encoded(new.user_data, PROFILE),
            "tags": words(new.marks, _TAG),
            "backups": "disabled",
            "activation_email": False,
            **image,
            **({"attach_vpc": [network]} if network else {}),
        }
        return _server(self._wire.post("/v2/instances", instance)["instance"])

    def delete(self, server: Server) -> None:
        self._wire.delete(f"/v2/instances/{server.id}")

    def start(self, server: Server) -> None:
        self._wire.post(f"/v2/instances/{server.id}/start")

    def stop(self, server: Server) -> None:
        self._wire.post("/v2/instances/halt", {"instance_ids": [server.id]})

    def resize(self, server: Server, size: str) -> None:
        self._wire.patch(f"/v2/instances/{server.id}", {"plan": size})

    def disks(self) -> Iterable[Disk]:
        for body in self._pages("/v2/blocks", "blocks"):
            disk = _disk(body)
            if self.owner.owns(disk.marks):
                yield disk

    def create_disk(self, new: NewDisk) -> Disk:
        block = {
            "label": disk_name(self.owner, new.marks[marks.VOLUME]),
            "region": new.region,
            "size_gb": new.gib,
        }
        return _disk(self._wire.post("/v2/blocks", block)["block"])

    def delete_disk(self, disk: Disk) -> None:
        self._wire.delete(f"/v2/blocks/{disk.id}")

    def attach(self, server: Server, disk: Disk) -> None:
        body = {"instance_id": server.id, "live": True}
        self._wire.post(f"/v2/blocks/{disk.id}/attach", body)

    def _connect(self) -> Any:
        kind = driver_class(VultrNodeDriverV2, self.settings.endpoint_url)
        return kind(self.settings.secret("api_key")).connection

    def _pages(self, path: str, key: str) -> Iterator[Mapping[str, Any]]:
        cursor, pages = "", Pages(PROFILE.title)
        while True:
            answer = self._wire.get(path, {"cursor": cursor} if cursor else None)
            yield from answer[key]
            cursor = answer.get("meta", {}).get("links", {}).get("next", "")
            if not pages.has(cursor):
                return


def _server(body: Mapping[str, Any]) -> Server:
    return Server(
        id=body["id"],
        state=_state(body),
        size=body["plan"],
        region=body["region"],
        zone=body["region"],
        marks=of_words(body.get("tags") or ()),
        created_at=known(body["date_created"]),
        run_started_at=known(body["date_created"]),
        body=body,
    )


def _state(body: Mapping[str, Any]) -> MachineState:
    if body["status"] == "pending":
        return S.PENDING
    if body["power_status"] == "running":
        return S.RUNNING
    # One that is being installed has not been started yet, and is not off.
    return S.STOPPED if body["server_status"] == "ok" else S.PENDING


def _disk(body: Mapping[str, Any]) -> Disk:
    return Disk(
        id=body["id"],
        region=body["region"],
        zone=body["region"],
        marks=of_disk_name(body["label"]),
        gib=body["size_gb"],
        created_at=known(body["date_created"]),
        server_id=body["attached_to_instance"] or None,
        ready=body["status"] == "active",
    )


def _gpus(body: Mapping[str, Any]) -> tuple[int, str | None]:
    """Whole GPUs, told by how much of their memory a plan has."""
    if not body.get("gpu_type"):
        return 0, None
    model = canonical_gpu(body["gpu_type"].replace("_", " "))
    whole = GPUS[model].memory_gib if model in GPUS else float("inf")
    count = int(body["gpu_vram_gb"] // whole)
    return count, model if count else None
