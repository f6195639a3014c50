"""Every provider behind one bench. Another provider is one function in one file of `benches`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clouds.aws.fixtures import aws_cloud, aws_process
from tests.contract.bench import Bench
from tests.contract.benches import aws, fake, libcloud, local

BENCHES: dict[str, Callable[[pytest.FixtureRequest], Iterator[Bench]]] = {
    "local": local.bench,
    "fake": fake.bench,
    "fake, rich": fake.rich,
    "aws": aws.bench,
    "libcloud": libcloud.bench,
}


@pytest.fixture(params=list(BENCHES))
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from BENCHES[request.param](request)


__all__ = ["aws_cloud", "aws_process", "bench"]
