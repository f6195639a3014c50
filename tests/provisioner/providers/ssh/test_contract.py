"""The contract suite over ssh: all of it that needs no spot market."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from policies.world import PurchaseMode
from tests.contract import test_provider as rules
from tests.contract.bench import Bench
from tests.contract.benches import ssh
from tests.contract.test_cloud_rules import (
    test_p10_hibernation_is_refused_or_stops_the_machine,
    test_p14_a_snapshot_outlives_its_volume_and_makes_another,
    test_p14_a_volume_binds_its_machines_to_its_zone,
    test_p17_a_silent_region_is_named_and_says_nothing,
    test_p18_a_change_without_an_answer_is_ambiguous,
)
from tests.contract.test_cloud_rules import (
    test_p18_a_launch_without_an_answer_can_be_asked_again as asked_again,
)
from tests.contract.test_provider import (
    test_p1_a_launch_repeated_after_the_end_makes_no_second_machine,
    test_p1_a_repeated_launch_gives_the_same_machine,
    test_p1_other_parameters_under_the_same_id_are_refused,
    test_p2_a_machine_carries_its_tags_from_the_first_listing_on,
    test_p3_another_installation_is_not_seen,
    test_p3_ended_machines_stay_visible,
    test_p4_terminated_costs_nothing_any_more,
    test_p5_an_unknown_machine_is_not_found,
    test_p5_stop_start_and_terminate_are_idempotent,
    test_p5_what_has_ended_cannot_start_again,
    test_p6_a_volume_has_one_machine_at_a_time_and_outlives_it,
    test_p7_an_offer_that_is_not_sold_is_refused,
    test_p7_senseless_ids_raise_provider_errors_only,
    test_p8_calls_return_before_the_transition_is_over,
    test_p9_run_times_are_those_of_the_bill,
    test_p11_calls_from_several_threads_at_once,
    test_p12_the_price_of_storage_is_known,
)
from tests.provisioner.providers.ssh.sshd import SSHD


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if not os.path.exists(SSHD):
        pytest.skip("no sshd is installed: apt-get install openssh-server")
    yield from ssh.bench(request)


def test_p12_prices_cover_the_span_and_agree_with_the_offer(bench: Bench) -> None:
    rules.test_p12_prices_cover_the_span_and_agree_with_the_offer(bench, PurchaseMode.ON_DEMAND)


def test_p18_a_launch_without_an_answer_can_be_asked_again(bench: Bench) -> None:
    asked_again(bench, PurchaseMode.ON_DEMAND)


__all__ = [
    "test_p1_a_launch_repeated_after_the_end_makes_no_second_machine",
    "test_p1_a_repeated_launch_gives_the_same_machine",
    "test_p1_other_parameters_under_the_same_id_are_refused",
    "test_p2_a_machine_carries_its_tags_from_the_first_listing_on",
    "test_p3_another_installation_is_not_seen",
    "test_p3_ended_machines_stay_visible",
    "test_p4_terminated_costs_nothing_any_more",
    "test_p5_an_unknown_machine_is_not_found",
    "test_p5_stop_start_and_terminate_are_idempotent",
    "test_p5_what_has_ended_cannot_start_again",
    "test_p6_a_volume_has_one_machine_at_a_time_and_outlives_it",
    "test_p7_an_offer_that_is_not_sold_is_refused",
    "test_p7_senseless_ids_raise_provider_errors_only",
    "test_p8_calls_return_before_the_transition_is_over",
    "test_p9_run_times_are_those_of_the_bill",
    "test_p10_hibernation_is_refused_or_stops_the_machine",
    "test_p11_calls_from_several_threads_at_once",
    "test_p12_the_price_of_storage_is_known",
    "test_p14_a_snapshot_outlives_its_volume_and_makes_another",
    "test_p14_a_volume_binds_its_machines_to_its_zone",
    "test_p17_a_silent_region_is_named_and_says_nothing",
    "test_p18_a_change_without_an_answer_is_ambiguous",
]
