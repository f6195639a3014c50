"""`roost team`, `roost person`, `roost token`: who may do what, and spend what."""

from __future__ import annotations

import click

from api.cli.connection import connect
from api.cli.output import Output, json_option, note

_TEAM = [
    ("name", "name"),
    ("id", "id"),
    ("budget", "budget_amount"),
    ("currency", "budget_currency"),
    ("time zone", "timezone"),
]
_PERSON = [("name", "name"), ("role", "role"), ("team", "team_name"), ("id", "id")]
_TOKEN = [
    ("id", "id"),
    ("person", "person_name"),
    ("label", "label"),
    ("created", "created_at"),
    ("revoked", "revoked_at"),
]


@click.group()
def team() -> None:
    """Teams and their budgets."""


@team.command("create", epilog="Example: roost team create vision --timezone Europe/Berlin")
@click.argument("name")
@click.option("--timezone", default="UTC", show_default=True, help="IANA zone.")
@json_option
@click.pass_obj
def create_team(output: Output, name: str, timezone: str) -> None:
    """Add a team."""
    with connect() as client:
        output.thing(client.create_team({"name": name, "timezone": timezone}), _TEAM)


@team.command("list", epilog="Example: roost team list")
@json_option
@click.pass_obj
def list_teams(output: Output) -> None:
    """The teams you may see."""
    with connect() as client:
        output.table(client.teams(), _TEAM)


@team.command("budget", epilog="Example: roost team budget vision 2500.00 USD")
@click.argument("name")
@click.argument("amount")
@click.argument("currency", default="USD")
@json_option
@click.pass_obj
def set_budget(output: Output, name: str, amount: str, currency: str) -> None:
    """Set what a team may spend a month."""
    with connect() as client:
        changed = client.set_budget(name, {"amount": amount, "currency": currency})
        output.thing(changed, _TEAM)


@click.group()
def person() -> None:
    """People."""


@person.command("create", epilog="Example: roost person create ada --team vision --role lead")
@click.argument("name")
@click.option("--team", "team_", help="Their team.")
@click.option(
    "--role",
    type=click.Choice(["admin", "lead", "member"]),
    default="member",
    show_default=True,
    help="What they may do.",
)
@json_option
@click.pass_obj
def create_person(output: Output, name: str, team_: str | None, role: str) -> None:
    """Add a person; `roost token create` then gives them a token."""
    with connect() as client:
        made = client.create_person({"name": name, "team": team_, "role": role})
        output.thing(made, _PERSON)


@person.command("list", epilog="Example: roost person list")
@json_option
@click.pass_obj
def list_people(output: Output) -> None:
    """The people you may see."""
    with connect() as client:
        output.table(client.people(), _PERSON)


@click.group()
def token() -> None:
    """Tokens."""


@token.command("create", epilog="Example: roost token create ada --label laptop")
@click.argument("person_")
@click.option("--label", default="cli", show_default=True, help="Where it will be used.")
@json_option
@click.pass_obj
def create_token(output: Output, person_: str, label: str) -> None:
    """Make a token for PERSON. It is shown this once, alone on stdout."""
    with connect() as client:
        made = client.create_token({"person": person_, "label": label})
    if output.as_json:
        output.value(made)
    else:
        note(f"Token {made['token']['id']} of {made['token']['person_name']}, shown this once:")
        output.text(made["secret"])


@token.command("revoke", epilog="Example: roost token revoke tok_0d9c2f")
@click.argument("token_id")
@json_option
@click.pass_obj
def revoke_token(output: Output, token_id: str) -> None:
    """Make a token worthless, at once."""
    with connect() as client:
        client.revoke_token(token_id)
    if output.as_json:
        output.value({"id": token_id, "revoked": True})
    else:
        output.text(f"{token_id} is worth nothing any more.")


@token.command("list", epilog="Example: roost token list")
@json_option
@click.pass_obj
def list_tokens(output: Output) -> None:
    """The tokens you may see, without their secrets."""
    with connect() as client:
        output.table(client.tokens(), _TOKEN)
