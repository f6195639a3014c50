"""What a host is asked about its health, and what becomes of its offers then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provisioner.errors import CapacityError
from provisioner.providers.local import remote
from tests.contract.machines import wait_until
from tests.provisioner.providers.ssh.asking import Hosts, request
from tests.provisioner.providers.ssh.conftest import Make
from tests.provisioner.providers.ssh.sshd import Machine

SHOWS_GPU = "#!/bin/sh\necho $CUDA_VISIBLE_DEVICES > $ROOST_STATE_DIR/gpu\nexec sleep 600\n"


def nvidia_smi(used: str = "3", ecc: str = "0") -> str:
    """Of two GPUs: what the first has in use, and the errors of the second."""
    rows = f"GPU-aaaa, NVIDIA L4, {used}, [N/A]\nGPU-bbbb, NVIDIA L4, 3, {ecc}\n"
    return f"#!/bin/sh\ncat <<END\n{rows}END\n"


def held_gpus(host: Machine) -> list[str]:
    return sorted(p.read_text().strip() for p in host.folder.rglob("gpu") if p.read_text().strip())


def test_slices_share_no_gpu(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    ada.put_on_path("nvidia-smi", nvidia_smi())
    provider = make(ada, gpus=2)
    assert {o.resources.gpus for o in provider.offers()} == {0, 1, 2}
    assert {o.resources.gpu_model for o in provider.offers() if o.resources.gpus} == {"L4"}
    for name in ("one", "two"):
        provider.launch(replace(request(provider, "ada", name, gpus=1), user_data=SHOWS_GPU))
    with pytest.raises(CapacityError, match="0 GPUs are free"):
        provider.launch(request(provider, "ada", "three", gpus=1))
    wait_until(lambda: held_gpus(ada) == ["GPU-aaaa", "GPU-bbbb"])
    provider.list()
    (gpus,) = [quota for quota in provider.quotas() if quota.name == "GPUs of the host"]
    assert (gpus.provider, gpus.region, gpus.limit, gpus.used) == ("ssh", "ada", 2, 2)


def test_a_gpu_that_somebody_else_uses_is_not_given_away(make: Make, hosts: Hosts) -> None:
    ada, _ = hosts
    ada.put_on_path("nvidia-smi", nvidia_smi(used="17000"))
    provider = make(ada)
    (trouble,) = provider.list().troubles
    assert trouble == "host ada: GPU-aaaa has 17000 MiB in use by what is no machine"
    provider.launch(replace(request(provider, "ada", gpus=1), user_data=SHOWS_GPU))
    wait_until(lambda: held_gpus(ada) == ["GPU-bbbb"])
    with pytest.raises(CapacityError, match="0 GPUs are free"):
        provider.launch(request(provider, "ada", "two", gpus=1))
    ada.put_on_path("nvidia-smi", nvidia_smi())
    assert provider.list().troubles == ()
    provider.launch(request(provider, "ada", "two", gpus=1))


@pytest.mark.parametrize(
    ("smi", "told"),
    [
        ("#!/bin/sh\nexit 9\n", "0 GPUs answer, it has 2"),
        (nvidia_smi(ecc="2"), "GPU-bbbb has 2 uncorrected ECC errors"),
    ],
)
def test_a_host_that_is_not_well_gets_nothing_more(
    make: Make, hosts: Hosts, smi: str, told: str
) -> None:
    ada, _ = hosts
    ada.put_on_path("nvidia-smi", smi)
    provider = make(ada, gpus=2)
    assert f"host ada: {told}" in provider.list().troubles
    assert provider.offers() == ()
    ada.put_on_path("nvidia-smi", nvidia_smi())
    provider.list()
    assert provider.offers() != ()


def test_a_host_without_room_on_its_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "LEAST_FREE_GIB", 1e9)
    terms = remote.HostTerms("ada", "USD", *[remote.Decimal(0)] * 4, 1.0, False)
    host = remote.Host(2, 1 << 32)
    (trouble,) = remote._troubles(remote.Path("/"), host, terms)
    assert "GiB of disk are free, 1e+09 are needed" in trouble


def test_a_host_that_cannot_hold_machines_to_their_limits_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nowhere() -> None:
        raise remote.LimitsUnavailableError("no cgroup may be made")

    monkeypatch.setattr(remote, "find_limits", nowhere)
    terms = remote.HostTerms("ada", "USD", *[remote.Decimal(0)] * 4, 1.0, True)
    troubles = list(remote._troubles(remote.Path("/"), remote.Host(2, 1 << 32), terms))
    assert "it cannot hold machines to their CPUs and memory: no cgroup may be made" in troubles
