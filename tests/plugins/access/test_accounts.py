"""Accounts on disk: links, codes that hold an hour and five wrong tries, strangers who ask."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanoclaw.core.messages import Address
from nanoclaw.core.store.db import Store
from nanoclaw.plugins.access.accounts import ALPHABET, ASKS_AN_HOUR, Accounts, Outcome, code_in, new_code, shown

NOON = datetime(2026, 5, 3, 12, tzinfo=UTC)
HERE = Address("telegram", "555")


class Register:
    """Accounts, and a clock that is moved by hand."""

    def __init__(self, path: Path) -> None:
        self.now = NOON
        self.store = Store(path)
        self.accounts = Accounts(self.store, lambda: self.now)

    def later(self, **span: float) -> None:
        self.now += timedelta(**span)

    def write(self, code: str, sender: str = "555", *, may_link: bool = True) -> Outcome:
        return self.accounts.try_code(code, HERE, sender, "Anna", may_link=may_link)

    def rows(self) -> int:
        tables = ("people", "chats", "links", "asking")
        return sum(self.store.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables)


@pytest.fixture
def register(tmp_path: Path) -> Iterator[Register]:
    made = Register(tmp_path / "state.db")
    yield made
    made.store.close()


def wrong(code: str) -> str:
    return ("B" if code[0] == "A" else "A") + code[1:]


def test_a_code_is_eight_signs_of_32_that_do_not_look_alike() -> None:
    assert len(set(ALPHABET)) == 32
    assert not set("IO01") & set(ALPHABET)
    codes = {new_code() for _ in range(200)}
    assert len(codes) == 200
    assert all(code_in(code) == code and len(code) == 8 for code in codes)
    assert {sign for code in codes for sign in code} == set(ALPHABET)


@pytest.mark.parametrize("text", ["ABCD2345", "abcd-2345", " ab cd 23 45 \n", "ABCD–2345", "Abcd - 2345"])
def test_a_code_is_read_as_people_type_it(text: str) -> None:
    assert code_in(text) == "ABCD2345"


@pytest.mark.parametrize("text", ["", "ABCD234", "ABCD23456", "ABCD0345", "hello there", "A" * 8 + " " * 40, "Ä" * 8])
def test_other_words_are_no_code(text: str) -> None:
    assert code_in(text) == ""


def test_the_code_makes_one_account_the_owners_and_is_used_once(register: Register) -> None:
    code = register.accounts.new_link("telegram")
    assert register.write(code) == "linked"
    assert register.accounts.role("telegram", "555") == "owner"
    assert register.write(code, "666") == "used"
    assert register.accounts.role("telegram", "666") is None
    assert register.write(code) == "again"
    link = register.accounts.link("telegram")
    assert link and (link.state, link.sender, link.name) == ("used", "555", "Anna")


def test_no_code_is_on_disk(register: Register, tmp_path: Path) -> None:
    code = register.accounts.new_link("telegram")
    register.store.close()
    assert all(form.encode() not in path.read_bytes() for path in tmp_path.iterdir() for form in (code, shown(code)))


def test_a_code_holds_for_an_hour(register: Register) -> None:
    code = register.accounts.new_link("telegram")
    register.later(minutes=59)
    link = register.accounts.link("telegram")
    assert link and link.state == "open"
    register.later(minutes=1)
    assert register.write(code) == "expired"
    assert register.accounts.role("telegram", "555") is None
    link = register.accounts.link("telegram")
    assert link and link.state == "expired"


def test_the_sixth_try_is_refused_whoever_made_the_five_before_and_for_an_hour(register: Register) -> None:
    code = register.accounts.new_link("telegram")
    assert [register.write(wrong(code), str(sender)) for sender in range(4)] == ["wrong"] * 4
    register.later(minutes=30)
    assert register.write(wrong(code), "5") == "wrong"
    assert register.write(code) == "locked"
    link = register.accounts.link("telegram")
    assert link and link.state == "locked"
    assert link.locked_until == register.now + timedelta(hours=1)
    register.later(minutes=59)
    code = register.accounts.new_link("telegram")
    assert register.write(code) == "locked"
    register.later(minutes=1)
    assert register.write(code) == "linked"


def test_four_wrong_codes_do_no_harm_and_a_new_code_does_not_forgive_them(register: Register) -> None:
    code = register.accounts.new_link("telegram")
    for _ in range(4):
        assert register.write(wrong(code)) == "wrong"
    code = register.accounts.new_link("telegram")
    assert register.write(wrong(code)) == "wrong"
    assert register.write(code) == "locked"
    code = register.accounts.new_link("matrix")
    assert register.accounts.try_code(code, Address("matrix", "!r:x"), "@a:x", "", may_link=True) == "linked"


def test_wrong_codes_are_forgotten_after_an_hour(register: Register) -> None:
    code = register.accounts.new_link("telegram")
    for _ in range(4):
        register.write(wrong(code))
    register.later(hours=1)
    code = register.accounts.new_link("telegram")
    assert register.write(wrong(code)) == "wrong"
    assert register.write(code) == "linked"


def test_without_a_code_to_be_typed_nothing_is_tried_or_counted(register: Register) -> None:
    for number in range(10):
        assert register.write("ABCD2345", str(number)) == "none"
    assert register.rows() == 0
    code = register.accounts.new_link("telegram")
    register.later(hours=2)
    assert [register.write(code) for _ in range(7)] == ["none"] * 7
    assert register.accounts.new_link("telegram")


def test_codes_that_come_while_none_is_to_be_typed_lock_nobody_out(register: Register) -> None:
    code = register.accounts.new_link("telegram")
    register.write(code)
    assert [register.write(code, "666") for _ in range(6)] == ["used"] * 6
    assert [register.write(wrong(code), "666") for _ in range(6)] == ["none"] * 6
    assert [register.write(code, "666") for _ in range(9)] == ["used"] * 8 + ["none"]  # comparing is slow on purpose
    assert register.write(register.accounts.new_link("telegram")) == "linked"


def test_a_code_that_others_could_read_links_nobody_from_then_on(register: Register) -> None:
    code = register.accounts.new_link("telegram")
    assert register.write(code, may_link=False) == "exposed"
    assert register.write(code) == "used"
    assert register.accounts.all() == []
    link = register.accounts.link("telegram")
    assert link and link.state == "exposed"


def test_a_code_that_was_taken_back_or_replaced_links_nobody(register: Register) -> None:
    code = register.accounts.new_link("telegram")
    register.accounts.withdraw("telegram")
    assert register.write(code) == "used"
    first, second = register.accounts.new_link("telegram"), register.accounts.new_link("telegram")
    assert register.write(first) == "wrong"
    assert register.write(second) == "linked"


def test_another_process_beside_sees_and_makes_links_at_once(register: Register) -> None:
    beside = Store(register.store.path, beside=True)
    theirs = Accounts(beside, lambda: register.now)
    code = theirs.new_link("telegram")
    assert register.write(code) == "linked"
    link = theirs.link("telegram")
    assert link and link.sender == "555"
    theirs.remove("telegram", "555")
    assert register.accounts.role("telegram", "555") is None
    beside.close()


def test_a_stranger_is_told_a_code_once_an_hour_and_let_in_by_it_as_a_guest(register: Register) -> None:
    code = register.accounts.request(HERE, "555", "Anna")
    assert code_in(code)
    assert register.accounts.request(HERE, "555", "Anna") == ""
    register.later(minutes=59)
    assert register.accounts.request(HERE, "555", "Anna") == ""
    register.later(minutes=1)
    newer = register.accounts.request(HERE, "555", "Anna")
    assert newer
    assert register.accounts.approve(code) is None
    assert register.accounts.approve(newer, "matrix") is None
    found = register.accounts.approve(newer, "telegram")
    assert found and (found.sender, found.name, found.address) == ("555", "Anna", HERE)
    assert register.accounts.role("telegram", "555") == "guest"
    assert register.accounts.approve(newer) is None


def test_a_day_later_nobody_is_let_in_by_the_code(register: Register) -> None:
    code = register.accounts.request(HERE, "555", "Anna")
    register.later(days=1)
    assert register.accounts.requests() == []
    assert register.accounts.approve(code) is None


def test_of_ten_thousand_strangers_in_a_day_few_are_told_a_code_and_few_rows_stay(register: Register) -> None:
    told = 0
    for number in range(10_000):
        told += bool(register.accounts.request(HERE, str(number), "x"))
        register.later(seconds=17.28)  # two days in all
    assert told <= ASKS_AN_HOUR * 49
    assert register.rows() <= ASKS_AN_HOUR * 25


def test_an_owner_who_asks_again_and_is_let_in_stays_the_owner(register: Register) -> None:
    code = register.accounts.request(HERE, "555", "Anna")
    register.write(register.accounts.new_link("telegram"))
    register.accounts.approve(code)
    assert register.accounts.role("telegram", "555") == "owner"


def test_the_owners_chats_are_theirs_as_long_as_they_are_linked(register: Register) -> None:
    register.accounts.meet(HERE, "555")
    assert not register.accounts.is_owners(HERE)
    register.write(register.accounts.new_link("telegram"))
    assert register.accounts.is_owners(HERE)
    assert not register.accounts.is_owners(Address("telegram", "556"))
    removed = register.accounts.remove("telegram", "555")
    assert removed and removed.role == "owner"
    assert not register.accounts.is_owners(HERE)
    assert register.rows() == 1  # how the link went


@pytest.mark.parametrize("text", ["sentence", "Hey there", "remember", "MD please", "2345 6789"])
def test_words_and_numbers_of_eight_signs_are_no_code(text: str) -> None:
    assert code_in(text) == ""


def test_every_new_code_is_taken_for_one() -> None:
    codes = [new_code() for _ in range(500)]
    assert [code_in(shown(code).lower()) for code in codes] == codes
