"""What AWS says about the future of machines: EventBridge's events in an SQS queue.

A message is deleted by the next question, not by the one that it answers: so it comes again when
the control plane falls before it has written down what it said (P19).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from provisioner.errors import ProviderError
from provisioner.providers.aws.session import Aws
from provisioner.providers.contract import Notice, NoticeKind

RECLAIM = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"
NOTICE_S = 120.0
"""How long before the end the warning comes, at best."""
_MOST_AT_ONCE = 10
_MOST_BATCHES = 20
_log = logging.getLogger(__name__)


class Notices:
    """The queues of one account, by region."""

    def __init__(self, aws: Aws, queues: Mapping[str, str]) -> None:
        self._aws = aws
        self._queues = queues
        self._told: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def take(self) -> list[Notice]:
        """What has been said since it was asked last.

        Raises:
            ProviderError: no queue could be read.
        """
        found: list[Notice] = []
        failure: ProviderError | None = None
        with self._lock:
            for region, queue in self._queues.items():
                try:
                    self._forget(region, queue)
                    found += self._receive(region, queue)
                except ProviderError as error:
                    _log.warning("the notices of AWS %s cannot be read: %s", region, error)
                    failure = error
        if failure is not None and not found:
            raise failure
        return found

    def _receive(self, region: str, queue: str) -> list[Notice]:
        found = []
        told = self._told.setdefault(region, [])
        for _ in range(_MOST_BATCHES):
            answer = self._aws.call(
                "sqs", region, "receive_message", QueueUrl=queue, MaxNumberOfMessages=_MOST_AT_ONCE
            )
            messages = answer.get("Messages", ())
            told.extend(message["ReceiptHandle"] for message in messages)
            found += [one for one in map(_notice, messages) if one is not None]
            if not messages:
                break
        return found

    def _forget(self, region: str, queue: str) -> None:
        told = self._told.get(region, [])
        while told:
            batch = told[:_MOST_AT_ONCE]
            self._aws.call(
                "sqs",
                region,
                "delete_message_batch",
                QueueUrl=queue,
                Entries=[
                    {"Id": str(number), "ReceiptHandle": handle}
                    for number, handle in enumerate(batch)
                ],
            )
            del told[:_MOST_AT_ONCE]


def _notice(message: Mapping[str, Any]) -> Notice | None:
    """The notice in a message; None for other events, such as changes of state."""
    try:
        event = json.loads(message["Body"])
        kind, detail = event["detail-type"], event["detail"]
        if kind not in (RECLAIM, REBALANCE):
            return None
        at = datetime.fromisoformat(event["time"])
        machine = str(detail["instance-id"])
    except (ValueError, KeyError, TypeError) as error:
        _log.warning("a message of the notices' queue is no event of EC2: %r", error)
        return None
    if kind == REBALANCE:
        return Notice(machine, NoticeKind.REBALANCE, at)
    return Notice(machine, NoticeKind.RECLAIM, at, at + timedelta(seconds=NOTICE_S))
