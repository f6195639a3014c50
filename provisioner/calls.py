"""How provider calls are made: in threads in the product, inline where time is virtual.

One pool a provider, so that a provider that hangs delays nobody else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Protocol, TypeVar, cast

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Calls(Protocol):
    """Runs what may take long."""

    def gather(self, questions: Mapping[str, Callable[[], T]], timeout_s: float) -> Mapping[str, T]:
        """The answers by provider, asked all at once; one that takes too long is left out."""
        ...

    def send(self, provider: str, work: Callable[[], None]) -> None:
        """Run `work` without waiting for it."""
        ...

    def close(self) -> None: ...


class InlineCalls:
    """Everything at once, in the caller's thread."""

    def gather(self, questions: Mapping[str, Callable[[], T]], timeout_s: float) -> Mapping[str, T]:
        return {provider: ask() for provider, ask in questions.items()}

    def send(self, provider: str, work: Callable[[], None]) -> None:
        work()

    def close(self) -> None:
        return


class ThreadedCalls:
    """Two pools a provider: listings never queue behind slow launches."""

    def __init__(self, workers: int = 8) -> None:
        self._workers = workers
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._lock = threading.Lock()
        self._asked: dict[str, Future[object]] = {}
        self._late: set[str] = set()

    def gather(self, questions: Mapping[str, Callable[[], T]], timeout_s: float) -> Mapping[str, T]:
        """A question still under way is not asked again: its answer is given when it comes."""
        for provider, ask in questions.items():
            if provider not in self._asked:
                self._asked[provider] = self._pool(f"{provider}-ask", 1).submit(ask)
        fresh = [self._asked[p] for p in questions if p not in self._late]
        wait(fresh, timeout_s)
        answers: dict[str, T] = {}
        for provider in questions:
            future = self._asked[provider]
            if future.done():
                del self._asked[provider]
                self._late.discard(provider)
                answers[provider] = cast(T, future.result())
            else:
                self._late.add(provider)
        return answers

    def send(self, provider: str, work: Callable[[], None]) -> None:
        future = self._pool(provider, self._workers).submit(work)
        future.add_done_callback(_log_failure)

    def close(self) -> None:
        with self._lock:
            for pool in self._pools.values():
                pool.shutdown(wait=True, cancel_futures=True)
            self._pools.clear()

    def _pool(self, name: str, workers: int) -> ThreadPoolExecutor:
        with self._lock:
            if name not in self._pools:
                self._pools[name] = ThreadPoolExecutor(workers, thread_name_prefix=name)
            return self._pools[name]


def _log_failure(future: Future[None]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        _log.error("a provider call's bookkeeping failed", exc_info=error)
