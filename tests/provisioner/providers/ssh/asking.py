"""Asking an ssh provider in tests: its smallest offers, and waiting for a machine's state."""

from __future__ import annotations

from dataclasses import replace

from policies.world import Offer
from provisioner.errors import ProviderError
from provisioner.providers.contract import LaunchRequest, MachineState
from provisioner.providers.ssh.provider import SshProvider
from tests.contract.machines import wait_until
from tests.provisioner.providers.ssh.sshd import Machine

SLEEP = "#!/bin/sh\nexec sleep 600\n"
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
    try:
        machines = provider.list().machines
    except ProviderError:
        return None  # the host is asked again
    return next((machine.state for machine in machines if machine.id == machine_id), None)


def comes_to(provider: SshProvider, machine_id: str, wanted: MachineState) -> None:
    wait_until(lambda: state(provider, machine_id) is wanted)
