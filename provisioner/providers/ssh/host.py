"""One host as the provider speaks to it: calls of the contract, carried out by its own program."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from policies.codec import CodecError, value_from_json, value_to_json
from provisioner import errors
from provisioner.errors import Ambiguous, ProviderError
from provisioner.providers.contract import LaunchRequest, Machine
from provisioner.providers.local.remote import HostTerms, Look, PricesOf, PriceSpan
from provisioner.providers.ssh.connection import Connection, SshError
from provisioner.providers.ssh.loop import Loop
from provisioner.providers.ssh.settings import HostSettings
from provisioner.providers.ssh.workers import CutOffError, Progress, Workers

T = TypeVar("T")
LOOK_TIMEOUT_S = 20.0
"""Nobody waits for it that long: see `looks`. The first one brings the program there."""
ACT_TIMEOUT_S = 30.0
BOOT_TIMEOUT_S = 90.0
"""A boot may take a minute."""
_THREADS = 4


class Host:
    """Speaks to one host; any number of threads may do so at once."""

    def __init__(
        self, settings: HostSettings, currency: str, installation: str, loop: Loop
    ) -> None:
        self.settings = settings
        self.name = settings.name
        self._loop = loop
        self._connection = Connection(settings)
        self._workers = Workers(settings, self._connection)
        self._installation = installation
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"ssh-{self.name}")
        self._counting = threading.Lock()
        self._changes = 0
        self._terms = HostTerms(
            settings.name,
            currency,
            settings.price_per_cpu_hour,
            settings.price_per_gib_hour,
            settings.price_per_gpu_hour,
            settings.price_per_gib_month,
            settings.overcommit,
            settings.enforce_limits,
            settings.gpus,
        )

    @property
    def changes(self) -> int:
        """Grows as a call that changes something begins and ends: what was seen before is old."""
        return self._changes

    def submit(self, work: Callable[[Host], T]) -> Future[T]:
        """Have it done by one of this host's own threads: a host that hangs takes no other's.

        Raises `ProviderError` once it is closed.
        """
        try:
            return self._threads.submit(work, self)
        except RuntimeError as error:
            raise ProviderError(f"host {self.name} is not asked any more: {error}.") from error

    def look(self) -> Look:
        return self._read(self._call("look", None, LOOK_TIMEOUT_S, changes=False), Look)

    def launch(self, request: LaunchRequest) -> Machine:
        with self._changing():
            answer = self._call("launch", value_to_json(request), BOOT_TIMEOUT_S, changes=True)
        return self._read(answer, Machine)

    def prices(self, span: PriceSpan) -> PricesOf:
        answer = self._call("prices", value_to_json(span), LOOK_TIMEOUT_S, changes=False)
        return self._read(answer, PricesOf)

    def act(self, call: str, id: str) -> None:
        """`start`, `stop`, `terminate` or `delete_volume`."""
        with self._changing():
            timeout_s = BOOT_TIMEOUT_S if call == "start" else ACT_TIMEOUT_S
            self._call(call, id, timeout_s, changes=True)

    def close(self) -> None:
        with contextlib.suppress(CancelledError):  # closed before
            self._loop.run(self._connection.close())
        self._threads.shutdown(wait=False)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        self._count()
        try:
            yield
        finally:
            self._count()

    def _count(self) -> None:
        with self._counting:
            self._changes += 1

    def _call(self, call: str, argument: object, timeout_s: float, *, changes: bool) -> Any:
        """What the host answers.

        Raises:
            AuthError: the host is another than was pinned, or the key is not accepted.
            Ambiguous: no answer came to a call that `changes` something.
            ProviderError: whatever the host raises, or that it cannot be reached.
        """
        asked = {
            "root": self.settings.folder + "/local",
            "installation": self._installation,
            "terms": value_to_json(self._terms),
            "call": call,
            "argument": argument,
        }
        progress = Progress()
        try:
            answer = self._loop.run(self._ask(json.dumps(asked).encode(), timeout_s, progress))
            told = json.loads(answer)
        except (OSError, SshError, CutOffError, CancelledError, ValueError) as error:
            why = str(error) or "it does not answer in time"
            if progress.sent and changes:
                raise Ambiguous(
                    f"no answer came from host {self.name}: {why}.",
                    remedy="It may have happened: its state is looked at before it is tried again.",
                ) from error
            raise ProviderError(
                f"host {self.name} cannot be reached: {why}.", remedy="It is asked again."
            ) from error
        if "error" in told:
            kind = getattr(errors, str(told["error"]), ProviderError)
            kind = kind if issubclass(kind, ProviderError) else ProviderError
            raise kind(f"host {self.name}: {told['message']}", remedy=told["remedy"])
        return told["answer"]

    async def _ask(self, call: bytes, timeout_s: float, progress: Progress) -> bytes:
        async with asyncio.timeout(timeout_s):
            return await self._workers.ask(call, progress)

    def _read(self, answer: Any, kind: type[T]) -> T:
        try:
            return value_from_json(answer, kind)
        except CodecError as error:
            raise ProviderError(f"host {self.name} answers in another form: {error}") from error
