"""`roost login`: remember a control plane and a token for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

import click

from api.cli import profile
from api.cli.output import Output, json_option, note


@click.command(epilog="Example: roost login http://127.0.0.1:8470 --token-file token.txt")
@click.argument("url", required=False)
@click.option(
    "--token-file", type=click.File("r"), help="Where the token is; `-` or none is stdin."
)
@click.option(
    "--ca",
    "ca_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="PEM file of the only certificates to trust there; it is stored.",
)
@json_option
@click.pass_obj
def login(
    output: Output, url: str | None, token_file: IO[str] | None, ca_file: Path | None
) -> None:
    """Store the URL of a control plane and your token, in a file only you can read.

    The token is asked for, or read from a file or stdin. ROOST_URL, ROOST_TOKEN and ROOST_CA_FILE
    win over what is stored.
    """
    stored = profile.load()
    chosen = profile.tidy(
        url or os.environ.get("ROOST_URL") or stored.current or profile.DEFAULT_URL
    )
    token = profile.clean_token(_read(token_file))
    ca = profile.authority(chosen) if ca_file is None else profile.read_authority(ca_file)
    from api.client import Client

    with Client(chosen, token, ca=ca) as client:
        me = client.me()
    profile.save(stored.with_token(chosen, token, ca))
    for variable in ("ROOST_URL", "ROOST_TOKEN", "ROOST_CA_FILE"):
        if variable in os.environ:
            note(f"{variable} is set and wins over what was stored.")
    if output.as_json:
        output.value({"url": chosen, "person": me})
    else:
        output.text(f"{chosen} knows you as {me['name']} ({me['role']}).")


def _read(token_file: IO[str] | None) -> str:
    if token_file is not None:
        return token_file.read(4096)
    if sys.stdin.isatty():
        answer: str = click.prompt("Token", hide_input=True, err=True)
        return answer
    return sys.stdin.readline(4096)
