"""What is left of a machine that was terminated: nothing but its home."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from provisioner.providers.contract import MachineState
from provisioner.providers.local.machine.scratch import obstacle
from tests.contract.machines import LocalMachines, wait_until
from tests.provisioner.providers.ssh.asking import Hosts, comes_to, request
from tests.provisioner.providers.ssh.conftest import Make

S = MachineState
SHM = Path("/dev/shm")
WRITES = """#!/bin/sh
echo s3cret > $ROOST_STATE_DIR/s
echo s3cret > {shm}
echo s3cret > $(mktemp)
echo kept > $HOME/kept
(setsid sleep 500 &)
trap '' TERM
while :; do sleep 1; done
"""


def test_a_terminated_machine_is_wiped_and_its_home_kept(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    local = LocalMachines(ada.folder / "roost" / "local")
    shared = SHM / f"roost-{os.getpid()}"
    provider = make()
    asked = request(provider, "ada", volume_id="home", user_data=WRITES.format(shm=shared))
    machine = provider.launch(asked)
    wait_until(lambda: list(ada.folder.rglob("kept")))
    assert len(local.strays()) >= 3
    assert list((local.folder("one").path / "disk" / "tmp").iterdir())
    if obstacle() is None:
        assert not shared.exists(), "it is the machine's own"
    else:
        shared.unlink()
        assert "stays there" in provider.list().troubles[-1]
    provider.terminate(machine.id)
    comes_to(provider, machine.id, S.TERMINATED)
    wait_until(lambda: not local.strays())
    left = [path for path in (ada.folder / "roost").rglob("*") if path.is_file()]
    assert not [path for path in left if b"s3cret" in path.read_bytes()]
    assert not (local.folder("one").path / "disk").exists()
    assert [path.parent.parent.name for path in left if path.name == "kept"] == ["home"]


def test_a_machine_that_boots_again_has_an_empty_tmp(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    provider = make()
    script = "#!/bin/sh\nls $(dirname $(mktemp)) | wc -l >> $HOME/counts\nexec sleep 600\n"
    provider.launch(replace(request(provider, "ada"), user_data=script))
    (counts,) = wait_for_files(ada.folder, "counts")
    comes_to(provider, "ada:one", S.RUNNING)
    provider.stop("one")
    comes_to(provider, "ada:one", S.STOPPED)
    provider.start("one")
    wait_until(lambda: counts.read_text().split() == ["1", "1"])


def wait_for_files(folder: Path, name: str) -> list[Path]:
    wait_until(lambda: [path for path in folder.rglob(name) if path.read_text()])
    return list(folder.rglob(name))
