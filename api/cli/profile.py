"""The client's memory: which control plane, and a token for each; a file only its owner can read.

ROOST_URL and ROOST_TOKEN win over it. A token is never an argument of a command, where other people
on the machine could read it.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from provisioner.errors import StateError, UnauthenticatedError

DEFAULT_URL = "http://127.0.0.1:8470"


@dataclass(frozen=True, slots=True)
class Profile:
    """The current control plane's URL, and by URL the tokens and who vouches for it."""

    current: str | None = None
    tokens: dict[str, str] = field(default_factory=dict)
    authorities: dict[str, str] = field(default_factory=dict)
    """PEM text of the only certificates to trust there; those of the system where none is."""

    def with_token(self, url: str, token: str, ca: str | None = None) -> Profile:
        """Know `token` for `url`, and make `url` the current one; `ca` is PEM text."""
        others = {key: value for key, value in self.authorities.items() if key != url}
        return Profile(
            url, {**self.tokens, url: token}, others if ca is None else {**others, url: ca}
        )

    def moved(self, old: str, new: str) -> Profile:
        """The control plane at `old` is at `new` now."""
        tokens, authorities = dict(self.tokens), dict(self.authorities)
        for known in (tokens, authorities):
            if old in known:
                known[new] = known.pop(old)
        current = new if self.current == old else self.current
        return replace(self, current=current, tokens=tokens, authorities=authorities)


def profile_file() -> Path:
    """Where the profile lies: the user's config folder."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "roost" / "client.json"


def load() -> Profile:
    """The stored profile; an empty one when there is none."""
    path = profile_file()
    try:
        body = json.loads(path.read_text())
        return Profile(body["current"], dict(body["tokens"]), dict(body.get("authorities", {})))
    except FileNotFoundError:
        return Profile()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"The client profile {path} cannot be read: {error}.",
            remedy="Remove it and use `roost login`.",
        ) from error


def save(profile: Profile) -> None:
    """Store `profile`, whole or not at all, for its owner only."""
    path = profile_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp makes the file 0600 from its first moment on.
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".client-")
        with os.fdopen(handle, "w") as file:
            json.dump(asdict(profile), file, indent=1)
        Path(temporary).replace(path)
    except OSError as error:
        raise StateError(
            f"The client profile {path} cannot be written: {error.strerror}.",
            remedy="Correct the folder's permissions, or use ROOST_URL and ROOST_TOKEN.",
        ) from error


def choose() -> tuple[str, str]:
    """The URL and the token to use.

    Raises:
        UnauthenticatedError: no token is known for the URL.
    """
    profile = load()
    url = tidy(os.environ.get("ROOST_URL") or profile.current or DEFAULT_URL)
    token = os.environ.get("ROOST_TOKEN") or profile.tokens.get(url)
    if token is None:
        raise UnauthenticatedError(
            f"No token is known for the control plane at {url}.",
            remedy="Use `roost login`, or start a control plane here with `roost up`.",
        )
    return url, clean_token(token)


def authority(url: str) -> str | None:
    """PEM text of the only certificates to trust at `url`; ROOST_CA_FILE wins over what is stored.

    Raises:
        StateError: the file cannot be read.
    """
    named = os.environ.get("ROOST_CA_FILE")
    return load().authorities.get(url) if not named else read_authority(Path(named))


def read_authority(path: Path) -> str:
    """The text of a PEM file. Raises `StateError`."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(
            f"The certificates in {path} cannot be read: {error}.",
            remedy="Name a PEM file: the control plane's `tls_ca` or its own certificate.",
        ) from error


def tidy(url: str) -> str:
    """`url` in the one form it is remembered by."""
    url = url.strip().rstrip("/")
    return url if "://" in url else f"http://{url}"


def clean_token(text: str) -> str:
    """A token as it was pasted, without what is around it."""
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UnauthenticatedError(
            "This is no token: it must be one word.", remedy="Paste it as `roost up` showed it."
        )
    return token
