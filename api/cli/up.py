"""`roost up`: the control plane in this process."""

from __future__ import annotations

import contextlib
import ipaddress
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from api.cli import profile
from api.cli.output import Output, json_option, note
from provisioner.errors import StateError

if TYPE_CHECKING:
    from provisioner.settings import Settings

_BACKLOG = 256


class _StoppedError(Exception):
    """A signal asked for the end."""


@click.command(epilog="Example: roost up --state ./roost-state --port 8470")
@click.option("--state", type=click.Path(file_okay=False, path_type=Path), help="State folder.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0 takes a free one.")
@click.option("--host", help="Address to listen on; without TLS a loopback one.")
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="TOML file."
)
@json_option
@click.pass_obj
def up(
    output: Output, state: Path | None, port: int | None, host: str | None, config: Path | None
) -> None:
    """Run the control plane until it is told to stop (Ctrl-C or SIGTERM).

    The first start shows the admin's token, once, and stores it for the `roost` command.
    """
    from provisioner.settings import Settings
    from provisioner.statefolder import StateFolder

    settings = Settings.load(config, state=state, port=port, host=host)
    _refuse_open_host(settings)
    folder = StateFolder(settings.state)
    folder.lock()
    with (
        contextlib.suppress(_StoppedError),
        _signals(),
        contextlib.closing(_Port(folder.path)) as p,
    ):
        p.bind(settings.host, settings.port)
        _serve(output, settings, p)
    folder.unlock()


class _Port:
    """The listening socket, and the memory of it: local machines keep calling the old port."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "port"
        self.socket: socket.socket | None = None
        self.before = self._remembered()
        self.number = 0

    def bind(self, host: str, port: int) -> None:
        """Listen on `port`; with 0 on the port of the last time if it is free, else on any."""
        tries = [port] if port else [each for each in (self.before, 0) if each is not None]
        for number in tries:
            try:
                self.socket = _listen(host, number)
            except OSError as error:
                if number == tries[-1]:
                    raise StateError(
                        f"Port {number} of {host} cannot be used: {error.strerror}.",
                        remedy="Stop what uses it, or name another with --port (0: any).",
                    ) from error
                continue
            break
        assert self.socket is not None
        self.number = self.socket.getsockname()[1]
        self._file.write_text(f"{self.number}\n")

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()

    def _remembered(self) -> int | None:
        try:
            return int(self._file.read_text())
        except (OSError, ValueError):
            return None


def _serve(output: Output, settings: Settings, port: _Port) -> None:
    import logging

    import uvicorn

    from api.app import create_app
    from provisioner import tls
    from provisioner.app import build
    from provisioner.daemon import Daemon

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for noisy in ("uvicorn", "httpx", "apscheduler", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    url = _url(settings, port.number)
    public = settings.public_url or url
    roost = build(settings.model_copy(update={"port": port.number, "public_url": public}))
    certificate, key = settings.tls_certificate, settings.tls_key
    try:
        if certificate is not None and key is not None:
            tls.serving(certificate, key)
            tls.check_name(certificate, key, roost.ca, urlsplit(public).hostname or "")
            url = public  # the name that the certificate vouches for
        daemon = Daemon(roost)

        class Server(uvicorn.Server):
            """Announces itself once it answers."""

            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                # Only now: a token that is drawn and not shown locks everybody out.
                _announce(output, settings, port, url, roost.ca, roost.people.ensure_admin())

        assert port.socket is not None
        config = uvicorn.Config(
            create_app(roost),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=5,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        daemon.start()
        try:
            Server(config).run(sockets=[port.socket])
        finally:
            daemon.stop()
    finally:
        roost.close()


def _announce(
    output: Output, settings: Settings, port: _Port, url: str, ca: str | None, secret: str | None
) -> None:
    _remember(settings, port, url, ca, secret)
    if output.as_json:
        output.value({"url": url, "admin_token": secret})
        return
    output.text(f"Roost is at {url} and keeps its state in {settings.state}.")
    if secret is not None:
        output.text(f"The admin's token, shown this once: {secret}")
        output.text("Next, in another terminal: roost workstation create desk --wait")


def _remember(
    settings: Settings, port: _Port, url: str, ca: str | None, secret: str | None
) -> None:
    """Let the `roost` command of this user find us; that it cannot is no reason not to run."""
    try:
        stored = profile.load()
        known = stored
        if secret is not None:
            known = stored.with_token(url, secret, ca)
        elif port.before not in (None, port.number):
            known = stored.moved(_url(settings, port.before or 0), url)
        if known != stored:
            profile.save(known)
        if stored.current not in (None, known.current):
            note(f"`roost` now speaks to {known.current}, no longer to {stored.current}.")
    except StateError as error:
        note(f"roost: {error}")


def _refuse_open_host(settings: Settings) -> None:
    host = settings.host
    try:
        address = ipaddress.ip_address(host)
        loopback, anywhere = address.is_loopback, address.is_unspecified
    except ValueError:
        loopback, anywhere = host == "localhost", False
    if not loopback and settings.tls_certificate is None:
        raise StateError(
            f"{host} can be reached from other machines, and tokens would cross the network "
            "unencrypted.",
            remedy="Set tls_certificate and tls_key, or listen on 127.0.0.1, put a proxy with TLS "
            "before it and set public_url.",
        )
    if anywhere and settings.public_url is None:
        raise StateError(
            f"{host} is every address of this host, and none that a machine could call.",
            remedy="Set public_url to the name in the certificate, such as "
            "https://roost.example.org:8470.",
        )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol must be named: asyncio sends without delay only where it knows that this is TCP,
    # and each answer would wait 40 ms for the client's acknowledgement else.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def _url(settings: Settings, port: int) -> str:
    scheme = "http" if settings.tls_certificate is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{port}"


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM and SIGINT end the process cleanly; a second one ends it at once."""

    def stop(_number: int, _frame: FrameType | None) -> Any:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        raise _StoppedError

    before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
