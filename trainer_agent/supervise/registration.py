"""Makes the machine known to the control plane, once in the life of its disk."""

from __future__ import annotations

import logging
from pathlib import Path

import trainer_agent
from trainer_agent.supervise.boot_parts import BootParts
from trainer_agent.supervise.client import ControlPlane
from trainer_agent.supervise.identity import Boot, Identity
from trainer_agent.supervise.settings import SettingsError
from trainer_agent.supervise.telemetry import facts, hostname
from trainer_agent.supervise.wire import PROTOCOL, WireError

_log = logging.getLogger(__name__)


class Registration:
    """Trades the one-time bootstrap token for trust in the token that this machine drew.

    A lost answer does no harm: the same hash may be told again.
    """

    def __init__(
        self,
        control: ControlPlane,
        identity: Identity,
        boot: Boot,
        bootstrap_token: Path,
        boot_parts: BootParts,
    ) -> None:
        self._control = control
        self._identity = identity
        self._boot = boot
        self._bootstrap_token = bootstrap_token
        self._boot_parts = boot_parts

    def needed(self) -> bool:
        """Whether it has still to be done; raises `SettingsError` when it cannot be."""
        if self._identity.registered:
            self._bootstrap_token.unlink(missing_ok=True)  # each boot brings it again
            return False
        if not self._bootstrap_token.exists():
            raise SettingsError(
                f"not registered, and there is no bootstrap token at {self._bootstrap_token}; "
                "run the machine's bootstrap script again"
            )
        return True

    def register(self) -> None:
        """One try. Raises `CallError` or `WireError`."""
        body = {
            "protocol": PROTOCOL,
            "instance_id": self._identity.instance_id,
            "token_sha256": self._identity.token_sha256,
            "boot_id": self._boot.id,
            "agent_version": trainer_agent.__version__,
            "hostname": hostname(),
            "facts": facts() | {"boot_s": self._boot_parts.read()},
        }
        bootstrap_token = self._bootstrap_token.read_text().strip()
        reply = self._control.post("/v1/agent/register", body, bootstrap_token)
        if reply.get("protocol") != PROTOCOL:
            raise WireError(f"the control plane speaks protocol {reply.get('protocol')!r}")
        self._identity.mark_registered()
        self._bootstrap_token.unlink(missing_ok=True)
        _log.info("registered as %s", self._identity.instance_id)
