"""What a boot does between the agent's download and its start, where it needs more than sh.

Prints the interpreter that the agent is to run with. Gives up nothing: what fails is tried again
for as long as the boot script waits, since a machine without its home or its packages is of no use,
and one that used a scratch folder as its home would lose what people keep there.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from trainer_agent.supervise.block_devices import BlockDevices
from trainer_agent.supervise.boot_parts import BootParts
from trainer_agent.supervise.home_disk import HomeDisk
from trainer_agent.supervise.packages import Packages
from trainer_agent.supervise.trouble import NotYet

_PAUSE_S = 1.0
_PAUSE_LIMIT_S = 15.0
_SAY_AGAIN_S = 60.0

Result = TypeVar("Result")
_log = logging.getLogger(__name__)


def main() -> int:
    """Prepare what the environment asks for; returns the exit code."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s roost-agent %(levelname)s %(message)s"
    )
    print(prepare(os.environ, BlockDevices()))
    return 0


def prepare(environment: Mapping[str, str], devices: BlockDevices) -> str:
    """The path of the interpreter with all packages, once the home is mounted."""
    state = Path(environment["ROOST_STATE_DIR"])
    parts = BootParts(state)
    if wanted := environment.get("ROOST_HOME_DISK"):
        home = HomeDisk.parse(wanted, Path(environment["ROOST_HOME"]), state, devices)
        with parts.measure("home"):
            _insist(home.mount)
    packages = Packages(
        state / "python",
        tuple(environment.get("ROOST_PACKAGES", "").split()),
        environment.get("ROOST_PACKAGE_INDEX") or None,
    )
    with parts.measure("packages"):
        return _insist(packages.interpreter)


def _insist(step: Callable[[], Result]) -> Result:
    """Do it until it is done, and say what is in the way: at once, and again now and then."""
    parent, pause_s, said, said_at = os.getppid(), _PAUSE_S, "", 0.0
    while True:
        try:
            return step()
        except NotYet as error:
            if str(error) != said or time.monotonic() - said_at > _SAY_AGAIN_S:
                said, said_at = str(error), time.monotonic()
                _log.warning("%s; trying on", said)
        if os.getppid() != parent:
            sys.exit("roost: nobody waits for this machine any more")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _PAUSE_LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
