"""Commands of the control plane: each is run once and its result told until it was accepted.

A command leaves a file when it begins, one with its result, and that one stays until the control
plane no longer lists it: an answer that was under way cannot start it again, and neither can a
restart of the agent.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from trainer_agent.launch.atomic import create_json, read_json, write_json
from trainer_agent.supervise.bell import Bell
from trainer_agent.supervise.client import Backoff, CallError, ControlPlane, Refused
from trainer_agent.supervise.command import failed, run_command
from trainer_agent.supervise.identity import Identity
from trainer_agent.supervise.wire import Command, CommandResult

_AT_ONCE = 4
_IDLE_S = 60.0
_GONE = frozenset({404, 409, 410, 422})
_log = logging.getLogger(__name__)


class Commands:
    """The commands whose files are on this machine; any thread may call."""

    def __init__(
        self, root: Path, control: ControlPlane, identity: Identity, backoff: Backoff, done: Bell
    ) -> None:
        self._root = root
        self._control = control
        self._identity = identity
        self._backoff = backoff
        self._done = done
        self._finished = Bell()
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._known: set[str] = set()

    def adopt(self) -> None:
        """Take over what an earlier agent began; what it did not finish is not run again."""
        self._root.mkdir(parents=True, exist_ok=True)
        for path in self._root.glob("*.begun"):
            self._known.add(path.stem)
            if not self._result(path.stem).exists():
                why = "the agent was restarted while this ran; look at what it did, then ask again"
                write_json(self._result(path.stem), failed(why))

    def follow(self, listed: Sequence[Command]) -> None:
        """Begin what is new, as far as there is room: it stays listed, so the rest comes later."""
        ids = {command.id for command in listed}
        with self._lock:
            for known in self._known - ids - self._running:
                if self._accepted(known).exists():
                    self._forget(known)
            for command in listed:
                if command.id not in self._known and len(self._running) < _AT_ONCE:
                    self._begin(command)

    def post_results(self) -> None:
        """Tell the finished ones' results, then wait for the next; called in a loop."""
        waiting = sorted(self._waiting())
        for known in waiting:
            try:
                self._post(known)
            except CallError as error:
                self._finished.wait(self._backoff.failed(error), urgent_only=True)
                return
            self._backoff.succeeded()
            self._done.ring()
        if not waiting:
            self._finished.wait(_IDLE_S)

    def _begin(self, command: Command) -> None:
        if create_json(self._root / f"{command.id}.begun", {}):
            self._running.add(command.id)
            name = f"command-{command.id}"
            threading.Thread(target=self._run, args=(command,), name=name, daemon=True).start()
        self._known.add(command.id)

    def _run(self, command: Command) -> None:
        try:
            result = self._clean(run_command(command))
        except Exception as error:  # noqa: BLE001 (it must get a result, whatever happens)
            result = failed(f"the agent could not run it: {type(error).__name__}: {error}")
        write_json(self._result(command.id), result)
        with self._lock:
            self._running.discard(command.id)
        self._finished.ring()

    def _clean(self, result: CommandResult) -> CommandResult:
        for name in ("stdout", "stderr"):
            result[name] = self._identity.redact(result[name].encode()).decode()
        return result

    def _post(self, known: str) -> None:
        result = read_json(self._result(known))
        if result is None:
            result = dict(failed("its result was lost with the machine's disk"))
        try:
            self._control.post(f"/v1/agent/commands/{known}", result, self._identity.token)
        except Refused as error:
            if error.status not in _GONE:
                raise
            _log.warning("command %s: its result is not wanted: %s", known, error)
        write_json(self._accepted(known), {})

    def _waiting(self) -> set[str]:
        with self._lock:
            return {
                known
                for known in self._known - self._running
                if self._result(known).exists() and not self._accepted(known).exists()
            }

    def _forget(self, known: str) -> None:
        self._known.discard(known)
        for path in (self._root / f"{known}.begun", self._result(known), self._accepted(known)):
            path.unlink(missing_ok=True)

    def _result(self, known: str) -> Path:
        return self._root / f"{known}.result"

    def _accepted(self, known: str) -> Path:
        return self._root / f"{known}.accepted"
