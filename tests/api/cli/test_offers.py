"""`roost offers --catalog` searches files and needs no control plane."""

from __future__ import annotations

import json
import os

import pytest

from api.cli.root import run
from tests.api.cli.test_loading import roost

HEAD = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,Arch"
ROWS = {
    "aws": [
        "p4d,A100,8,96,1152,32.77,9.83,us-east-1,x86_64",
        "p4d,A100,8,96,1152,33.10,41.00,us-west-2,x86_64",
        "g5g,T4g,1,4,8,0.42,0.13,us-east-1,arm64",
        "m5,,,2,8,0.096,0.03,eu-west-1,x86_64",
        "bad,,,2,8,0,,eu-west-1,x86_64",
    ],
    "lab": ["rack,H100,8,128,1024,24,,cellar,"],
}

BY_WORK = ("--order", "price-per-work", "--limit", "1")


@pytest.fixture
def catalog(tmp_path):
    folder = tmp_path / "catalog"
    folder.mkdir()
    for name, rows in ROWS.items():
        (folder / f"{name}.csv").write_text("\n".join([HEAD, *rows]) + "\n")
    return folder


@pytest.fixture
def offers(catalog, capsys):
    """Runs the command on the files; what it printed as JSON."""

    def ask(*arguments):
        code = run(["offers", "--catalog", str(catalog), *arguments, "--json"])
        out = capsys.readouterr().out
        return code, json.loads(out)

    return ask


def found(answer):
    code, offers = answer
    assert code == 0, offers
    return [(one["provider"], one["instance_type"], one["mode"]) for one in offers]


def test_the_command_as_a_process_without_any_control_plane(catalog, tmp_path):
    done = roost(
        *("offers", "--catalog", str(catalog), "--gpu", "A100:8,H100:8", "--cpus", "32+"),
        *("--memory", "128+", "--max-price", "40", "--region", "us-*,cellar"),
        home=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    heading, *lines = done.stdout.splitlines()
    assert "PRICE/H" in heading
    assert "PER GPU" in heading
    assert [line.split()[0] for line in lines] == [
        "aws/us-east-1/us-east-1/p4d/spot",
        "lab/cellar/cellar/rack/on-demand",
        "aws/us-east-1/us-east-1/p4d/on-demand",
        "aws/us-west-2/us-west-2/p4d/on-demand",
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--spot", "--gpu", "A100"], [("aws", "p4d", "spot")]),
        (["--arch", "arm64", "--on-demand"], [("aws", "g5g", "on-demand")]),
        (["--gpu-memory", "80+"], [("lab", "rack", "on-demand")]),
        (["--cpus", "4"], [("aws", "g5g", "spot"), ("aws", "g5g", "on-demand")]),
        (["--type", "RACK"], [("lab", "rack", "on-demand")]),
        (["--zone", "eu-*", "--limit", "1"], [("aws", "m5", "spot")]),
        (
            ["--gpu", "H100,A100", "--ordered", "--on-demand", "--limit", "2"],
            [("lab", "rack", "on-demand"), ("aws", "p4d", "on-demand")],
        ),
        (
            ["--gpu", "H100,A100", *BY_WORK],
            [("lab", "rack", "on-demand")],
        ),
        (
            ["--gpu", "H100,A100", *BY_WORK, "--throughput", "A100=100,H100=110"],
            [("aws", "p4d", "spot")],
        ),
        (["--max-price", "0.001"], []),
    ],
    ids=str,
)
def test_what_is_asked_for(offers, arguments, expected):
    assert found(offers(*arguments)) == expected


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--gpu", "A10"], "Did you mean A100"),
        (["--region", "us-eest-1"], "Did you mean us-east-1"),
        (["--provider", "gcp"], "Known are: aws, lab"),
        (["--cpus", "some"], "Write 32+, 4..8 or 8"),
        (["--max-price", "cheap"], "Write a number such as 20"),
        (["--disk", "nan"], "no amount of GiB"),
        (["--disk", "-1"], "no amount of GiB"),
    ],
    ids=str,
)
def test_a_slip_is_told(offers, arguments, told):
    code, problem = offers(*arguments)
    assert code == 2
    assert told in f"{problem['detail']} {problem['remedy']}"


def test_what_it_comes_to_is_not_known_without_rates_and_is_not_0(catalog, capsys):
    assert run(["offers", "--catalog", str(catalog), "--type", "m5", "--disk", "200"]) == 0
    heading, line, *_ = capsys.readouterr().out.splitlines()
    assert "TOTAL/H" in heading
    cells = line.split()
    assert cells.count("-") >= 2


def test_why_the_others_were_left_out(offers):
    code, told = offers("--gpu", "A100", "--spot", "--explain")
    assert code == 0
    assert {one["because"]: one["count"] for one in told} == {"gpu": 5, "mode": 2}
    assert all(one["example"]["id"] for one in told)


def test_rows_that_are_not_believed(offers):
    code, told = offers("--quarantined")
    assert code == 0
    assert {(one["offer_id"].split("/")[3], one["reason"]) for one in told} == {
        ("bad", "its price is not above zero"),
        ("p4d", "as spot it costs more than on demand"),
    }


def test_sources_and_their_age(offers, catalog):
    os.utime(catalog / "lab.csv", (0, 0))
    code, told = offers("--sources")
    assert code == 0
    assert [(one["name"], one["offers"], one["stale"]) for one in told] == [
        ("aws", 7, False),
        ("lab", 1, True),
    ]


def test_a_stale_source_is_named_beside_what_was_found(catalog, capsys):
    os.utime(catalog / "lab.csv", (0, 0))
    assert run(["offers", "--catalog", str(catalog), "--type", "rack"]) == 0
    assert "stale: lab" in capsys.readouterr().err


def test_a_folder_without_offers(tmp_path, capsys):
    assert run(["offers", "--catalog", str(tmp_path)]) == 2
    assert "no CSV files with offers" in capsys.readouterr().err
