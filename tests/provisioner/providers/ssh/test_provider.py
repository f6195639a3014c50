"""Machines on hosts that a team owns, through real sshds; see also `test_contract`."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from policies.world import PurchaseMode
from provisioner.errors import CapacityError, InvalidRequest, NotFound, ProviderError
from provisioner.providers.contract import MachineState
from provisioner.providers.local.machine.files import read_json, write_json
from tests.contract.machines import LocalMachines, processes_with, wait_until
from tests.provisioner.providers.ssh.asking import (
    SLEEP,
    Hosts,
    comes_to,
    offer_on,
    request,
    state,
)
from tests.provisioner.providers.ssh.conftest import Make
from tests.provisioner.providers.ssh.sshd import Machine

S = MachineState


def test_hosts_are_joined_by_address_and_key_and_sell_their_slices(make: Make) -> None:
    provider = make()
    offers = provider.offers()
    assert {offer.zone for offer in offers} == {"ada", "ben"}
    assert {offer.mode for offer in offers} == {PurchaseMode.ON_DEMAND}
    small = offer_on(provider, "ada")
    assert small.id == f"ssh/ada/ada/{small.instance_type}/on-demand"
    assert small.price_per_hour > 0
    assert max(offer.resources.cpus for offer in offers) <= (os.cpu_count() or 1)
    assert provider.capabilities.same_host


def test_the_life_of_a_machine(make: Make) -> None:
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


def test_user_data_is_no_argument_and_nobody_elses_to_read(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    provider = make()
    seen: set[str] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
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
    assert kept.parent.stat().st_mode & 0o077 == 0


def test_a_machine_of_a_host_that_was_rebooted_is_stopped_and_starts_again(
    make: Make, hosts: Hosts
) -> None:
    ada, _ = hosts
    provider = make()
    provider.launch(request(provider, "ada", volume_id="home"))
    comes_to(provider, "ada:one", S.RUNNING)
    _reboot(ada, "one")
    comes_to(provider, "ada:one", S.STOPPED)
    (machine,) = provider.list().machines
    assert machine.message == "its host went down"
    assert machine.run_ended_at is not None
    provider.start("ada:one")
    comes_to(provider, "ada:one", S.RUNNING)


def _reboot(host: Machine, launch_id: str) -> None:
    """All processes are gone at once, and the kernel is another."""
    local = LocalMachines(host.folder / "roost" / "local")
    folder = local.folder(launch_id)
    boot, processes = folder.boot(), read_json(folder.file("init.json"))
    assert boot is not None
    assert processes is not None
    write_json(folder.file("boot.json"), boot | {"boot_id": "the one before"})
    for name in ("keeper", "init"):
        os.kill(processes[name]["pid"], 19)  # so that neither notices the other's death
    for pid in [processes["keeper"]["pid"], processes["init"]["pid"], *local.strays()]:
        os.kill(pid, 9)
    wait_until(lambda: not folder.alive() and not local.strays())


def test_a_host_that_is_drained_keeps_what_it_has(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    provider = make(ada)
    machine = provider.launch(request(provider, "ada"))
    drained = make(ada, drain=True)
    assert drained.offers() == ()
    assert [one.id for one in drained.list().machines] == [machine.id]
    drained.terminate(machine.id)
    comes_to(drained, machine.id, S.TERMINATED)


def test_two_installations_share_a_host_and_see_their_own(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    mine, theirs = make(ada, overcommit=1.0), make(ada, installation="other", overcommit=1.0)
    mine.launch(request(mine, "ada"))
    theirs.launch(request(theirs, "ada", "two"))
    assert [m.launch_id for m in mine.list().machines] == ["one"]
    assert [m.launch_id for m in theirs.list().machines] == ["two"]
    with pytest.raises(NotFound):
        theirs.terminate("one")
    whole = max(mine.offers(), key=lambda offer: offer.resources.cpus)
    with pytest.raises(CapacityError, match="host ada: no room"):
        mine.launch(replace(request(mine, "ada", "three"), offer=whole))
    (cpus,) = [quota for quota in mine.quotas() if quota.name == "CPUs of the host"]
    assert cpus.used == 2 * offer_on(mine, "ada").resources.cpus
    assert cpus.needed(whole) > cpus.limit - cpus.used


def test_many_at_once(make: Make) -> None:
    provider = make()
    asked = [request(provider, "ada" if n % 2 else "ben", f"m{n}") for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        same = list(pool.map(provider.launch, [asked[0]] * 8))
        list(pool.map(provider.launch, asked))
    assert len({machine.id for machine in same}) == 1
    wait_until(lambda: {state(provider, f"ben:m{n}") for n in (0, 2, 4, 6)} == {S.RUNNING})
    assert len(provider.list().machines) == 8
    assert len(processes_with(f"{asked[0].launch_id}/")) >= 1


def test_a_home_and_a_launch_have_one_host(make: Make) -> None:
    provider = make()
    machine = provider.launch(request(provider, "ada", volume_id="home"))
    comes_to(provider, machine.id, S.RUNNING)
    with pytest.raises(InvalidRequest, match="used before, on host ada"):
        provider.launch(request(provider, "ben", volume_id="home"))
    with pytest.raises(InvalidRequest, match="home home lies on host ada"):
        provider.launch(request(provider, "ben", "two", volume_id="home"))
    assert provider.launch(request(provider, "ada", volume_id="home")).id == machine.id


def test_what_it_does_not_do_is_refused(make: Make, hosts: Hosts) -> None:
    provider = make(hosts[0])
    asked = request(provider, "ada")
    for bad in (
        replace(asked, offer=replace(asked.offer, zone="carl")),
        replace(asked, offer=replace(asked.offer, provider="aws")),
        replace(asked, offer=replace(asked.offer, mode=PurchaseMode.SPOT)),
        replace(asked, volume_from="snap"),
    ):
        with pytest.raises(InvalidRequest):
            provider.launch(bad)
    assert provider.list().machines == ()
    now = datetime(2026, 3, 1, tzinfo=UTC)
    with pytest.raises(InvalidRequest):
        provider.prices("local.1x2", "ada", PurchaseMode.SPOT, now, now)


def test_an_id_of_a_host_that_is_not_known_is_not_taken_for_gone(make: Make) -> None:
    provider = make(gone=("carl",))
    with pytest.raises(ProviderError, match="host dora is not in the settings") as caught:
        provider.terminate("dora:one")
    assert not isinstance(caught.value, NotFound)
    with pytest.raises(NotFound):
        provider.terminate("carl:one")
