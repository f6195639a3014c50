"""Python packages that tasks need and the machine's image lacks, installed in a folder of ours.

The image's own packages stay visible and win nothing: what is there in the wanted version is used,
the rest is installed beside it.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from trainer_agent.launch.atomic import write_atomic
from trainer_agent.supervise.trouble import run

_LIMIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Packages:
    """What is wanted, each as `name` or `name==version`."""

    folder: Path
    wanted: tuple[str, ...]
    index: str | None

    def interpreter(self) -> str:
        """One that has them all; this one where nothing is missing.

        Raises:
            NotYet: they cannot be installed; pip's own words are in the message.
        """
        if all(_is_here(one) for one in self.wanted):
            return sys.executable
        python = self.folder / "bin" / "python"
        asked = "\n".join((sys.executable, self.index or "", *self.wanted))
        note = self.folder / "roost-installed"
        if not (note.exists() and note.read_text() == asked):
            self._install(python)
            write_atomic(note, asked.encode())
        return str(python)

    def _install(self, python: Path) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)  # half of one, or what was wanted before
        run(
            sys.executable,
            "-m",
            "venv",
            "--system-site-packages",
            str(self.folder),
            limit_s=_LIMIT_S,
        )
        index = ("--index-url", self.index) if self.index else ()
        pip = (str(python), "-m", "pip", "--disable-pip-version-check", "install", "--no-input")
        run(*pip, "--no-warn-script-location", *index, *self.wanted, limit_s=_LIMIT_S)


def _is_here(wanted: str) -> bool:
    name, _, version = wanted.partition("==")
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return version in ("", found, found.partition("+")[0])
