"""Settings of AWS: what makes no sense is refused at the start."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from provisioner.providers.aws.settings import AwsSettings


def test_regions_are_all_that_must_be_said() -> None:
    settings = AwsSettings(regions=("eu-central-1",))
    assert (settings.types, settings.spot_allocation) == (("*",), "fleet")
    for image in (settings.image, settings.image_arm64, settings.image_gpu):
        assert image.startswith("/aws/service/")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"regions": ()}, "regions"),
        ({"regions": ("a", "a")}, "once"),
        ({"interruption_queues": {"eu-west-1": "https://q"}}, "eu-west-1"),
        ({"root_gib": 4}, "root_gib"),
        ({"spot_allocation": "cheap"}, "spot_allocation"),
        ({"acces_key": "x"}, "acces_key"),
    ],
)
def test_what_makes_no_sense_is_named(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        AwsSettings(**{"regions": ("us-east-1",), **wrong})
