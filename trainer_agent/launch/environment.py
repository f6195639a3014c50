"""The environment of what the agent starts: torchrun's names, Roost's names, and no secret."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import trainer_agent
from trainer_agent.launch.spec import TaskSpec

TASK_MARK = "ROOST_TASK_ID"
"""Finds a task's processes when the shim that owned them was killed."""

_PRIVATE = ("ROOST_URL", "ROOST_BOOTSTRAP_TOKEN_FILE", "ROOST_STATE_DIR", "ROOST_METADATA")


def public_environment(own: Mapping[str, str]) -> dict[str, str]:
    """The agent's environment without what leads to its secrets; finds this package again."""
    root = str(Path(trainer_agent.__file__).resolve().parent.parent)
    paths = [root, *(path for path in own.get("PYTHONPATH", "").split(os.pathsep) if path)]
    kept = {name: text for name, text in own.items() if name not in _PRIVATE}
    return kept | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def rank_environment(
    spec: TaskSpec, local_rank: int, progress: Path, own: Mapping[str, str]
) -> dict[str, str]:
    """One rank's environment. The job may set its own variables, but not move a rank's place."""
    return {
        **public_environment(own),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(spec.threads),
        **spec.env,
        "RANK": str(spec.node * spec.nproc + local_rank),
        "WORLD_SIZE": str(spec.nodes * spec.nproc),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(spec.nproc),
        "GROUP_RANK": str(spec.node),
        "MASTER_ADDR": spec.master_addr,
        "MASTER_PORT": str(spec.master_port),
        "ROOST_JOB_ID": spec.job_id,
        "ROOST_ATTEMPT": str(spec.attempt),
        "ROOST_CHECKPOINT_URI": spec.checkpoint_uri,
        "ROOST_PROGRESS": str(progress),
        "ROOST_GRACE_S": f"{spec.grace_s:g}",
        TASK_MARK: spec.id,
    }


def command_line(argv: tuple[str, ...]) -> list[str]:
    """`python` means the interpreter that runs the agent: the one that can import this package."""
    return [sys.executable if argv[0] == "python" else argv[0], *argv[1:]]


def working_folder(own: Mapping[str, str]) -> Path:
    """The home volume where the machine has one, else `/`, which is always there."""
    home = Path(own.get("ROOST_HOME") or "/")
    return home if home.is_dir() else Path("/")
