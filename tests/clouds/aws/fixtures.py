"""Fixtures: one test cloud for all tests, emptied for each; import them where they are needed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.clouds.aws.control import CREDENTIALS, AwsCloud, running


@pytest.fixture(scope="session")
def aws_process() -> Iterator[AwsCloud]:
    """The process, which reads all types of machines once."""
    with running() as cloud:
        yield cloud


@pytest.fixture
def aws_cloud(aws_process: AwsCloud, monkeypatch: pytest.MonkeyPatch) -> AwsCloud:
    """An empty account, and credentials for it."""
    for name in [one for one in os.environ if one.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    aws_process.reset()
    return aws_process
