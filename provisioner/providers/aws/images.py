"""Which image a machine boots, and what of it a launch must know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from provisioner.clock import Clock
from provisioner.errors import InvalidRequest, ProviderError
from provisioner.providers.aws.cache import Cache
from provisioner.providers.aws.errors import code_of
from provisioner.providers.aws.instance_types import InstanceType
from provisioner.providers.aws.session import Aws
from provisioner.providers.aws.settings import AwsSettings

_KEPT_FOR = timedelta(hours=1)
"""A parameter moves to the next image every few weeks, and images are deregistered."""


@dataclass(frozen=True, slots=True)
class Image:
    id: str
    root_device: str
    root_gib: int
    """How large its own disk is: a machine's cannot be smaller."""


class Images:
    """The images of the settings, resolved in each region."""

    def __init__(self, aws: Aws, settings: AwsSettings, clock: Clock) -> None:
        self._aws = aws
        self._settings = settings
        self._images = Cache(self._load, _KEPT_FOR, clock)

    def of(self, region: str, machine_type: InstanceType) -> Image:
        """The image that a type boots."""
        return self._images.get((region, self._wanted(machine_type)))

    def forget(self, region: str, machine_type: InstanceType) -> None:
        """It could not be used: resolve it again next time."""
        self._images.forget((region, self._wanted(machine_type)))

    def _wanted(self, machine_type: InstanceType) -> str:
        arm, settings = machine_type.arch == "arm64", self._settings
        if machine_type.needs_driver:
            return settings.image_gpu_arm64 if arm else settings.image_gpu
        return settings.image_arm64 if arm else settings.image

    def _load(self, key: tuple[str, str]) -> Image:
        region, wanted = key
        id = wanted if wanted.startswith("ami-") else self._parameter(region, wanted)
        found = self._aws.call("ec2", region, "describe_images", ImageIds=[id])["Images"]
        if not found:
            raise InvalidRequest(
                f"image {id} ({wanted}) is not there in {region}",
                remedy="Set another in `aws.image` and its like.",
            )
        image = found[0]
        root = image["RootDeviceName"]
        sizes = [
            mapping["Ebs"].get("VolumeSize", 0)
            for mapping in image.get("BlockDeviceMappings", ())
            if mapping.get("DeviceName") == root and "Ebs" in mapping
        ]
        return Image(id, root, max(sizes, default=0))

    def _parameter(self, region: str, name: str) -> str:
        try:
            found = self._aws.call("ssm", region, "get_parameter", Name=name)
        except ProviderError as error:
            if code_of(error) != "ParameterNotFound":
                raise
            raise InvalidRequest(
                f"there is no SSM parameter {name} in {region}",
                remedy="Set an AMI id or another parameter in `aws.image` and its like.",
            ) from error
        return str(found["Parameter"]["Value"])
