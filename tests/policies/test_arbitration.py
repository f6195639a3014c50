from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.arbitration import Proposal, arbitrate, precedence
from policies.plan import ActionKind, Rank, Reason

proposals = st.builds(
    Proposal,
    st.sampled_from(ActionKind),
    st.builds(
        Reason,
        st.sampled_from(Rank),
        st.sampled_from(["hours.open", "idle.for"]),
        st.sampled_from(["one", "two"]),
        st.sampled_from([None, "p"]),
        st.sampled_from([None, "p.yaml:1", "p.yaml:2"]),
    ),
)


def proposal(action: ActionKind, rank: Rank, text: str = "x") -> Proposal:
    return Proposal(action, Reason(rank, "rule", text))


@given(proposals, proposals)
def test_the_order_is_total(a: Proposal, b: Proposal) -> None:
    assert (precedence(a) == precedence(b)) == (a == b)


@given(st.lists(proposals, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_proposals_does_not_matter(found: list[Proposal], random) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(found)
    random.shuffle(shuffled)
    assert arbitrate(shuffled) == arbitrate(found)


@given(st.lists(proposals, min_size=1, max_size=6), proposals)
def test_a_further_proposal_only_wins_if_it_comes_first(
    found: list[Proposal], further: Proposal
) -> None:
    before, after = arbitrate(found), arbitrate([*found, further])
    if precedence(further) > min(map(precedence, found)):
        assert after.action == before.action
    else:
        assert after.action == further.action


@given(st.lists(proposals, min_size=1, max_size=6))
def test_no_reason_is_lost(found: list[Proposal]) -> None:
    verdict = arbitrate(found)
    kept = [*verdict.because, *(r for item in verdict.instead_of for r in item.reasons)]
    assert sorted(map(repr, kept)) == sorted(repr(p.reason) for p in found)


ORDER = [
    "safety", "hard-budget", "hold", "soft-budget", "ttl", "hours", "idle", "rightsize", "grow",
    "autoscale", "desire",
]  # fmt: skip


def test_the_ranks_are_those_of_the_design() -> None:
    assert [rank.value for rank in Rank] == ORDER


@pytest.mark.parametrize(("higher", "lower"), list(pairwise(ORDER)))
def test_the_higher_rank_wins_whatever_the_action(higher: str, lower: str) -> None:
    stop = proposal(ActionKind.STOP, Rank(lower))
    verdict = arbitrate([stop, proposal(ActionKind.NOTHING, Rank(higher))])
    assert verdict.action is ActionKind.NOTHING
    assert verdict.instead_of[0].what == "stop"


def test_within_a_rank_the_graver_action_wins() -> None:
    found = [proposal(a, Rank.HOURS) for a in (ActionKind.STOP, ActionKind.TERMINATE)]
    assert arbitrate(found).action is ActionKind.TERMINATE


def test_an_unripe_proposal_never_wins_and_is_told() -> None:
    stop = Proposal(ActionKind.STOP, Reason(Rank.SAFETY, "r", "later"), ripe=False)
    verdict = arbitrate([stop, proposal(ActionKind.NOTHING, Rank.DESIRE)])
    assert verdict.action is ActionKind.NOTHING
    assert verdict.instead_of[0].reasons[0].text == "later"


def test_an_announced_stop_stands_until_something_else_is_done() -> None:
    when = datetime(2026, 3, 2, 19, tzinfo=UTC)
    warn = Proposal(ActionKind.WARN, Reason(Rank.IDLE, "idle.for", "soon"), acts_at=when)
    wish = proposal(ActionKind.NOTHING, Rank.DESIRE)
    assert arbitrate([warn, wish]).acts_at == when
    assert arbitrate([warn, wish, proposal(ActionKind.STOP, Rank.HOURS)]).acts_at is None
    assert arbitrate([warn, wish, proposal(ActionKind.NOTHING, Rank.HOLD)]).acts_at is None
