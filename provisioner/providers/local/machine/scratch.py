"""A /tmp and a /dev/shm of a machine's own, which vanish with its last process.

They are mounts in a namespace of the machine's; a user other than root needs a user namespace
around it, in which there is nobody but that user (so `sudo` does not work there). Standard library
only; Linux only.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_NOSUID, _MS_NODEV = 2, 4
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19
_PROBE_BYTES = 1 << 20
_TMP, _SHM = "/tmp", "/dev/shm"  # noqa: S108 (they are what is replaced)


def enter(tmp: str | None, shm_bytes: int) -> None:
    """Give them to this process, which must have one thread, and to all that it starts.

    `tmp` is the folder that is seen as /tmp from then on; None leaves /tmp as it is. Raises
    OSError.
    """
    _leave_shared_mounts()
    _mount("none", "/", None, _MS_REC | _MS_SLAVE)
    _mount("tmpfs", _SHM, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode=1777,size={shm_bytes}")
    if tmp is not None:
        _mount(tmp, _TMP, None, _MS_BIND)


def obstacle() -> str | None:
    """Why this user cannot have them here; None when it can. Found out by a child that does it."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            enter(None, _PROBE_BYTES)
            code = 0
        except OSError as error:
            code = error.errno or code
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if code == 0 else os.strerror(code)


def _leave_shared_mounts() -> None:
    if os.geteuid() == 0:
        try:
            _libc("unshare", _CLONE_NEWNS)
        except PermissionError:  # root of a container, without the capability
            pass
        else:
            return
    user, group = os.geteuid(), os.getegid()
    _libc("unshare", _CLONE_NEWNS | _CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    texts = (source.encode(), target.encode(), kind.encode() if kind else None)
    _libc("mount", *texts, ctypes.c_ulong(flags), options.encode() or None)


def _libc(name: str, *arguments: object) -> None:
    call: Callable[..., int] = getattr(ctypes.CDLL(None, use_errno=True), name)
    if call(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
