"""Notices of EC2's instance metadata service, version 2 (EC2 User Guide, "Spot interruptions").

`spot/termination-time`, which is kept there for old programs, says nothing that is not in
`spot/instance-action` and is not read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from trainer_agent.supervise.metadata_service import ADDRESS, MetadataError, Reply, ask
from trainer_agent.supervise.notices import Notice
from trainer_agent.supervise.wire import read_time

_ACTION = "/latest/meta-data/spot/instance-action"
_REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
_TOKEN = "/latest/api/token"  # noqa: S105 (a path)
_TOKEN_TTL_S = 21600  # the longest that is granted
_UNAUTHORIZED, _NOT_FOUND, _OK = 401, 404, 200


class AwsMetadata:
    """Needs a session token, which ends after hours and is fetched again then."""

    pause_s = 5.0
    """As the vendor's page advises."""

    def __init__(self, address: str = ADDRESS) -> None:
        self._address = address
        self._token: str | None = None

    def look(self) -> Sequence[Notice]:
        # First and alone: a fault in what else is asked must not cost the two minutes.
        action = self._get(_ACTION)
        if action is not None:
            return (Notice("reclaim", "aws", _deadline(action)),)
        return (Notice("rebalance", "aws"),) if self._get(_REBALANCE) is not None else ()

    def _get(self, path: str) -> Reply | None:
        """None where there is nothing, which is the usual answer."""
        reply = self._ask(path)
        if reply.status == _UNAUTHORIZED:
            self._token = None
            reply = self._ask(path)
        if reply.status == _NOT_FOUND:
            return None
        if reply.status != _OK:
            raise MetadataError(f"{path}: HTTP {reply.status}")
        return reply

    def _ask(self, path: str) -> Reply:
        if self._token is None:
            ttl = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_TTL_S)}
            reply = ask(self._address, _TOKEN, ttl, method="PUT")
            if reply.status != _OK:
                raise MetadataError(f"{_TOKEN}: HTTP {reply.status}")
            self._token = reply.text
        return ask(self._address, path, {"X-aws-ec2-metadata-token": self._token})


def _deadline(reply: Reply) -> datetime | None:
    try:
        return read_time(json.loads(reply.text)["time"])
    except (ValueError, LookupError, TypeError):
        return None  # that it is there is notice enough
