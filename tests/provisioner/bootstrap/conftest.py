from __future__ import annotations

from collections.abc import Iterator

import pytest

from provisioner.agent_wheel import AgentWheel, build_agent_wheel
from tests.provisioner.bootstrap.guest import Guest, can_boot
from tests.trainer_agent.supervise.control_plane import ControlPlane


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> AgentWheel:
    return build_agent_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def control(wheel: AgentWheel) -> Iterator[ControlPlane]:
    control = ControlPlane()
    control.wheel = wheel.path.read_bytes()
    control.open()
    yield control
    control.close()


@pytest.fixture(scope="session")
def _bootable() -> bool:
    return can_boot()


@pytest.fixture
def guest(_bootable: bool) -> Iterator[Guest]:
    if not _bootable:
        pytest.skip("only root can boot a machine with systemd here")
    guest = Guest()
    yield guest
    guest.close()
