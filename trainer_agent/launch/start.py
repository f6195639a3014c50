"""Starts the shim of a task, detached: it and its ranks outlive the agent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from trainer_agent.launch.environment import public_environment
from trainer_agent.launch.folder import TaskFolder


def start_shim(folder: TaskFolder) -> subprocess.Popen[bytes]:
    """Start it. SIGTERM is held back until the shim can take it. Raises OSError.

    Starting it twice is harmless: the second finds the task claimed and leaves.
    """
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        with folder.shim_errors.open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "trainer_agent.launch.shim", str(folder.path)],
                env=public_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
