"""Machines on hosts that a team owns, through real sshds."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from policies.world import Offer
from provisioner.errors import (
    Ambiguous,
    AuthError,
    CapacityError,
    InvalidRequest,
    NotFound,
    ProviderError,
)
from provisioner.providers.contract import LaunchRequest, MachineState
from provisioner.providers.contract import Machine as LaunchedMachine
from provisioner.providers.ssh.provider import SshProvider
from tests.contract.machines import LocalMachines, wait_until
from tests.provisioner.providers.ssh.conftest import Make
from tests.provisioner.providers.ssh.sshd import Machine

S = MachineState
WRITES = """#!/bin/sh
echo s3cret > $ROOST_STATE_DIR/s
echo kept > $HOME/k
(sleep 500 &)
sleep 600
"""
SLEEP = "#!/bin/sh\nexec sleep 600\n"
NVIDIA_SMI = """#!/bin/sh
echo GPU-aaaa, NVIDIA L4, {used}, 0
echo GPU-bbbb, NVIDIA L4, 3, {ecc}
"""
Hosts = tuple[Machine, Machine]


def offer_on(provider: SshProvider, host: str, gpus: int = 0) -> Offer:
    fitting = (o for o in provider.offers() if o.zone == host and o.resources.gpus == gpus)
    return min(fitting, key=lambda one: one.resources.cpus)


def request(
    provider: SshProvider, host: str, launch_id: str = "one", gpus: int = 0, **more: object
) -> LaunchRequest:
    made = LaunchRequest(launch_id, offer_on(provider, host, gpus), SLEEP)
    return replace(made, **more)  # type: ignore[arg-type]


def state(provider: SshProvider, machine_id: str) -> MachineState | None:
    return next((m.state for m in provider.list().machines if m.id == machine_id), None)


def comes_to(provider: SshProvider, machine_id: str, wanted: MachineState) -> None:
    wait_until(lambda: state(provider, machine_id) is wanted)


def test_hosts_are_joined_by_address_and_key_and_sell_their_slices(make: Make) -> None:
    provider = make()
    offers = provider.offers()
    assert {offer.zone for offer in offers} == {"ada", "ben"}
    assert {offer.mode for offer in offers} == {"on-demand"}
    cpus = os.cpu_count() or 1
    small = offer_on(provider, "ada")
    assert small.id == f"ssh/ada/ada/{small.instance_type}/on-demand"
    assert small.price_per_hour > 0
    assert max(offer.resources.cpus for offer in offers) <= cpus


def test_the_life_of_a_machine(make: Make, hosts: Hosts) -> None:
    provider = make()
    machine = provider.launch(request(provider, "ben", volume_id="home", tags=(("job", "j"),)))
    assert machine.id == "ben:one"
    comes_to(provider, machine.id, S.RUNNING)
    listing = provider.list()
    (listed,) = listing.machines
    assert (listed.launch_id, listed.tags) == ("one", (("job", "j"),))
    assert listed.offer_id == offer_on(provider, "ben").id
    (volume,) = listing.volumes
    assert (volume.zone, volume.attached_to) == ("ben", "ben:one")
    provider.stop(machine.id)
    comes_to(provider, machine.id, S.STOPPED)
    provider.start("one")  # by its launch id, which any host may have
    comes_to(provider, machine.id, S.RUNNING)
    provider.terminate(machine.id)
    comes_to(provider, machine.id, S.TERMINATED)
    provider.delete_volume("home")
    assert provider.list().volumes == ()
    with pytest.raises(NotFound):
        provider.stop("nobody")
    with pytest.raises(NotFound):
        provider.stop("ada:one")


def test_a_terminated_machine_is_wiped_and_its_home_kept(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    provider = make()
    asked = replace(request(provider, "ada", volume_id="home"), user_data=WRITES)
    machine = provider.launch(asked)
    wait_until(lambda: list(ada.folder.rglob("k")))
    assert LocalMachines(ada.folder / "roost" / "local").strays()
    provider.terminate(machine.id)
    comes_to(provider, machine.id, S.TERMINATED)
    wait_until(lambda: not LocalMachines(ada.folder / "roost" / "local").strays())
    left = [path for path in (ada.folder / "roost").rglob("*") if path.is_file()]
    assert not [path for path in left if b"s3cret" in path.read_bytes()]
    assert [path.name for path in left if path.name == "k"] == ["k"]


def test_user_data_is_no_argument_and_nobody_elses_to_read(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    provider = make()
    seen: set[str] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    seen.add(Path(f"/proc/{pid}/cmdline").read_text())
                except OSError:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    provider.launch(replace(request(provider, "ada"), user_data=SLEEP + "# t0ken\n"))
    comes_to(provider, "ada:one", S.RUNNING)
    done.set()
    watcher.join()
    assert any("local.remote" in line for line in seen)
    assert not any("t0ken" in line for line in seen)
    (kept,) = [
        path for path in (ada.folder / "roost").rglob("user-data") if "t0ken" in path.read_text()
    ]
    assert kept.stat().st_mode & 0o077 == 0


def test_a_host_with_another_key_is_refused(make: Make, hosts: Hosts) -> None:
    ada, ben = hosts
    other = (ben.folder / "host_key.pub").read_text().strip()
    provider = make(ada, host_key=other)
    with pytest.raises(AuthError, match="another key than `host_key` says"):
        provider.list()


def test_a_key_that_the_host_does_not_know(make: Make, hosts: Hosts) -> None:
    ada, ben = hosts
    with pytest.raises(AuthError, match="does not accept the key"):
        make(ada, key_file=ben.folder / "user_key").list()
    with pytest.raises(AuthError, match="cannot be read"):
        make(ada, key_file=ben.folder / "nowhere").list()


def test_an_interpreter_that_is_not_there(make: Make, hosts: Hosts) -> None:
    with pytest.raises(ProviderError, match=r"Check that `python9` is Python 3\.11"):
        make(hosts[0], python="python9").list()


@pytest.mark.parametrize("pause_s", [0.0, 0.05, 0.2, 0.5])
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
    again = _launched(provider, asked)
    comes_to(provider, again.id, S.RUNNING)
    assert len(provider.list().machines) == 1


def _launched(provider: SshProvider, asked: LaunchRequest) -> LaunchedMachine:
    """Asked again until it is answered, as the reconciler does."""
    for _ in range(20):
        try:
            return provider.launch(asked)
        except (Ambiguous, ProviderError):
            continue
    raise AssertionError("no launch was answered")


def test_a_host_that_hangs_is_silent_and_holds_up_no_other(make: Make, hosts: Hosts) -> None:
    _, ben = hosts
    provider = make()
    provider.launch(request(provider, "ada"))
    provider.launch(request(provider, "ben", "two"))
    stopped = [ben.process.pid, *ben.sessions()]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    listing = provider.list()
    assert listing.silent_regions == {"ben"}
    assert [machine.id for machine in listing.machines] == ["ada:one"]
    assert {offer.zone for offer in provider.offers()} == {"ada"}
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not provider.list().silent_regions)
    assert {machine.id for machine in provider.list().machines} == {"ada:one", "ben:two"}


def test_a_host_that_is_gone_keeps_its_machines_unknown_and_not_lost(
    make: Make, hosts: Hosts
) -> None:
    _, ben = hosts
    provider = make()
    machine = provider.launch(request(provider, "ben"))
    ben.cut()
    ben.process.terminate()
    ben.process.wait()
    assert provider.list().silent_regions == {"ben"}
    with pytest.raises(ProviderError, match="cannot be reached") as caught:
        provider.terminate(machine.id)
    assert not isinstance(caught.value, NotFound)
    with pytest.raises(ProviderError) as caught:
        provider.terminate("one")
    assert not isinstance(caught.value, NotFound), "it may be on the host that is away"


def test_slices_share_no_gpu(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    ada.put_on_path("nvidia-smi", NVIDIA_SMI.format(used=3, ecc=0))
    provider = make(ada, gpus=2)
    assert {o.resources.gpus for o in provider.offers()} == {0, 1, 2}
    assert {o.resources.gpu_model for o in provider.offers() if o.resources.gpus} == {"L4"}
    script = "#!/bin/sh\necho $CUDA_VISIBLE_DEVICES > $ROOST_STATE_DIR/gpu\nexec sleep 600\n"
    for name in ("one", "two"):
        provider.launch(replace(request(provider, "ada", name, gpus=1), user_data=script))
    with pytest.raises(CapacityError, match="0 GPUs are free"):
        provider.launch(request(provider, "ada", "three", gpus=1))
    wait_until(lambda: len(_held(ada)) == 2)
    assert _held(ada) == ["GPU-aaaa", "GPU-bbbb"]


def _held(host: Machine) -> list[str]:
    return sorted(p.read_text().strip() for p in host.folder.rglob("gpu") if p.read_text().strip())


@pytest.mark.parametrize(
    ("smi", "told"),
    [
        (None, "0 GPUs answer, it has 2"),
        (NVIDIA_SMI.format(used=3, ecc=2), "GPU-bbbb has 2 uncorrected ECC errors"),
    ],
)
def test_a_host_that_is_not_well_gets_nothing_more(
    make: Make, hosts: Hosts, smi: str | None, told: str
) -> None:
    ada, _ = hosts
    ada.put_on_path("nvidia-smi", smi or "#!/bin/sh\nexit 9\n")
    provider = make(ada, gpus=2)
    (trouble,) = provider.list().troubles
    assert told in trouble
    assert trouble.startswith("host ada: ")
    assert provider.offers() == ()


def test_a_host_that_is_drained_keeps_what_it_has(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    machine = make(ada).launch(request(make(ada), "ada"))
    drained = make(ada, drain=True)
    assert drained.offers() == ()
    assert [one.id for one in drained.list().machines] == [machine.id]
    drained.terminate(machine.id)
    comes_to(drained, machine.id, S.TERMINATED)


def test_two_installations_share_a_host_and_see_their_own(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    mine, theirs = make(ada), make(ada, installation="other")
    mine.launch(request(mine, "ada"))
    theirs.launch(request(theirs, "ada", "two"))
    assert [m.launch_id for m in mine.list().machines] == ["one"]
    assert [m.launch_id for m in theirs.list().machines] == ["two"]
    with pytest.raises(NotFound):
        theirs.terminate("one")


def test_many_at_once(make: Make, hosts: Hosts) -> None:
    provider = make()
    asked = [request(provider, "ada" if n % 2 else "ben", f"m{n}") for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        same = list(pool.map(provider.launch, [asked[0]] * 8))
        list(pool.map(provider.launch, asked))
    assert len({machine.id for machine in same}) == 1
    wait_until(lambda: all(m.state is S.RUNNING for m in provider.list().machines))
    assert len(provider.list().machines) == 8


def test_what_it_does_not_do_is_refused(make: Make, hosts: Hosts) -> None:
    provider = make(hosts[0])
    asked = request(provider, "ada")
    for bad in (
        replace(asked, offer=replace(asked.offer, zone="carl")),
        replace(asked, offer=replace(asked.offer, provider="aws")),
        replace(asked, volume_from="snap"),
    ):
        with pytest.raises(InvalidRequest):
            provider.launch(bad)
