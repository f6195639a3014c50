"""`roost policy check` reads files and needs no control plane."""

from __future__ import annotations

import json

from tests.api.cli.test_loading import roost


def test_a_good_policy(tmp_path):
    (tmp_path / "house.yaml").write_text("policy: house\nversion: 1\n")
    done = roost("policy", "check", str(tmp_path / "house.yaml"), home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    done = roost("policy", "check", "--json", str(tmp_path / "house.yaml"), home=tmp_path)
    assert json.loads(done.stdout) == []


def test_a_wrong_policy_is_told_by_line(tmp_path):
    file = tmp_path / "house.yaml"
    file.write_text("policy: house\nversion: 1\nallowed: {}\n")
    done = roost("policy", "check", str(file), home=tmp_path)
    assert done.returncode == 1
    assert f"{file}:3: error:" in done.stdout
    done = roost("policy", "check", "--json", str(file), home=tmp_path)
    assert done.returncode == 1
    (problem,) = json.loads(done.stdout)
    assert (problem["file"], problem["line"], problem["severity"]) == (str(file), 3, "error")


def test_a_missing_or_binary_file_is_wrong_usage(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("missing", "binary"):
        done = roost("policy", "check", str(tmp_path / name), home=tmp_path)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
