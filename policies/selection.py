"""Stage select: which policies speak of a target. All that match count; none outranks another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from policies.language import Policy, Selector
from policies.world import Job, OwnerKind, Workstation

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Target:
    """What selectors can see of a workstation or a job."""

    kind: OwnerKind
    team: str
    user: str
    labels: Labels = ()

    @classmethod
    def of(cls, owner: Workstation | Job) -> Target:
        kind = OwnerKind.WORKSTATION if isinstance(owner, Workstation) else OwnerKind.JOB
        return cls(kind, owner.team, owner.user, owner.labels)


def matches(selector: Selector, target: Target) -> bool:
    """Whether a selector speaks of a target, its provider left aside."""
    return (
        (selector.team is None or target.team in selector.team)
        and (selector.user is None or target.user in selector.user)
        and (selector.kind is None or target.kind.value in selector.kind)
        and (selector.label is None or any(_labelled(w, target.labels) for w in selector.label))
    )


def excepts(selector: Selector | None, target: Target, provider: str | None) -> bool:
    """Whether an `except` takes a target out; an empty `except` excepts nobody."""
    if selector is None or selector == Selector():
        return False
    return matches(selector, target) and speaks_of_provider(selector, provider)


def select(policies: Sequence[Policy], target: Target) -> tuple[Policy, ...]:
    return tuple(policy for policy in policies if matches(policy.applies_to, target))


def at_provider(policies: Sequence[Policy], provider: str | None) -> tuple[Policy, ...]:
    """Of policies that speak of a target, those that do so at this provider."""
    return tuple(p for p in policies if speaks_of_provider(p.applies_to, provider))


def at_providers(policies: Sequence[Policy], providers: Iterable[str]) -> tuple[Policy, ...]:
    """Those that speak of at least one of these providers."""
    among = tuple(providers)
    return tuple(p for p in policies if any(speaks_of_provider(p.applies_to, x) for x in among))


def speaks_of_provider(selector: Selector, provider: str | None) -> bool:
    return selector.provider is None or provider in selector.provider


def in_order(policies: Sequence[Policy]) -> tuple[Policy, ...]:
    """One order for any order they came in, so that equal worlds give equal plans."""
    return tuple(sorted(policies, key=lambda policy: (policy.name, policy.file)))


def _labelled(word: str, labels: Labels) -> bool:
    key, equals, value = word.partition("=")
    return any(key == k and (not equals or value == v) for k, v in labels)
