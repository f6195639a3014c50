"""Keys, connections that are cut or hang, and what becomes of a call meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from policies.world import PurchaseMode
from provisioner.errors import Ambiguous, AuthError, NotFound, ProviderError
from provisioner.providers.contract import MachineState
from provisioner.providers.ssh.provider import SshProvider
from tests.contract.machines import wait_until
from tests.provisioner.providers.ssh.asking import Hosts, comes_to, request
from tests.provisioner.providers.ssh.conftest import Make

S = MachineState


def test_a_host_with_another_key_is_refused(make: Make, hosts: Hosts) -> None:
    ada, ben = hosts
    other = (ben.folder / "host_key.pub").read_text().strip()
    with pytest.raises(AuthError, match="another key than `host_key` says"):
        make(ada, host_key=other).list()


def test_a_host_that_is_refused_is_told_and_the_others_go_on(make: Make, hosts: Hosts) -> None:
    _, ben = hosts
    (ben.folder / "authorized_keys").write_text("")
    listing = make().list()
    assert listing.silent_regions == {"ben"}
    (trouble,) = listing.troubles
    assert trouble.startswith("host ben does not accept the key")


def test_keys_that_cannot_be_used(make: Make, hosts: Hosts) -> None:
    ada, ben = hosts
    with pytest.raises(AuthError, match="does not accept the key"):
        make(ada, key_file=ben.folder / "user_key").list()
    with pytest.raises(AuthError, match="cannot be read"):
        make(ada, key_file=ben.folder / "nowhere").list()
    locked = ada.folder / "locked_key"
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "passphrase", "-f", str(locked)]
    subprocess.run(command, check=True)
    with pytest.raises(AuthError, match=r"cannot be read: .*[Pp]assphrase"):
        make(ada, key_file=locked).list()


def test_an_interpreter_that_is_not_there(make: Make, hosts: Hosts) -> None:
    with pytest.raises(ProviderError, match=r"Check that `python9` is Python 3\.11"):
        make(hosts[0], python="python9").list()


def test_an_interpreter_that_is_too_old(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    shutil.rmtree(ada.folder / "roost")
    code = "import sys; sys.version_info = (3, 8, 2); exec(sys.argv.pop(1))"
    ada.put_on_path(
        "python8", f"#!/bin/sh\nshift 3\nexec {ada.settings().python} -c '{code}' \"$@\"\n"
    )
    with pytest.raises(ProviderError, match=r"Python 3\.11 or later is needed, this is 3\.8"):
        make(ada, python="python8").list()


def test_a_shell_that_talks_as_it_starts(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    python = ada.settings().python
    ada.put_on_path("chatty", f'#!/bin/sh\necho Welcome.\necho 12\nexec {python} "$@"\n')
    assert make(ada, python="chatty").list().silent_regions == frozenset()


def test_most_calls_start_no_process(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    shutil.rmtree(ada.folder / "roost")
    count = ada.folder / "count"
    python = ada.settings().python
    ada.put_on_path("counted", f'#!/bin/sh\necho >> {count}\nexec {python} "$@"\n')
    provider = make(ada, python="counted")
    for _ in range(20):
        provider.list()
    assert len(count.read_text()) == 3  # not there yet, unpacked, there


@pytest.mark.parametrize("pause_s", [0.0, 0.02, 0.1, 0.3])
def test_a_launch_that_is_cut_off_and_repeated_makes_one_machine(
    make: Make, hosts: Hosts, pause_s: float
) -> None:
    ada, _ = hosts
    provider = make(ada)
    asked = request(provider, "ada")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(provider.launch, asked)
        threading.Event().wait(pause_s)
        ada.cut()
        failure = first.exception()
    assert failure is None or isinstance(failure, (Ambiguous, ProviderError))
    again = provider.launch(asked)
    comes_to(provider, again.id, S.RUNNING)
    assert len(provider.list().machines) == 1


def test_a_worker_that_was_killed_is_replaced(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    provider = make(ada)
    asked = request(provider, "ada")
    for session in ada.sessions():
        told = subprocess.run(["pgrep", "-P", str(session)], capture_output=True, text=True)
        for pid in told.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
    provider.launch(asked)
    ada.cut()
    assert [machine.id for machine in provider.list().machines] == ["ada:one"]


def test_a_host_that_hangs_is_silent_and_holds_up_no_other(make: Make, hosts: Hosts) -> None:
    _, ben = hosts
    calm = make()
    calm.launch(request(calm, "ada"))
    calm.launch(request(calm, "ben", "two"))
    provider = make(answer_within_s=3.0)
    wait_until(lambda: _heard(provider) == {"ada:one", "ben:two"})
    with ben.hanging():
        wait_until(lambda: _heard(provider) == {"ada:one"})
        listing = provider.list()
        assert listing.silent_regions == {"ben"}
        assert listing.troubles[0].startswith("host ben ")
        assert {offer.zone for offer in provider.offers()} == {"ada"}
        began = time.monotonic()
        provider.list()
        assert time.monotonic() - began < 3.0, "it is not waited for again and again"
        long_ago, now = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
        with pytest.raises(ProviderError, match="host ben does not answer"):
            provider.prices("local.1x2", "ben", PurchaseMode.ON_DEMAND, long_ago, now)
        assert provider.prices("local.1x2", "ada", PurchaseMode.ON_DEMAND, long_ago, now)
        assert time.monotonic() - began < 6.0
        provider.terminate("ada:one")
    wait_until(lambda: "ben:two" in _heard(provider))


def _heard(provider: SshProvider) -> set[str]:
    try:
        return {machine.id for machine in provider.list().machines}
    except ProviderError:
        return set()


def test_a_host_that_is_gone_keeps_its_machines_unknown_and_not_lost(
    make: Make, hosts: Hosts
) -> None:
    _, ben = hosts
    provider = make()
    machine = provider.launch(request(provider, "ben", volume_id="home"))
    comes_to(provider, machine.id, S.RUNNING)
    ben.vanish()
    assert provider.list().silent_regions == {"ben"}
    for call in (
        lambda: provider.terminate(machine.id),
        lambda: provider.terminate("one"),
        lambda: provider.delete_volume("home"),
        lambda: provider.delete_volume("another"),
    ):
        with pytest.raises(ProviderError, match="host ben cannot be reached") as caught:
            call()
        assert not isinstance(caught.value, NotFound), "it may be on the host that is away"
    provider.launch(request(provider, "ada", "two"))
    provider.terminate("two")  # which is on the host that answers


def test_it_says_so_when_nobody_answers(make: Make, hosts: Hosts) -> None:
    for host in hosts:
        host.vanish()
    with pytest.raises(ProviderError, match="cannot be reached"):
        make().list()
    with pytest.raises(ProviderError, match="cannot be reached"):
        make().offers()


def test_calls_under_way_end_when_it_is_closed(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    provider = make(ada)
    provider.list()
    with ada.hanging(), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(provider.stop, "one")
        wait_until(waiting.running)
        provider.close()
        assert isinstance(waiting.exception(10.0), ProviderError)
    with pytest.raises(ProviderError, match="is not asked any more"):
        provider.list()
