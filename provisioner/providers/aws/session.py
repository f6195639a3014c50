"""All calls to AWS go through here: one session, one limiter, one translation of errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import boto3  # type: ignore[import-untyped]
import botocore.session  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]

from provisioner.providers.aws.errors import DEFINITE, NOT_SENT, REFUSED, translated
from provisioner.providers.aws.instance_parser import InstanceParserFactory
from provisioner.providers.aws.limiter import Limiter
from provisioner.providers.aws.settings import AwsSettings

T = TypeVar("T")
Answer = dict[str, Any]
ATTEMPTS = 8
"""With fewer, throttling that AWS itself would have let through surfaces as errors; botocore's
adaptive mode stalls healthy calls for minutes."""
_CONNECT_TIMEOUT_S = 5
_READ_TIMEOUT_S = 15
_CONNECTIONS = 32
_PAGES = {
    "describe_instances": 1000,
    "describe_volumes": 500,
    "describe_snapshots": 1000,
    "describe_security_groups": 1000,
    "describe_instance_type_offerings": 1000,
    "describe_spot_price_history": 1000,
}
"""Things a page, where AWS would else send all at once and be throttled sooner."""
_READS = ("describe_", "get_", "list_", "receive_")


class Aws:
    """The account's services in all regions. Clients are made once and shared by all threads."""

    def __init__(self, settings: AwsSettings, limiter: Limiter) -> None:
        self._settings = settings
        self._limiter = limiter
        self._session: Any = None
        self._clients: dict[tuple[str, str, bool], Any] = {}
        self._making = threading.Lock()
        self._call = threading.local()

    def call(self, service: str, region: str, action: str, **params: Any) -> Answer:
        """One call, such as `call("ec2", "us-east-1", "stop_instances", InstanceIds=[...])`.

        Raises:
            ProviderError: in all cases.
        """
        return self._called(service, region, action, params)

    def call_once(self, service: str, region: str, action: str, **params: Any) -> Answer:
        """A call that is not repeated unseen: AWS cannot tell a repeat from another request."""
        return self._called(service, region, action, params, once=True)

    def pages(self, service: str, region: str, action: str, **params: Any) -> Iterator[Answer]:
        """All pages of an answer, of the largest size."""

        def begin() -> Iterator[Answer]:
            paginator = self._client(service, region).get_paginator(action)
            size = {"PageSize": _PAGES[action]} if action in _PAGES else {}
            return iter(paginator.paginate(PaginationConfig=size, **params))

        asked = self._translating(service, region, action, begin)
        while page := self._translating(service, region, action, lambda: next(asked, None)):
            yield page

    def _called(
        self, service: str, region: str, action: str, params: Answer, *, once: bool = False
    ) -> Answer:
        def made() -> Answer:
            answer: Answer = getattr(self._client(service, region, once), action)(**params)
            return answer

        return self._translating(service, region, action, made)

    def _translating(self, service: str, region: str, action: str, made: Callable[[], T]) -> T:
        self._call.sent = False
        try:
            return made()
        except (BotoCoreError, ClientError, ResponseParserError, ValueError) as error:
            changes = not action.startswith(_READS)
            what = f"AWS {region}, {service} {action.replace('_', ' ')}"
            raise translated(error, what, changes=changes, sent=self._call.sent) from error

    def _client(self, service: str, region: str, once: bool = False) -> Any:
        key = (service, region, once)
        with self._making:
            if key not in self._clients:
                self._clients[key] = self._made(*key)
            return self._clients[key]

    def _made(self, service: str, region: str, once: bool) -> Any:
        if self._session is None:
            self._session = self._new_session()
        client = self._session.client(
            service,
            region_name=region,
            endpoint_url=self._settings.endpoint_url,
            config=Config(
                retries={"mode": "standard", "total_max_attempts": 1 if once else ATTEMPTS},
                connect_timeout=_CONNECT_TIMEOUT_S,
                read_timeout=_READ_TIMEOUT_S,
                max_pool_connections=_CONNECTIONS,
                user_agent_extra="roost",
            ),
        )
        events = client.meta.events
        name = client.meta.service_model.service_id.hyphenize()
        # `before-send` is inside botocore's loop of retries: each attempt takes a token.
        events.register(f"before-send.{name}", partial(self._before_send, service, region))
        events.register_first(f"needs-retry.{name}", self._before_retry)
        return client

    def _new_session(self) -> Any:
        core = botocore.session.Session(profile=self._settings.profile)
        core.register_component("response_parser_factory", InstanceParserFactory())
        return boto3.Session(botocore_session=core)

    def _before_send(self, service: str, region: str, event_name: str, **_: Any) -> None:
        self._limiter.wait(service, region, event_name.rpartition(".")[2])

    def _before_retry(self, response: Any, caught_exception: Any, **_: Any) -> None:
        """Notes whether an attempt was left without a clear answer, and ends hopeless retries."""
        if response is None:
            self._call.sent |= not isinstance(caught_exception, NOT_SENT)
            return
        http, parsed = response
        code = parsed.get("Error", {}).get("Code", "")
        if code in DEFINITE:
            # botocore tries again whatever has status 500, and "no capacity" has.
            http.status_code = min(http.status_code, 400)
        elif http.status_code >= 500 and code not in REFUSED:
            self._call.sent = True
