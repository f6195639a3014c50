"""Exit codes: what a script may rely on."""

from __future__ import annotations

from enum import IntEnum

from provisioner import errors


class Exit(IntEnum):
    """How a command ended; `workstation exec` ends with the code of the command it ran."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHED = 3
    NOT_FOUND = 4
    REFUSED = 5
    CONFLICT = 6
    TASK_FAILED = 7
    INTERRUPTED = 130


TEXT = """\b
Exit codes:
  0    done
  1    failed
  2    wrong usage
  3    the control plane cannot be reached, or does not know you
  4    no such thing, or not yours to see
  5    refused: by a policy, by a budget, or not allowed for you
  6    it clashes with what is there
  7    the job or the command itself failed
  130  interrupted
`workstation exec` ends with the exit code of the command it ran.
"""

_BY_CODE = {
    "unreachable": Exit.UNREACHED,
    "not-roost": Exit.UNREACHED,
    "unauthenticated": Exit.UNREACHED,
    "not-found": Exit.NOT_FOUND,
    "forbidden": Exit.REFUSED,
    "refused": Exit.REFUSED,
    "budget-exceeded": Exit.REFUSED,
    "conflict": Exit.CONFLICT,
    "in-progress": Exit.CONFLICT,
    "invalid": Exit.USAGE,
}


def exit_for(error: errors.RoostError) -> Exit:
    """The exit code that says what `error` says."""
    return _BY_CODE.get(error.code, Exit.FAILED)
