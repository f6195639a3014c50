"""Spot machines by EC2 Fleet: of several offers AWS takes the one least likely to be taken back.

A fleet of type `instant` makes its one instance within the call and keeps nothing up afterwards. It
needs a launch template, which is deleted at once; what a crash leaves of it is a leftover. All
offers of a fleet boot one image, so offers whose types need another one are not in it.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from policies.world import Offer
from provisioner.errors import (
    AuthError,
    CapacityError,
    InvalidRequest,
    ProviderError,
    QuotaError,
)
from provisioner.providers.aws import tags
from provisioner.providers.aws.errors import code_of, of_code
from provisioner.providers.aws.instance import Instance
from provisioner.providers.aws.instance_types import InstanceType
from provisioner.providers.aws.networks import Networks
from provisioner.providers.aws.session import Aws
from provisioner.providers.contract import LaunchRequest

_log = logging.getLogger(__name__)
_ALREADY = "InvalidLaunchTemplateName.AlreadyExistsException"
_GONE = ("InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound")


class Fleets:
    """Makes one spot machine of several offers."""

    def __init__(self, aws: Aws, networks: Networks, installation: str) -> None:
        self._aws = aws
        self._networks = networks
        self._installation = installation

    def launch(
        self,
        request: LaunchRequest,
        offers: Mapping[Offer, InstanceType],
        parameters: Callable[[InstanceType], dict[str, Any]],
    ) -> Instance:
        """Make one machine of any of the offers; `parameters` are all but the type and place.

        Raises:
            CapacityError, QuotaError, ProviderError: none of them could be had.
        """
        region, first = request.offer.region, offers[request.offer]
        alike = [
            offer
            for offer, one in offers.items()
            if (one.arch, one.needs_driver) == (first.arch, first.needs_driver)
        ]
        data = parameters(first)
        template = self._make_template(request, data)
        try:
            answer = self._create(region, request.launch_id, template, alike)
        finally:
            try:
                self.delete_template(region, template)
            except ProviderError as error:
                _log.info("launch template %s stays a leftover for now: %s", template, error)
        return self._made(region, request, answer, data)

    def templates(self, region: str) -> list[str]:
        """The names of all launch templates of the installation."""
        filters = tags.where(self._installation)
        pages = self._aws.pages("ec2", region, "describe_launch_templates", Filters=filters)
        return [one["LaunchTemplateName"] for page in pages for one in page["LaunchTemplates"]]

    def delete_template(self, region: str, name: str) -> None:
        """Delete a template; one that is gone is no error."""
        try:
            self._aws.call("ec2", region, "delete_launch_template", LaunchTemplateName=name)
        except ProviderError as error:
            if code_of(error) not in _GONE:
                raise

    def _make_template(self, request: LaunchRequest, parameters: dict[str, Any]) -> str:
        offer, name = request.offer, f"roost-{request.launch_id}"
        data = dict(parameters)
        data["UserData"] = base64.b64encode(data["UserData"]).decode()
        interface = self._networks.interface(offer.region, offer.zone)
        data["NetworkInterfaces"] = [
            {key: value for key, value in interface.items() if key != "SubnetId"}
        ]
        try:
            self._aws.call(
                "ec2",
                offer.region,
                "create_launch_template",
                LaunchTemplateName=name,
                LaunchTemplateData=data,
                TagSpecifications=tags.specification(
                    ["launch-template"], {tags.INSTALLATION: self._installation}
                ),
            )
        except ProviderError as error:
            if code_of(error) != _ALREADY:
                raise
        return name

    def _create(
        self, region: str, launch_id: str, template: str, offers: Sequence[Offer]
    ) -> dict[str, Any]:
        subnets = self._networks.subnets(region)
        return self._aws.call(
            "ec2",
            region,
            "create_fleet",
            ClientToken=launch_id,
            Type="instant",
            SpotOptions={"AllocationStrategy": "price-capacity-optimized"},
            TargetCapacitySpecification={
                "TotalTargetCapacity": 1,
                "DefaultTargetCapacityType": "spot",
            },
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {
                        "LaunchTemplateName": template,
                        "Version": "$Latest",
                    },
                    "Overrides": [
                        {"InstanceType": offer.instance_type, "SubnetId": subnets[offer.zone].id}
                        for offer in offers
                        if offer.zone in subnets
                    ],
                }
            ],
        )

    def _made(
        self,
        region: str,
        request: LaunchRequest,
        answer: Mapping[str, Any],
        data: Mapping[str, Any],
    ) -> Instance:
        """The instance as the fleet tells of it: EC2 need not show it yet."""
        zones = {subnet.id: zone for zone, subnet in self._networks.subnets(region).items()}
        for group in answer.get("Instances", ()):
            override = group.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
            return Instance(
                id=group["InstanceIds"][0],
                type=group.get("InstanceType") or override["InstanceType"],
                zone=zones[override["SubnetId"]],
                state="pending",
                lifecycle="spot",
                launched_at="",
                transition="",
                reason_code="",
                reason="",
                spot_request="",
                can_hibernate=False,
                volumes=(),
                groups=(),
                tags=tags.of(data["TagSpecifications"][0]),
            )
        raise _refusal(request.offer, answer.get("Errors", ()))


def _refusal(offer: Offer, errors: Sequence[Mapping[str, Any]]) -> ProviderError:
    """Why a fleet could make nothing: what somebody must mend first, then what time mends."""
    found = [
        of_code(one.get("ErrorCode", ""), one.get("ErrorMessage", ""), f"EC2 Fleet, {offer.region}")
        for one in errors
    ]
    for kind in (AuthError, InvalidRequest, CapacityError, QuotaError, ProviderError):
        for error in found:
            if isinstance(error, kind):
                return error
    return CapacityError(f"EC2 Fleet made nothing of {offer.id} and its alternatives")
