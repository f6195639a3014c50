"""How often AWS takes back spot machines of a type, as its Spot Instance Advisor tells.

aws.amazon.com/ec2/spot/instance-advisor: a document of ranges, such as "5-10%" in the last month.
"""

from __future__ import annotations

import httpx

from provisioner.errors import ProviderError
from provisioner.offers.sources.http import get_json

URL = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"


def interruption_rates(client: httpx.Client, url: str = URL) -> dict[tuple[str, str, str], float]:
    """The upper end of each range as a share, by provider, region and type (Linux).

    Raises:
        ProviderError: the document cannot be had or read.
    """
    answer = get_json(client, url)
    try:
        ends = {each["index"]: min(float(each["max"]), 100.0) / 100 for each in answer["ranges"]}
        return {
            ("aws", region, instance_type): ends[told["r"]]
            for region, systems in answer["spot_advisor"].items()
            for instance_type, told in systems.get("Linux", {}).items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProviderError(f"{url} has another form than it had: {error!r}") from None
