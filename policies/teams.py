"""What a team is told: the steps of its budget that have been reached, for as long as they are."""

from __future__ import annotations

from policies.budget import notices
from policies.plan import ActionKind, Decision, Rank, Reason, Rejected, TargetKind
from policies.view import View
from policies.world import BudgetView


def decide_team(view: View, budget: BudgetView) -> Decision:
    """NOTIFY while any step is reached; who is told once only is the caller's memory."""
    looks = notices(view.policies, budget)
    reached = tuple(look.reason for look in looks if look.reached)
    ahead = tuple(look.reason for look in looks if not look.reached)
    instead = (Rejected(ActionKind.NOTIFY.value, ahead),) if ahead else ()
    if reached:
        return Decision(TargetKind.TEAM, budget.team, ActionKind.NOTIFY, reached, instead)
    text = "no step of its budget is reached" if looks else "no policy has steps for its budget"
    reason = Reason(Rank.DESIRE, "budget.steps", text)
    return Decision(TargetKind.TEAM, budget.team, ActionKind.NOTHING, (reason,), instead)
