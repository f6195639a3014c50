"""What is wrong with policies that each can be read: contradictions, and rules without effect.

Found here, before they are used, and not at 3 a.m. An error is a policy or a pair of policies
under which somebody gets nothing at all; a warning is a rule that does not do what it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from policies.allowance import Clause, allowance_of, disjoint
from policies.language import Policy, Selector
from policies.problems import Problem, Severity
from policies.selection import in_order
from policies.world import PurchaseMode

WARNING = Severity.WARNING


def check_policies(policies: Sequence[Policy]) -> list[Problem]:
    """Everything found, in order of file and line; an empty list is a clean bill."""
    ordered = in_order(policies)
    found: list[Problem] = []
    for policy in ordered:
        for check in (_nothing_allowed, _no_effect, _capacity, _not_enforced):
            found += check(policy)
    for one, two in combinations(ordered, 2):
        found += _twins(one, two)
        if _overlap(one.applies_to, two.applies_to):
            found += _conflicts(one, two)
    return sorted(found, key=lambda problem: (problem.file, problem.line, problem.message))


def _problem(
    policy: Policy, path: str, message: str, hint: str = "", severity: Severity = Severity.ERROR
) -> Problem:
    return Problem(policy.file, policy.line(path), message, hint, severity)


def _nothing_allowed(policy: Policy) -> Iterator[Problem]:
    allow, selected = policy.allow, policy.applies_to.provider
    if allow is None:
        return
    if allow.instances_per_user == 0:
        path = "allow.instances_per_user"
        hint = "write at least 1, or freeze spending with a budget"
        yield _problem(policy, path, f"{policy.name} allows nothing: {path} is 0", hint)
    if selected and allow.providers and not _share(selected, allow.providers):
        message = (
            f"{policy.name} allows nothing: it applies to {', '.join(selected)} "
            f"and allows {', '.join(allow.providers)}"
        )
        yield _problem(policy, "allow.providers", message)


def _no_effect(policy: Policy) -> Iterator[Problem]:
    kinds = policy.applies_to.kind
    allow, hours, idle = policy.allow, policy.hours, policy.idle
    if hours is not None and hours.outside == "allow":
        message = "these hours never apply, because outside is allow"
        yield _problem(policy, "hours.outside", message, "write stop or terminate", WARNING)
    if idle is not None and not idle.when.no_input:
        hint = "write no_input: true beside the other conditions"
        yield _problem(policy, "idle.when", "a person's input always counts as use", hint, WARNING)
    if kinds == ("job",):
        hint = "apply it to workstations"
        if idle is not None:
            yield _problem(policy, "idle", "idle can never apply to jobs", hint, WARNING)
        if allow is not None and allow.ttl is not None:
            yield _problem(policy, "allow.ttl", "ttl can never apply to jobs", hint, WARNING)
    gpu = allow.gpu if allow is not None else None
    if gpu is not None and gpu.models and gpu.count is not None and gpu.count.high == 0:
        message = "these models can never apply, because gpu.count is 0"
        yield _problem(policy, "allow.gpu.models", message, "remove one of them", WARNING)


def _capacity(policy: Policy) -> Iterator[Problem]:
    capacity = policy.capacity
    if capacity is None:
        return
    prefer, second = capacity.prefer, capacity.fall_back_to
    if second is not None and prefer is None:
        message = "fall_back_to can never apply without prefer"
        yield _problem(policy, "capacity.fall_back_to", message, "name what to prefer", WARNING)
    if second is not None and prefer is second:
        message = f"fall_back_to can never apply: {second} is preferred already"
        yield _problem(policy, "capacity.fall_back_to", message, severity=WARNING)
    if capacity.fall_back_when is not None and (second is None or prefer is not PurchaseMode.SPOT):
        message = "fall_back_when can never apply without prefer: spot and a fall_back_to"
        yield _problem(policy, "capacity.fall_back_when", message, severity=WARNING)
    purchase = policy.allow.purchase if policy.allow else None
    for path, mode in (("capacity.prefer", prefer), ("capacity.fall_back_to", second)):
        if purchase and mode and mode not in purchase:
            line = policy.where("allow.purchase")
            message = f"{path} can never apply: {mode} is not in allow.purchase ({line})"
            yield _problem(policy, path, message, severity=WARNING)


def _not_enforced(policy: Policy) -> Iterator[Problem]:
    parts = {
        "rightsize": policy.rightsize is not None,
        "disruption": policy.disruption is not None,
        "capacity.choose": policy.capacity is not None
        and "least_interrupted" in policy.capacity.choose,
    }
    for path, written in parts.items():
        if written:
            name = "least_interrupted" if path == "capacity.choose" else path
            message = f"{name} is not enforced by this version"
            hint = "it is read and has no effect; the policy's other sections work"
            yield _problem(policy, path, message, hint, WARNING)


def _twins(one: Policy, two: Policy) -> Iterator[Problem]:
    if one.name == two.name:
        message = f"the policy {two.name} exists already in {one.where('policy')}"
        yield _problem(two, "policy", message, "give each policy a name of its own")


def _conflicts(one: Policy, two: Policy) -> Iterator[Problem]:
    """What two policies leave nothing of, for a target that both speak of."""
    for a in allowance_of([one]).clauses:
        for b in allowance_of([two]).clauses:
            if disjoint(a, b):
                yield _empty(one, a, b)
    prefer = [p.capacity.prefer if p.capacity else None for p in (one, two)]
    if None not in prefer and prefer[0] != prefer[1]:
        message = (
            f"{one.name} prefers {prefer[0]} and {two.name} prefers {prefer[1]} "
            f"({two.where('capacity.prefer')}); {one.name} is followed"
        )
        yield _problem(one, "capacity.prefer", message, severity=WARNING)


def _empty(one: Policy, a: Clause, b: Clause) -> Problem:
    left = "no machine with a GPU" if a.rule.startswith("allow.gpu") else "nothing"
    if a.rule == "allow.price_per_hour":
        left = "nothing that has a price"
    message = (
        f"{a.rule} allows {a.allowed} here and {b.allowed} in {b.where} ({b.policy}); "
        f"together they allow {left}"
    )
    return _problem(one, a.rule, message, "make them share a value, or narrow applies_to")


def _overlap(one: Selector, two: Selector) -> bool:
    """Whether some target is spoken of by both; one can have the labels of both."""
    pairs = (
        (one.team, two.team),
        (one.user, two.user),
        (one.kind, two.kind),
        (one.provider, two.provider),
    )
    return all(a is None or b is None or _share(a, b) for a, b in pairs)


def _share(one: Sequence[str], two: Sequence[str]) -> bool:
    return bool({word.casefold() for word in one} & {word.casefold() for word in two})
