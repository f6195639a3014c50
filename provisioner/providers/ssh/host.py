"""One host as the provider speaks to it: calls of the contract, carried out by its own program."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from policies.codec import CodecError, value_from_json, value_to_json
from provisioner import errors
from provisioner.errors import Ambiguous, ProviderError
from provisioner.providers.contract import LaunchRequest, Machine
from provisioner.providers.local.remote import HostTerms, Look, PricesOf, PriceSpan
from provisioner.providers.ssh.connection import Connection, Ended, Loop
from provisioner.providers.ssh.program import MISSING, RUN, UNPACK, program
from provisioner.providers.ssh.settings import HostSettings

T = TypeVar("T")
LOOK_TIMEOUT_S = 8.0
ACT_TIMEOUT_S = 30.0
BOOT_TIMEOUT_S = 90.0
"""A boot may take a minute."""
_THREADS = 4
_NOT_RUN = (126, 127)
"""What a shell says of a command that it cannot run."""


class Host:
    """Speaks to one host; any number of threads may do so at once."""

    def __init__(
        self, settings: HostSettings, currency: str, installation: str, loop: Loop
    ) -> None:
        self.settings = settings
        self.name = settings.name
        self._connection = Connection(settings, loop)
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
        """Have it done by one of this host's own threads: a host that hangs takes no other's."""
        return self._threads.submit(work, self)

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
        self._connection.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    @contextmanager
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
        asked = {
            "root": self.settings.folder + "/local",
            "installation": self._installation,
            "terms": value_to_json(self._terms),
            "call": call,
            "argument": argument,
        }
        given = json.dumps(asked).encode()
        ended = self._python(RUN, given, timeout_s, changes=changes)
        if ended.code == MISSING:
            self._install()
            ended = self._python(RUN, given, timeout_s, changes=changes)
        if ended.code in _NOT_RUN or (ended.code != 0 and not changes):
            raise ProviderError(
                f"host {self.name} cannot answer: {_last_line(ended)}.",
                remedy=f"Check that `{self.settings.python}` is Python 3.11 or later there and "
                f"that {self.settings.folder} can be written.",
            )
        if ended.code != 0:
            raise Ambiguous(f"host {self.name} broke off: {_last_line(ended)}.")
        return self._answer(ended, changes=changes)

    def _install(self) -> None:
        ended = self._python(UNPACK, program().packed, ACT_TIMEOUT_S, changes=False)
        if ended.code != 0:
            raise ProviderError(
                f"host {self.name} cannot be given its program: {_last_line(ended)}.",
                remedy="Mend that on the host.",
            )

    def _python(self, code: str, given: bytes, timeout_s: float, *, changes: bool) -> Ended:
        """Run our code there; what is secret goes through stdin and is no argument."""
        words = (self.settings.python, "-I", "-S", "-c", code)
        folder, sha256 = self.settings.folder, program().sha256
        command = shlex.join((*words, folder, sha256))
        return self._connection.run(command, given, timeout_s, changes=changes)

    def _answer(self, ended: Ended, *, changes: bool) -> Any:
        """The last line: a shell's startup files may say something before it."""
        try:
            told = json.loads(ended.stdout.splitlines()[-1])
        except (ValueError, IndexError) as error:
            unclear = Ambiguous if changes else ProviderError
            raise unclear(f"host {self.name} answers with what is no JSON.") from error
        if "error" in told:
            kind = getattr(errors, str(told["error"]), ProviderError)
            kind = kind if issubclass(kind, ProviderError) else ProviderError
            raise kind(f"host {self.name}: {told['message']}", remedy=told["remedy"])
        return told["answer"]

    def _read(self, answer: Any, kind: type[T]) -> T:
        try:
            return value_from_json(answer, kind)
        except CodecError as error:
            raise ProviderError(f"host {self.name} answers in another form: {error}") from error


def _last_line(ended: Ended) -> str:
    lines = ended.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit code {ended.code}"
