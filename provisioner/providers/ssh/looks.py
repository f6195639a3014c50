"""Looks at all hosts at once, none of which holds up the others for long, or twice."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass

from provisioner.errors import ProviderError
from provisioner.providers.local.remote import Look
from provisioner.providers.ssh.host import Host

ANSWER_WITHIN_S = 4.0
_STALE_AFTER_S = 30.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Question:
    answer: Future[Look]
    changes: int
    """The host's count when it was asked."""
    asked_at: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look at all hosts has brought."""

    looks: Mapping[str, Look]
    failures: Mapping[str, ProviderError]


class Looks:
    """Each host has at most one question without an answer.

    A host that did not answer in time is not waited for until it has answered: its answer is taken
    by a later look, if nothing was changed on it meanwhile.
    """

    def __init__(self, hosts: Mapping[str, Host], answer_within_s: float) -> None:
        self._hosts = hosts
        self._answer_within_s = answer_within_s
        self._questions: dict[str, _Question] = {}
        self._late: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def look(self) -> Seen:
        with self._lock:
            before = dict(self._questions)
            for name, host in self._hosts.items():
                if name in before and self._worth(name, before[name]):
                    continue
                if name not in before or before[name].answer.done():
                    changes, now = host.changes, time.monotonic()
                    self._questions[name] = _Question(host.submit(Host.look), changes, now)
            awaited = [q.answer for n, q in self._questions.items() if n not in self._late]
            wait(awaited, self._answer_within_s)
            seen = self._taken(before)
            self._late = (self._late | self._questions.keys()) - seen.looks.keys()
            return seen

    def _worth(self, name: str, question: _Question) -> bool:
        """Whether an answer to this question still says how things are."""
        young = time.monotonic() - question.asked_at < _STALE_AFTER_S
        return young and question.changes == self._hosts[name].changes

    def _taken(self, before: Mapping[str, _Question]) -> Seen:
        looks: dict[str, Look] = {}
        failures: dict[str, ProviderError] = {}
        for name, question in list(self._questions.items()):
            if not question.answer.done():
                failures[name] = ProviderError(f"host {name} has not answered yet.")
                continue
            del self._questions[name]
            try:
                answer = question.answer.result()
            except ProviderError as error:
                _log.warning("%s", error)
                failures[name] = error
                continue
            if question is before.get(name) and not self._worth(name, question):
                failures[name] = ProviderError(
                    f"host {name} answered too late, and is asked again."
                )
            else:
                looks[name] = answer
        return Seen(looks, failures)
