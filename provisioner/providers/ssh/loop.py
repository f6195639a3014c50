"""An event loop in a thread of its own, for the sync world around it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

T = TypeVar("T")


class Loop:
    """Runs coroutines for any number of other threads at once."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closed = False
        self._scheduling = threading.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ssh", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result. What is under way when the loop closes, or comes later, is cancelled.

        Raises whatever `work` raises, or `concurrent.futures.CancelledError`.
        """
        with self._scheduling:
            if self._closed:
                work.close()
                raise CancelledError("it is closed")
            result = asyncio.run_coroutine_threadsafe(work, self._loop)
        return result.result()

    def close(self) -> None:
        with self._scheduling:
            if self._closed:
                return
            self._closed = True
            ended = asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop)
        ended.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
