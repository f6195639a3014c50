"""What the command costs to load, and what it says without a control plane."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HEAVY = ("httpx", "fastapi", "starlette", "pydantic", "pandas", "rich", "sqlalchemy", "yaml")


def roost(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    return subprocess.run(
        [sys.executable, "-m", "api.cli", *arguments],
        cwd=ROOT,
        env=kept | {"XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home)} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_importing_the_command_loads_nothing_heavy():
    code = f"import sys, api.cli; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def _commands():
    import click

    from api.cli.root import root

    def walk(command, path):
        if isinstance(command, click.Group):
            for name, inner in command.commands.items():
                yield from walk(inner, [*path, name])
        else:
            yield " ".join(path), command

    return dict(walk(root, []))


def test_every_command_that_was_promised_is_there():
    promised = """
        up; workstation create; workstation list; workstation show; workstation start;
        workstation stop; workstation delete; workstation exec; workstation hold; job submit;
        job list; job show; job logs; job cancel; offers; policy check; policy plan; policy apply;
        policy explain; policy list; cost show; report; team create; team list; team budget;
        person create; person list; token create; token revoke; token list; instance list;
        instance reclaim; launches; status; quotas; login; demo
    """
    assert {" ".join(each.split()) for each in promised.split(";")} == set(_commands())


@pytest.mark.parametrize("path", sorted(_commands()))
def test_every_command_has_json_help_and_an_example(path):
    command = _commands()[path]
    options = {name for parameter in command.params for name in parameter.opts}
    assert "--json" in options
    assert command.help
    assert command.epilog
    assert f"roost {path}" in command.epilog
    for parameter in command.params:
        if parameter.param_type_name == "option":
            assert parameter.help, parameter.opts


def test_the_help_tells_the_exit_codes(tmp_path):
    done = roost("--help", home=tmp_path)
    assert done.returncode == 0
    for line in ("0    done", "2    wrong usage", "7    the job or the command itself failed"):
        assert line in done.stdout


def test_wrong_usage_is_one_line_and_code_2(tmp_path):
    for arguments in (["nonsense"], ["workstation", "create"], ["offers", "--limit", "many"]):
        done = roost(*arguments, home=tmp_path)
        assert done.returncode == 2
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("roost: ")


def test_wrong_usage_with_json_is_one_json_problem(tmp_path):
    done = roost("job", "submit", "--json", "--name", "x", home=tmp_path)
    assert done.returncode == 2
    assert json.loads(done.stdout)["type"] == "urn:roost:problem:usage"


def test_without_a_login_it_says_what_to_do(tmp_path):
    done = roost("status", home=tmp_path)
    assert done.returncode == 3
    assert "roost login" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nonsense://x", "http://[::1", "http://a b"])
def test_where_nobody_answers_it_is_one_line_and_code_3(tmp_path, url):
    done = roost("status", home=tmp_path, ROOST_URL=url, ROOST_TOKEN="roost_x")
    assert done.returncode == 3, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert "roost_x" not in done.stderr
    done = roost("status", "--json", home=tmp_path, ROOST_URL=url, ROOST_TOKEN="roost_x")
    assert json.loads(done.stdout)["type"] == "urn:roost:problem:unreachable"


@pytest.mark.parametrize("token", ["two words", "tü", "a\nb", " "])
def test_what_is_no_token_is_said(tmp_path, token):
    done = roost("status", home=tmp_path, ROOST_URL="http://127.0.0.1:9", ROOST_TOKEN=token)
    assert done.returncode == 3
    assert "no token" in done.stderr


def test_an_open_address_is_refused(tmp_path):
    done = roost("up", "--host", "0.0.0.0", "--state", str(tmp_path / "s"), home=tmp_path)
    assert done.returncode == 1
    assert "127.0.0.1" in done.stderr
    assert not (tmp_path / "s").exists()
