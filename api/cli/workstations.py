"""`roost workstation`: a person's desks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from api.cli.connection import connect
from api.cli.exits import Exit
from api.cli.needs import given, needs_options, when
from api.cli.output import Output, json_option, note
from api.cli.waiting import timeout_option, wait_for

if TYPE_CHECKING:
    from api.client import Client

Json = dict[str, Any]
_FIELDS = [
    ("name", "name"),
    ("id", "id"),
    ("phase", "phase"),
    ("why", "reason"),
    ("team", "team_name"),
    ("owner", "owner_name"),
    ("wanted", "desire"),
    ("machine", "instance.id"),
    ("type", "instance.instance_type"),
    ("mode", "instance.mode"),
    ("price/h", "instance.price_per_hour"),
    ("currency", "instance.currency"),
    ("hold", "hold_kind"),
    ("held until", "hold_until"),
    ("last activity", "last_activity_at"),
    ("created", "created_at"),
]
wait_option = click.option("--wait", is_flag=True, help="Wait until it is so.")


@click.group()
def workstation() -> None:
    """Workstations: your desks. The home outlives the machine."""


@workstation.command(epilog="Example: roost workstation create desk --cpus 2 --memory 4 --wait")
@click.argument("name")
@needs_options
@click.option("--volume", "volume_gib", type=int, help="Size of the home in GiB.")
@wait_option
@timeout_option(600)
@json_option
@click.pass_obj
def create(output: Output, /, wait: bool, timeout_s: float, **options: Any) -> int:
    """Make a desk and start it."""
    with connect() as client:
        made = client.create_workstation(given(options))
        return _shown(output, client, made, "ready" if wait else None, timeout_s)


@workstation.command("list", epilog="Example: roost workstation list")
@json_option
@click.pass_obj
def list_(output: Output) -> None:
    """The desks you may see."""
    columns = [
        ("name", "name"),
        ("phase", "phase"),
        ("why", "reason"),
        ("owner", "owner_name"),
        ("type", "instance.instance_type"),
        ("mode", "instance.mode"),
        ("price/h", "instance.price_per_hour"),
        ("id", "id"),
    ]
    with connect() as client:
        output.table(client.workstations(), columns)


@workstation.command(epilog="Example: roost workstation show desk")
@click.argument("name")
@json_option
@click.pass_obj
def show(output: Output, name: str) -> None:
    """One desk."""
    with connect() as client:
        output.thing(client.workstation(name), _FIELDS)


@workstation.command(epilog="Example: roost workstation start desk --wait")
@click.argument("name")
@wait_option
@timeout_option(600)
@json_option
@click.pass_obj
def start(output: Output, name: str, wait: bool, timeout_s: float) -> int:
    """Start a desk."""
    with connect() as client:
        begun = client.start_workstation(name)
        return _shown(output, client, begun, "ready" if wait else None, timeout_s)


@workstation.command(epilog="Example: roost workstation stop desk --wait")
@click.argument("name")
@wait_option
@timeout_option(600)
@json_option
@click.pass_obj
def stop(output: Output, name: str, wait: bool, timeout_s: float) -> int:
    """Stop a desk; its home stays."""
    with connect() as client:
        begun = client.stop_workstation(name)
        return _shown(output, client, begun, "off" if wait else None, timeout_s)


@workstation.command(epilog="Example: roost workstation delete desk --yes")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def delete(output: Output, name: str, yes: bool) -> None:
    """Delete a desk with its home. Nothing brings it back."""
    if not yes:
        click.confirm(f"Delete {name} and everything in its home?", abort=True, err=True)
    with connect() as client:
        output.thing(client.delete_workstation(name), _FIELDS)


@workstation.command(epilog="Example: roost workstation hold desk --until 12h")
@click.argument("name")
@click.option(
    "--keep-running", "kind", flag_value="keep-running", default=True, help="The default."
)
@click.option("--keep-stopped", "kind", flag_value="keep-stopped", help="Keep it stopped.")
@click.option("--until", help="A span such as 12h, or a time; else until --release.")
@click.option("--release", is_flag=True, help="Leave it to the policies again.")
@json_option
@click.pass_obj
def hold(output: Output, name: str, kind: str, until: str | None, release: bool) -> None:
    """Keep a desk running (or stopped), whatever the policies say."""
    body = {"kind": kind, "until": when(until, "--until")}
    with connect() as client:
        held = client.release_workstation(name) if release else client.hold_workstation(name, body)
        output.thing(held, _FIELDS)


@workstation.command(
    "exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Example: roost workstation exec desk -- nvidia-smi -L",
)
@click.option(
    "--timeout", "timeout_s", type=float, default=60.0, show_default=True, help="Seconds it has."
)
@json_option
@click.argument("name")
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def exec_(output: Output, timeout_s: float, name: str, argv: tuple[str, ...]) -> int:
    """Run a command on a desk and end with its exit code. Options come before NAME."""
    # Parsing ends at NAME, so that the command's own options stay its own; `--` is then still here.
    argv = argv[1:] if argv[0] == "--" else argv
    if not argv:
        raise click.UsageError("Give a command after `--`.")
    with connect() as client:
        begun = client.exec(name, {"argv": list(argv), "timeout_s": timeout_s})
        ended = wait_for(
            partial(client.command, begun["id"]),
            lambda command: command["state"] != "queued",
            lambda _command: "",
            timeout_s + 60,
        )
    if output.as_json:
        output.value(ended)
    else:
        click.echo(ended["stdout"] or "", nl=False)
        click.echo(ended["stderr"] or "", nl=False, err=True)
        if ended["error"] or ended["timed_out"] or ended["truncated"]:
            note(_trouble(ended, timeout_s))
    return _exit_code(ended)


def _trouble(ended: Json, timeout_s: float) -> str:
    if ended["error"]:
        return f"roost: the command did not run: {ended['error']}"
    if ended["timed_out"]:
        return f"roost: the command was ended after {timeout_s:g} s. Give more with --timeout."
    return "roost: the output was longer than what is kept; the rest was left out."


def _exit_code(ended: Json) -> int:
    code = ended["exit_code"]
    if ended["timed_out"] or code is None:
        return Exit.TASK_FAILED
    return int(code) if code >= 0 else 128 - int(code)


def _shown(output: Output, client: Client, now: Json, wanted: str | None, timeout_s: float) -> int:
    """Show a desk, once it is in the `wanted` phase, if any."""
    if wanted is not None:
        now = wait_for(
            partial(client.workstation, now["id"]),
            lambda desk: desk["phase"] in {wanted, "broken", "gone"},
            lambda desk: f"{desk['name']}: {desk['phase']} - {desk['reason']}",
            timeout_s,
        )
    output.thing(now, _FIELDS)
    return Exit.OK if wanted is None or now["phase"] == wanted else Exit.FAILED
