"""The machines' agents: what they report is written down, what is wanted of them is answered.

States are not changed here; the reconciler does that from what is written. So any number of API
replicas may serve agents, whoever holds the lease.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from policies.world import InstanceState, OwnerKind
from provisioner.agent_wheel import AgentWheel
from provisioner.clock import Clock
from provisioner.errors import NotFoundError, UnauthenticatedError
from provisioner.ids import digest
from provisioner.store import commands, instances, jobs, journal, telemetry, workstations
from provisioner.store.engine import Connection, Store
from provisioner.store.instances import InstanceRow
from provisioner.store.jobs import AttemptRow

I = InstanceState

PROTOCOL = 1
_WORKING = (I.BOOTING, I.READY, I.DRAINING, I.LAUNCHING, I.LOST)
_LEAVING = (I.STOPPING, I.TERMINATING)
_TOLD = ("step", "total_steps", "checkpoint_step", "resumed_step")
_SAME_INPUT = timedelta(seconds=5)
"""Clocks drift and messages take their time: one input seems to come a little later each time."""
_NO_TOKEN = "This machine's token is not valid."  # noqa: S105


class Agents:
    """One method a call of the protocol."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        heartbeat_s: float,
        wheel: Callable[[], AgentWheel],
        poke: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._heartbeat_s = heartbeat_s
        self._wheel = wheel
        self._poke = poke

    def wheel(self) -> AgentWheel:
        """The agent's program, of this very version."""
        return self._wheel()

    def register(self, token: str, body: dict[str, Any]) -> dict[str, Any]:
        """Exchange the one-time token for the agent's own; a repeat with the same one is fine."""
        now = self._clock.now()
        with self._store.write() as connection:
            row = instances.by_bootstrap(connection, digest(token))
            if row is None or row.id != body["instance_id"] or not row.state.live:
                raise UnauthenticatedError("This bootstrap token is not valid.")
            if row.agent_sha256 not in (None, body["token_sha256"]):
                raise UnauthenticatedError("This bootstrap token was used already.")
            instances.update(
                connection,
                row.id,
                agent_sha256=body["token_sha256"],
                agent_boot_id=body["boot_id"],
            )
            if row.agent_sha256 is None:
                journal.record(
                    connection,
                    now,
                    "agent.registered",
                    row.id,
                    team_id=row.team_id,
                    version=body["agent_version"],
                    facts=body.get("facts"),
                )
        return {
            "protocol": PROTOCOL,
            "instance_id": row.id,
            "heartbeat_s": self._heartbeat_s,
        }

    def heartbeat(self, token: str, body: dict[str, Any]) -> dict[str, Any]:
        """Write down how the machine is; the answer is all that is wanted of it."""
        now = self._clock.now()
        with self._store.write() as connection:
            row = self._instance(connection, token)
            report = {
                key: body.get(key)
                for key in ("telemetry", "activity", "tasks", "notices", "uptime_s", "seq")
            }
            changes: dict[str, Any] = {
                "agent": report,
                "agent_seen_at": now,
                "agent_boot_id": body["boot_id"],
            }
            deadline = _reclaim(body.get("notices") or [], now)
            noticed = deadline is not None and row.notice_deadline is None
            if deadline is not None:
                instances.note_notice(connection, row, deadline, now)
            if _at_risk(report) and not _at_risk(row.agent or {}):
                journal.record(connection, now, "instance.at-risk", row.id, team_id=row.team_id)
            instances.update(connection, row.id, **changes)
            self._note_activity(connection, row, body, now)
            self._note_progress(connection, row, body.get("tasks") or [])
            answer = self._desired(connection, row, deadline or row.notice_deadline)
        if _news(row, report) or noticed:
            self._poke()
        return answer

    def logs(self, token: str, body: dict[str, Any]) -> dict[str, Any]:
        """Append to a task's log; what is known already is not appended again."""
        with self._store.write() as connection:
            row, attempt = self._task(connection, token, body["task_id"])
            known = telemetry.log_end(connection, attempt.id, row.slot)
            text, offset = body["text"], body["offset"]
            if offset != known or not text:
                return {"next_offset": known}
            end = offset + len(text.encode())
            telemetry.add_log(
                connection, attempt.id, row.slot, offset, end, text.replace("\x00", "\ufffd")
            )
            return {"next_offset": end}

    def progress(self, token: str, body: dict[str, Any]) -> dict[str, Any]:
        """Append progress records, and keep what they say about the attempt."""
        with self._store.write() as connection:
            row, attempt = self._task(connection, token, body["task_id"])
            known = telemetry.progress_end(connection, attempt.id, row.slot)
            records, end = body["records"], body.get("next_offset")
            if body["offset"] != known or end is None or end <= known:
                return {"next_offset": known}
            telemetry.add_progress(connection, attempt.id, row.slot, known, end, records)
            _apply(connection, attempt, records)
            return {"next_offset": end}

    def command_result(self, token: str, id: str, body: dict[str, Any]) -> dict[str, Any]:
        """Keep the answer to a command; a repeat changes nothing."""
        now = self._clock.now()
        with self._store.write() as connection:
            row = self._instance(connection, token)
            asked = commands.get(connection, id)
            if asked is None or asked["instance_id"] != row.id:
                raise NotFoundError(f"There is no command {id!r} for this machine.")
            state = "failed" if body.get("error") else "done"
            commands.answer(connection, id, state, body, now)
            workstations.update(connection, asked["workstation_id"], last_activity_at=now)
        return {}

    def _instance(self, connection: Connection, token: str) -> InstanceRow:
        row = instances.by_agent(connection, digest(token))
        if row is None:
            raise UnauthenticatedError(_NO_TOKEN)
        return row

    def _task(
        self, connection: Connection, token: str, task_id: str
    ) -> tuple[InstanceRow, AttemptRow]:
        """The attempt, if this machine is (or was) one of its nodes."""
        row = self._instance(connection, token)
        attempt = jobs.get_attempt(connection, task_id)
        if attempt is None or not _is_of(attempt, row):
            raise NotFoundError(f"There is no task {task_id!r} of this machine.")
        return row, attempt

    def _note_activity(
        self, connection: Connection, row: InstanceRow, body: dict[str, Any], now: datetime
    ) -> None:
        age = (body.get("activity") or {}).get("last_input_age_s")
        if age is None or row.owner_kind is not OwnerKind.WORKSTATION or row.owner_id is None:
            return
        at = now - timedelta(seconds=age)
        desk = workstations.get(connection, row.owner_id)
        if desk is not None and (
            desk.last_activity_at is None or at - desk.last_activity_at > _SAME_INPUT
        ):
            workstations.update(connection, desk.id, last_activity_at=at, warned_at=None)

    def _note_progress(
        self, connection: Connection, row: InstanceRow, tasks: list[dict[str, Any]]
    ) -> None:
        """What a machine says of its own tasks; of others' it is not heard."""
        for task in tasks:
            known = {key: task[key] for key in _TOLD if task.get(key) is not None}
            attempt = jobs.get_attempt(connection, task["id"]) if known else None
            if attempt is None or not _is_of(attempt, row):
                continue
            total = known.pop("total_steps", None)
            jobs.update_attempt(connection, attempt.id, **known) if known else None
            step = {"step": known["step"]} if "step" in known else {}
            extra = {"total_steps": total} if total is not None else {}
            if step or extra:
                jobs.update(connection, attempt.job_id, **step, **extra)

    def _desired(
        self, connection: Connection, row: InstanceRow, deadline: datetime | None
    ) -> dict[str, Any]:
        phase = "run"
        if row.state is I.DRAINING or deadline is not None:
            phase = "drain"
        if row.state in _LEAVING or not row.state.live:
            phase = "stop"
        return {
            "protocol": PROTOCOL,
            "heartbeat_s": self._heartbeat_s,
            "phase": phase,
            "drain_deadline": deadline.isoformat() if deadline else None,
            "tasks": _tasks(connection, row),
            "commands": [
                {"id": c["id"], "argv": c["argv"], "timeout_s": c["timeout_s"]}
                for c in commands.pending(connection, row.id)
            ],
        }


