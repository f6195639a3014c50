"""Notices of Google Compute Engine's metadata server (its pages "Preempted instances", "Query VM
metadata"): a flag that is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from trainer_agent.clock import Clock
from trainer_agent.supervise.metadata_service import ADDRESS, MetadataError, ask
from trainer_agent.supervise.notices import Notice

_PREEMPTED = "/computeMetadata/v1/instance/preempted"
_FLAVOR = {"Metadata-Flavor": "Google"}
_NOTICE = timedelta(seconds=30)
"""From the flag to the end of the machine: "up to", so best effort."""
_WAIT_S = 60
_LATE_S = 10.0
_OK = 200


class GceMetadata:
    """Each look but the first waits until the flag changes, for a minute at most."""

    pause_s = 0.5
    """Only for a server that does not wait."""

    def __init__(self, clock: Clock, address: str = ADDRESS) -> None:
        self._address = address
        self._clock = clock
        self._etag: str | None = None
        self._deadline: datetime | None = None

    def look(self) -> Sequence[Notice]:
        query = "?alt=text"
        if self._etag is not None:
            query += f"&wait_for_change=true&timeout_sec={_WAIT_S}&last_etag={self._etag}"
        timeout_s = 2.0 if self._etag is None else _WAIT_S + _LATE_S
        try:
            reply = ask(self._address, _PREEMPTED + query, _FLAVOR, timeout_s=timeout_s)
        except MetadataError:
            self._etag = None  # the next look answers at once
            raise
        if reply.status != _OK or reply.headers.get("metadata-flavor") != "Google":
            self._etag = None
            raise MetadataError(f"{_PREEMPTED}: HTTP {reply.status}")
        self._etag = reply.headers.get("etag")
        if reply.text.upper() != "TRUE":
            return ()
        self._deadline = self._deadline or self._clock.now() + _NOTICE
        return (Notice("reclaim", "gce", self._deadline),)
