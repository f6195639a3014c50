"""The rule `allow.instances_per_user`: how many machines a person has running at a time.

Each policy counts the machines that it speaks of. What is launched or started in one plan takes a
seat at once, so that a plan as a whole keeps the limit. Stopped machines take none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from policies.language import Policy
from policies.plan import Rank, Reason

RULE = "allow.instances_per_user"


class Seats:
    """Counts for one plan; the only thing in a plan's making that changes."""

    def __init__(self) -> None:
        self._taken: Counter[tuple[str, str, str]] = Counter()

    def take(self, policies: Sequence[Policy], user: str, count: int = 1) -> None:
        """Count machines of a person with the policies that speak of them."""
        for policy, _ in _limits(policies):
            self._taken[policy.name, policy.file, user] += count

    def refusal(self, policies: Sequence[Policy], user: str, count: int = 1) -> Reason | None:
        """Why these policies let a person have no further machines; None when they do."""
        for policy, limit in _limits(policies):
            taken = self._taken[policy.name, policy.file, user]
            if taken + count > limit:
                return policy.reason(
                    Rank.SAFETY,
                    RULE,
                    f"{user} has {taken} machines running, and {RULE} is {limit}",
                    observed=str(taken),
                    threshold=str(limit),
                )
        return None


def _limits(policies: Sequence[Policy]) -> list[tuple[Policy, int]]:
    return [
        (policy, policy.allow.instances_per_user)
        for policy in policies
        if policy.allow is not None and policy.allow.instances_per_user is not None
    ]
