"""The program that a host runs: the local provider of this very version, and nothing else.

It goes to the host once for each version, into a folder that is named by its contents.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_FILES = (
    "policies/__init__.py",
    "policies/codec.py",
    "policies/globs.py",
    "policies/plan.py",
    "policies/world.py",
    "provisioner/__init__.py",
    "provisioner/clock.py",
    "provisioner/errors.py",
    "provisioner/gpus.py",
    "provisioner/providers/__init__.py",
    "provisioner/providers/contract.py",
    "provisioner/providers/local/**/*.py",
)
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The same files make the same bytes."""

UNPACK = """
import hashlib, io, os, shutil, sys, zipfile
folder, sha256 = os.path.expanduser(sys.argv[1]), sys.argv[2]
if sys.version_info < (3, 11):
    sys.exit("Python 3.11 or later is needed, this is %d.%d" % sys.version_info[:2])
packed = sys.stdin.buffer.read()
if hashlib.sha256(packed).hexdigest() != sha256:
    sys.exit("the program arrived broken")
target = os.path.join(folder, "program", sha256)
os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
draft = "%s.%d" % (target, os.getpid())
zipfile.ZipFile(io.BytesIO(packed)).extractall(draft)
try:
    os.rename(draft, target)
except OSError:
    shutil.rmtree(draft)
    if not os.path.isdir(target):
        raise
"""
"""Run on the host with the folder and the hash, the program on stdin."""

RUN = """
import os, sys
target = os.path.join(os.path.expanduser(sys.argv[1]), "program", sys.argv[2])
if not os.path.isdir(target):
    sys.exit(3)
sys.path.append(target)
from provisioner.providers.local.remote import main
sys.exit(main())
"""
"""Run on the host with the folder and the hash; ends with `MISSING` when it is not there yet."""
MISSING = 3


@dataclass(frozen=True, slots=True)
class Program:
    packed: bytes
    sha256: str


@cache
def program() -> Program:
    """What is installed here, packed."""
    names = sorted(
        str(path.relative_to(_ROOT)) for pattern in _FILES for path in _ROOT.glob(pattern)
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), (_ROOT / name).read_bytes())
    packed = buffer.getvalue()
    return Program(packed, hashlib.sha256(packed).hexdigest())
