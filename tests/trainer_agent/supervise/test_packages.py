"""Packages that an image lacks, from an index over real HTTP by real pip."""

from __future__ import annotations

import functools
import hashlib
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from trainer_agent.supervise.packages import Packages
from trainer_agent.supervise.trouble import NotYet, run

NAME = "roost-test-thing"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A package index with one package."""
    folder = tmp_path / "index" / NAME
    folder.mkdir(parents=True)
    wheel = folder / "roost_test_thing-1.5-py3-none-any.whl"
    inside = "roost_test_thing-1.5.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("roost_test_thing.py", "answer = 42\n")
        file.writestr(f"{inside}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.5\n")
        file.writestr(
            f"{inside}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{inside}/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "index.html").write_text(f'<a href="{wheel.name}#sha256={digest}">{wheel.name}</a>')
    handler = functools.partial(Quiet, directory=str(tmp_path / "index"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_what_is_missing_is_installed_beside_what_is_there(tmp_path: Path, index: str) -> None:
    folder = tmp_path / "python"
    (folder / "half").mkdir(parents=True)  # of one that was killed
    packages = Packages(folder, (f"{NAME}==1.5",), index)
    python = packages.interpreter()
    assert python == str(folder / "bin" / "python")
    code = "import roost_test_thing as t; print(t.answer)"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "42\n"
    made = folder.stat().st_mtime_ns
    assert packages.interpreter() == python
    assert folder.stat().st_mtime_ns == made, "the next boot finds it as it is"


def test_what_the_image_has_is_not_installed(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    assert Packages(tmp_path / "python", (), None).interpreter() == sys.executable
    assert Packages(tmp_path / "python", ("pytest",), nowhere).interpreter() == sys.executable
    pinned = f"pytest=={pytest.__version__}"
    assert Packages(tmp_path / "python", (pinned,), nowhere).interpreter() == sys.executable
    assert not (tmp_path / "python").exists()


def test_a_step_that_fails_says_how() -> None:
    with pytest.raises(NotYet, match="ended with 3: no room"):
        run("sh", "-c", "echo no room >&2; exit 3", limit_s=10)
    with pytest.raises(
        NotYet, match=r"this machine has no mkfs\.nothing; take an image that has it"
    ):
        run("mkfs.nothing", limit_s=10)
    with pytest.raises(NotYet, match="did not end well"):
        run("sleep", "10", limit_s=0.01)
    assert run("sh", "-c", "exit 2", limit_s=10, accepted=(0, 2)).returncode == 2
