from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from provisioner import tls
from provisioner.errors import StateError
from tests.certificates import certificate


def test_what_is_pinned(tmp_path: Path) -> None:
    authority = certificate(tmp_path, "authority", authority=True)
    given = certificate(tmp_path, "given", "roost.example.org", by=authority)
    alone = certificate(tmp_path, "alone", "roost.example.org")
    assert tls.pinned(None, None, None) is None
    assert tls.pinned(given.path, given.key, None) is None, "a system's authorities may know it"
    assert tls.pinned(given.path, given.key, authority.path) == authority.text
    assert tls.pinned(alone.path, alone.key, None) == alone.text, "it is its own authority"
    assert tls.pinned(None, None, authority.path) == authority.text, "a proxy shows the rest"


def test_the_name_must_be_the_certificates(tmp_path: Path) -> None:
    authority = certificate(tmp_path, "authority", authority=True)
    shown = certificate(tmp_path, "roost", "roost.example.org", "10.1.2.3", by=authority)
    for host in ("roost.example.org", "10.1.2.3"):
        tls.check_name(shown.path, shown.key, authority.text, host)
    with pytest.raises(StateError, match=r"does not vouch for other\.example\.org"):
        tls.check_name(shown.path, shown.key, authority.text, "other.example.org")
    stranger = certificate(tmp_path, "stranger", authority=True)
    with pytest.raises(StateError, match=r"does not vouch for roost\.example\.org"):
        tls.check_name(shown.path, shown.key, stranger.text, "roost.example.org")
    past = datetime(2021, 1, 1, tzinfo=UTC)
    old = certificate(tmp_path, "old", "roost.example.org", by=authority, until=past)
    with pytest.raises(StateError, match="certificate has expired"):
        tls.check_name(old.path, old.key, authority.text, "roost.example.org")


def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    one, other = certificate(tmp_path, "one"), certificate(tmp_path, "other")
    with pytest.raises(StateError, match=r"one\.pem with the key .*other\.key cannot be used"):
        tls.serving(one.path, other.key)
    with pytest.raises(StateError, match=r"missing\.pem of `tls_ca` cannot be read"):
        tls.pinned(None, None, tmp_path / "missing.pem")
    (tmp_path / "words").write_text("no certificate")
    with pytest.raises(StateError, match="no certificate in PEM"):
        tls.pinned(None, None, tmp_path / "words")


def test_a_key_with_a_password_is_refused_and_not_asked_for(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as s

    one = certificate(tmp_path, "one")
    key = s.load_pem_private_key(one.key.read_bytes(), None)
    locked = key.private_bytes(
        s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"secret")
    )
    one.key.write_bytes(locked)
    with pytest.raises(StateError, match="locked with a password"):
        tls.serving(one.path, one.key)
