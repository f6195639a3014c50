"""Where machines are plugged in: a subnet for each zone, and a security group that lets nobody in.

The group is made with the first machine of a VPC and is a leftover after the last one. Machines
call the control plane; nothing ever calls them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from provisioner.clock import Clock
from provisioner.errors import InvalidRequest, ProviderError
from provisioner.providers.aws import tags
from provisioner.providers.aws.cache import Cache
from provisioner.providers.aws.errors import code_of
from provisioner.providers.aws.session import Aws
from provisioner.providers.aws.settings import AwsSettings

_SUBNETS_FOR = timedelta(hours=1)
_GROUP_FOR = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Subnet:
    id: str
    vpc: str


class Networks:
    """The subnets and groups of one installation."""

    def __init__(self, aws: Aws, settings: AwsSettings, installation: str, clock: Clock) -> None:
        self._aws = aws
        self._settings = settings
        self._installation = installation
        self._subnets = Cache(self._load_subnets, _SUBNETS_FOR, clock)
        self._groups = Cache(self._ensure_group, _GROUP_FOR, clock)

    def subnets(self, region: str) -> dict[str, Subnet]:
        """By zone: the zones in which machines can be made."""
        return self._subnets.get(region)

    def interface(self, region: str, zone: str) -> dict[str, Any]:
        """A machine's network interface in a zone; makes the security group where there is none."""
        subnet = self.subnets(region).get(zone)
        if subnet is None:
            raise InvalidRequest(
                f"zone {zone} has no subnet for machines",
                remedy="Name one in the setting `aws.subnets`, or make a default subnet there.",
            )
        return {
            "DeviceIndex": 0,
            "SubnetId": subnet.id,
            "Groups": [self._groups.get((region, subnet.vpc))],
            "AssociatePublicIpAddress": self._settings.public_addresses,
            "DeleteOnTermination": True,
        }

    def forget_groups(self, region: str) -> None:
        """A group that was known is gone."""
        for subnet in self.subnets(region).values():
            self._groups.forget((region, subnet.vpc))

    def groups(self, region: str) -> list[str]:
        """The ids of all security groups of the installation."""
        return [group["GroupId"] for group in self._described_groups(region)]

    def delete_group(self, region: str, group_id: str) -> None:
        """Delete a group; one that is in use, or gone, is left at that."""
        self.forget_groups(region)
        try:
            self._aws.call("ec2", region, "delete_security_group", GroupId=group_id)
        except ProviderError as error:
            if code_of(error) not in ("DependencyViolation", "InvalidGroup.NotFound"):
                raise

    def _load_subnets(self, region: str) -> dict[str, Subnet]:
        chosen = {
            zone: id for zone, id in self._settings.subnets.items() if zone.startswith(region)
        }
        if chosen:
            params: dict[str, Any] = {"SubnetIds": list(chosen.values())}
        else:
            params = {"Filters": [{"Name": "default-for-az", "Values": ["true"]}]}
        return {
            subnet["AvailabilityZone"]: Subnet(subnet["SubnetId"], subnet["VpcId"])
            for page in self._aws.pages("ec2", region, "describe_subnets", **params)
            for subnet in page["Subnets"]
        }

    def _ensure_group(self, key: tuple[str, str]) -> str:
        region, vpc = key
        for _ in range(2):
            for group in self._described_groups(region, vpc):
                self._close(region, group)
                return str(group["GroupId"])
            try:
                made = self._aws.call(
                    "ec2",
                    region,
                    "create_security_group",
                    GroupName=f"roost-{self._installation}",
                    Description="Machines of Roost: they call out, nobody calls in",
                    VpcId=vpc,
                    TagSpecifications=tags.specification(
                        ["security-group"], {tags.INSTALLATION: self._installation}
                    ),
                )
                return str(made["GroupId"])
            except ProviderError as error:
                if code_of(error) != "InvalidGroup.Duplicate":
                    raise
        raise ProviderError(
            f"the security group roost-{self._installation} of {vpc} in {region} is there and"
            " cannot be seen yet",
            remedy=f"If that lasts, tag it with {tags.INSTALLATION}={self._installation}.",
        )

    def _close(self, region: str, group: dict[str, Any]) -> None:
        """Take away what somebody has let in."""
        if group.get("IpPermissions"):
            self._aws.call(
                "ec2",
                region,
                "revoke_security_group_ingress",
                GroupId=group["GroupId"],
                IpPermissions=group["IpPermissions"],
            )

    def _described_groups(self, region: str, vpc: str | None = None) -> Iterable[dict[str, Any]]:
        filters = tags.where(self._installation, **({"vpc_id": vpc} if vpc else {}))
        pages = self._aws.pages("ec2", region, "describe_security_groups", Filters=filters)
        return [group for page in pages for group in page["SecurityGroups"]]
