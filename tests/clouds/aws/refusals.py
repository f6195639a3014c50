"""What EC2 refuses and moto lets through. Each check answers with the refusal, or with None."""

from __future__ import annotations

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

from tests.clouds.aws.account import Account
from tests.clouds.aws.lives import Life, Lives
from tests.clouds.aws.market import exceeds_quota
from tests.clouds.aws.wire import Answer, Request, refusal

_NOT_YET_SEEN = ("DescribeInstances", "StartInstances", "StopInstances", "TerminateInstances")
_STOPPABLE = ("running", "stopping", "stopped")
_STARTABLE = ("stopped", "pending", "running")


class Refusals:
    """Looks at a call before moto sees it."""

    def __init__(self, account: Account, lives: Lives) -> None:
        self._account = account
        self._lives = lives

    def of(self, request: Request) -> Answer | None:
        unseen = self._unseen(request)
        if unseen is not None:
            return unseen
        check = {
            "RunInstances": self._run,
            "StartInstances": self._start,
            "StopInstances": self._stop,
            "ModifyInstanceAttribute": self._modify,
            "AttachVolume": self._attach,
            "DeleteVolume": self._delete_volume,
        }.get(request.action)
        return check(request) if check else None

    def capacity(
        self, request: Request, zone: str, instance_type: str, market: str
    ) -> Answer | None:
        """Why no more of a type can be had in a zone."""
        offered = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(request.region, ())
        if instance_type not in INSTANCE_TYPES:
            return refusal(request, "InvalidParameterValue", f"no such type: {instance_type}")
        if not any((o["Location"], o["InstanceType"]) == (zone, instance_type) for o in offered):
            return refusal(request, "Unsupported", f"{instance_type} is not offered in {zone}")
        if self._lives.knobs.is_scarce(zone, instance_type, market):
            words = f"There is no Spot capacity available: {zone} {instance_type} {market}"
            return refusal(request, "InsufficientInstanceCapacity", words, 500)
        if exceeds_quota(request.region, instance_type, market, self._lives):
            code = "MaxSpotInstanceCountExceeded" if market == "spot" else "VcpuLimitExceeded"
            return refusal(request, code, f"no more {market} vCPUs for {instance_type}")
        return None

    def _unseen(self, request: Request) -> Answer | None:
        ids = request.values("InstanceId")
        if request.action == "CreateTags":
            ids = request.values("ResourceId")
        elif request.action == "AttachVolume":
            ids = [str(request.form.get("InstanceId"))]
        elif request.action not in _NOT_YET_SEEN:
            return None
        hidden = self._lives.hidden(request.region, self._lives.knobs.visible_s)
        gone = [id for id in ids if id in hidden or (id.startswith("i-") and not self._life(id))]
        return self._not_found(request, gone[0]) if gone else None

    def _run(self, request: Request) -> Answer | None:
        form = request.form
        subnet = form.get("NetworkInterface.1.SubnetId") or form.get("SubnetId")
        zone = form.get("Placement.AvailabilityZone") or f"{request.region}a"
        if subnet:
            zone = self._account.zone_of_subnet(request.region, str(subnet))
        market = str(form.get("InstanceMarketOptions.MarketType") or "on-demand")
        return self.capacity(request, str(zone), str(form.get("InstanceType")), market)

    def _start(self, request: Request) -> Answer | None:
        for life in self._lives_of(request):
            if life.state not in _STARTABLE:
                return self._wrong_state(request, life, "started")
            if life.market == "spot":
                return refusal(request, "IncorrectSpotRequestState", f"{life.id} is spot")
            if life.state == "stopped":
                zone, name = life.instance.placement.zone, life.instance.instance_type
                missing = self.capacity(request, zone, name, life.market)
                if missing is not None:
                    return missing
        return None

    def _stop(self, request: Request) -> Answer | None:
        for life in self._lives_of(request):
            if life.market == "spot":
                words = f"You can't stop the Spot Instance {life.id}: its request is one-time"
                return refusal(request, "UnsupportedOperation", words)
            if life.state not in _STOPPABLE:
                return self._wrong_state(request, life, "stopped")
            options = life.instance.hibernation_options or {}
            configured = str(options.get("Configured", "")).lower() == "true"
            if request.form.get("Hibernate") == "true" and not configured:
                words = f"{life.id} was not launched with hibernation"
                return refusal(request, "UnsupportedHibernationConfiguration", words)
        return None

    def _modify(self, request: Request) -> Answer | None:
        name = request.form.get("InstanceType.Value")
        if name is None:
            return None
        life = self._life(str(request.form["InstanceId"]))
        if life is None:
            return self._not_found(request, str(request.form["InstanceId"]))
        if life.state != "stopped":
            return self._wrong_state(request, life, "modified")
        if name not in INSTANCE_TYPES:
            return refusal(request, "InvalidInstanceAttributeValue", f"no such type: {name}")
        return None

    def _attach(self, request: Request) -> Answer | None:
        life = self._life(str(request.form["InstanceId"]))
        volume = self._account.region(request.region).volumes.get(request.form["VolumeId"])
        if life is None or volume is None:
            return None
        if volume.attachment:
            return refusal(request, "VolumeInUse", f"{volume.id} is attached")
        if life.state not in ("running", "stopped"):
            return refusal(request, "IncorrectState", f"{life.id} is {life.state}")
        if volume.zone.name != life.instance.placement.zone:
            words = f"{volume.id} and {life.id} are in different zones"
            return refusal(request, "InvalidVolume.ZoneMismatch", words)
        return None

    def _delete_volume(self, request: Request) -> Answer | None:
        volume = self._account.region(request.region).volumes.get(request.form["VolumeId"])
        if volume is not None and volume.attachment:
            return refusal(request, "VolumeInUse", f"{volume.id} is attached")
        return None

    def _lives_of(self, request: Request) -> list[Life]:
        found = map(self._life, request.values("InstanceId"))
        return [life for life in found if life is not None]

    def _life(self, id: str) -> Life | None:
        return self._lives.get(id)

    def _not_found(self, request: Request, id: str) -> Answer:
        words = f"The instance ID '{id}' does not exist"
        return refusal(request, "InvalidInstanceID.NotFound", words)

    def _wrong_state(self, request: Request, life: Life, done: str) -> Answer:
        words = f"The instance '{life.id}' is {life.state}: it cannot be {done}"
        return refusal(request, "IncorrectInstanceState", words)
