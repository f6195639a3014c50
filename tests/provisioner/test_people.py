from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from threading import Barrier

import pytest
import sqlalchemy as sa

from provisioner.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RoostError,
)
from provisioner.people import Actor, People, Role
from provisioner.store.tables import budget, person, team, token
from tests.provisioner.world import World


@pytest.fixture
def two(either: World) -> World:
    either.team("vision")
    either.team("speech")
    return either


def cast(world: World) -> dict[str, Actor]:
    return {
        "admin": world.admin,
        "lead": world.person("lena", "vision", Role.LEAD),
        "member": world.person("mina", "vision"),
        "stranger": world.person("sam", "speech", Role.LEAD),
    }


Act = Callable[[People, Actor], object]
ACTS: dict[str, tuple[Act, str]] = {
    "create a team": (lambda p, a: p.create_team(a, f"t-{a.name}"), "admin"),
    "set its budget": (
        lambda p, a: p.set_budget(a, "vision", Decimal(5), "USD"),
        "admin lead",
    ),
    "add a member": (
        lambda p, a: p.create_person(a, f"m-{a.name}", "vision", Role.MEMBER),
        "admin lead",
    ),
    "add a lead": (
        lambda p, a: p.create_person(a, f"l-{a.name}", "vision", Role.LEAD),
        "admin lead",
    ),
    "add an admin": (lambda p, a: p.create_person(a, f"a-{a.name}", None, Role.ADMIN), "admin"),
    "see the team": (lambda p, a: p.team(a, "vision"), "admin lead member"),
    "make a token for a member": (
        lambda p, a: p.create_token(a, "mina", "x"),
        "admin lead member",
    ),
    "make a token for a lead": (lambda p, a: p.create_token(a, "lena", "x"), "admin lead"),
    "make a token for the admin": (lambda p, a: p.create_token(a, "admin", "x"), "admin"),
}


@pytest.mark.parametrize("act", ACTS)
def test_who_may_do_what(two: World, act: str) -> None:
    call, allowed = ACTS[act]
    for role, actor in cast(two).items():
        if role in allowed.split():
            call(two.roost.people, actor)
        else:
            with pytest.raises((ForbiddenError, NotFoundError)):
                call(two.roost.people, actor)


def test_lists_show_what_is_ones_own(two: World) -> None:
    actors, people = cast(two), two.roost.people
    for role, actor in actors.items():
        names = {p.name for p in people.people(actor, 50, None).items}
        teams = {t.name for t in people.teams(actor, 50, None).items}
        if role == "admin":
            assert names == {"admin", "lena", "mina", "sam"}
            assert teams == {"default", "vision", "speech"}
        else:
            assert names == ({"sam"} if role == "stranger" else {"lena", "mina"})
            assert teams == {actor.team_name}


def test_a_token_is_its_holder_until_it_is_revoked(two: World) -> None:
    people, actors = two.roost.people, cast(two)
    made, secret = people.create_token(actors["member"], "mina", "laptop")
    holder = people.authenticate(secret)
    assert holder == actors["member"]
    assert people.authenticate(secret + "x") is None
    with pytest.raises(NotFoundError):
        people.revoke_token(actors["stranger"], made.id)
    people.revoke_token(actors["lead"], made.id)
    assert people.authenticate(secret) is None
    (listed,) = people.tokens(actors["member"], 9, None).items
    assert (listed.label, listed.revoked_at) == ("laptop", two.now)
    people.revoke_token(actors["lead"], made.id)
    with pytest.raises(NotFoundError):
        people.revoke_token(actors["admin"], "tok_none")


def test_tokens_of_a_team_are_seen_by_its_lead(two: World) -> None:
    people, actors = two.roost.people, cast(two)
    people.create_token(actors["member"], "mina", "laptop")
    people.create_token(actors["lead"], "lena", "laptop")
    people.create_token(actors["stranger"], "sam", "laptop")
    seen = {r: {t.person_name for t in people.tokens(a, 9, None).items} for r, a in actors.items()}
    assert seen == {
        "admin": {"admin", "lena", "mina", "sam"},
        "lead": {"lena", "mina"},
        "member": {"mina"},
        "stranger": {"sam"},
    }


def test_names_are_taken_once(two: World) -> None:
    people = two.roost.people
    with pytest.raises(ConflictError, match="taken"):
        people.create_team(two.admin, "vision")
    two.person("mina", "vision")
    with pytest.raises(ConflictError, match="another person"):
        two.person("mina", "speech")


@pytest.mark.parametrize("amount", ["-1", "NaN", "Infinity"])
def test_a_budget_is_an_amount(two: World, amount: str) -> None:
    with pytest.raises(InvalidError):
        two.roost.people.set_budget(two.admin, "vision", Decimal(amount), "USD")


def test_a_budget_can_be_changed(two: World) -> None:
    people = two.roost.people
    people.set_budget(two.admin, "vision", Decimal("5.25"), "USD")
    team = people.set_budget(two.admin, "vision", Decimal("7.75"), "USD")
    assert (team.budget_amount, team.budget_currency) == (Decimal("7.75"), "USD")


def test_what_makes_no_sense_is_refused(two: World) -> None:
    people = two.roost.people
    with pytest.raises(InvalidError, match="Mars"):
        people.create_team(two.admin, "martians", "Mars/Olympus")
    with pytest.raises(InvalidError, match="belongs to a team"):
        people.create_person(two.admin, "nobody", None, Role.MEMBER)
    with pytest.raises(NotFoundError):
        people.create_person(two.admin, "nobody", "nowhere", Role.MEMBER)


def test_the_first_admin_is_made_once_by_whoever_is_first(two: World) -> None:
    assert two.roost.people.ensure_admin() is None


def test_of_control_planes_that_start_together_one_makes_the_admin(two: World) -> None:
    with two.store.write() as connection:
        for table in (token, person, budget, team):
            connection.execute(sa.delete(table))
    together = Barrier(6)

    def start(_n: int) -> str | None:
        together.wait()
        return two.roost.people.ensure_admin()

    with ThreadPoolExecutor(6) as pool:
        secrets = [secret for secret in pool.map(start, range(6)) if secret]
    assert len(secrets) == 1
    assert two.roost.people.authenticate(secrets[0]) is not None


@pytest.mark.parametrize("what", ["teams", "people", "tokens"])
def test_pages_have_everything_once(two: World, what: str) -> None:
    for n in range(7):
        two.team(f"team-{n}")
        two.person(f"person-{n}", f"team-{n}")
        two.roost.people.create_token(two.admin, f"person-{n}", "x")
    listing = getattr(two.roost.people, what)
    whole = [item.id for item in listing(two.admin, 100, None).items]
    assert len(whole) == len(set(whole)) >= 8
    walked: list[str] = []
    cursor = None
    while True:
        page = listing(two.admin, 3, cursor)
        walked += [item.id for item in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert walked == whole
    with pytest.raises(RoostError):
        listing(two.admin, 3, "nonsense")
