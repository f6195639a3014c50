"""One host as the provider speaks to it: calls of the contract, carried out by its own program."""

from __future__ import annotations

import json
import shlex
from typing import Any, TypeVar

from policies.codec import CodecError, value_from_json, value_to_json
from provisioner import errors
from provisioner.errors import ProviderError
from provisioner.providers.contract import LaunchRequest, Machine
from provisioner.providers.local.remote import HostTerms, Look, PricesOf, PriceSpan
from provisioner.providers.ssh.connection import Connection, Ended, Loop
from provisioner.providers.ssh.program import MISSING, RUN, UNPACK, program
from provisioner.providers.ssh.settings import HostSettings

T = TypeVar("T")
LOOK_TIMEOUT_S = 8.0
CALL_TIMEOUT_S = 90.0
"""A boot may take a minute."""


class Host:
    """Speaks to one host; any number of threads may do so at once."""

    def __init__(
        self, settings: HostSettings, currency: str, installation: str, loop: Loop
    ) -> None:
        self.settings = settings
        self.name = settings.name
        self._connection = Connection(settings, loop)
        self._installation = installation
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

    def look(self) -> Look:
        return self._read(self._call("look", None, LOOK_TIMEOUT_S, changes=False), Look)

    def launch(self, request: LaunchRequest) -> Machine:
        answer = self._call("launch", value_to_json(request), CALL_TIMEOUT_S, changes=True)
        return self._read(answer, Machine)

    def prices(self, span: PriceSpan) -> PricesOf:
        answer = self._call("prices", value_to_json(span), LOOK_TIMEOUT_S, changes=False)
        return self._read(answer, PricesOf)

    def act(self, call: str, id: str) -> None:
        """`start`, `stop`, `terminate` or `delete_volume`."""
        self._call(call, id, CALL_TIMEOUT_S, changes=True)

    def close(self) -> None:
        self._connection.close()

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
        if ended.code != 0:
            raise ProviderError(
                f"host {self.name} cannot answer: {_last_line(ended)}",
                remedy=f"Check that `{self.settings.python}` is Python 3.11 or later there and "
                f"that {self.settings.folder} can be written.",
            )
        return self._answer(ended)

    def _install(self) -> None:
        ended = self._python(UNPACK, program().packed, CALL_TIMEOUT_S, changes=False)
        if ended.code != 0:
            raise ProviderError(
                f"host {self.name} cannot be given its program: {_last_line(ended)}",
                remedy="Mend that on the host.",
            )

    def _python(self, code: str, given: bytes, timeout_s: float, *, changes: bool) -> Ended:
        """Run our code there; what is secret goes through stdin and is no argument."""
        words = (self.settings.python, "-I", "-S", "-c", code)
        folder, sha256 = self.settings.folder, program().sha256
        command = shlex.join((*words, folder, sha256))
        return self._connection.run(command, given, timeout_s, changes=changes)

    def _answer(self, ended: Ended) -> Any:
        try:
            told = json.loads(ended.stdout)
        except ValueError as error:
            raise ProviderError(f"host {self.name} answers with what is no JSON") from error
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
