"""What an operator can set about AWS. Credentials are not here: boto's own chain finds them."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_UBUNTU = "/aws/service/canonical/ubuntu/server/24.04/stable/current/{}/hvm/ebs-gp3/ami-id"
_DEEP_LEARNING = (
    "/aws/service/deeplearning/ami/{}/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
)


class AwsSettings(BaseModel):
    """One account, one or more of its regions. An image is an AMI id or an SSM parameter's name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    regions: tuple[str, ...] = Field(min_length=1)
    profile: str | None = None
    """Profile of `~/.aws/config`; None takes the environment, then the machine's own role."""
    endpoint_url: str | None = None
    """One server that stands for all services of AWS; for tests and private endpoints."""
    image: str = _UBUNTU.format("amd64")
    image_arm64: str = _UBUNTU.format("arm64")
    image_gpu: str = _DEEP_LEARNING.format("x86_64")
    """For types with NVIDIA GPUs: it must hold their driver."""
    image_gpu_arm64: str = _DEEP_LEARNING.format("arm64")
    root_gib: int = Field(default=30, ge=8, le=16384)
    """Size of a machine's own disk; an image that is larger makes it larger."""
    subnets: dict[str, str] = {}
    """Subnet of each zone to be used; empty: each zone's default subnet."""
    public_addresses: bool = True
    """False where the subnets reach the control plane and the internet by a NAT."""
    types: tuple[str, ...] = ("*",)
    """Patterns of the instance types to be sold, such as `g6*`."""
    spot_allocation: Literal["fleet", "single"] = "fleet"
    """`fleet`: AWS picks among a launch's alternatives what is least likely to be taken back."""
    hibernation: bool = False
    """Make on-demand machines so that they can hibernate, where their type can."""
    interruption_queues: dict[str, str] = {}
    """URL of the SQS queue, by region, that EventBridge sends notices to."""
    list_every_s: float = Field(default=10.0, ge=0)

    @model_validator(mode="after")
    def _regions_agree(self) -> Self:
        if len(set(self.regions)) != len(self.regions):
            raise ValueError(f"regions {list(self.regions)}: name each one once")
        strangers = set(self.interruption_queues) - set(self.regions)
        if strangers:
            raise ValueError(f"interruption_queues names {sorted(strangers)}, not in regions")
        return self
