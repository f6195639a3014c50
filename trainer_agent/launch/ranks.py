"""Starts one rank as a process of its own session that does not outlive its shim."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from trainer_agent.launch.environment import command_line, rank_environment, working_folder
from trainer_agent.launch.spec import TaskSpec

NOT_FOUND = 127
NOT_EXECUTABLE = 126
SYSTEM_ERROR = 71

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class StartError(Exception):
    """A command cannot be started; `code` is what a shell would exit with."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def start_rank(
    spec: TaskSpec, local_rank: int, progress: Path, own: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start it with stdout and stderr in one pipe. Raises `StartError`.

    The caller has one thread: the code between fork and exec is Python's.
    """
    environment = rank_environment(spec, local_rank, progress, own)
    line = command_line(spec.argv)
    try:
        return subprocess.Popen(
            line,
            env=environment,
            cwd=working_folder(own),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            preexec_fn=partial(_die_with_parent, os.getpid()),
        )
    except OSError as error:
        raise start_error(line[0], environment.get("PATH", ""), error) from error


def start_error(program: str, path: str, error: OSError) -> StartError:
    """What a person should know of a command that did not start."""
    if isinstance(error, FileNotFoundError):
        if ("/" in program and Path(program).exists()) or shutil.which(program, path=path):
            message = f"the interpreter named in the first line of {program!r} was not found"
        else:
            message = f"command {program!r} was not found on this machine (PATH={path})"
        return StartError(
            NOT_FOUND, f"{message}. Correct the command, or install it in the machine's image."
        )
    if isinstance(error, PermissionError):
        return StartError(
            NOT_EXECUTABLE,
            f"{program!r} is not executable. Run `chmod +x` on it, or name its interpreter first.",
        )
    return StartError(
        SYSTEM_ERROR,
        f"{program!r} did not start: {error.strerror}. Try a larger machine.",
    )


def adopt_orphans() -> None:
    """Become the parent of what descendants leave behind, even in sessions of their own."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _die_with_parent(parent: int) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the shim died before the line above
        os._exit(SYSTEM_ERROR)
