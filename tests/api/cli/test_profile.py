"""The client's memory."""

from __future__ import annotations

import stat

import pytest

from api.cli import profile
from api.cli.profile import Profile
from provisioner.errors import StateError, UnauthenticatedError


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("ROOST_URL", raising=False)
    monkeypatch.delenv("ROOST_TOKEN", raising=False)
    return tmp_path


def test_it_is_for_its_owner_only(home):
    profile.save(Profile().with_token("http://a", "one"))
    file = home / "roost" / "client.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert profile.load() == Profile("http://a", {"http://a": "one"})
    assert list(file.parent.iterdir()) == [file]


def test_another_login_forgets_no_token():
    known = Profile().with_token("http://a", "one").with_token("http://b", "two")
    profile.save(known)
    assert profile.choose() == ("http://b", "two")


def test_the_environment_wins(monkeypatch):
    profile.save(Profile().with_token("http://a", "one").with_token("http://b", "two"))
    monkeypatch.setenv("ROOST_URL", "http://a/")
    assert profile.choose() == ("http://a", "one")
    monkeypatch.setenv("ROOST_TOKEN", "three")
    assert profile.choose() == ("http://a", "three")


def test_a_token_is_never_sent_to_another_control_plane(monkeypatch):
    profile.save(Profile().with_token("http://a", "one"))
    monkeypatch.setenv("ROOST_URL", "http://b")
    with pytest.raises(UnauthenticatedError, match="http://b"):
        profile.choose()


def test_a_control_plane_that_moved_is_still_known():
    known = Profile().with_token("http://b", "two").with_token("http://a:1", "one")
    moved = known.moved("http://a:1", "http://a:2")
    assert moved == Profile("http://a:2", {"http://b": "two", "http://a:2": "one"})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"current": 1}'])
def test_a_broken_file_is_named(home, text):
    (home / "roost").mkdir()
    (home / "roost" / "client.json").write_text(text)
    with pytest.raises(StateError, match=r"client\.json"):
        profile.load()


def test_who_vouches_is_stored_by_address(tmp_path, monkeypatch):
    known = Profile().with_token("https://a", "one", "pem of a").with_token("http://b", "two")
    profile.save(known)
    assert profile.load() == known
    assert profile.authority("https://a") == "pem of a"
    assert profile.authority("http://b") is None
    moved = known.moved("https://a", "https://c")
    assert moved.authorities == {"https://c": "pem of a"}
    again = known.with_token("https://a", "three")
    assert again.authorities == {}, "a login without one trusts the usual ones again"
    (tmp_path / "ca.pem").write_text("pem of mine")
    monkeypatch.setenv("ROOST_CA_FILE", str(tmp_path / "ca.pem"))
    assert profile.authority("https://a") == "pem of mine"
    monkeypatch.setenv("ROOST_CA_FILE", str(tmp_path / "nothing"))
    with pytest.raises(StateError, match="nothing cannot be read"):
        profile.authority("https://a")


def test_a_profile_of_before_there_was_tls_is_read(home):
    (home / "roost").mkdir()
    (home / "roost" / "client.json").write_text(
        '{"current": "http://a", "tokens": {"http://a": "x"}}'
    )
    assert profile.load() == Profile("http://a", {"http://a": "x"})
