"""Spot: its requests, and how the market takes an instance back."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.clouds.aws.account import Account
from tests.clouds.aws.lives import RECLAIM, Life, Lives
from tests.clouds.aws.wire import Answer, Request, ec2, refusal

WARNING = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"
STATE_CHANGE = "EC2 Instance State-change Notification"


class Spot:
    """Spot requests and interruptions."""

    def __init__(self, account: Account, lives: Lives) -> None:
        self._account = account
        self._lives = lives
        self._rebalanced: dict[str, datetime] = {}
        self._told: dict[str, str] = {}

    def clear(self) -> None:
        self._rebalanced.clear()
        self._told.clear()

    def rebalance(self, life: Life) -> None:
        """Say that its end has become likelier."""
        self._rebalanced[life.id] = self._lives.now()
        self._event(life, REBALANCE, {"instance-id": life.id})

    def interrupt(self, life: Life, notice_s: float) -> datetime:
        """Take it after a warning of so many seconds, 0: without one; returns when."""
        at = self._lives.now() + timedelta(seconds=notice_s)
        if notice_s > 0:
            life.reclaim_at = at
            detail = {"instance-id": life.id, "instance-action": "terminate"}
            self._event(life, WARNING, detail)
        else:
            self._lives.end(life, RECLAIM)
        return at

    def tell_changes(self) -> None:
        """Send an event for each state that has changed since the last call."""
        for life in self._lives:
            if self._told.get(life.id) != life.state:
                self._told[life.id] = life.state
                self._event(life, STATE_CHANGE, {"instance-id": life.id, "state": life.state})

    def metadata(self, life: Life, path: str) -> Any | None:
        """What the instance reads of itself at `/latest/meta-data/`; None is 404."""
        if path == "instance-id":
            return life.id
        if path == "spot/instance-action" and life.reclaim_at is not None:
            return {"action": "terminate", "time": f"{life.reclaim_at:%Y-%m-%dT%H:%M:%SZ}"}
        if path == "spot/termination-time" and life.reclaim_at is not None:
            return f"{life.reclaim_at:%Y-%m-%dT%H:%M:%SZ}"
        if path == "events/recommendations/rebalance" and life.id in self._rebalanced:
            return {"noticeTime": f"{self._rebalanced[life.id]:%Y-%m-%dT%H:%M:%SZ}"}
        return None

    def describe(self, request: Request) -> Answer:
        """DescribeSpotInstanceRequests."""
        wanted = set(request.values("SpotInstanceRequestId"))
        found = [
            life
            for life in self._lives
            if life.spot_request
            and life.region == request.region
            and (not wanted or life.spot_request in wanted)
        ]
        unknown = wanted - {life.spot_request for life in found}
        if unknown:
            return refusal(request, "InvalidSpotInstanceRequestID.NotFound", str(unknown))
        items = "".join(
            f"<item><spotInstanceRequestId>{life.spot_request}</spotInstanceRequestId>"
            f"<instanceId>{life.id}</instanceId><type>one-time</type>"
            f"<state>{_request_state(life)}</state></item>"
            for life in found
        )
        return ec2(request, f"<spotInstanceRequestSet>{items}</spotInstanceRequestSet>")

    def cancel(self, request: Request) -> Answer:
        """CancelSpotInstanceRequests: the instance lives on."""
        wanted = request.values("SpotInstanceRequestId")
        lives = {life.spot_request: life for life in self._lives}
        if any(one not in lives for one in wanted):
            return refusal(request, "InvalidSpotInstanceRequestID.NotFound", str(wanted))
        for one in wanted:
            lives[one].cancelled = True
        items = "".join(
            f"<item><spotInstanceRequestId>{one}</spotInstanceRequestId><state>cancelled</state>"
            "</item>"
            for one in wanted
        )
        return ec2(request, f"<spotInstanceRequestSet>{items}</spotInstanceRequestSet>")

    def _event(self, life: Life, kind: str, detail: dict[str, str]) -> None:
        self._account.put_event(
            life.region,
            {
                "version": "0",
                "source": "aws.ec2",
                "detail-type": kind,
                "time": f"{self._lives.now():%Y-%m-%dT%H:%M:%SZ}",
                "region": life.region,
                "detail": detail,
            },
        )


def _request_state(life: Life) -> str:
    if life.cancelled:
        return "cancelled"
    return "closed" if life.state in ("shutting-down", "terminated") else "active"
