"""Accounts on disk: links, codes that hold an hour and five wrong tries of each sender, strangers who ask."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.messages import Address
from nanoclaw.plugins.access.accounts import ALPHABET, ASKERS, TRIERS, Accounts, Outcome, code_in, new_code
from nanoclaw.plugins.access.plugin import Access
from tests.plugins.paper_host import PaperHost

HERE = Address("telegram", "555")


class Doing:
    """The writing methods of accounts, each in a transaction of its own."""

    def __init__(self, host: PaperHost, accounts: Accounts) -> None:
        self._host, self._accounts = host, accounts

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given, **more: self._host.written(lambda tx: getattr(self._accounts, name)(tx, *given, **more))


class Register:
    """Accounts, and a clock that is moved by hand."""

    def __init__(self, path: Path) -> None:
        self.path, self.host = path, PaperHost(path, Access)
        self.accounts, self.later = Accounts(self.host), self.host.later
        self.do = Doing(self.host, self.accounts)

    def write(self, code: str, sender: str = "555", *, may_link: bool = True) -> Outcome:
        outcome: Outcome = self.do.try_code(code, HERE, sender, "Anna", may_link=may_link)
        return outcome

    def rows(self) -> int:
        tables = ("people", "chats", "links", "asking")
        return sum(self.host.read(f"SELECT count(*) FROM {table}")[0][0] for table in tables)


@pytest.fixture
def register(tmp_path: Path) -> Iterator[Register]:
    made = Register(tmp_path / "state.db")
    yield made
    made.host.db.close()


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


def test_the_sixth_try_of_a_sender_is_refused_for_an_hour(register: Register) -> None:
    code = register.do.new_link("telegram")
    assert [register.write(wrong(code), "5") for _ in range(4)] == ["wrong"] * 4
    register.later(minutes=30)
    assert register.write(wrong(code), "5") == "wrong"
    assert register.write(code, "5") == "locked"
    register.later(minutes=29)
    code = register.do.new_link("telegram")
    assert register.write(code, "5") == "locked"  # a new code does not forgive them
    register.later(minutes=31)
    assert register.write(code, "5") == "linked"


def test_however_many_senders_try_few_are_remembered_and_guessing_is_hopeless(register: Register) -> None:
    code = register.do.new_link("telegram")
    for number in range(TRIERS + 500):
        register.write(wrong(code), f"9{number}")
    assert (register.rows(), len(register.accounts._wrong)) == (1, TRIERS)
    codes = len(ALPHABET) ** 8 - 24**8 - 8**8  # those with a letter and a digit in them
    tries_an_hour = 3_600 * 100  # whoever writes 100 messages a second, each as another sender
    assert tries_an_hour / codes < 1e-6
    assert register.write(code) == "linked"


def test_codes_that_come_while_none_is_to_be_typed_lock_nobody_out(register: Register) -> None:
    assert [register.write("ABCD2345") for _ in range(9)] == ["wrong"] * 9
    assert register.rows() == 0
    code = register.do.new_link("telegram")
    register.write(code)
    assert [register.write(code, "666") for _ in range(6)] == ["over"] * 6
    assert [register.write(wrong(code), "666") for _ in range(6)] == ["wrong"] * 6
    assert register.write(register.do.new_link("telegram"), "666") == "linked"


def test_another_process_beside_sees_and_makes_links_at_once(register: Register) -> None:
    beside = PaperHost(register.path, Access)
    theirs = Accounts(beside)
    do = Doing(beside, theirs)
    code = do.new_link("telegram")
    assert register.write(code) == "linked"
    link = theirs.link("telegram")
    assert link and link.sender == "555"
    do.remove("telegram", "555")
    assert register.accounts.role("telegram", "555") is None
    beside.db.close()


def test_of_thousands_of_strangers_in_a_day_few_rows_stay_and_each_is_told_a_code(register: Register) -> None:
    told = 0
    for number in range(1_200):
        told += bool(register.do.request(HERE, str(number), "x"))
        register.later(seconds=30)
    assert told == 1_200
    assert register.rows() <= ASKERS


def test_an_owner_who_asks_again_and_is_let_in_stays_the_owner(register: Register) -> None:
    code = register.do.request(HERE, "555", "Anna")
    register.write(register.do.new_link("telegram"))
    register.do.approve(code)
    assert register.accounts.role("telegram", "555") == "owner"


def test_the_owners_chats_are_theirs_as_long_as_they_are_linked(register: Register) -> None:
    register.do.meet(HERE, "555")
    assert not register.accounts.is_owners(HERE)
    register.write(register.do.new_link("telegram"))
    assert register.accounts.is_owners(HERE)
    assert not register.accounts.is_owners(Address("telegram", "556"))
    assert register.do.remove("telegram", "555")
    assert not register.do.remove("telegram", "555")
    assert not register.accounts.is_owners(HERE)
    assert register.rows() == 1  # how the link went


@pytest.mark.parametrize("text", ["sentence", "Hey there", "remember", "MD please", "2345 6789"])
def test_words_and_numbers_of_eight_signs_are_no_code(text: str) -> None:
    assert code_in(text) == ""
