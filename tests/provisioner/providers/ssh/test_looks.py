"""Whom a look waits for, and which answers still count."""

from __future__ import annotations

from concurrent.futures import Future
from typing import cast

from provisioner.errors import ProviderError
from provisioner.providers.contract import Listing, Rates
from provisioner.providers.local.remote import Look
from provisioner.providers.ssh.host import Host
from provisioner.providers.ssh.looks import Looks

LOOK = Look(Listing(), (), Rates(), (), (), ())


class Asked:
    """A host whose answers come when the test says so."""

    def __init__(self) -> None:
        self.changes = 0
        self.answers: list[Future[Look]] = []
        self.at_once = False

    def submit(self, work: object) -> Future[Look]:
        answer: Future[Look] = Future()
        if self.at_once:
            answer.set_result(LOOK)
        self.answers.append(answer)
        return answer


def looks_at(**hosts: Asked) -> Looks:
    return Looks(cast(dict[str, Host], hosts), 0.05)


def test_a_late_answer_counts_while_nothing_has_changed() -> None:
    slow, quick = Asked(), Asked()
    quick.at_once = True
    looks = looks_at(slow=slow, quick=quick)
    assert looks.look().failures.keys() == {"slow"}
    assert looks.look().failures.keys() == {"slow"}
    assert len(slow.answers) == 1, "one that does not answer is not asked again"
    slow.answers[0].set_result(LOOK)
    assert looks.look().looks.keys() == {"slow", "quick"}
    assert len(slow.answers) == 1


def test_an_answer_from_before_a_change_does_not_count() -> None:
    slow = Asked()
    looks = looks_at(slow=slow)
    looks.look()
    slow.changes += 1
    slow.answers[0].set_result(LOOK)
    slow.at_once = True
    assert looks.look().looks.keys() == {"slow"}
    assert len(slow.answers) == 2, "it was asked anew"


def test_a_failure_is_one_hosts_own() -> None:
    broken, quick = Asked(), Asked()
    quick.at_once = True
    looks = looks_at(broken=broken, quick=quick)
    looks.look()
    broken.answers[0].set_exception(ProviderError("no route"))
    seen = looks.look()
    assert str(seen.failures["broken"]) == "no route"
    assert seen.looks.keys() == {"quick"}
