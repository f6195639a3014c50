"""The wheel that machines download: built from the `trainer_agent` that is installed beside us.

A machine therefore always gets the agent that its server speaks to. The package is found, copied
and built, never imported: it runs elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from provisioner.errors import StateError

_PACKAGE = "trainer_agent"
_BUILD_LIMIT_S = 300.0
_EPOCH = "315532800"  # 1980-01-01, the oldest time that a zip file can hold
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.py[co]", "*.egg-info", "build", "dist", ".*")
_BUILD = """
import sys
from setuptools import build_meta
print(build_meta.build_wheel(sys.argv[1]), file=sys.stderr)
"""


@dataclass(frozen=True, slots=True)
class AgentWheel:
    """A built wheel on this disk."""

    path: Path
    sha256: str
    filename: str


def build_agent_wheel(cache_dir: Path) -> AgentWheel:
    """Build it, or find the one that was built of the same sources.

    Needs no network: setuptools is installed with Roost. Several processes may call this at once.
    The same sources give the same bytes. Raises `StateError`.
    """
    source = _source()
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        target = cache_dir / _key(source)
        if not target.is_dir():
            _build_into(source, target)
        return _wheel_in(target)
    except OSError as error:
        raise StateError(
            f"the agent's wheel cannot be built in {cache_dir}: {error}.",
            remedy="Make that folder writable and see that its disk has room.",
        ) from error


def _source() -> Path:
    spec = find_spec(_PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders or not (Path(folders[0]) / "pyproject.toml").is_file():
        raise StateError(
            f"the package {_PACKAGE} and its pyproject.toml are not installed beside Roost.",
            remedy="Install Roost again from its wheel or its source tree.",
        )
    return Path(folders[0])


def _key(source: Path) -> str:
    """Changes with everything that the wheel's bytes depend on."""
    digest = hashlib.sha256(f"setuptools {metadata.version('setuptools')}\n".encode())
    for path in sorted(_files(source)):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(source).as_posix()} {content}\n".encode())
    return digest.hexdigest()[:32]


def _files(folder: Path) -> list[Path]:
    found = []
    for root, folders, names in os.walk(folder):
        left_out = _LEFT_OUT(root, [*folders, *names])
        folders[:] = [name for name in folders if name not in left_out]
        found += [Path(root) / name for name in names if name not in left_out]
    return found


def _build_into(source: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as scratch:
        tree, out = Path(scratch) / "tree", Path(scratch) / "out"
        shutil.copytree(source, tree, ignore=_LEFT_OUT, copy_function=shutil.copyfile)
        for path in _files(tree):
            path.chmod(0o644)  # modes are part of the wheel's bytes
        out.mkdir()
        _run_backend(tree, out)
        try:
            out.rename(target)
        except OSError:
            if not target.is_dir():  # else another builder was faster, with the same bytes
                raise


def _run_backend(tree: Path, out: Path) -> None:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-I", "-c", _BUILD, str(out)],
        cwd=tree,
        env=kept | {"SOURCE_DATE_EPOCH": _EPOCH},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=_BUILD_LIMIT_S,
        umask=0o022,
        check=False,
    )
    if done.returncode != 0:
        raise StateError(
            f"the agent's wheel cannot be built: {done.stdout.strip()[-800:]}",
            remedy="See that setuptools 77 or newer is installed in Roost's environment.",
        )


def _wheel_in(target: Path) -> AgentWheel:
    wheels = list(target.glob("*.whl"))
    if len(wheels) != 1:
        raise StateError(
            f"{target} should hold one wheel and holds {len(wheels)}.",
            remedy="Delete that folder; it is made again.",
        )
    path = wheels[0]
    return AgentWheel(path, hashlib.sha256(path.read_bytes()).hexdigest(), path.name)
