"""An import or its undoing that is killed at any write: the next start completes it, and nothing of anybody is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.messages import Address, Message
from nanoclaw.core.plugin import Said
from nanoclaw.plugins.importer import changes
from nanoclaw.plugins.importer.plugin import Importer
from tests.plugins.importer.made_homes import nanobot_home
from tests.plugins.paper_host import PaperHost
from tests.program import MAIN, REPOSITORY


class Killed(BaseException):
    """The end of a process."""


class Talks:
    def __init__(self, host: Desk) -> None:
        host.db.execute("CREATE TABLE IF NOT EXISTS talks (chat TEXT, text TEXT)")

    def add(self, conversation: Address, turns: Iterable[Sequence[Message]], tx: Any, *, had_before: bool) -> None:
        for question, *_ in turns:
            tx.execute("INSERT INTO talks VALUES (?, ?)", str(conversation), question.text)

    def erase(self, conversation: Address, tx: Any) -> None:
        tx.execute("DELETE FROM talks WHERE chat = ?", str(conversation))


class Desk(PaperHost):
    """A process with one home."""

    def __init__(self, root: Path) -> None:
        super().__init__(root / "state.db", Importer)
        self.db.execute("PRAGMA foreign_keys = ON")
        self.workspace, self.program_home = root / "workspace", root
        self.workspace.mkdir(exist_ok=True)
        self.shipped, self.conversations = REPOSITORY, Talks(self)
        self.records: Any = type("Records", (), {"context": staticmethod(lambda conversation: 0)})
        self.plugins, self.drop_bytes = (lambda: ()), (lambda: None)
        self.plugin = Importer(self, None)  # type: ignore[arg-type]

    def say(self, text: str) -> str:
        return asyncio.run(self.plugin._import(Said(text, MAIN, MAIN, "owner", "owner"))).text

    def bring(self, home: Path) -> str:
        shown = self.say(f"nanobot {home}")
        return self.say(f"nanobot {home} --yes {shown.partition('--yes ')[2].partition('`')[0]}")

    def all(self) -> dict[str, bytes]:
        folders = (self.workspace, self.program_home / "skills")
        files = {str(one): one.read_bytes() for top in folders for one in sorted(top.rglob("*")) if one.is_file()}
        return {**files, "talks": str(self.read("SELECT * FROM talks")).encode()}


def begin(root: Path) -> Desk:
    root.mkdir()
    desk = Desk(root)
    (desk.workspace / "MEMORY.md").write_text("# Memory\n\n- My own fact")
    for name in ("SOUL.md", "BOOTSTRAP.md"):
        (desk.workspace / name).write_bytes((REPOSITORY / "workspace_template" / name).read_bytes())
    (desk.workspace / "USER.md").write_text("My own words.\n")
    return desk


def killed_at(number: int, step: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether there were so many writes."""
    left, write = [number], changes._write

    def dying(root: Path, name: str, text: str | None) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        write(root, name, text)

    with monkeypatch.context() as patched:
        patched.setattr(changes, "_write", dying)
        try:
            step()
        except Killed:
            return True
    return False


def test_all_of_it_comes_and_goes_wherever_it_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = nanobot_home(tmp_path)
    desk = begin(tmp_path / "whole")
    before = desk.all()
    desk.bring(home)
    there = desk.all()
    assert len(there) > len(before)
    names = [name.replace(str(tmp_path / "whole"), "") for name in there]
    for number in range(20):
        desk = begin(tmp_path / f"in-{number}")
        if not killed_at(number, partial(desk.bring, home), monkeypatch):
            break
        again = Desk(tmp_path / f"in-{number}").all()  # what a start sees first of all
        assert [name.replace(str(tmp_path / f"in-{number}"), "") for name in again] == names
        assert list(again.values()) == list(there.values())
    assert number == 6
    for number in range(20):
        desk = begin(tmp_path / f"out-{number}")
        mine = desk.all()
        desk.bring(home)
        if not killed_at(number, partial(desk.say, "undo"), monkeypatch):
            break
        next_one = Desk(tmp_path / f"out-{number}")
        asyncio.run(next_one.plugin.run())
        assert next_one.all() == {**mine, f"{next_one.workspace}/MEMORY.md": b"# Memory\n\n- My own fact\n"}
        assert next_one.read("SELECT * FROM importer_runs") == []
    assert number == 6


def test_one_that_is_killed_before_its_transaction_has_left_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, desk = nanobot_home(tmp_path), begin(tmp_path / "home")
    before = desk.all()

    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(desk, "write", dies)
        with pytest.raises(Killed):
            desk.bring(home)
    again = Desk(tmp_path / "home")
    assert again.all() == before
    assert "Imported." in again.bring(home)


def test_what_the_person_has_changed_since_stays(tmp_path: Path) -> None:
    home, desk = nanobot_home(tmp_path), begin(tmp_path / "home")
    desk.bring(home)
    (desk.workspace / "SOUL.md").write_text("You are called Otto.\n")
    memory = desk.workspace / "MEMORY.md"
    memory.write_text(memory.read_text() + "- A new fact\n")
    said = desk.say("undo")
    assert "- SOUL.md was changed since, and stays." in said
    assert (desk.workspace / "SOUL.md").read_text() == "You are called Otto.\n"
    assert memory.read_text() == "# Memory\n\n- My own fact\n- A new fact\n"
    assert not (desk.workspace / "USER.nanobot.md").exists()
