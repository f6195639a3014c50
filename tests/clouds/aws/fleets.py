"""CreateFleet of type `instant`: one machine of the cheapest offer that can be had."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from tests.clouds.aws import prices
from tests.clouds.aws.account import Account
from tests.clouds.aws.lives import Lives
from tests.clouds.aws.refusals import Refusals
from tests.clouds.aws.wire import Answer, Request, ec2

_CONFIG = "LaunchTemplateConfigs.1."


class Fleets:
    """moto takes the first override, whatever it is; here it sees the chosen one only."""

    def __init__(self, account: Account, lives: Lives, refusals: Refusals) -> None:
        self._account = account
        self._lives = lives
        self._refusals = refusals

    def create(self, request: Request) -> Answer:
        market = str(
            request.form.get("TargetCapacitySpecification.DefaultTargetCapacityType", "on-demand")
        )
        can, errors = [], []
        for number, (name, subnet) in self._overrides(request).items():
            zone = self._account.zone_of_subnet(request.region, subnet)
            refused = self._refusals.capacity(request, zone, name, market)
            if refused is None:
                price = prices.spot(name, zone, self._lives.now())[1]
                can.append((price, number))
            else:
                errors.append(refused)
        if not can:
            items = "".join(map(_error, errors))
            return ec2(request, f"<fleetId>fleet-0</fleetId><errorSet>{items}</errorSet>")
        answer = self._account.ask(_only(request, min(can)[1]))
        for life in self._lives.adopt(request.region):
            self._plug_in(request, life.instance)
        return answer

    def _overrides(self, request: Request) -> dict[int, tuple[str, str]]:
        """Type and subnet, by their number."""
        found, number = {}, 1
        while (name := request.form.get(f"{_CONFIG}Overrides.{number}.InstanceType")) is not None:
            found[number] = (name, request.form[f"{_CONFIG}Overrides.{number}.SubnetId"])
            number += 1
        return found

    def _plug_in(self, request: Request, instance: Any) -> None:
        """Into the groups of the template's network interface, which moto leaves out."""
        region = self._account.region(request.region)
        name = request.form[f"{_CONFIG}LaunchTemplateSpecification.LaunchTemplateName"]
        data = region.get_launch_template_by_name(name).latest_version().data
        groups = [
            region.get_security_group_from_id(id)
            for interface in data.get("NetworkInterfaces", ())
            for id in interface.get("Groups", ())
        ]
        instance.security_groups = groups
        for interface in instance.nics.values():
            interface._group_set = groups


def _only(request: Request, number: int) -> Request:
    """The same call with one override."""
    form = {key: value for key, value in request.form.items() if f"{_CONFIG}Overrides." not in key}
    for name in ("InstanceType", "SubnetId"):
        key = f"{_CONFIG}Overrides.{number}.{name}"
        form[f"{_CONFIG}Overrides.1.{name}"] = request.form[key]
    return request.saying(form)


def _error(refused: Answer) -> str:
    told = ElementTree.fromstring(refused.body)
    code, words = told.findtext(".//Code"), told.findtext(".//Message")
    return f"<item><errorCode>{code}</errorCode><errorMessage>{words}</errorMessage></item>"
