"""The client's memory: which control plane, and a token for each; a file only its owner can read.

ROOST_URL and ROOST_TOKEN win over it. A token is never an argument of a command, where other people
on the machine could read it.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from provisioner.errors import StateError, UnauthenticatedError

DEFAULT_URL = "http://127.0.0.1:8470"


@dataclass(frozen=True, slots=True)
class Profile:
    """The current control plane's URL, and the tokens by URL."""

    current: str | None = None
    tokens: dict[str, str] = field(default_factory=dict)

    def with_token(self, url: str, token: str) -> Profile:
        """Know `token` for `url`, and make `url` the current one."""
        return Profile(url, {**self.tokens, url: token})

    def moved(self, old: str, new: str) -> Profile:
        """The control plane at `old` is at `new` now."""
        tokens = dict(self.tokens)
        if old in tokens:
            tokens[new] = tokens.pop(old)
        return replace(self, current=new if self.current == old else self.current, tokens=tokens)


def profile_file() -> Path:
    """Where the profile lies: the user's config folder."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "roost" / "client.json"


def load() -> Profile:
    """The stored profile; an empty one when there is none."""
    path = profile_file()
    try:
        body = json.loads(path.read_text())
        return Profile(body["current"], dict(body["tokens"]))
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
            json.dump({"current": profile.current, "tokens": profile.tokens}, file, indent=1)
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
