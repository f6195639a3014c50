"""What AWS's types of instance have, and in which zones they are offered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from policies.globs import matches_glob
from policies.world import PurchaseMode, Resources
from provisioner.clock import Clock
from provisioner.errors import InvalidRequest
from provisioner.gpus import canonical_gpu
from provisioner.providers.aws.cache import Cache
from provisioner.providers.aws.session import Aws
from provisioner.providers.aws.settings import AwsSettings

KEPT_FOR = timedelta(days=1)
_ARCHITECTURES = ("x86_64", "arm64")
_MODES = {"on-demand": PurchaseMode.ON_DEMAND, "spot": PurchaseMode.SPOT}


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A type that machines can be made of."""

    name: str
    arch: str
    resources: Resources
    needs_driver: bool
    """Whether it has NVIDIA GPUs."""
    modes: frozenset[PurchaseMode]
    can_hibernate: bool


class InstanceTypes:
    """The types of each region that the settings allow."""

    def __init__(self, aws: Aws, settings: AwsSettings, clock: Clock) -> None:
        self._aws = aws
        self._patterns = settings.types
        self._types = Cache(self._load, KEPT_FOR, clock)
        self._zones = Cache(self._load_zones, KEPT_FOR, clock)
        self._one = Cache(self._load_one, KEPT_FOR, clock)

    def all(self, region: str) -> Mapping[str, InstanceType]:
        return self._types.get(region)

    def zones(self, region: str) -> Mapping[str, frozenset[str]]:
        """The types that each zone offers."""
        return self._zones.get(region)

    def get(self, region: str, name: str) -> InstanceType:
        """One type, without asking for all.

        Raises:
            InvalidRequest: AWS has no such type there, or no machine can be made of it.
        """
        found = instance_type(self._one.get((region, name)))
        if found is None:
            raise InvalidRequest(f"no machine can be made of type {name} in {region}")
        return found

    def cpus(self, region: str, names: Iterable[str]) -> dict[str, float]:
        """The vCPUs of any types, also of those that are not sold here."""
        told = {name: self._one.get((region, name)) for name in set(names)}
        return {name: float(one["VCpuInfo"]["DefaultVCpus"]) for name, one in told.items()}

    def _load(self, region: str) -> dict[str, InstanceType]:
        wanted = [{"Name": "instance-type", "Values": list(self._patterns)}]
        pages = self._aws.pages("ec2", region, "describe_instance_types", Filters=wanted)
        found = (instance_type(one) for page in pages for one in page["InstanceTypes"])
        return {
            one.name: one
            for one in found
            if one is not None and any(matches_glob(glob, one.name) for glob in self._patterns)
        }

    def _load_one(self, key: tuple[str, str]) -> Mapping[str, Any]:
        region, name = key
        answer = self._aws.call("ec2", region, "describe_instance_types", InstanceTypes=[name])
        told: Mapping[str, Any] = answer["InstanceTypes"][0]
        return told

    def _load_zones(self, region: str) -> dict[str, frozenset[str]]:
        zones: dict[str, set[str]] = {}
        for page in self._aws.pages(
            "ec2",
            region,
            "describe_instance_type_offerings",
            LocationType="availability-zone",
        ):
            for offering in page["InstanceTypeOfferings"]:
                zones.setdefault(offering["Location"], set()).add(offering["InstanceType"])
        return {zone: frozenset(types) for zone, types in zones.items()}


def instance_type(told: Mapping[str, Any]) -> InstanceType | None:
    """A type as AWS describes it; None for what no machine of ours can be made of.

    That is macOS and 32-bit hardware, what cannot boot from EBS, and shares of a GPU (`g6f`), whose
    count of GPUs is 0: as a machine without one they would be bought for their CPUs.
    """
    archs = told["ProcessorInfo"].get("SupportedArchitectures", ())
    arch = next((one for one in _ARCHITECTURES if one in archs), None)
    gpus = told.get("GpuInfo", {}).get("Gpus", ())
    count = sum(gpu.get("Count", 0) for gpu in gpus)
    modes = {_MODES[one] for one in told.get("SupportedUsageClasses", ()) if one in _MODES}
    if arch is None or not modes or "ebs" not in told.get("SupportedRootDeviceTypes", ("ebs",)):
        return None
    if gpus and not count:
        return None
    return InstanceType(
        name=told["InstanceType"],
        arch=arch,
        resources=Resources(
            cpus=float(told["VCpuInfo"]["DefaultVCpus"]),
            memory_gib=told["MemoryInfo"]["SizeInMiB"] / 1024,
            gpus=count,
            gpu_model=_model(gpus[0]) if gpus else None,
        ),
        needs_driver=any(gpu.get("Manufacturer") == "NVIDIA" for gpu in gpus),
        modes=frozenset(modes),
        can_hibernate=bool(told.get("HibernationSupported")),
    )


def _model(gpu: Mapping[str, Any]) -> str:
    memory_mib = gpu.get("MemoryInfo", {}).get("SizeInMiB")
    return canonical_gpu(gpu["Name"], memory_mib / 1024 if memory_mib else None)
