"""Teams, people, their tokens and budgets, and what each role may do.

admin    everything, of every team
lead     everything of their own team, its budget and policies too
member   their own team's machines and jobs; they see the team's costs
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from zoneinfo import ZoneInfo

from cost.errors import CostError, CurrencyMismatch
from cost.periods import zone
from provisioner.clock import Clock
from provisioner.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from provisioner.ids import digest, new_id, new_secret
from provisioner.ledger import budget_view
from provisioner.store import journal
from provisioner.store import people as rows
from provisioner.store.engine import Connection, Store
from provisioner.store.paging import Page, page
from provisioner.store.rows import Row
from provisioner.store.tables import person, team, token

FIRST_TEAM = "default"
"""The team of the first administrator, so that a lone user can begin at once."""


class Role(StrEnum):
    ADMIN = "admin"
    LEAD = "lead"
    MEMBER = "member"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks."""

    id: str
    name: str
    team_id: str | None
    team_name: str | None
    role: Role


@dataclass(frozen=True, slots=True)
class Team:
    id: str
    name: str
    timezone: str
    created_at: datetime
    budget_amount: Decimal | None
    budget_currency: str | None


@dataclass(frozen=True, slots=True)
class Person:
    id: str
    name: str
    team_id: str | None
    team_name: str | None
    role: Role
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret, which nobody knows but its holder."""

    id: str
    person_id: str
    person_name: str
    label: str
    created_at: datetime
    revoked_at: datetime | None


class People:
    """The people's side of the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def authenticate(self, secret: str) -> Actor | None:
        """The person behind a token; None for one that is unknown or revoked."""
        with self._store.read() as connection:
            row = rows.bearer(connection, digest(secret))
        if row is None:
            return None
        return Actor(row["id"], row["name"], row["team_id"], row["team_name"], Role(row["role"]))

    def ensure_admin(self) -> str | None:
        """Make the first administrator, with a team to begin with.

        The token's secret at the very first start, else None.
        """
        secret = new_secret("roost")
        try:
            with self._store.write() as connection:
                if rows.anybody(connection):
                    return None
                self._insert_admin(connection, secret)
        except ConflictError:
            return None  # another control plane of this database was faster
        return secret

    def _insert_admin(self, connection: Connection, secret: str) -> None:
        now, id, of = self._clock.now(), new_id("per"), new_id("team")
        rows.insert(
            connection,
            team,
            "team",
            id=of,
            name=FIRST_TEAM,
            timezone="UTC",
            created_at=now,
        )
        rows.insert(
            connection,
            person,
            "person",
            id=id,
            name="admin",
            team_id=of,
            role=Role.ADMIN,
            created_at=now,
        )
        _insert_token(connection, id, secret, "first start", now)

    def create_team(self, actor: Actor, name: str, timezone: str = "UTC") -> Team:
        require(actor, Role.ADMIN)
        _known_zone(timezone)
        now, id = self._clock.now(), new_id("team")
        with self._store.write() as connection:
            rows.insert(
                connection, team, "team", id=id, name=name, timezone=timezone, created_at=now
            )
            journal.record(connection, now, "team.created", id, team_id=id, by=actor.id)
        return self.team(actor, id)

    def teams(self, actor: Actor, limit: int, cursor: str | None) -> Page[Team]:
        with self._store.read() as connection:
            where = [] if actor.role is Role.ADMIN else [team.c.id == actor.team_id]
            query = rows.teams(*where)
            return page(connection, query, team, limit, cursor, _team)

    def team(self, actor: Actor, ref: str) -> Team:
        with self._store.read() as connection:
            id = team_id(connection, actor, ref)
            row = connection.execute(rows.teams(team.c.id == id)).mappings().one()
            return _team(row)

    def set_budget(self, actor: Actor, ref: str, amount: Decimal, currency: str) -> Team:
        """What the team may spend each calendar month of its zone."""
        require(actor, Role.ADMIN, Role.LEAD)
        if not amount.is_finite() or amount < 0:
            raise InvalidError(
                f"A budget of {amount} makes no sense; give an amount of at least 0."
            )
        now = self._clock.now()
        with self._store.write() as connection:
            id = team_id(connection, actor, ref)
            rows.set_budget(connection, id, now, amount=amount, currency=currency)
            try:
                budget_view(connection, id, now)
            except CurrencyMismatch as error:
                raise InvalidError(
                    f"A budget in {currency} cannot count what the team spends: {error}.",
                    remedy="Give the budget in the currency of the prices.",
                ) from error
            journal.record(
                connection,
                now,
                "budget.set",
                id,
                team_id=id,
                by=actor.id,
                amount=str(amount),
                currency=currency,
            )
        return self.team(actor, ref)

    def create_person(self, actor: Actor, name: str, team_ref: str | None, role: Role) -> Person:
        require(actor, Role.ADMIN, Role.LEAD)
        if actor.role is Role.LEAD and (role is Role.ADMIN or team_ref is None):
            raise ForbiddenError("A lead adds leads and members to their own team only.")
        if role is not Role.ADMIN and team_ref is None:
            raise InvalidError(f"A {role} belongs to a team.", remedy="Name the team.")
        now, id = self._clock.now(), new_id("per")
        with self._store.write() as connection:
            of = team_id(connection, actor, team_ref) if team_ref is not None else None
            rows.insert(
                connection,
                person,
                "person",
                id=id,
                name=name,
                team_id=of,
                role=role,
                created_at=now,
            )
            journal.record(connection, now, "person.created", id, team_id=of, by=actor.id)
            return _person(connection.execute(rows.people(person.c.id == id)).mappings().one())

    def people(self, actor: Actor, limit: int, cursor: str | None) -> Page[Person]:
        where = [] if actor.role is Role.ADMIN else [person.c.team_id == actor.team_id]
        with self._store.read() as connection:
            return page(connection, rows.people(*where), person, limit, cursor, _person)

    def create_token(self, actor: Actor, person_ref: str, label: str) -> tuple[Token, str]:
        """A new token and its secret, which is shown this once and stored only as a hash."""
        now, secret = self._clock.now(), new_secret("roost")
        with self._store.write() as connection:
            holder = self._person(connection, actor, person_ref)
            id = _insert_token(connection, holder["id"], secret, label, now)
            journal.record(
                connection,
                now,
                "token.created",
                id,
                team_id=holder["team_id"],
                by=actor.id,
                person=holder["id"],
            )
            row = connection.execute(rows.tokens(token.c.id == id)).mappings().one()
            return _token(row), secret

    def tokens(self, actor: Actor, limit: int, cursor: str | None) -> Page[Token]:
        where = {
            Role.ADMIN: [],
            Role.LEAD: [person.c.team_id == actor.team_id],
            Role.MEMBER: [token.c.person_id == actor.id],
        }[actor.role]
        with self._store.read() as connection:
            return page(connection, rows.tokens(*where), token, limit, cursor, _token)

    def revoke_token(self, actor: Actor, id: str) -> None:
        now = self._clock.now()
        with self._store.write() as connection:
            row = connection.execute(rows.tokens(token.c.id == id)).mappings().first()
            if row is None:
                raise _no_token(id)
            try:
                self._person(connection, actor, row["person_id"])
            except (ForbiddenError, NotFoundError):
                raise _no_token(id) from None
            rows.revoke(connection, id, now)
            journal.record(
                connection, now, "token.revoked", id, team_id=row["team_id"], by=actor.id
            )

    def _person(self, connection: Connection, actor: Actor, ref: str) -> Row:
        """A person whose tokens the actor may handle: themselves, or those they lead."""
        row = rows.find(connection, person, ref)
        if row is None or not _sees(actor, row["team_id"], row["id"]):
            raise NotFoundError(f"There is no person {ref!r} that you can see.")
        mine = row["id"] == actor.id
        leads = actor.role is Role.LEAD and row["role"] != Role.ADMIN
        if not (mine or leads or actor.role is Role.ADMIN):
            raise ForbiddenError(f"The tokens of {row['name']} are not yours to handle.")
        return row


