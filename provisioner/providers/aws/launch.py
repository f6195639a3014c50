"""Makes machines: one for each launch id, however often it is asked (P1).

EC2 itself makes one instance of all calls with one client token, but forgets the token a day after
the instance has ended, and a call whose parameters have drifted (an image's parameter moved on, a
setting changed) is refused. So the launch id's tag is looked for before the call and after such a
refusal, and a fingerprint in the tags tells whether the launch is the same.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from typing import Any

from policies.world import Offer, PurchaseMode
from provisioner.errors import Ambiguous, InvalidRequest, ProviderError
from provisioner.providers.aws import tags
from provisioner.providers.aws.errors import code_of
from provisioner.providers.aws.fleet import Fleets
from provisioner.providers.aws.homes import Homes
from provisioner.providers.aws.images import Image, Images
from provisioner.providers.aws.instance import NAME, Instance, offer_id
from provisioner.providers.aws.instance_parser import INSTANCES
from provisioner.providers.aws.instance_types import InstanceType, InstanceTypes
from provisioner.providers.aws.instances import Instances
from provisioner.providers.aws.networks import Networks
from provisioner.providers.aws.session import Aws
from provisioner.providers.aws.settings import AwsSettings
from provisioner.providers.contract import LaunchRequest

_USER_DATA_BYTES = 16384
"""What EC2 takes; cloud-init unpacks what is compressed."""
_STALE = ("InvalidGroup.NotFound", "InvalidAMIID.NotFound", "InvalidAMIID.Unavailable")
"""What was looked up is gone: look it up again, once."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What launches are made with."""

    aws: Aws
    settings: AwsSettings
    installation: str
    instances: Instances
    types: InstanceTypes
    images: Images
    networks: Networks
    homes: Homes
    fleets: Fleets


