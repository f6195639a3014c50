"""A host that is taken out of the settings with something on it is told of, and not lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioner.errors import InvalidRequest, NotFound, ProviderError, StateError
from provisioner.providers.contract import MachineState
from provisioner.providers.ssh.holdings import Held, Holdings
from tests.provisioner.providers.ssh.asking import Hosts, comes_to, request
from tests.provisioner.providers.ssh.conftest import Make

S = MachineState


def test_a_host_that_was_taken_out_is_silent_until_it_is_empty_or_given_up(
    make: Make, hosts: Hosts, tmp_path: Path
) -> None:
    ada, _ = hosts
    known = tmp_path / "ssh-hosts.json"
    before = make(holdings=known)
    asked = request(before, "ben", volume_id="home")
    before.launch(asked)
    comes_to(before, "ben:one", S.RUNNING)

    without = make(ada, holdings=known)
    listing = without.list()
    assert listing.silent_regions == {"ben"}
    assert listing.troubles == (
        "host ben is not in the settings of ssh, and had 1 machines and 1 homes when it was seen "
        "last. Put it back with `drain = true` until it is empty, or name it in `gone`.",
    )
    for call in (
        lambda: without.terminate("ben:one"),
        lambda: without.terminate("one"),
        lambda: without.delete_volume("home"),
        lambda: without.launch(asked),
    ):
        with pytest.raises(ProviderError, match="host ben is not in the settings") as caught:
            call()
        assert not isinstance(caught.value, (NotFound, InvalidRequest))
    with pytest.raises(InvalidRequest, match="home home lies on host ben"):
        without.launch(request(without, "ada", "two", volume_id="home"))

    given_up = make(ada, holdings=known, gone=("ben",))
    assert given_up.list().silent_regions == frozenset()
    with pytest.raises(NotFound):
        given_up.terminate("ben:one")
    given_up.delete_volume("home")

    back = make(holdings=known, drain=True)
    back.terminate("ben:one")
    comes_to(back, "ben:one", S.TERMINATED)
    back.delete_volume("home")
    back.list()
    assert make(ada, holdings=known).list().silent_regions == frozenset()


def test_holdings_are_kept_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "held.json"
    kept = Holdings(path)
    kept.note("ada", Held(("one",), ("home",)))
    kept.note("ben", Held((), ("other",)))
    assert Holdings(path)["ada"] == Held(("one",), ("home",))
    kept.note("ada", Held())
    assert Holdings(path).hosts() == {"ben"}


@pytest.mark.parametrize("text", ["{", "[]", '{"ada": 1}', '{"ada": {}}'])
def test_a_file_that_is_damaged_is_not_taken_for_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "held.json"
    path.write_text(text)
    with pytest.raises(StateError, match="Restore it"):
        Holdings(path)


def test_a_file_that_cannot_be_written_costs_no_listing(tmp_path: Path) -> None:
    kept = Holdings(tmp_path / "nowhere" / "held.json")
    kept.note("ada", Held(("one",)))
    assert kept["ada"] == Held(("one",))
