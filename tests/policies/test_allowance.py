from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.allowance import Allowance, Clause, allowance_of, disjoint
from policies.quantities import Money, Range
from policies.world import Offer, PurchaseMode, Resources

words = st.lists(st.sampled_from(["aws", "gce", "local"]), min_size=1, unique=True).map(
    lambda names: tuple(sorted(names))
)
globs = st.text("ab*", min_size=1, max_size=6)
spans = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(
    lambda pair: Range(Decimal(min(pair)), Decimal(max(pair)))
)
caps = st.builds(Money, st.integers(0, 4).map(Decimal), st.sampled_from(["USD", "EUR"]))
limits = st.one_of(
    st.tuples(st.just("allow.providers"), words),
    st.tuples(st.just("allow.regions"), st.lists(globs, min_size=1, max_size=2).map(tuple)),
    st.tuples(st.just("allow.cpus"), spans),
    st.tuples(st.just("allow.gpu.count"), spans),
    st.tuples(st.just("allow.price_per_hour"), caps),
)


def clause(limit: tuple[str, Any], name: str) -> Clause:
    return Clause(limit[0], limit[1], name, f"{name}.yaml:1")


clauses = st.builds(clause, limits, st.sampled_from("pqr"))
pairs = st.tuples(clauses, clauses).filter(lambda pair: pair[0].rule == pair[1].rule)
allowances = st.lists(clauses, max_size=5).map(Allowance.of)
offers = st.builds(
    lambda provider, region, cpus, gpus, price, currency: Offer(
        id="x",
        provider=provider,
        region=region,
        zone="z",
        instance_type="t",
        mode=PurchaseMode.SPOT,
        resources=Resources(cpus, 1, gpus, "L4" if gpus else None),
        price_per_hour=Decimal(price),
        currency=currency,
        can_stop=False,
    ),
    st.sampled_from(["aws", "gce", "local"]),
    st.text("ab", min_size=1, max_size=4),
    st.integers(1, 8),
    st.integers(0, 4),
    st.integers(0, 4),
    st.sampled_from(["USD", "EUR"]),
)


@given(allowances, allowances)
def test_intersection_is_commutative(a: Allowance, b: Allowance) -> None:
    assert a & b == b & a


@given(allowances, allowances, allowances)
def test_intersection_is_associative(a: Allowance, b: Allowance, c: Allowance) -> None:
    assert (a & b) & c == a & (b & c)


@given(allowances)
def test_intersection_is_idempotent(a: Allowance) -> None:
    assert a & a == a
    assert a & Allowance() == a


@given(allowances, allowances, offers)
def test_an_offer_passes_both_exactly_when_it_passes_each(
    a: Allowance, b: Allowance, offer: Offer
) -> None:
    each = a.refusal(offer) is None and b.refusal(offer) is None
    assert ((a & b).refusal(offer) is None) == each


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(pairs, offers)
def test_nothing_passes_two_disjoint_clauses(pair: tuple[Clause, Clause], offer: Offer) -> None:
    one, two = pair
    assert disjoint(one, two) == disjoint(two, one)
    # Machines without a GPU, and free ones, are what such limits do not speak of.
    spoken_of = (offer.resources.gpus or not one.rule.startswith("allow.gpu")) and (
        offer.price_per_hour or one.rule != "allow.price_per_hour"
    )
    if spoken_of and disjoint(one, two):
        assert one.refusal(offer) or two.refusal(offer)


@given(st.text("ab", max_size=5), st.data())
def test_globs_that_share_a_name_meet(name: str, data: st.DataObject) -> None:
    def glob() -> str:
        places = st.integers(0, len(name))
        start, end = sorted((data.draw(places), data.draw(places)))
        return f"{name[:start]}*{name[end:]}" if data.draw(st.booleans()) else name or "*"

    one, two = (clause(("allow.regions", (glob(),)), n) for n in "pq")
    assert not disjoint(one, two)


@pytest.mark.parametrize(
    ("one", "two"), [("us-*", "eu-*"), ("*-1", "*-2"), ("a", "b"), ("a*b", "ab*c"), ("", "a")]
)
def test_globs_that_share_none_do_not(one: str, two: str) -> None:
    assert disjoint(clause(("allow.regions", (one,)), "p"), clause(("allow.regions", (two,)), "q"))


@pytest.mark.parametrize(
    ("body", "offer", "observed"),
    [
        ("{providers: [gce]}", {}, "aws"),
        ("{regions: [eu-*, us-west-2]}", {}, "us-east-1"),
        ("{purchase: [spot]}", {}, "on-demand"),
        ("{gpu: {models: [L4]}}", {"gpus": 1, "model": "H100"}, "H100"),
        ("{gpu: {models: [L4]}}", {"gpus": 1, "model": None}, "an unknown GPU"),
        ("{gpu: {count: 1..4}}", {"gpus": 8, "model": "L4"}, "8 GPUs"),
        ("{gpu: {count: 0}}", {"gpus": 1, "model": "L4"}, "1 GPUs"),
        ("{cpus: 8+}", {}, "4 CPUs"),
        ("{memory: 1..8}", {}, "16 GiB"),
        ("{price_per_hour: up to 0.99 USD}", {}, "1.00 USD"),
        ("{price_per_hour: up to 9 EUR}", {}, "1.00 USD"),
    ],
)
def test_a_refusal_says_what_was_seen_and_where_it_is_written(
    build: Any, body: str, offer: dict[str, Any], observed: str
) -> None:
    reason = allowance_of([build.policy(f"allow: {body}")]).refusal(build.offer(**offer))
    assert reason is not None
    assert (reason.observed, reason.where, reason.policy) == (observed, "p.yaml:3", "p")


@pytest.mark.parametrize(
    ("body", "offer"),
    [
        ("{providers: [AWS]}", {}),
        ("{regions: ['*']}", {}),
        ("{regions: [us-*-1]}", {}),
        ("{purchase: [on_demand]}", {}),
        ("{gpu: {models: [l4]}}", {"gpus": 1, "model": "L4"}),
        ("{gpu: {models: [L4], count: 1..4}}", {"gpus": 0}),
        ("{cpus: 4}", {}),
        ("{memory: 16+}", {}),
        ("{price_per_hour: up to 1 USD}", {}),
        ("{price_per_hour: up to 1 EUR}", {"price": "0"}),
    ],
)
def test_what_is_allowed_passes(build: Any, body: str, offer: dict[str, Any]) -> None:
    policy = build.policy(f"allow: {body}")
    assert allowance_of([policy]).refusal(build.offer(**offer)) is None


def test_conflicts_are_pairs_of_clauses(build: Any) -> None:
    one = build.policy("allow: {cpus: 1..2, regions: [us-*]}", name="a")
    two = build.policy("allow: {cpus: 4+, regions: [us-east-1]}", name="b")
    ((a, b),) = allowance_of([one, two]).conflicts()
    assert (a.rule, {a.policy, b.policy}) == ("allow.cpus", {"a", "b"})
