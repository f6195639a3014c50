"""What this process remembers of machines, beside what their cloud shows of them.

Most clouds forget a machine as soon as it is deleted, show an old state for a while after they have
accepted a change, and do not say when a run began or ended. This fills those gaps as long as the
process lives. Nothing here decides what exists: after a restart the clouds' own words are enough.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from provisioner.clock import Clock
from provisioner.providers.contract import EndReason, Machine, MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.cloud import Server
from provisioner.providers.libcloud.profile import Profile

S = MachineState
SETTLES_WITHIN = timedelta(minutes=5)
"""How long a change that the cloud has accepted may take to show; then what it shows counts."""
ENDED_SHOWN_FOR = timedelta(hours=1)
Why = Callable[[Server], tuple[EndReason, str] | None]
_BEFORE = {
    S.TERMINATING: frozenset(S) - {S.TERMINATED},
    S.STOPPING: frozenset({S.PENDING, S.RUNNING}),
    S.PENDING: frozenset({S.STOPPED, S.STOPPING}),
}
"""The states that a machine may still show while it is on its way."""


@dataclass(frozen=True, slots=True)
class _Asked:
    state: MachineState
    at: datetime


@dataclass(frozen=True, slots=True)
class Ended:
    """A machine that is gone, as it was last."""

    server: Server
    at: datetime
    reason: EndReason
    message: str


class Memory:
    """For all endpoints of one provider; may be used from several threads."""

    def __init__(self, provider: str, profile: Profile, clock: Clock) -> None:
        self._provider = provider
        self._profile = profile
        self._clock = clock
        self._lock = threading.RLock()
        self._known: dict[str, dict[str, Server]] = {}
        self._made: dict[str, datetime] = {}
        self._asked: dict[str, _Asked] = {}
        self._sizes: dict[str, tuple[str, datetime]] = {}
        self._runs: dict[str, tuple[datetime, datetime | None]] = {}
        self._ended: dict[str, Ended] = {}

    def made(self, endpoint: str, server: Server) -> None:
        """It was made just now, and may be missing from listings for a while."""
        with self._lock:
            self._known.setdefault(endpoint, {})[server.id] = server
            self._made[server.id] = self._clock.now()

    def asked(self, server: Server, state: MachineState) -> None:
        """The cloud has accepted that it is to stop, start (PENDING) or end (TERMINATING)."""
        with self._lock:
            self._asked[server.id] = _Asked(state, self._clock.now())

    def resized(self, server: Server, size: str) -> None:
        with self._lock:
            self._sizes[server.id] = (size, self._clock.now())

    def endpoint_of(self, id: str) -> str | None:
        """Where it was last."""
        with self._lock:
            return next((at for at, known in self._known.items() if id in known), None)

    def known(self, name: str) -> Server | None:
        """A machine that was made just now, or seen last time, by its id or launch id."""
        with self._lock:
            for known in self._known.values():
                for server in known.values():
                    if name in (server.id, server.marks.get(marks.LAUNCH)):
                        return server
            return None

    def is_new(self, id: str) -> bool:
        """Whether it may be missing from a listing though it is there."""
        at = self._made.get(id)
        lag = timedelta(seconds=self._profile.listing_lag_s)
        return at is not None and self._clock.now() - at < lag

    def ended(self, name: str) -> Ended | None:
        """One that is gone, by its id or launch id."""
        with self._lock:
            self._forget()
            return next(
                (
                    one
                    for one in self._ended.values()
                    if name in (one.server.id, one.server.marks.get(marks.LAUNCH))
                ),
                None,
            )

    def listed(self, endpoint: str, servers: Sequence[Server], why: Why) -> list[Machine]:
        """What a whole listing of an endpoint comes to, those that ended a while ago included."""
        there = {server.id: server for server in servers}
        with self._lock:
            missing = {
                id: server
                for id, server in self._known.get(endpoint, {}).items()
                if id not in there
            }
        kept = {}
        for id, server in missing.items():
            if not self._end(server, why) and self.is_new(id):
                kept[id] = server
        with self._lock:
            # What was made while the cloud answered is not in its answer.
            now_known = self._known.get(endpoint, {})
            newer = {
                id: server
                for id, server in now_known.items()
                if id not in there and id not in missing
            }
            self._known[endpoint] = {**there, **kept, **newer}
            self._forget()
            gone = [one for one in self._ended.values() if endpoint in ("", one.server.region)]
            return [*map(self.machine, servers), *map(self._tombstone, gone)]

    def machine(self, server: Server) -> Machine:
        """In the contract's words."""
        with self._lock:
            state = self._state(server)
            started, stood = self._run(server, state)
            return Machine(
                id=server.id,
                launch_id=server.marks.get(marks.LAUNCH, ""),
                state=state,
                offer_id=replace(server, size=self._size(server)).offer_id(self._provider),
                tags=marks.foreign(server.marks),
                created_at=server.created_at,
                run_started_at=started,
                run_ended_at=stood,
                end_reason=self._reason(server) if state is S.TERMINATED else None,
                message=server.failed or server.message,
            )

    def machine_of(self, ended: Ended) -> Machine:
        with self._lock:
            return self._tombstone(ended)

    def _state(self, server: Server) -> MachineState:
        if server.failed and server.state is not S.TERMINATED:
            return S.TERMINATING
        asked = self._asked.get(server.id)
        if asked is None:
            return server.state
        on_its_way = server.state in _BEFORE[asked.state]
        if on_its_way and self._clock.now() - asked.at < SETTLES_WITHIN:
            return asked.state
        if asked.state is not S.TERMINATING:
            del self._asked[server.id]
        return server.state

    def _size(self, server: Server) -> str:
        size, at = self._sizes.get(server.id, (server.size, self._clock.now()))
        if size == server.size or self._clock.now() - at >= SETTLES_WITHIN:
            self._sizes.pop(server.id, None)
            return server.size
        return size

    def _run(self, server: Server, state: MachineState) -> tuple[datetime | None, datetime | None]:
        """When the current or last run began and ended, told or else seen."""
        now = self._clock.now()
        if state is S.PENDING:
            return None, None
        stands = state is S.TERMINATED or (state is S.STOPPED and not self._profile.bills_stopped)
        began, over = self._runs.get(server.id, (server.created_at or now, None))
        if over is not None and state in (S.RUNNING, S.STOPPING):
            began, over = now, None  # it was started again
        if over is None and stands:
            over = now
        began = server.run_started_at or began
        if stands:
            over = server.run_ended_at or over
        self._runs[server.id] = (began, over)
        return began, max(over, began) if over is not None and stands else None

    def _reason(self, server: Server) -> EndReason:
        if server.end_reason is not None:
            return server.end_reason
        return EndReason.ASKED if server.id in self._asked else EndReason.UNKNOWN

    def _end(self, server: Server, why: Why) -> bool:
        """Whether a machine that is listed no more is known to have ended."""
        asked = self._asked.get(server.id)
        told: tuple[EndReason, str] | None
        if server.state is S.TERMINATED:
            return False  # the cloud has shown its end for long enough
        if server.failed:
            told = EndReason.FAILED, server.failed
        elif asked is not None and asked.state is S.TERMINATING:
            told = EndReason.ASKED, ""
        else:
            told = why(server)
        if told is None:
            return False
        with self._lock:
            self._ended[server.id] = Ended(server, self._clock.now(), *told)
        return True

    def _tombstone(self, ended: Ended) -> Machine:
        last = replace(
            ended.server,
            state=S.TERMINATED,
            failed="",
            end_reason=ended.reason,
            run_ended_at=ended.server.run_ended_at or ended.at,
            message=ended.message or ended.server.message,
        )
        return self.machine(last)

    def _forget(self) -> None:
        old = self._clock.now() - ENDED_SHOWN_FOR
        for id in [id for id, one in self._ended.items() if one.at < old]:
            del self._ended[id]
            self._drop(id)
        if len(self._made) > 1000:
            self._made = {id: at for id, at in self._made.items() if at >= old}

    def _drop(self, id: str) -> None:
        memories: Iterable[dict[str, object]] = (
            self._asked,  # type: ignore[assignment]
            self._sizes,
            self._runs,
        )
        for memory in memories:
            memory.pop(id, None)