def team_id(connection: Connection, actor: Actor, ref: str | None) -> str:
    """The id of a team the actor belongs to (or of any, for an administrator).

    Raises:
        NotFoundError: there is none, or it is not theirs to see.
        InvalidError: `ref` is None and the actor has no team.
    """
    if ref is None:
        if actor.team_id is None:
            raise InvalidError("You belong to no team.", remedy="Name the team.")
        return actor.team_id
    row = rows.find(connection, team, ref)
    if row is None or (actor.role is not Role.ADMIN and row["id"] != actor.team_id):
        raise NotFoundError(
            f"There is no team {ref!r} that you can see.", remedy="`roost team list` shows yours."
        )
    return str(row["id"])


def require(actor: Actor, *roles: Role) -> None:
    """Raise `ForbiddenError` unless the actor has one of the roles."""
    if actor.role not in roles:
        raise ForbiddenError(
            f"This takes the role {' or '.join(roles)}; you are a {actor.role}.",
            remedy="Ask your team's lead or an administrator.",
        )


def _sees(actor: Actor, of_team: str | None, id: str) -> bool:
    return (
        actor.role is Role.ADMIN
        or id == actor.id
        or (of_team is not None and of_team == actor.team_id)
    )


def _known_zone(name: str) -> ZoneInfo:
    try:
        return zone(name)
    except CostError as error:
        raise InvalidError(str(error)) from error


def _insert_token(
    connection: Connection, person_id: str, secret: str, label: str, now: datetime
) -> str:
    id = new_id("tok")
    connection.execute(
        token.insert().values(
            id=id, person_id=person_id, sha256=digest(secret), label=label, created_at=now
        )
    )
    return id


def _no_token(id: str) -> NotFoundError:
    return NotFoundError(f"There is no token {id!r} that you can see.")


def _team(row: Row) -> Team:
    return Team(
        row["id"],
        row["name"],
        row["timezone"],
        row["created_at"],
        row["amount"],
        row["currency"],
    )


def _person(row: Row) -> Person:
    return Person(
        row["id"],
        row["name"],
        row["team_id"],
        row["team_name"],
        Role(row["role"]),
        row["created_at"],
    )


def _token(row: Row) -> Token:
    return Token(
        row["id"],
        row["person_id"],
        row["person_name"],
        row["label"],
        row["created_at"],
        row["revoked_at"],
    )
