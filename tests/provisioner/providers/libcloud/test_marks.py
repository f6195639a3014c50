"""Marks survive whatever a cloud lets be written (P2)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.marks import Owner, disk_name, of_disk_name, of_words, words

OWNER = Owner("inst_0123456789abcdef0123", "cheap")
LAUNCH = "6f7f3f0e-2f0c-5f63-9d0e-3b1b7a3a9c11"
MARKS = OWNER.marks | {marks.LAUNCH: LAUNCH, marks.FINGERPRINT: "f" * 32, "instance": "ins_1"}
TEXT = st.text(max_size=60)


@pytest.mark.parametrize("longest", [50, 120, 255])
def test_words_are_short_and_plain_and_say_all(longest: int) -> None:
    packed = words(MARKS, longest)
    assert of_words(reversed(packed)) == MARKS
    assert of_words([*packed, "somebody's", "roost-x:y"]) == MARKS
    assert all(re.fullmatch(r"[a-z0-9:_-]+", word) and len(word) <= longest for word in packed)
    # What is looked for is there in clear.
    assert f"{marks.LAUNCH}:{LAUNCH}" in packed
    assert f"{marks.INSTALLATION}:{OWNER.installation}" in packed


@given(st.dictionaries(TEXT, TEXT, max_size=8), st.integers(50, 255))
def test_any_tags_survive(tags: dict[str, str], longest: int) -> None:
    assert of_words(words(tags, longest)) == tags


@given(st.data())
def test_what_has_been_changed_is_nobodys(data: st.DataObject) -> None:
    packed = [word for word in words(MARKS, 50) if word[6].isdigit()]
    missing = data.draw(st.integers(0, len(packed) - 1))
    assert not OWNER.owns(of_words(packed[:missing] + packed[missing + 1 :]))


def test_words_of_others_are_nobodys() -> None:
    assert of_words(["web", "env:prod", "roost-00:zzzz", "roost-01:!!"]) == {}


def test_owners_of_one_account_are_told_apart() -> None:
    assert OWNER.owns(MARKS)
    assert not Owner(OWNER.installation, "dear").owns(MARKS)
    assert not Owner("another", OWNER.provider).owns(MARKS)
    assert not OWNER.owns({})


def test_a_disk_that_has_nothing_but_a_name_says_whose_it_is() -> None:
    found = of_disk_name(disk_name(OWNER, "vol_1"))
    assert OWNER.owns(found)
    assert found[marks.VOLUME] == "vol_1"
    assert of_disk_name("database") == {}
    assert of_disk_name("a.b.c.d") == {}


def test_tags_come_back_without_ours() -> None:
    assert marks.foreign(MARKS | {"Name": "x", "a": "b"}) == (("a", "b"), ("instance", "ins_1"))