class Launcher:
    """Makes the machine of a launch request."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def launch(self, request: LaunchRequest) -> Instance:
        """Raises the provider's errors, as the contract has them."""
        offers = self._offers(request)
        region = request.offer.region
        made = self._known(request)
        if made is None:
            home_zone = self._parts.homes.check(request)
            if home_zone is not None:
                offers = [offer for offer in offers if offer.zone == home_zone]
            made = self._make(request, offers)
            self._parts.instances.note(made, region)
        self._parts.homes.complete(made, region)
        return made

    def _offers(self, request: LaunchRequest) -> list[Offer]:
        """The offers that may be bought, `request.offer` first."""
        offers = [request.offer]
        if self._parts.settings.spot_allocation == "fleet":
            offers += [offer for offer in request.alternatives if offer.id != request.offer.id]
        for offer in offers:
            named = offer_id(offer.instance_type, offer.zone, offer.mode)
            here = offer.region in self._parts.settings.regions
            if offer.id != named or not here or offer.mode is PurchaseMode.RESERVED:
                raise InvalidRequest(
                    f"{offer.id} is not sold by {NAME} here", remedy="Choose one of its offers."
                )
        if any((one.region, one.mode) != (offers[0].region, offers[0].mode) for one in offers):
            raise InvalidRequest(f"the alternatives of {offers[0].id} differ in region or mode")
        return offers

    def _known(self, request: LaunchRequest) -> Instance | None:
        found = self._parts.instances.of_launch(request.offer.region, request.launch_id)
        if found is not None and found.tags.get(tags.FINGERPRINT) != fingerprint(request):
            raise InvalidRequest(f"launch id {request.launch_id} has other parameters")
        return found

    def _make(self, request: LaunchRequest, offers: list[Offer]) -> Instance:
        try:
            return self._send(request, offers)
        except Ambiguous:
            self._parts.instances.expect(request.launch_id)
            raise
        except ProviderError as error:
            if code_of(error) == "IdempotentParameterMismatch":
                known = self._known(request)
                if known is not None:
                    return known
            if code_of(error) not in _STALE:
                raise
        region = request.offer.region
        self._parts.networks.forget_groups(region)
        for offer in offers:
            self._parts.images.forget(region, self._type(offer))
        return self._send(request, offers)

    def _send(self, request: LaunchRequest, offers: list[Offer]) -> Instance:
        parts, offer = self._parts, request.offer
        if offer.mode is PurchaseMode.SPOT and len(offers) > 1:
            return parts.fleets.launch(
                request,
                {one: self._type(one) for one in offers},
                lambda machine_type: self._template(request, machine_type),
            )
        params = self._template(request, self._type(offer))
        params["NetworkInterfaces"] = [parts.networks.interface(offer.region, offer.zone)]
        if offer.mode is PurchaseMode.SPOT:
            params["InstanceMarketOptions"] = {
                "MarketType": "spot",
                "SpotOptions": {
                    "SpotInstanceType": "one-time",
                    "InstanceInterruptionBehavior": "terminate",
                },
            }
        answer = parts.aws.call(
            "ec2",
            offer.region,
            "run_instances",
            MinCount=1,
            MaxCount=1,
            ClientToken=request.launch_id,
            InstanceType=offer.instance_type,
            **params,
        )
        instance: Instance = answer[INSTANCES][0]
        return instance

    def _type(self, offer: Offer) -> InstanceType:
        return self._parts.types.get(offer.region, offer.instance_type)

    def _template(self, request: LaunchRequest, machine_type: InstanceType) -> dict[str, Any]:
        """All parameters but where and what it is made of."""
        offer = request.offer
        image = self._parts.images.of(offer.region, machine_type)
        spot = offer.mode is PurchaseMode.SPOT
        hibernates = self._parts.settings.hibernation and machine_type.can_hibernate and not spot
        return {
            "ImageId": image.id,
            "UserData": _user_data(request.user_data),
            "BlockDeviceMappings": [self._root(image, machine_type, hibernates=hibernates)],
            "MetadataOptions": {
                "HttpEndpoint": "enabled",
                "HttpTokens": "required",
                "HttpPutResponseHopLimit": 1,
            },
            "InstanceInitiatedShutdownBehavior": "terminate" if spot else "stop",
            "TagSpecifications": self._tags(request, spot=spot),
            **({"HibernationOptions": {"Configured": True}} if hibernates else {}),
        }

    def _root(
        self, image: Image, machine_type: InstanceType, *, hibernates: bool
    ) -> dict[str, Any]:
        """The machine's own disk, which goes with it; memory is written to it to hibernate."""
        memory_gib = int(machine_type.resources.memory_gib) + 1 if hibernates else 0
        gib = max(self._parts.settings.root_gib, image.root_gib) + memory_gib
        ebs = {"VolumeSize": gib, "VolumeType": "gp3", "Encrypted": True}
        return {"DeviceName": image.root_device, "Ebs": {**ebs, "DeleteOnTermination": True}}

    def _tags(self, request: LaunchRequest, *, spot: bool) -> list[dict[str, Any]]:
        own = {
            tags.NAME: request.launch_id,
            **dict(request.tags),
            tags.INSTALLATION: self._parts.installation,
            tags.LAUNCH: request.launch_id,
        }
        home: dict[str, str] = {}
        if request.volume_id is not None:
            home[tags.VOLUME] = request.volume_id
            home[tags.VOLUME_GIB] = str(request.volume_gib)
        if request.volume_id is not None and request.volume_from is not None:
            home[tags.VOLUME_FROM] = request.volume_from
        machine = {**own, **home, tags.FINGERPRINT: fingerprint(request)}
        beside = ["volume", "network-interface", *(["spot-instances-request"] if spot else [])]
        return tags.specification(["instance"], machine) + tags.specification(beside, own)


def fingerprint(request: LaunchRequest) -> str:
    """Of all that two launches under one id must agree in; prices may have changed meanwhile."""
    parts = (
        request.offer.id,
        request.user_data,
        sorted(request.tags),
        request.volume_id,
        request.volume_gib if request.volume_id is not None else None,
        request.volume_from,
        sorted(offer.id for offer in request.alternatives),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _user_data(script: str) -> bytes:
    """The script, compressed where it would be too long."""
    plain = script.encode()
    packed = plain if len(plain) <= _USER_DATA_BYTES else gzip.compress(plain, mtime=0)
    if len(packed) > _USER_DATA_BYTES:
        raise InvalidRequest(f"the bootstrap script is too long for EC2: {len(packed)} bytes")
    return packed
