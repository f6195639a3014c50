"""`roost job`: training jobs."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from api.cli.connection import connect
from api.cli.exits import Exit
from api.cli.needs import given, needs_options, pairs, when
from api.cli.output import Output, json_option, note
from api.cli.waiting import POLL_S, timeout_option, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from api.client import Client

Json = dict[str, Any]
_ENDED = {"succeeded", "failed", "cancelled"}
_FIELDS = [
    ("name", "name"),
    ("id", "id"),
    ("state", "state"),
    ("why", "reason"),
    ("message", "message"),
    ("step", "step"),
    ("of", "total_steps"),
    ("attempt", "attempt"),
    ("team", "team_name"),
    ("owner", "owner_name"),
    ("cost", "cost"),
    ("currency", "currency"),
    ("deadline", "deadline"),
    ("checkpoints", "checkpoint_uri"),
    ("result", "result"),
    ("created", "created_at"),
    ("ended", "ended_at"),
]


@click.group()
def job() -> None:
    """Training jobs: they survive the loss of their machine."""


@job.command(
    epilog="Examples: roost job submit --name train --cpus 1 --spot --deadline 12h -- python "
    "train.py; roost job submit --name digits --recipe image-classification --set epochs=3"
)
@click.option("--name", required=True, help="Name of the job.")
@needs_options
@click.option("--nodes", type=int, help="Machines at once.")
@click.option("--deadline", help="A span such as 12h, or a time such as 2026-11-02T18:00:00Z.")
@click.option("--max-runtime", help="How long it may run, such as 90m; all attempts together.")
@click.option("--recipe", help="A recipe instead of a command.")
@click.option("--set", "config", multiple=True, metavar="KEY=VALUE", help="A recipe's setting.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="An environment variable.")
@click.option("--checkpoints", "checkpoint_uri", help="Where checkpoints go, as a URI.")
@click.option("--threads", type=int, help="Threads of each process.")
@click.option("--grace", "grace_s", type=float, help="Seconds it has to leave a machine.")
@click.option("--wait", is_flag=True, help="Wait for its end; exit code 7 unless it succeeded.")
@timeout_option(86400)
@json_option
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def submit(
    output: Output,
    /,
    wait: bool,
    timeout_s: float,
    argv: tuple[str, ...],
    config: tuple[str, ...],
    env: tuple[str, ...],
    deadline: str | None,
    max_runtime: str | None,
    **options: Any,
) -> int:
    """Submit a command, after `--`, or a recipe."""
    if bool(argv) == bool(options["recipe"]):
        raise click.UsageError("Give either a command after `--` or a --recipe.")
    body = given(options)
    body |= {"argv": list(argv)} if argv else {}
    body |= {"config": {k: _scalar(v) for k, v in pairs(config, "--set").items()}} if config else {}
    body |= {"env": pairs(env, "--env")} if env else {}
    body |= {"deadline": when(deadline, "--deadline")} if deadline else {}
    body |= {"max_runtime_s": _seconds(max_runtime)} if max_runtime else {}
    with connect() as client:
        now = client.submit_job(body)
        if wait:
            now = _until_ended(client, now, timeout_s)
    output.thing(now, _FIELDS)
    return Exit.OK if not wait or now["state"] == "succeeded" else Exit.TASK_FAILED


@job.command("list", epilog="Example: roost job list --state running")
@click.option("--state", help="Only jobs in this state.")
@json_option
@click.pass_obj
def list_(output: Output, state: str | None) -> None:
    """The jobs you may see, newest first."""
    columns = [
        ("name", "name"),
        ("state", "state"),
        ("why", "reason"),
        ("step", "step"),
        ("of", "total_steps"),
        ("attempt", "attempt"),
        ("cost", "cost"),
        ("owner", "owner_name"),
        ("id", "id"),
    ]
    with connect() as client:
        output.table(client.jobs(state), columns)


@job.command(epilog="Example: roost job show digits")
@click.argument("name")
@json_option
@click.pass_obj
def show(output: Output, name: str) -> None:
    """One job and its attempts."""
    with connect() as client:
        now = client.job(name)
    output.thing(now, _FIELDS)
    if output.as_json or not now["attempts"]:
        return
    output.text("")
    columns = [
        ("attempt", "number"),
        ("state", "state"),
        ("why", "reason"),
        ("mode", "mode"),
        ("resumed at", "resumed_step"),
        ("step", "step"),
        ("checkpoint", "checkpoint_step"),
        ("notice", "notice"),
        ("machine", "instance_id"),
    ]
    output.table(now["attempts"], columns)
    started = [_boot(each) for each in now["attempts"] if each["boot"]]
    if started:
        output.text("\nSeconds from the decision to the first step:")
        output.table(started, [(name, name) for name in started[0]])


def _boot(attempt: Json) -> Json:
    """How one attempt came up, in the order of time."""
    boot = attempt["boot"]
    measured = ", ".join(f"{part} {seconds:g}" for part, seconds in boot["agent_s"].items())
    return {
        "attempt": attempt["number"],
        "accepted": boot["accept_s"],
        "running": boot["provision_s"],
        "agent": boot["boot_s"],
        "task": boot["task_s"],
        "first step": boot["first_step_s"],
        "of the agent's": measured or None,
    }


@job.command(epilog="Example: roost job logs digits --follow")
@click.argument("name")
@click.option("--follow", "-f", is_flag=True, help="Go on until the job has ended.")
@json_option
@click.pass_obj
def logs(output: Output, name: str, follow: bool) -> None:
    """What a job has written."""
    with connect() as client:
        parts = _log(client, name, follow)
        if output.as_json:
            output.value({"text": "".join(parts)})
            return
        for text in parts:
            output.emitted = True
            click.echo(text, nl=False)


@job.command(epilog="Example: roost job cancel digits")
@click.argument("name")
@json_option
@click.pass_obj
def cancel(output: Output, name: str) -> None:
    """Cancel a job."""
    with connect() as client:
        output.thing(client.cancel_job(name), _FIELDS)


def _log(client: Client, name: str, follow: bool) -> Iterator[str]:
    cursor: str | None = None
    while True:
        part = client.job_logs(name, cursor)
        if part["text"]:
            yield part["text"]
        if part["ended"] or not (part["text"] or follow):
            return
        cursor = part["next"] or cursor
        if not part["text"]:
            time.sleep(POLL_S)


def _until_ended(client: Client, now: Json, timeout_s: float) -> Json:
    note(f"job {now['id']}")
    return wait_for(
        partial(client.job, now["id"]), lambda each: each["state"] in _ENDED, _line, timeout_s
    )


def _line(now: Json) -> str:
    steps = "" if now["step"] is None else f", step {now['step']} of {now['total_steps'] or '?'}"
    return f"{now['name']}: {now['state']} ({now['reason']}), attempt {now['attempt']}{steps}"


def _scalar(text: str) -> Any:
    """A setting's value: JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _seconds(text: str) -> float:
    from policies.quantities import Duration

    try:
        return float(Duration.parse(text).seconds)
    except ValueError as error:
        raise click.UsageError(f"--max-runtime: {error}.") from error
