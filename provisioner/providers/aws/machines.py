"""What is done with machines that are there: start, stop, hibernate, resize, terminate."""

from __future__ import annotations

from policies.world import Offer, PurchaseMode
from provisioner.errors import InvalidRequest, ProviderError
from provisioner.providers.aws.errors import code_of
from provisioner.providers.aws.instance import Instance, offer_id
from provisioner.providers.aws.instance_types import InstanceTypes
from provisioner.providers.aws.instances import Instances
from provisioner.providers.aws.session import Aws
from provisioner.providers.contract import MachineState

S = MachineState
_HIBERNATED = "Client.UserInitiatedHibernate"
_GONE_REQUEST = "InvalidSpotInstanceRequestID.NotFound"


class Machines:
    """Calls about one machine, by its id or launch id; each returns once EC2 has accepted it."""

    def __init__(self, aws: Aws, instances: Instances, types: InstanceTypes) -> None:
        self._aws = aws
        self._instances = instances
        self._types = types

    def start(self, machine_id: str) -> None:
        instance = self._stoppable(machine_id, "started")
        if instance.machine_state not in (S.PENDING, S.RUNNING):
            self._ec2(instance, "start_instances")

    def stop(self, machine_id: str) -> None:
        instance = self._stoppable(machine_id, "stopped")
        if instance.machine_state not in (S.STOPPING, S.STOPPED):
            self._ec2(instance, "stop_instances")

    def hibernate(self, machine_id: str) -> None:
        instance = self._stoppable(machine_id, "hibernated")
        if not instance.can_hibernate:
            raise InvalidRequest(
                f"machine {machine_id} was not made so that it can hibernate",
                remedy="Set `aws.hibernation` and replace it, or stop it.",
            )
        if instance.machine_state not in (S.STOPPING, S.STOPPED):
            self._ec2(instance, "stop_instances", Hibernate=True)

    def terminate(self, machine_id: str) -> None:
        instance = self._instances.find(machine_id)
        if instance.ended:
            return
        if instance.spot_request:
            # A persistent request would make another machine in its place.
            self._cancel(instance)
        self._ec2(instance, "terminate_instances")

    def resize(self, machine_id: str, offer: Offer) -> None:
        instance = self._instances.find(machine_id)
        same_place = offer.id == offer_id(offer.instance_type, instance.zone, instance.mode)
        if not same_place:
            raise InvalidRequest(f"machine {machine_id} cannot become {offer.id} in place")
        if instance.type == offer.instance_type:
            return
        refusal = self._refusal(instance, offer)
        if refusal is not None:
            raise InvalidRequest(f"machine {machine_id} cannot be resized in place: {refusal}")
        self._aws.call(
            "ec2",
            instance.region,
            "modify_instance_attribute",
            InstanceId=instance.id,
            InstanceType={"Value": offer.instance_type},
        )

    def _refusal(self, instance: Instance, offer: Offer) -> str | None:
        if instance.mode is PurchaseMode.SPOT:
            return "it is spot"
        if instance.machine_state is not S.STOPPED:
            return f"it is {instance.state}"
        if instance.reason_code == _HIBERNATED:
            return "it is hibernated"
        now, then = (
            self._types.get(instance.region, one) for one in (instance.type, offer.instance_type)
        )
        if now.arch != then.arch:
            return f"{then.name} is {then.arch}, its disk is for {now.arch}"
        if now.needs_driver != then.needs_driver:
            return "one of the two types needs a GPU's driver, which is part of the image"
        return None

    def _stoppable(self, machine_id: str, done: str) -> Instance:
        instance = self._instances.find(machine_id)
        if instance.mode is PurchaseMode.SPOT:
            raise InvalidRequest(
                f"machine {machine_id} is spot and cannot be {done}",
                remedy="Terminate it instead.",
            )
        if instance.ended:
            raise InvalidRequest(f"machine {machine_id} is {instance.state} and cannot be {done}")
        return instance

    def _cancel(self, instance: Instance) -> None:
        try:
            self._aws.call(
                "ec2",
                instance.region,
                "cancel_spot_instance_requests",
                SpotInstanceRequestIds=[instance.spot_request],
            )
        except ProviderError as error:
            if code_of(error) != _GONE_REQUEST:
                raise

    def _ec2(self, instance: Instance, action: str, **params: object) -> None:
        self._aws.call("ec2", instance.region, action, InstanceIds=[instance.id], **params)
