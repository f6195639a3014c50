from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from provisioner import agent_wheel
from provisioner.agent_wheel import build_agent_wheel
from provisioner.errors import StateError

ROOT = Path(__file__).parents[2]


def test_the_wheel_holds_the_agent_whole_and_nothing_else(tmp_path: Path) -> None:
    wheel = build_agent_wheel(tmp_path)
    assert wheel.filename == wheel.path.name == "roost_trainer_agent-0.1.0-py3-none-any.whl"
    assert wheel.sha256 == hashlib.sha256(wheel.path.read_bytes()).hexdigest()
    names = set(zipfile.ZipFile(wheel.path).namelist())
    assert {name.split("/")[0].split("-")[0] for name in names} == {
        "trainer_agent",
        "roost_trainer_agent",
    }
    modules = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "trainer_agent").rglob("*.py")
        if (path.parent / "__init__.py").exists()
    }
    assert modules <= names, "a package is missing in trainer_agent/pyproject.toml"
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(wheel.path).extractall(unpacked)
    where = "import trainer_agent.supervise.agent as a; print(a.__file__)"
    line = [sys.executable, "-c", where]
    found = subprocess.run(
        line, cwd=tmp_path, env={"PYTHONPATH": str(unpacked)}, capture_output=True, text=True
    )
    assert found.stdout.startswith(str(unpacked)), found.stderr


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = build_agent_wheel(tmp_path / "a"), build_agent_wheel(tmp_path / "b")
    assert first.sha256 == second.sha256
    assert first.path != second.path


def test_it_is_built_once_though_several_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(3) as pool:
        wheels = list(pool.map(lambda _: build_agent_wheel(tmp_path), range(3)))
    assert len({(wheel.path, wheel.sha256) for wheel in wheels}) == 1
    assert [path.name for path in tmp_path.iterdir()] == [wheels[0].path.parent.name]
    monkeypatch.setattr(agent_wheel, "_run_backend", None)
    assert build_agent_wheel(tmp_path) == wheels[0]


def test_the_agent_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from provisioner.agent_wheel import *; "
        f"build_agent_wheel(Path({str(tmp_path)!r})); "
        "sys.exit(any(name.startswith('trainer_agent') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="file/cache"):
        build_agent_wheel(tmp_path / "file" / "cache")
