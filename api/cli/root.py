"""The `roost` command: its groups, and how every error ends in one line and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from api.cli import (
    access,
    costs,
    demos,
    instances,
    jobs,
    launches,
    login,
    offers,
    policies,
    status,
    up,
    workstations,
)
from api.cli.exits import TEXT, Exit, exit_for
from api.cli.output import Output
from provisioner.errors import RoostError


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=TEXT,
)
def root() -> None:
    """Workstations and preemption-tolerant training jobs, and what they cost.

    \b
    Begin on one machine:
      roost up
      roost workstation create desk --wait
      roost workstation exec desk -- python --version
    """


for _command in (
    up.up,
    login.login,
    status.status,
    status.quotas,
    workstations.workstation,
    jobs.job,
    offers.offers,
    policies.policy,
    costs.cost,
    costs.report,
    access.team,
    access.person,
    access.token,
    instances.instance,
    launches.launches,
    demos.demo,
):
    root.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run `roost` and end the process with its exit code; a user never sees a traceback."""
    _open_closed_streams()
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run `roost` and return its exit code."""
    output = Output()
    try:
        code = root.main(list(arguments), prog_name="roost", standalone_mode=False, obj=output)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return Exit.USAGE
    except click.ClickException as error:
        output.as_json = output.as_json or "--json" in _own(arguments)
        return _usage(output, error)
    except RoostError as error:
        return _told(output, error)
    except (click.Abort, KeyboardInterrupt):
        return _ended(output, "interrupted", "Interrupted.", None, Exit.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our stdout has what it wanted; Python would complain once more at exit.
        _close_stdout()
        return Exit.FAILED
    except OSError as error:
        detail = f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
        try:
            sys.stdout.flush()
        except OSError:  # it was stdout that failed, and would once more at exit
            _close_stdout()
        return _ended(output, "io", detail, None, Exit.FAILED)
    except Exception as error:  # noqa: BLE001 (the last resort: a line, never a traceback)
        return _ended(output, "internal", _where(error), "Please report it.", Exit.FAILED)
    return int(code) if isinstance(code, int) else Exit.OK


def _where(error: Exception) -> str:
    """An error that nobody foresaw, with the place it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "nowhere"
    return f"Unforeseen {type(error).__name__} at {place}: {error}."


def _told(output: Output, error: RoostError) -> int:
    body = getattr(error, "body", None)
    code = exit_for(error)
    return _ended(output, error.code, error.message, error.remedy, code, body=body)


def _usage(output: Output, error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    remedy = f"See `{context.command_path} --help`." if context else None
    code = Exit.USAGE if isinstance(error, click.UsageError) else Exit.FAILED
    return _ended(output, "usage", error.format_message(), remedy, code)


def _ended(
    output: Output,
    code: str,
    detail: str,
    remedy: str | None,
    exit_code: Exit,
    *,
    body: object = None,
) -> int:
    if output.as_json and not output.emitted:
        problem = {"type": f"urn:roost:problem:{code}", "detail": detail, "remedy": remedy}
        with contextlib.suppress(BrokenPipeError):
            output.value(body or problem)
    else:
        words = " ".join(f"{detail} {remedy or ''}".split())
        click.echo(f"roost: {words}", err=True)
    return exit_code


def _own(arguments: Sequence[str]) -> Sequence[str]:
    """The arguments before `--`: those after it belong to somebody else's command."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _close_stdout() -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed_streams() -> None:
    """Point closed standard streams to nowhere: else the next file opened gets their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
