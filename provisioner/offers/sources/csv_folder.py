"""CSV files that the settings name, kept up with: a file that has changed is read again."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from provisioner.errors import InvalidError
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.sources.csv_files import (
    FILES_STALE_AFTER,
    csv_files,
    read_csv,
    written_at,
)


class CsvFolder:
    """One path of the settings, a file or a folder; each file is a source of its own."""

    def __init__(self, path: Path, catalogue: Catalogue) -> None:
        self._path = path
        self._catalogue = catalogue
        self._read: dict[Path, tuple[int, int]] = {}
        """When each file was changed last, and its size, as it was read."""

    def read(self, now: datetime) -> None:
        """Read what has changed, and forget the files that are gone.

        Raises:
            InvalidError: some files cannot be read: these keep what they told last. All of them
                are named, and one of them hides no other.
        """
        files = csv_files(self._path)
        problems = []
        for file in self._read.keys() - set(files):
            if file.exists():
                problems.append(f"{file} holds no offers any more.")
            else:
                del self._read[file]
                self._catalogue.drop(str(file))
        for file in files:
            try:
                self._read_one(file, now)
            except (InvalidError, OSError) as error:
                problems.append(str(error))
        if problems:
            raise InvalidError(" ".join(sorted(problems)))

    def _read_one(self, file: Path, now: datetime) -> None:
        about = file.stat()
        stamp = (about.st_mtime_ns, about.st_size)
        if self._read.get(file) != stamp:
            at, columns = written_at(file, now), read_csv(file)
            self._catalogue.update_columns(str(file), columns, at, FILES_STALE_AFTER)
            self._read[file] = stamp
