"""Turns what the operating system says into the provider's errors, with a way out."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from provisioner.errors import ProviderError

_P = ParamSpec("_P")
_R = TypeVar("_R")

_REMEDIES = {
    errno.ENOSPC: "Free some space on its file system, or move the provider's root folder.",
    errno.EDQUOT: "Free some of this user's disk quota, or move the provider's root folder.",
    errno.EROFS: "Set the provider's root folder to one on a writable file system.",
    errno.EACCES: "Make it accessible to this user, or set another root folder for the provider.",
    errno.EPERM: "Make it accessible to this user, or set another root folder for the provider.",
    errno.EAGAIN: "Raise this user's limit of processes, or run fewer machines.",
    errno.ENOMEM: "Free some memory, or run fewer machines.",
    errno.EMFILE: "Raise this user's limit of open files.",
}


def reported(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a method raise `ProviderError` where it would raise `OSError`."""

    @functools.wraps(call)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return call(*args, **kwargs)
        except OSError as error:
            raise host_error(error) from error

    return wrapper


def host_error(error: OSError) -> ProviderError:
    where = f"{error.filename}: " if error.filename else ""
    cause = error.strerror or str(error)
    remedy = _REMEDIES.get(error.errno or 0, "Check the host, then try again.")
    return ProviderError(f"the local provider cannot work here: {where}{cause}.", remedy=remedy)
