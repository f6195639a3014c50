"""The test cloud: EC2 and the services beside it as moto has them, made to behave as AWS does.

Where moto deviates from AWS and this does not mend it is written down in `README.md`.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES

from tests.clouds.aws import market, prices
from tests.clouds.aws.account import Account
from tests.clouds.aws.clock import CloudClock
from tests.clouds.aws.fleets import Fleets
from tests.clouds.aws.knobs import Knobs
from tests.clouds.aws.lives import Life, Lives, born_pending
from tests.clouds.aws.refusals import Refusals
from tests.clouds.aws.rules import Rule, Rules, refused
from tests.clouds.aws.spot import Spot
from tests.clouds.aws.tokens import Tokens
from tests.clouds.aws.wire import Answer, Request, ec2

_LISTS = ("DescribeInstances",)
_CATALOGUE = ("GetProducts", "DescribeInstanceTypes", "DescribeInstanceTypeOfferings")
"""What never changes: worked out once for each question."""
Handler = Callable[[Request], Answer]


class Cloud:
    """One account. Calls are answered one at a time, as moto knows no threads."""

    def __init__(self) -> None:
        born_pending()
        self.clock = CloudClock()
        self.knobs = Knobs()
        self.rules = Rules()
        self._account = Account()
        self._lives = Lives(self._account, self.clock, self.knobs)
        self._refusals = Refusals(self._account, self._lives)
        self._fleets = Fleets(self._account, self._lives, self._refusals)
        self._spot = Spot(self._account, self._lives)
        self._tokens = Tokens()
        self._catalogue: dict[tuple[str, str, str], Answer] = {}
        self._lock = threading.RLock()
        self._handlers: dict[str, Handler] = {
            "StartInstances": self._start,
            "StopInstances": self._stop,
            "TerminateInstances": self._terminate,
            "CreateFleet": self._fleets.create,
            "DescribeSpotInstanceRequests": self._spot.describe,
            "CancelSpotInstanceRequests": self._spot.cancel,
            "DescribeSpotPriceHistory": self._spot_prices,
            "GetProducts": lambda request: market.get_products(request, self.knobs),
            "DescribeInstanceTypeOfferings": self._offerings,
            "ListServiceQuotas": lambda request: market.list_service_quotas(request, self._lives),
        }
        _tell_time(self.clock)

    def handle(self, request: Request) -> Answer | None:
        """The answer of AWS; None cuts the connection."""
        with self._lock:
            rule = self.rules.for_call(request)
        answer = self._ruled(rule, request)
        self.rules.note(request, answer.status if answer else 0)
        return answer

    # ---- the controls

    def reset(self) -> None:
        """An empty account in which everything works and takes no time."""
        with self._lock:
            for part in (self.rules, self._lives, self._spot, self._tokens):
                part.clear()
            self.set_knobs(asdict(Knobs()))
            self.clock.run()
            self._account.reset()

    def set_rules(self, rules: list[dict[str, Any]]) -> None:
        """These rules instead of the former ones."""
        with self._lock:
            self.rules.rules = [Rule(**rule) for rule in rules]

    def set_knobs(self, values: dict[str, Any]) -> None:
        with self._lock:
            for name, value in values.items():
                if not hasattr(self.knobs, name):
                    raise ValueError(f"there is no knob {name}")
                setattr(self.knobs, name, value)

    def advance(self, seconds: float) -> None:
        with self._lock:
            self.clock.advance(seconds)
            self._catch_up()

    def interrupt(self, instance: str, notice_s: float) -> datetime:
        with self._lock:
            return self._spot.interrupt(self._life(instance), notice_s)

    def rebalance(self, instance: str) -> None:
        with self._lock:
            self._spot.rebalance(self._life(instance))

    def notices_queue(self, region: str) -> str:
        with self._lock:
            return self._account.notices_queue(region)

    def metadata(self, instance: str, path: str) -> Any | None:
        with self._lock:
            self._catch_up()
            return self._spot.metadata(self._life(instance), path)

    def inventory(self) -> dict[str, list[str]]:
        with self._lock:
            self._catch_up()
            return self._account.inventory()

    def instances(self) -> list[dict[str, Any]]:
        """All instances ever, with what ran of them, for who checks the books."""
        with self._lock:
            self._catch_up()
            return [_described(life) for life in self._lives]

    def bill(self, start: datetime, end: datetime) -> dict[str, Decimal]:
        """What each instance cost inside [start, end), up to now: unrounded."""
        with self._lock:
            self._catch_up()
            until = min(end, self._lives.now())
            found: dict[str, Decimal] = defaultdict(Decimal)
            for life in self._lives:
                zone = life.instance.placement.zone
                for run in life.runs:
                    span = max(start, run.start), min(until, run.end or until)
                    if span[0] < span[1]:
                        found[life.id] += prices.cost(run.instance_type, zone, life.market, *span)
            return dict(found)

    # ---- the calls

    def _ruled(self, rule: Rule | None, request: Request) -> Answer | None:
        if rule is None:
            return self._answered(request)
        told = refused(rule, request)
        if told is not None:
            return told
        if rule.drop:
            return None
        answer = self._answered(request)
        return None if rule.drop_after else answer

    def _answered(self, request: Request) -> Answer:
        with self._lock:
            if request.service == "ec2":
                self._account.region(request.region)
            self._catch_up()
            if request.action not in _CATALOGUE:
                return self._tokens.once(request, lambda: self._called(request))
            asked = repr((sorted(request.form.items()), self.knobs.types))
            question = (request.region, request.action, asked)
            if question not in self._catalogue:
                self._catalogue[question] = self._called(request)
            return self._catalogue[question]

    def _called(self, request: Request) -> Answer:
        if request.service == "ec2":
            told = self._refusals.of(request)
            if told is not None:
                return told
        handler = self._handlers.get(request.action)
        if handler is not None:
            answer = handler(request)
        elif request.action in _LISTS and not request.values("InstanceId"):
            answer = self._listed(request)
        else:
            answer = self._account.ask(request)
        if request.action == "RunInstances":
            self._lives.adopt(request.region)
        self._catch_up()
        return answer

    def _listed(self, request: Request) -> Answer:
        """Without the instances that lists do not show yet."""
        reservations = self._account.region(request.region).reservations
        hidden = self._lives.hidden(request.region, self.knobs.lag_s)
        away = {name: one for name, one in reservations.items() if one.instances[0].id in hidden}
        for name in away:
            del reservations[name]
        try:
            return self._account.ask(request.smaller_page(self.knobs.page))
        finally:
            reservations.update(away)

    def _start(self, request: Request) -> Answer:
        return self._changed(request, self._lives.start)

    def _stop(self, request: Request) -> Answer:
        hibernate = request.form.get("Hibernate") == "true"
        return self._changed(request, lambda life: self._lives.stop(life, hibernate=hibernate))

    def _terminate(self, request: Request) -> Answer:
        return self._changed(request, self._lives.end)

    def _changed(self, request: Request, change: Callable[[Life], None]) -> Answer:
        items = ""
        for life in map(self._life, request.values("InstanceId")):
            before = life.state
            change(life)
            items += (
                f"<item><instanceId>{life.id}</instanceId>"
                f"<currentState><name>{life.state}</name></currentState>"
                f"<previousState><name>{before}</name></previousState></item>"
            )
        return ec2(request, f"<instancesSet>{items}</instancesSet>")

    def _offerings(self, request: Request) -> Answer:
        names = filter(self.knobs.has_type, INSTANCE_TYPES)
        values = {f"Filter.1.Value.{number}": name for number, name in enumerate(names, 1)}
        narrowed = request.form | {"Filter.1.Name": "instance-type"} | values
        return self._account.ask(request.saying(narrowed))

    def _spot_prices(self, request: Request) -> Answer:
        return market.spot_price_history(request, self.clock.now(), self.knobs.page)

    def _catch_up(self) -> None:
        self._lives.catch_up()
        self._spot.tell_changes()

    def _life(self, instance: str) -> Life:
        life = self._lives.get(instance)
        if life is None:
            raise ValueError(f"there is no instance {instance}")
        return life


def _described(life: Life) -> dict[str, Any]:
    told = life.instance.user_data or ""
    return {
        "id": life.id,
        "region": life.region,
        "zone": life.instance.placement.zone,
        "type": life.instance.instance_type,
        "market": life.market,
        "state": life.state,
        "user_data": told if isinstance(told, str) else told.as_bytes().decode(),
        "tags": {tag["key"]: tag["value"] for tag in life.instance.get_tags()},
        "runs": [
            [run.start.isoformat(), run.end.isoformat() if run.end else None] for run in life.runs
        ],
    }


def _tell_time(clock: CloudClock) -> None:
    """Have moto's models of EC2 read the cloud's clock."""

    def now() -> datetime:
        return clock.now().replace(tzinfo=None)

    for name, module in list(sys.modules.items()):
        if name.startswith("moto.ec2.") and hasattr(module, "utcnow"):
            vars(module)["utcnow"] = now
