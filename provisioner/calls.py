"""How provider calls are made: in threads in the product, inline where time is virtual.

One pool a provider, so that a provider that hangs delays nobody else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Protocol, TypeVar

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Calls(Protocol):
    """Runs what may take long."""

    def ask(self, provider: str, work: Callable[[], T], timeout_s: float) -> T:
        """The result of `work`; `TimeoutError` when it takes longer."""
        ...

    def send(self, provider: str, work: Callable[[], None]) -> None:
        """Run `work` without waiting for it."""
        ...

    def close(self) -> None: ...


class InlineCalls:
    """Everything at once, in the caller's thread."""

    def ask(self, provider: str, work: Callable[[], T], timeout_s: float) -> T:
        return work()

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
        self._hanging: dict[str, Future[object]] = {}

    def ask(self, provider: str, work: Callable[[], T], timeout_s: float) -> T:
        before = self._hanging.get(provider)
        if before is not None and not before.done():
            raise TimeoutError(f"{provider} still hangs over an earlier question")
        future = self._pool(f"{provider}-ask", 2).submit(work)
        try:
            return future.result(timeout_s)
        except FutureTimeoutError:
            self._hanging[provider] = future  # type: ignore[assignment]
            raise TimeoutError(f"{provider} did not answer within {timeout_s:.0f} s") from None

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
