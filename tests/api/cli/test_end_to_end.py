"""The command against a real `roost up`: two processes and a file between them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.api.cli.test_loading import ROOT, roost
from tests.api.conftest import wait_until

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Up:
    home: Path
    state: Path
    process: subprocess.Popen[str]
    first: dict[str, str]

    def cli(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return roost(*arguments, home=self.home, **environment)

    def json(self, *arguments: str, code: int = 0) -> object:
        done = self.cli(*arguments, "--json")
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)


@contextlib.contextmanager
def up(home: Path, *arguments: str) -> Iterator[Up]:
    state = home / "state"
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    with (home / "log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "api.cli", "up", "--json", "--state", str(state), *arguments],
            cwd=ROOT,
            env=kept | {"XDG_CONFIG_HOME": str(home), "ROOST_LOCAL__LIMITS": "none"},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (home / "log").read_text()
        yield Up(home, state, process, json.loads(line))
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, (home / "log").read_text()
        assert process.stdout.read() == ""
        assert "Traceback" not in (home / "log").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("home"), "--port", "0") as started:
        yield started


def test_the_next_command_works_at_once(running):
    status = running.json("status")
    assert [each["name"] for each in status["providers"]] == ["local"]
    assert running.cli("status").stdout.startswith("url ")


def test_the_token_is_told_once_and_never_logged(running):
    token = running.first["admin_token"]
    assert token.startswith("roost_")
    running.cli("status", ROOST_TOKEN="roost_wrong")
    assert "roost_" not in (running.home / "log").read_text()


def test_a_team_its_people_and_their_tokens(running):
    assert running.json("team", "create", "vision")["name"] == "vision"
    budget = running.json("team", "budget", "vision", "250.00", "USD")
    assert budget["budget_amount"] == "250.00"
    running.json("person", "create", "mina", "--team", "vision")
    made = running.cli("token", "create", "mina", "--label", "laptop")
    secret = made.stdout.strip()
    assert secret.startswith("roost_")
    assert secret not in made.stderr
    me = running.cli("workstation", "list", "--json", ROOST_TOKEN=secret)
    assert json.loads(me.stdout) == []
    refused = running.cli("team", "create", "other", ROOST_TOKEN=secret)
    assert refused.returncode == 5
    assert len(refused.stderr.splitlines()) == 1
    tokens = running.json("token", "list")
    (mine,) = [each for each in tokens if each["person_name"] == "mina"]
    assert running.json("token", "revoke", mine["id"])["revoked"] is True
    assert running.cli("status", ROOST_TOKEN=secret).returncode == 3
    assert "vision" in {each["name"] for each in running.json("team", "list")}
    assert "vision" in running.cli("team", "list").stdout


def test_exit_codes_say_what_happened(running, tmp_path):
    running.cli("team", "create", "speech")
    assert running.cli("team", "create", "speech").returncode == 6
    assert running.json("team", "create", "speech", code=6)["type"].endswith(":conflict")
    assert running.cli("workstation", "show", "nothing").returncode == 4
    assert running.cli("team", "create", "No Name").returncode == 2
    assert running.cli("status", ROOST_TOKEN="roost_wrong").returncode == 3
    running.cli("team", "budget", "speech", "0.0001")
    poor = running.cli("workstation", "create", "desk", "--team", "speech")
    assert poor.returncode == 5
    assert "speech" in poor.stderr


def test_a_login_from_a_file_and_from_stdin(running, tmp_path):
    (tmp_path / "token").write_text(running.first["admin_token"] + "\n")
    url = running.first["url"]
    done = roost("login", url, "--token-file", str(tmp_path / "token"), home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert roost("team", "list", home=tmp_path).returncode == 0
    (tmp_path / "token").write_text("roost_wrong")
    other = tmp_path / "other"
    done = roost("login", url, "--token-file", str(tmp_path / "token"), home=other)
    assert done.returncode == 3
    assert not (other / "roost").exists()
    assert roost("login", url, home=other).returncode == 3


def test_policies_and_costs(running, tmp_path):
    (tmp_path / "house.yaml").write_text("policy: house\nversion: 1\n")
    assert running.json("policy", "apply", str(tmp_path / "house.yaml"))["version"] == 1
    assert [each["name"] for each in running.json("policy", "list")] == ["house"]
    assert "decisions" in running.json("policy", "plan")
    assert running.cli("policy", "plan").returncode == 0
    running.cli("team", "create", "finance")
    assert running.json("cost", "show", "--team", "finance")["team_name"] == "finance"
    assert running.cli("cost", "show", "--team", "finance", "--by", "job").returncode == 0
    out = tmp_path / "report.html"
    assert running.json("report", "--team", "finance", "--out", str(out)) == {"file": str(out)}
    assert "finance" in out.read_text()
    assert running.json("offers", "--spot")
    assert running.json("instance", "list") == []


def test_a_reader_that_goes_away_is_no_traceback(running):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "api.cli", "offers"],
        cwd=ROOT,
        env=kept | {"XDG_CONFIG_HOME": str(running.home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(30) == 1


def test_a_second_control_plane_is_told_of_the_first(running):
    done = roost("up", "--state", str(running.state), "--port", "0", "--json", home=running.home)
    assert done.returncode == 1
    assert "Another control plane" in json.loads(done.stdout)["detail"]


def test_a_busy_port_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        done = roost("up", "--state", str(tmp_path / "s"), "--port", port, home=tmp_path)
    assert done.returncode == 1
    assert "--port" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_restart_has_the_old_port_and_no_new_token(tmp_path):
    with up(tmp_path, "--port", "0") as first:
        assert first.json("team", "create", "vision")
    with up(tmp_path, "--port", "0") as second:
        assert second.first == {"url": first.first["url"], "admin_token": None}
        assert "vision" in {each["name"] for each in second.json("team", "list")}
    with socket.create_server(("127.0.0.1", int(first.first["url"].rsplit(":", 1)[1]))):
        with up(tmp_path, "--port", "0") as third:
            assert third.first["url"] != first.first["url"]
            assert "vision" in {each["name"] for each in third.json("team", "list")}
        assert third.process.returncode == 0


def test_a_desk_from_nothing_to_a_command_and_away(running):
    made = running.cli("workstation", "create", "desk", "--wait", "--json")
    assert made.returncode == 0, made.stdout + made.stderr
    assert json.loads(made.stdout)["phase"] == "ready"
    assert "desk: " in made.stderr
    done = running.cli("workstation", "exec", "desk", "--", "sh", "-c", "echo out; echo err >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")
    assert running.cli("workstation", "exec", "desk", "sh", "-c", "exit 42").returncode == 42
    full = running.cli("workstation", "exec", "--json", "desk", "--", "sh", "-c", "exit 3")
    assert full.returncode == 3
    assert json.loads(full.stdout)["exit_code"] == 3
    late = running.cli("workstation", "exec", "--timeout", "0.5", "desk", "--", "sleep", "60")
    assert late.returncode == 7
    assert running.json("policy", "explain", "desk")
    stopped = running.cli("workstation", "stop", "desk", "--wait", "--json")
    assert json.loads(stopped.stdout)["phase"] == "off"
    assert running.cli("workstation", "delete", "desk").returncode == 130
    assert running.cli("workstation", "delete", "desk", "--yes").returncode == 0
    wait_until(lambda: running.json("instance", "list") == [], 60)


def test_a_job_is_waited_for_and_its_log_followed(running):
    good = ("--", "python", "-c", "print('hello from the job')")
    done = running.cli("job", "submit", "--name", "good", "--wait", "--json", *good)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["state"] == "succeeded"
    assert "hello from the job" in running.cli("job", "logs", "good", "--follow").stdout
    bad = ("--", "python", "-c", "raise SystemExit(64)")
    done = running.cli("job", "submit", "--name", "bad", "--wait", *bad)
    assert done.returncode == 7, done.stdout + done.stderr
    assert {each["name"] for each in running.json("job", "list")} == {"good", "bad"}
    wait_until(lambda: running.json("instance", "list") == [], 60)


def test_ctrl_c_ends_a_wait_with_one_line(running):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "api.cli", "job", "submit", "--name", "long", "--wait"),
            *("--", "sleep", "600"),
        ],
        cwd=ROOT,
        env=kept | {"XDG_CONFIG_HOME": str(running.home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    progress = process.stderr.readline() + process.stderr.readline()
    assert "long: " in progress
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "roost: Interrupted."
    assert "Traceback" not in err
    assert running.json("job", "cancel", "long")["state"] == "cancelled"
    wait_until(lambda: running.json("instance", "list") == [], 60)


def test_a_file_that_cannot_be_written_is_one_line(running, tmp_path):
    done = running.cli("report", "--out", str(tmp_path / "none" / "report.html"))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert str(tmp_path / "none" / "report.html") in done.stderr
