"""One launch makes one machine and one home in AWS, when only its client tokens can see to that.

Tags tell of what is there already; they do not help while no list shows it, nor another thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from policies.world import PurchaseMode
from provisioner.errors import Ambiguous
from provisioner.providers.contract import LaunchRequest
from tests.clouds.aws.control import AwsCloud
from tests.contract.bench import Bench
from tests.contract.benches import aws

LAG_S = 30
VOLUMES = f"{aws.REGION} volume"
WAYS = pytest.mark.parametrize(
    ("mode", "others"),
    [(PurchaseMode.ON_DEMAND, 0), (PurchaseMode.SPOT, 0), (PurchaseMode.SPOT, 2)],
    ids=["on demand", "spot", "fleet"],
)


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from aws.bench(request)


@WAYS
def test_a_lost_launch_that_no_list_shows_yet_is_not_made_twice(
    bench: Bench, aws_cloud: AwsCloud, mode: PurchaseMode, others: int
) -> None:
    request = request_for(bench, mode, others)
    assert bench.lose_reply is not None
    aws_cloud.knobs(lag_s=LAG_S)
    bench.lose_reply("launch")
    with pytest.raises(Ambiguous):
        bench.provider.launch(request)
    again = bench.provider.launch(request)
    assert [one["id"] for one in aws_cloud.instances()] == [again.id]


@WAYS
def test_one_launch_from_several_threads_makes_one_machine_and_one_home(
    bench: Bench, aws_cloud: AwsCloud, mode: PurchaseMode, others: int
) -> None:
    request = replace(request_for(bench, mode, others), volume_id="v")
    with ThreadPoolExecutor(8) as pool:
        ids = {one.id for one in pool.map(lambda _: bench.provider.launch(request), range(8))}
    assert [one["id"] for one in aws_cloud.instances()] == list(ids)
    assert len(aws_cloud.inventory()[VOLUMES]) == 2, "the machine's own disk and one home"


@pytest.mark.parametrize("attempts", [1, 8], ids=["one answer", "all answers"])
def test_a_home_whose_making_is_not_answered_is_not_made_twice(
    bench: Bench, aws_cloud: AwsCloud, attempts: int
) -> None:
    aws_cloud.rule("CreateVolume", drop_after=True, count=attempts)
    request = replace(request_for(bench, PurchaseMode.ON_DEMAND, 0), volume_id="v")
    if attempts > 1:
        with pytest.raises(Ambiguous):
            bench.provider.launch(request)
    bench.provider.launch(request)
    bench.pass_until(lambda: bench.provider.list().volumes)
    assert len(aws_cloud.inventory()[VOLUMES]) == 2, "the machine's own disk and one home"


def request_for(bench: Bench, mode: PurchaseMode, others: int) -> LaunchRequest:
    """Of the first offer, with so many alternatives."""
    first, *rest = bench.offers(mode)
    return replace(bench.request(mode=mode), offer=first, alternatives=tuple(rest[:others]))
