"""What is done about a machine for its own sake: it has no owner, or is taken away, or drained.

Wishes and rules about workstations act on the workstation; here they appear as the reason why the
machine is left to them.
"""

from __future__ import annotations

from policies.jobs import WAITING, stop_of
from policies.moments import at
from policies.plan import ActionKind, Decision, Rank, Reason, TargetKind
from policies.view import View
from policies.workstations import in_transition
from policies.world import Condition, Instance, InstanceState, Job, OwnerKind, Workstation

NOT_YET_READY = frozenset({InstanceState.PLANNED, InstanceState.LAUNCHING, InstanceState.BOOTING})


def decide_instance(view: View, instance: Instance) -> Decision:
    """Exactly one decision for a live machine."""
    if instance.state is InstanceState.TERMINATING:
        return _decision(instance, ActionKind.NOTHING, in_transition(instance))
    owner = view.owner_of(instance)
    orphaned = _orphaned(instance, owner)
    if orphaned is not None:
        return _decision(instance, ActionKind.TERMINATE, orphaned)
    if isinstance(owner, Job):
        return _of_job(view, instance, owner)
    text = f"it serves workstation {instance.owner_id}, where it is decided"
    return _decision(instance, ActionKind.NOTHING, Reason(Rank.DESIRE, "instance.owner", text))


def _orphaned(instance: Instance, owner: Workstation | Job | None) -> Reason | None:
    """Why nobody needs this machine any more; None while somebody does."""
    if instance.owner_kind is OwnerKind.NONE:
        text = "it belongs to nobody"
    elif owner is None:
        text = f"its {instance.owner_kind} {instance.owner_id} does not exist any more"
    elif isinstance(owner, Workstation):
        if owner.instance_id == instance.id:
            return None
        text = f"workstation {owner.id} has {owner.instance_id or 'no machine'} instead"
    else:
        unused = _unused_by(instance, owner)
        if unused is None:
            return None
        text = unused
    return Reason(Rank.SAFETY, "instance.owner", text, observed=instance.owner_id)


def _unused_by(instance: Instance, job: Job) -> str | None:
    """Why a job does not need this machine; a drain it still lists is left to save its work."""
    if job.state.ended:
        return f"job {job.id} has ended: {job.state}"
    if job.attempt != instance.attempt:
        return f"job {job.id} is at attempt {job.attempt}, and this served {instance.attempt}"
    if instance.id not in job.instance_ids:
        return f"job {job.id} does not use it any more"
    if job.state in WAITING and instance.state is not InstanceState.DRAINING:
        return f"job {job.id} is {job.state} and will be placed anew"
    return None


def _of_job(view: View, instance: Instance, job: Job) -> Decision:
    noticed = Condition.INTERRUPTING in instance.conditions or instance.notice_deadline is not None
    if noticed and instance.state is InstanceState.READY:
        until = "soon"
        if instance.notice_deadline is not None:
            until = f"at {at(instance.notice_deadline, view.now, view.zone_of(job.team))}"
        text = f"{instance.offer.provider} takes it away {until}; its job is saved first"
        reason = Reason(Rank.SAFETY, "instance.interrupting", text, observed=until)
        return _decision(instance, ActionKind.DRAIN, reason)
    stop = stop_of(view, job, instance)
    if stop is not None and instance.state is InstanceState.READY:
        return _decision(instance, ActionKind.DRAIN, stop)
    if stop is not None and instance.state in NOT_YET_READY:
        return _decision(instance, ActionKind.TERMINATE, stop)
    if instance.state is not InstanceState.READY:
        return _decision(instance, ActionKind.NOTHING, in_transition(instance))
    reason = Reason(Rank.DESIRE, "instance.owner", f"it serves job {job.id}")
    return _decision(instance, ActionKind.NOTHING, reason)


def _decision(instance: Instance, action: ActionKind, reason: Reason) -> Decision:
    acts = action is not ActionKind.NOTHING
    return Decision(
        TargetKind.INSTANCE,
        instance.id,
        action,
        (reason,),
        instance_id=instance.id if acts else None,
    )
