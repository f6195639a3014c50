"""What an operator may say, and that secrets are told to nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from provisioner.clock import ManualClock
from provisioner.errors import AuthError, InvalidError
from provisioner.providers.libcloud.clouds.registry import CLOUDS, check
from provisioner.providers.libcloud.provider import LibcloudProvider
from provisioner.providers.libcloud.settings import CloudSettings
from tests.provisioner.providers.libcloud.conftest import NOW

SECRET = "correct horse battery staple"


def settings(**changes: object) -> CloudSettings:
    values: dict[str, object] = {
        "name": "ocean",
        "driver": "digitalocean",
        "secrets": {"token": "env:OCEAN_TOKEN"},
        "regions": ("nyc3",),
    }
    return CloudSettings(**(values | changes))  # type: ignore[arg-type]


def test_a_secret_is_read_where_the_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCEAN_TOKEN", SECRET)
    (tmp_path / "token").write_text(f"{SECRET}\n")
    assert settings().secret("token") == SECRET
    from_file = settings(secrets={"token": f"file:{tmp_path}/token"})
    assert from_file.secret("token") == SECRET
    assert SECRET not in repr(from_file) + str(from_file) + from_file.model_dump_json()


def test_a_secret_that_is_missing_is_named_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCEAN_TOKEN", raising=False)
    with pytest.raises(AuthError, match="token of provider ocean is not in env:OCEAN_TOKEN"):
        settings().secret("token")
    with pytest.raises(AuthError, match="file:/nowhere"):
        settings(secrets={"token": "file:/nowhere"}).secret("token")


def test_a_secret_itself_is_no_setting() -> None:
    with pytest.raises(ValidationError) as error:
        settings(secrets={"token": SECRET})
    told = [(one["loc"], one["msg"]) for one in error.value.errors(include_input=False)]
    assert told == [
        (("secrets",), "Value error, say where token is: env:NAME or file:PATH, not its value")
    ]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"driver": "hetzner"}, "unknown driver 'hetzner'"),
        ({"secrets": {}}, "secrets.token is missing"),
        ({"secrets": {"tokn": "env:X"}}, "secrets.tokn is unknown"),
        ({"account": {"project": "p"}}, "account.project is unknown"),
        ({"driver": "openstack"}, "account.auth_url is missing"),
        ({"driver": "openstack"}, "image is missing"),
        ({"driver": "azure"}, "network is missing"),
        ({"driver": "openstack", "regions": ("a", "b")}, "make a provider of each"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_all_that_does_not_fit_the_driver_is_named(changes: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidError, match=told):
        check(settings(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"regions": ()},
        {"regions": ("a", "a")},
        {"name": "Ocean/1"},
        {"prices": {"*": "0"}},
        {"sizes": ("x",)},
    ],
    ids=str,
)
def test_senseless_settings_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        settings(**changes)


def test_nothing_is_asked_before_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCEAN_TOKEN", raising=False)
    provider = LibcloudProvider(settings(), "test", ManualClock(NOW))
    assert provider.name == "ocean"
    with pytest.raises(AuthError):
        provider.list()


@pytest.mark.parametrize("cloud", CLOUDS.values(), ids=CLOUDS)
def test_profiles_agree_with_themselves(cloud: type) -> None:
    profile = cloud.profile  # type: ignore[attr-defined]
    assert CLOUDS[profile.driver] is cloud
    assert profile.secrets
    assert profile.zones or not profile.regional
