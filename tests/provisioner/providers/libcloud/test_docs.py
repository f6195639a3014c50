"""The tables of the reference say what the profiles say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from provisioner.providers.libcloud.clouds.registry import CLOUDS
from provisioner.providers.libcloud.profile import PriceSource, Profile

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "libcloud.md"


def table(name: str) -> list[str]:
    text = PAGE.read_text().partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]
    return text.splitlines()[2:]


def test_what_each_can_do() -> None:
    assert table("clouds") == [row(cloud.profile) for cloud in CLOUDS.values()]


def test_what_each_must_know() -> None:
    assert table("accounts") == [account(cloud.profile) for cloud in CLOUDS.values()]


def row(profile: Profile) -> str:
    api = profile.price_source is PriceSource.API
    cells = (
        f"`{profile.driver}`",
        profile.title,
        profile.support,
        yes(profile.spot),
        yes(not profile.bills_stopped),
        "token" if profile.client_tokens else "a look first",
        "of a zone" if profile.zones else "of a region",
        yes(profile.snapshots),
        "its API" if api else "settings, price lists",
        f"`{profile.default_image}`" if profile.default_image else "none",
    )
    return f"| {' | '.join(cells)} |"


def account(profile: Profile) -> str:
    given, secret = names(profile.account), names(profile.secrets)
    return f"| `{profile.driver}` |{f' {given} ' if given else ' '}| {secret} |"


def names(fields: Mapping[str, str]) -> str:
    return ", ".join(
        f"`{name.rstrip('?')}` ({what}{'; optional' if name.endswith('?') else ''})"
        for name, what in fields.items()
    )


def yes(value: bool) -> str:
    return "yes" if value else "no"
