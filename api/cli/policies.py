"""`roost policy`: check, plan, apply, and ask why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from api.cli.connection import connect
from api.cli.exits import Exit
from api.cli.output import Output, json_option, note

if TYPE_CHECKING:
    from policies.language import Policy
    from policies.problems import Problem

FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


@click.group()
def policy() -> None:
    """Policies: what is allowed, and what is done by itself."""


@policy.command(epilog="Example: roost policy check house.yaml")
@click.argument("files", nargs=-1, required=True, type=FILE)
@json_option
@click.pass_obj
def check(output: Output, files: tuple[Path, ...]) -> int:
    """Read policy files and say everything that is wrong with them. Needs no control plane."""
    from policies.checking import check_policies
    from policies.explain import render_problems

    found: list[Problem] = []
    good: list[Policy] = []
    for file in files:
        loaded, wrong = _load(file)
        found += wrong
        good += loaded
    found += check_policies(good)
    failed = any(each.severity == "error" for each in found)
    if output.as_json:
        fields = ("file", "line", "severity", "message", "hint")
        output.value([{name: getattr(each, name) for name in fields} for each in found])
    else:
        output.text(render_problems(found))
    return Exit.FAILED if failed else Exit.OK


@policy.command(epilog="Example: roost policy plan house.yaml")
@click.argument("file", required=False, type=FILE)
@json_option
@click.pass_obj
def plan(output: Output, file: Path | None) -> None:
    """What would be done now, with FILE or with the policies that hold. Nothing is done."""
    body = {} if file is None else {"text": _text(file), "filename": file.name}
    with connect() as client:
        planned = client.plan(body)
    if output.as_json:
        output.value(planned)
        return
    output.table(
        [_row(decision) for decision in planned["decisions"]],
        [("target", "target_id"), ("do", "action"), ("because", "because"), ("where", "where")],
    )


@policy.command(epilog="Example: roost policy apply house.yaml")
@click.argument("file", type=FILE)
@json_option
@click.pass_obj
def apply(output: Output, file: Path) -> None:
    """Make FILE a policy that holds, as a new version of its name."""
    with connect() as client:
        applied = client.apply_policy({"text": _text(file), "filename": file.name})
    output.thing(applied, [("policy", "name"), ("version", "version"), ("applied", "applied_at")])


@policy.command(epilog="Example: roost policy explain desk")
@click.argument("target")
@json_option
@click.pass_obj
def explain(output: Output, target: str) -> None:
    """Why a workstation, a job or a machine is as it is."""
    with connect() as client:
        items = client.explain(target)["items"]
    if output.as_json:
        output.value(items)
        return
    for item in items:
        output.text(f"{item['at']}  {item['action']}  (snapshot {item['snapshot_id']})")
        output.text(item["text"].rstrip() + "\n")
    if not items:
        note(f"Nothing has been decided about {target} yet.")


@policy.command("list", epilog="Example: roost policy list")
@json_option
@click.pass_obj
def list_(output: Output) -> None:
    """The policies that hold."""
    columns = [
        ("policy", "name"),
        ("version", "version"),
        ("file", "filename"),
        ("applied by", "applied_by"),
        ("applied", "applied_at"),
    ]
    with connect() as client:
        output.table(client.policies(), columns)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file} is no UTF-8 text: {error.reason}.") from error


def _load(file: Path) -> tuple[list[Policy], list[Problem]]:
    from policies.loading import load_policy
    from policies.problems import PolicyError

    try:
        return [load_policy(_text(file), str(file))], []
    except PolicyError as error:
        return [], list(error.problems)


def _row(decision: Mapping[str, Any]) -> dict[str, Any]:
    first = decision["because"][0] if decision["because"] else {}
    return {
        "target_id": f"{decision['target_kind']} {decision['target_id']}",
        "action": decision["action"],
        "because": first.get("text"),
        "where": first.get("where"),
    }
