"""The rule `budget`: what happens as a team's money runs out, step by step.

What has been spent is certain, so steps on `spend_reaches` are hard: not even a hold stops them.
A forecast is a band: people are told by its upper edge, running machines are stopped only by its
lower edge, and purchases are narrowed by its middle. With too little history there is no forecast
and such a step is not applied. Machines that cost nothing are never touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from policies.language import BudgetStep, Policy
from policies.plan import Rank, Reason
from policies.selection import Target, at_provider, excepts
from policies.world import BudgetView


@dataclass(frozen=True, slots=True)
class Effects:
    """What a team's budget does to one target; each with the reason that weighs most."""

    stop: Reason | None = None
    no_new: Reason | None = None
    """Nothing that costs money is launched or started. `stop` implies it."""
    spot_only: Reason | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """One step as it stands: reached or not, with the reason for either."""

    reached: bool
    reason: Reason


def effects_on(
    policies: Sequence[Policy],
    target: Target,
    budget: BudgetView | None,
    provider: str | None,
    *,
    soft: bool = True,
) -> Effects:
    """What the steps of the policies that speak of a target mean for it.

    `soft` False leaves steps on a forecast aside: a hold outranks them.
    """
    if budget is None:
        return Effects()
    found: dict[str, list[Reason]] = {}
    for policy, step, path in _steps(at_provider(policies, provider)):
        if excepts(step.except_, target, provider) or (step.forecast_reaches and not soft):
            continue
        for action in step.do:
            look = look_at(policy, step, path, action, budget)
            if look.reached:
                found.setdefault(action, []).append(look.reason)
    stop = _weightiest(found.get("stop", []))
    no_new = _weightiest(found.get("stop", []) + found.get("no_new", []))
    return Effects(stop, no_new, _weightiest(found.get("spot_only", [])))


def notices(policies: Sequence[Policy], budget: BudgetView) -> list[Look]:
    """The `notify` steps of every policy that may speak of the team, reached or not."""
    return [
        look_at(policy, step, path, "notify", budget)
        for policy, step, path in _steps(policies)
        if "notify" in step.do
        and (policy.applies_to.team is None or budget.team in policy.applies_to.team)
    ]


def look_at(policy: Policy, step: BudgetStep, path: str, action: str, budget: BudgetView) -> Look:
    """Hold the figure that this action goes by against the step's share of the budget."""
    if step.spend_reaches is not None:
        rank, path, share = Rank.HARD_BUDGET, f"{path}.spend_reaches", step.spend_reaches
        name, figure = "spend", budget.spent
    else:
        assert step.forecast_reaches is not None
        rank, path, share = Rank.SOFT_BUDGET, f"{path}.forecast_reaches", step.forecast_reaches
        forecast = _forecast(action, budget)
        if forecast is None:
            text = f"{budget.team} has too little history for a forecast; {path} is not applied"
            return Look(False, policy.reason(rank, path, text, threshold=str(share)))
        name, figure = forecast
    reached = figure >= share.of(budget.amount)
    text = (
        f"{name} of {budget.team} is {_percent(figure, budget.amount)} of its budget "
        f"({figure} of {budget.amount} {budget.currency}), "
        f"{'at or past' if reached else 'below'} {share}"
    )
    observed = f"{figure} {budget.currency}"
    threshold = f"{share} of {budget.amount} {budget.currency}"
    return Look(reached, policy.reason(rank, path, text, observed, threshold))


def _forecast(action: str, budget: BudgetView) -> tuple[str, Decimal] | None:
    by_action = {
        "notify": ("upper forecast", budget.forecast_high),
        "stop": ("lower forecast", budget.forecast_low),
    }
    name, figure = by_action.get(action, ("forecast", budget.forecast))
    if budget.forecast is None or figure is None:
        return None
    return name, figure


def _steps(policies: Sequence[Policy]) -> Iterator[tuple[Policy, BudgetStep, str]]:
    for policy in policies:
        for i, step in enumerate(policy.budget.steps if policy.budget else ()):
            yield policy, step, f"budget.steps[{i}]"


def _weightiest(reasons: list[Reason]) -> Reason | None:
    """A hard step before a soft one; else the first by policy and line."""
    ranks = list(Rank)
    return min(
        reasons,
        key=lambda r: (ranks.index(r.rank), r.policy or "", r.where or "", r.rule),
        default=None,
    )


def _percent(figure: Decimal, amount: Decimal) -> str:
    return f"{figure / amount * 100:.0f}%" if amount else "all"
