"""Notices of Azure's Scheduled Events (its page "Scheduled Events for Linux VMs").

They are acknowledged nowhere: that would only let the machine be taken sooner.
"""

from __future__ import annotations

import email.utils
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from trainer_agent.supervise.metadata_service import ADDRESS, MetadataError, ask
from trainer_agent.supervise.notices import Notice

_EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
_NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
_HEADERS = {"Metadata": "true"}
_TIMEOUT_S = 10.0
"""The first call switches the service on, which takes its time."""
_OK = 200


class AzureMetadata:
    """Events are told to all machines of a group, so each looks for its own name in them."""

    pause_s = 1.0
    """As the vendor's page advises."""

    def __init__(self, address: str = ADDRESS) -> None:
        self._address = address
        self._name: str | None = None

    def look(self) -> Sequence[Notice]:
        if self._name is None:
            self._name = self._get(_NAME)
        try:
            events = json.loads(self._get(_EVENTS))["Events"]
            ours = [event for event in events if _is_preemption(event, self._name)]
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise MetadataError(f"{_EVENTS}: not understood: {error}") from None
        return tuple(Notice("reclaim", "azure", _not_before(event)) for event in ours)

    def _get(self, path: str) -> str:
        reply = ask(self._address, path, _HEADERS, timeout_s=_TIMEOUT_S)
        if reply.status != _OK:
            raise MetadataError(f"{path}: HTTP {reply.status}")
        return reply.text


def _is_preemption(event: dict[str, Any], name: str) -> bool:
    return event["EventType"] == "Preempt" and name in event["Resources"]


def _not_before(event: dict[str, Any]) -> datetime | None:
    """None once it has begun: then the field is empty."""
    try:
        at = email.utils.parsedate_to_datetime(event.get("NotBefore") or "")
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
