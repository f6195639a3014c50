"""Stage constrain: what several policies allow together.

An allowance is a set of clauses, each from one line of one policy, and an offer is allowed when
no clause refuses it. To intersect two allowances is to unite their clauses, hence the order in
which policies are read cannot matter. Limits that are not a property of an offer (`ttl`,
`instances_per_user`) are not clauses; `lifetime` and `seats` hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from policies.globs import globs_meet, matches_glob
from policies.language import Policy
from policies.plan import Rank, Reason
from policies.quantities import Money, Range
from policies.world import Offer

Names = tuple[str, ...]
Limit = Names | Range | Money


@dataclass(frozen=True, slots=True)
class Clause:
    """One limit from one line: the rule's path, what it allows, and where it is written."""

    rule: str
    limit: Limit
    policy: str
    where: str

    def refusal(self, offer: Offer) -> Reason | None:
        """Why this clause leaves an offer out; None when it does not."""
        observed = _OBSERVE[self.rule](self.limit, offer)
        if observed is None:
            return None
        allowed = self.allowed
        text = f"{self.rule} of {self.policy} allows {allowed}, and this is {observed}"
        return Reason(Rank.SAFETY, self.rule, text, self.policy, self.where, observed, allowed)

    @property
    def allowed(self) -> str:
        if isinstance(self.limit, Money):
            return f"up to {self.limit}"
        return str(self.limit) if isinstance(self.limit, Range) else ", ".join(self.limit)


@dataclass(frozen=True, slots=True)
class Allowance:
    """Clauses that all have to let an offer pass, in one canonical order."""

    clauses: tuple[Clause, ...] = ()

    @classmethod
    def of(cls, clauses: Iterable[Clause]) -> Allowance:
        return cls(tuple(sorted(set(clauses), key=_order)))

    def __and__(self, other: Allowance) -> Allowance:
        return Allowance.of((*self.clauses, *other.clauses))

    def refusal(self, offer: Offer) -> Reason | None:
        """The first clause's reason to leave an offer out; None when all let it pass."""
        for clause in self.clauses:
            reason = clause.refusal(offer)
            if reason is not None:
                return reason
        return None

    def conflicts(self) -> list[tuple[Clause, Clause]]:
        """Pairs of clauses that no offer can pass together."""
        pairs = []
        for i, one in enumerate(self.clauses):
            pairs += [(one, two) for two in self.clauses[i + 1 :] if disjoint(one, two)]
        return pairs


def allowance_of(policies: Sequence[Policy]) -> Allowance:
    """Everything these policies allow together."""
    return Allowance.of(clause for policy in policies for clause in _clauses(policy))


def disjoint(one: Clause, two: Clause) -> bool:
    """Whether no offer can pass both; clauses of different rules always leave room."""
    if one.rule != two.rule:
        return False
    a, b = one.limit, two.limit
    if isinstance(a, Range) and isinstance(b, Range):
        return not a.meets(b)
    if isinstance(a, Money) and isinstance(b, Money):
        return a.currency != b.currency
    if isinstance(a, tuple) and isinstance(b, tuple):
        if one.rule == "allow.regions":
            return not any(globs_meet(p, q) for p in a for q in b)
        return not {w.casefold() for w in a} & {w.casefold() for w in b}
    return False


def _clauses(policy: Policy) -> list[Clause]:
    allow = policy.allow
    if allow is None:
        return []
    gpu = allow.gpu
    limits: dict[str, Limit | None] = {
        "allow.providers": _sorted(allow.providers),
        "allow.regions": _sorted(allow.regions),
        "allow.purchase": _sorted(tuple(m.value for m in allow.purchase or ())),
        "allow.gpu.models": _sorted(gpu.models) if gpu else None,
        "allow.gpu.count": gpu.count if gpu else None,
        "allow.cpus": allow.cpus,
        "allow.memory": allow.memory,
        "allow.price_per_hour": allow.price_per_hour,
    }
    return [
        Clause(rule, limit, policy.name, policy.where(rule))
        for rule, limit in limits.items()
        if limit is not None
    ]


def _sorted(words: Names | None) -> Names | None:
    return tuple(sorted(set(words))) if words else None


def _order(clause: Clause) -> tuple[int, str, str, str]:
    return (_RULES.index(clause.rule), clause.where, clause.policy, clause.allowed)


def _provider(limit: Limit, offer: Offer) -> str | None:
    return None if _named(limit, offer.provider) else offer.provider


def _region(limit: Limit, offer: Offer) -> str | None:
    patterns = limit if isinstance(limit, tuple) else ()
    return None if any(matches_glob(p, offer.region) for p in patterns) else offer.region


def _purchase(limit: Limit, offer: Offer) -> str | None:
    return None if _named(limit, offer.mode.value) else offer.mode.value


def _gpu_model(limit: Limit, offer: Offer) -> str | None:
    """A machine without a GPU has none of the wrong model."""
    if offer.resources.gpus == 0:
        return None
    model = offer.resources.gpu_model or "an unknown GPU"
    return None if _named(limit, model) else model


def _gpu_count(limit: Limit, offer: Offer) -> str | None:
    gpus = offer.resources.gpus
    return None if gpus == 0 or _within(limit, gpus) else f"{gpus} GPUs"


def _cpus(limit: Limit, offer: Offer) -> str | None:
    cpus = offer.resources.cpus
    return None if _within(limit, cpus) else f"{cpus:g} CPUs"


def _memory(limit: Limit, offer: Offer) -> str | None:
    memory = offer.resources.memory_gib
    return None if _within(limit, memory) else f"{memory:g} GiB"


def _price(limit: Limit, offer: Offer) -> str | None:
    """A free machine passes in any currency; else prices compare in one currency only."""
    if offer.price_per_hour == 0 or not isinstance(limit, Money):
        return None
    if offer.currency == limit.currency and offer.price_per_hour <= limit.amount:
        return None
    return f"{offer.price_per_hour} {offer.currency}"


_OBSERVE: dict[str, Callable[[Limit, Offer], str | None]] = {
    "allow.providers": _provider,
    "allow.regions": _region,
    "allow.purchase": _purchase,
    "allow.gpu.models": _gpu_model,
    "allow.gpu.count": _gpu_count,
    "allow.cpus": _cpus,
    "allow.memory": _memory,
    "allow.price_per_hour": _price,
}
_RULES = tuple(_OBSERVE)


def _named(limit: Limit, word: str) -> bool:
    return isinstance(limit, tuple) and word.casefold() in {name.casefold() for name in limit}


def _within(limit: Limit, number: float) -> bool:
    return isinstance(limit, Range) and limit.holds(number)
