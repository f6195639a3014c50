"""The ssh provider with two hosts of the team's own: real sshds, and time is the hosts'."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from provisioner.clock import SystemClock
from provisioner.providers.contract import Provider
from provisioner.providers.local.provider import LocalProvider
from provisioner.providers.local.settings import LocalSettings
from provisioner.providers.ssh.provider import SshProvider
from provisioner.providers.ssh.settings import SshSettings
from tests.contract.bench import Bench
from tests.contract.machines import LocalMachines, wait_until
from tests.provisioner.providers.ssh.sshd import PYTHON, Machine, machine

PRICES = {
    "price_per_cpu_hour": Decimal("0.02"),
    "price_per_gib_hour": Decimal("0.0025"),
    "price_per_gpu_hour": Decimal("0.60"),
}
GIB_MONTH = Decimal("0.05")
PATIENCE_S = 30.0
_PYTHON = """#!{python} -I
# The host's Python, but for calls whose names are in a file: they are carried out, not answered.
import json, os, pathlib, signal, subprocess, sys

command = ["{python}", *sys.argv[1:]]
if "remote import main" not in " ".join(command):
    os.execv(command[0], command)
marker = pathlib.Path("{folder}/cut-off")
worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
calls, answers = sys.stdin.buffer, sys.stdout.buffer
if greeting := worker.stdout.readline():
    answers.write(greeting)
    answers.flush()
while greeting and (line := calls.readline()):
    worker.stdin.write(line)
    worker.stdin.flush()
    size = worker.stdout.readline()
    answer = worker.stdout.read(int(size or 0))
    lost = marker.read_text().split() if marker.exists() else []
    if json.loads(line)["call"] in lost:
        marker.write_text(" ".join(lost[1:]))
        os.kill(os.getpid(), signal.SIGKILL)
    answers.write(size + answer)
    answers.flush()
worker.stdin.close()
sys.exit(worker.wait())
"""


def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    folder: Path = request.getfixturevalue("tmp_path")
    with ExitStack() as stack:
        ada, ben = (stack.enter_context(machine(folder / name, name)) for name in ("ada", "ben"))
        for host in (ada, ben):
            host.bring_program()
            host.put_on_path("python", _PYTHON.format(folder=host.folder, python=PYTHON))
        provider = _provider("test", ada, ben)
        other = _provider("other", ada, ben)
        stack.callback(provider.close)
        stack.callback(other.close)

        def lose_reply(call: str) -> None:
            # A call whose answer is lost is sent once more; so both lose theirs.
            (ada.folder / "cut-off").write_text(f"{call} {call}")

        def silence() -> tuple[Provider, str]:
            ada.vanish()
            return provider, "ada"

        yield Bench(
            provider,
            other,
            SystemClock(),
            _pass_until,
            lambda start, end: _bill(ada, start, end),
            lose_reply=lose_reply,
            silence=silence,
        )
        for host in (ada, ben):
            LocalMachines(host.folder / "roost" / "local").end_all()


def _pass_until(condition: Callable[[], object]) -> None:
    """Asks less often than for machines of this process's own."""

    def asked() -> object:
        return condition() or threading.Event().wait(0.05)

    wait_until(asked, PATIENCE_S)


def _provider(installation: str, *hosts: Machine) -> SshProvider:
    told = [
        host.settings(
            python=str(host.folder / "bin" / "python"), price_per_gib_month=GIB_MONTH, **PRICES
        )
        for host in hosts
    ]
    settings = SshSettings(hosts=tuple(told))
    return SshProvider(settings, installation, answer_within_s=PATIENCE_S)


def _bill(host: Machine, start: datetime, end: datetime) -> dict[str, Decimal]:
    """What the host itself says."""
    settings = LocalSettings(
        region=host.name,
        zones=(host.name,),
        **PRICES,  # type: ignore[arg-type]
        price_per_volume_gib_month=GIB_MONTH,
        overcommit=64,
        limits="none",
    )
    local = LocalProvider(host.folder / "roost" / "local", "test", SystemClock(), settings)
    return {f"{host.name}:{id}": cost for id, cost in local.bill(start, end).items()}
