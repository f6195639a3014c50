"""The policies in force: checked, planned with, applied, and asked for their reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from policies.codec import plan_from_dict, snapshot_from_dict
from policies.decide import decide
from policies.explain import explain
from policies.language import Policy
from policies.loading import check_policies, load_policy
from policies.plan import Plan
from policies.problems import PolicyError, Problem, Severity
from policies.world import Snapshot
from provisioner.clock import Clock
from provisioner.errors import ForbiddenError, InvalidError, NotFoundError
from provisioner.ids import new_id
from provisioner.people import Actor, Role, require
from provisioner.store import journal
from provisioner.store import policies as rows
from provisioner.store.engine import Connection, Store
from provisioner.store.paging import Page, slice_page
from provisioner.store.people import names
from provisioner.store.rows import Row
from provisioner.store.targets import target_id

EXPLAINED = 20


@dataclass(frozen=True, slots=True)
class PolicyView:
    id: str
    name: str
    version: int
    filename: str
    text: str
    active: bool
    applied_by: str
    applied_at: datetime


@dataclass(frozen=True, slots=True)
class Explained:
    """A stored decision in words."""

    decision_id: str
    snapshot_id: str
    at: datetime
    action: str
    text: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Replay:
    """Whether a stored snapshot is decided again as it was."""

    snapshot_id: str
    identical: bool
    text: str


class PolicyBook:
    """Policies by name; one text of each is in force."""

    def __init__(
        self, store: Store, clock: Clock, snapshot: Callable[[Connection], Snapshot]
    ) -> None:
        self._store = store
        self._clock = clock
        self._snapshot = snapshot

    def check(self, text: str, filename: str) -> tuple[Problem, ...]:
        """Everything wrong with a text, also against the policies in force of other names."""
        try:
            policy = load_policy(text, filename)
        except PolicyError as error:
            return tuple(error.problems)
        with self._store.read() as connection:
            return tuple(check_policies(self._with(connection, policy)))

    def apply(self, actor: Actor, text: str, filename: str) -> PolicyView:
        """Put a policy in force. A lead's policy must be about the lead's own team."""
        require(actor, Role.ADMIN, Role.LEAD)
        policy = _load(text, filename)
        if actor.role is Role.LEAD and not _is_about(policy, actor.team_name):
            raise InvalidError(
                f"{filename} must say `applies_to: {{team: {actor.team_name}}}`.",
                remedy="Policies for other teams, or for all, are an administrator's.",
            )
        now = self._clock.now()
        with self._store.write() as connection:
            if actor.role is Role.LEAD:
                _check_is_theirs(connection, policy.name, actor)
            wrong = [
                problem
                for problem in check_policies(self._with(connection, policy))
                if problem.severity is Severity.ERROR
            ]
            if wrong:
                raise InvalidError("\n".join(str(problem) for problem in wrong))
            row = rows.apply(
                connection,
                id=new_id("pol"),
                name=policy.name,
                filename=filename,
                text=text,
                by=actor.name,
                now=now,
            )
            journal.record(
                connection, now, "policy.applied", row["id"], by=actor.id, version=row["version"]
            )
            return _view(row)

    def list(self, actor: Actor, limit: int, cursor: str | None) -> Page[PolicyView]:
        with self._store.read() as connection:
            return slice_page([_view(row) for row in rows.active(connection)], limit, cursor)

    def get(self, actor: Actor, name: str, version: int | None = None) -> PolicyView:
        with self._store.read() as connection:
            row = rows.version(connection, name, version)
        if row is None:
            which = name if version is None else f"{name} version {version}"
            raise NotFoundError(
                f"There is no policy {which}.", remedy="`roost policy list` shows what there is."
            )
        return _view(row)

    def plan(self, actor: Actor, text: str | None, filename: str | None) -> Plan:
        """What would be done now, with `text` in place of the policy of its name; nothing is."""
        require(actor, Role.ADMIN, Role.LEAD)
        with self._store.read() as connection:
            chosen = load_active(connection)
            if text is not None:
                chosen = self._with(connection, _load(text, filename or "policy.yaml"))
            return decide(self._snapshot(connection), chosen)

    def explain(self, actor: Actor, target_ref: str) -> tuple[Explained, ...]:
        """The last decisions about a workstation, job, instance or team, newest first."""
        with self._store.read() as connection:
            id = target_id(connection, actor.team_id, actor.role is Role.ADMIN, target_ref)
            if id is None:
                raise NotFoundError(f"There is nothing called {target_ref!r} that you can see.")
            known = names(connection) | {id: target_ref}
            found = journal.decisions_of(connection, id, EXPLAINED)
            return tuple(_explained(row, known) for row in found)

    def replay(self, actor: Actor, snapshot_id: str) -> Replay:
        """Decide a stored snapshot again with the policies it was decided with."""
        require(actor, Role.ADMIN)
        with self._store.read() as connection:
            row = journal.stored_snapshot(connection, snapshot_id)
            if row is None:
                raise NotFoundError(f"There is no stored snapshot {snapshot_id!r}.")
            stored = journal.decisions_from(connection, snapshot_id)
        policies = [load_policy(p["text"], p["filename"]) for p in row["policies"]]
        plan = decide(snapshot_from_dict(row["body"]), policies)
        again = {decision.target_id: decision for decision in plan.decisions}
        different = []
        for old in stored:
            (before,) = plan_from_dict(old["body"]).decisions
            if again.get(before.target_id) != before:
                different.append(before.target_id)
        text = f"{len(stored)} decisions"
        text += f", different: {', '.join(different)}" if different else ", all identical"
        return Replay(snapshot_id, not different, text)

    def _with(self, connection: Connection, policy: Policy) -> Sequence[Policy]:
        others = [p for p in load_active(connection) if p.name != policy.name]
        return [*others, policy]


def load_active(connection: Connection) -> Sequence[Policy]:
    """The policies in force, loaded."""
    return [_parsed(row["text"], row["filename"]) for row in rows.active(connection)]


@lru_cache(maxsize=256)
def _parsed(text: str, filename: str) -> Policy:
    """The same object for the same text, as long as it is in use."""
    return load_policy(text, filename)


def active_texts(connection: Connection) -> list[dict[str, str]]:
    """The policies in force as they are kept beside a snapshot."""
    return [
        {"name": row["name"], "filename": row["filename"], "text": row["text"]}
        for row in rows.active(connection)
    ]


def _is_about(policy: Policy, team: str | None) -> bool:
    """Whether a policy speaks of this one team."""
    return tuple(policy.applies_to.team or ()) == (team,)


def _check_is_theirs(connection: Connection, name: str, lead: Actor) -> None:
    """A name is taken over only from a policy of the lead's own team."""
    row = rows.version(connection, name, None)
    if row is not None and not _is_about(_load(row["text"], row["filename"]), lead.team_name):
        raise ForbiddenError(
            f"The policy {name} is not about your team alone.",
            remedy="Choose another name, or ask an administrator to change it.",
        )


def _load(text: str, filename: str) -> Policy:
    try:
        return load_policy(text, filename)
    except PolicyError as error:
        raise InvalidError("\n".join(str(problem) for problem in error.problems)) from error


def _explained(row: Row, known: Mapping[str, str]) -> Explained:
    (decision,) = plan_from_dict(row["body"]).decisions
    return Explained(
        row["id"],
        row["snapshot_id"],
        row["at"],
        row["action"],
        explain(decision, row["at"], names=known),
        row["body"]["plan"],
    )


def _view(row: Row) -> PolicyView:
    return PolicyView(**{name: row[name] for name in PolicyView.__dataclass_fields__})