def _is_of(attempt: AttemptRow, row: InstanceRow) -> bool:
    """Whether a machine is (or was) one of an attempt's nodes."""
    return (attempt.job_id, attempt.number) == (row.owner_id, row.attempt)


def _tasks(connection: Connection, row: InstanceRow) -> list[dict[str, Any]]:
    """What the machine shall run: its node of its job's open attempt."""
    if row.owner_kind is not OwnerKind.JOB or row.state not in _WORKING or row.owner_id is None:
        return []
    job = jobs.get(connection, row.owner_id)
    if job is None or job.state.ended or job.attempt != row.attempt:
        return []
    attempt = jobs.open_attempt(connection, job)
    if attempt is None:
        return []
    task = job.task
    return [
        {
            "id": attempt.id,
            "job_id": job.id,
            "attempt": attempt.number,
            "node": row.slot,
            "nodes": job.nodes,
            "nproc": task["nproc"],
            "argv": task["argv"],
            "env": task["env"],
            "checkpoint_uri": job.checkpoint_uri,
            "grace_s": task["grace_s"],
            "threads": task["threads"],
            "master_addr": "127.0.0.1",
            "master_port": 29500,
        }
    ]


def _reclaim(notices: list[dict[str, Any]], now: datetime) -> datetime | None:
    """When the machine will be taken away; now for a notice that does not say."""
    for notice in notices:
        if notice.get("kind") == "reclaim":
            deadline = notice.get("deadline")
            return datetime.fromisoformat(deadline) if deadline else now
    return None


def _at_risk(report: dict[str, Any]) -> bool:
    """Whether the provider has told the machine that it is likelier to be taken than before."""
    return any(notice.get("kind") == "rebalance" for notice in report.get("notices") or ())


def _news(row: InstanceRow, report: dict[str, Any]) -> bool:
    """Whether the reconciler should look at once and not at its next tick."""

    def essence(agent: dict[str, Any] | None) -> list[tuple[str, str]]:
        return [(t["id"], t["state"]) for t in (agent or {}).get("tasks") or ()]

    return row.state in (I.BOOTING, I.LAUNCHING) or essence(row.agent) != essence(report)


def _apply(connection: Connection, attempt: AttemptRow, records: list[dict[str, Any]]) -> None:
    """What progress records, oldest first, say about the attempt and its job."""
    values: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for record in records:
        event, step = record.get("event"), _count(record.get("step"))
        if step is not None:
            if event == "resumed":
                values["resumed_step"] = step
            elif event in ("checkpoint", "left"):
                values["checkpoint_step"] = step
            elif event == "step":
                values["step"] = changes["step"] = step
        if event == "step" and attempt.first_step_at is None:
            values.setdefault("first_step_at", _instant(record.get("at")))
        if (total := _count(record.get("total_steps"))) is not None:
            changes["total_steps"] = total
        if event == "done":
            changes["result"] = record
    if values:
        jobs.update_attempt(connection, attempt.id, **values)
    if changes:
        jobs.update(connection, attempt.job_id, **changes)


def _count(value: Any) -> int | None:
    """A count that a record tells; a program may have written anything there."""
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return value if known else None


def _instant(text: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo is not None else None
    except (TypeError, ValueError, OverflowError):
        return None
