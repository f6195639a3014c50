"""Client tokens: equal calls with one token are one call, as EC2 keeps it for RunInstances & co."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from tests.clouds.aws.wire import Answer, Request, refusal

ACTIONS = ("RunInstances", "CreateVolume", "CreateFleet")


class Tokens:
    """What was answered to each token, by region."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[str, Answer]] = {}

    def clear(self) -> None:
        self._known.clear()

    def once(self, request: Request, call: Callable[[], Answer]) -> Answer:
        """The first answer again for an equal call; another call under its token is refused."""
        token = request.form.get("ClientToken")
        if request.action not in ACTIONS or not token:
            return call()
        key = (request.region, request.action, str(token))
        parameters = hashlib.sha256(repr(sorted(request.form.items())).encode()).hexdigest()
        if key in self._known:
            known, answer = self._known[key]
            if known != parameters:
                return refusal(request, "IdempotentParameterMismatch")
            return answer
        answer = call()
        if answer.status == 200 and b"<errorCode>" not in answer.body:
            self._known[key] = (parameters, answer)
        return answer
