"""The clouds, by the names that settings use."""

from __future__ import annotations

from collections.abc import Mapping

from provisioner.errors import InvalidError
from provisioner.providers.libcloud.cloud import Cloud
from provisioner.providers.libcloud.clouds.alibaba import Alibaba
from provisioner.providers.libcloud.clouds.azure import Azure
from provisioner.providers.libcloud.clouds.digitalocean import DigitalOcean
from provisioner.providers.libcloud.clouds.ec2 import Ec2
from provisioner.providers.libcloud.clouds.gce import Gce
from provisioner.providers.libcloud.clouds.linode import Linode
from provisioner.providers.libcloud.clouds.openstack import OpenStack
from provisioner.providers.libcloud.clouds.vultr import Vultr
from provisioner.providers.libcloud.settings import CloudSettings

CLOUDS: Mapping[str, type[Cloud]] = {
    cloud.profile.driver: cloud
    for cloud in (Ec2, Gce, Azure, OpenStack, DigitalOcean, Vultr, Linode, Alibaba)
}


def check(settings: CloudSettings) -> None:
    """Whether the settings fit their driver.

    Raises:
        InvalidError: they do not; all that is wrong is named.
    """
    kind = CLOUDS.get(settings.driver)
    if kind is None:
        raise InvalidError(
            f"provider {settings.name} has the unknown driver {settings.driver!r}",
            remedy=f"Choose one of {', '.join(CLOUDS)}.",
        )
    profile = kind.profile
    problems = [
        *_names("account", settings.account, profile.account),
        *_names("secrets", settings.secrets, profile.secrets),
    ]
    if not settings.image and not profile.default_image:
        problems.append("image is missing")
    if profile.needs_network and not settings.network:
        problems.append("network is missing")
    if profile.one_region and len(settings.regions) > 1:
        problems.append("regions holds more than one: make a provider of each")
    if problems:
        raise InvalidError(
            f"provider {settings.name} ({profile.title}): {'; '.join(problems)}",
            remedy="Correct its settings.",
        )


def _names(table: str, given: Mapping[str, object], wanted: Mapping[str, str]) -> list[str]:
    known = {name.rstrip("?") for name in wanted}
    missing = [name for name in wanted if not name.endswith("?") and name not in given]
    return [
        *(f"{table}.{name} is missing ({wanted[name]})" for name in missing),
        *(f"{table}.{name} is unknown" for name in given if name not in known),
    ]
