"""Folders besides the workspace: one setting for file tools and commands, and the home closed in all of them."""

from pathlib import Path

import pytest

from nanoclaw.core.errors import ConfigError
from nanoclaw.providers.scripted import Say, ScriptedProvider
from nanoclaw.start.build import checked
from nanoclaw.start.config import Config, load
from tests.examples import examples
from tests.program import results, running

WRONG = examples(__file__, "folders.jsonl")


def config_with(home: Path, text: str) -> Config:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(text)
    return load({"NANOCLAW_HOME": str(home)})


@pytest.mark.parametrize(("setting", "said"), WRONG["a folder that cannot be opened is told in a sentence"])
def test_a_folder_that_cannot_be_opened_is_told_in_a_sentence(tmp_path: Path, setting: str, said: str) -> None:
    home = tmp_path / "home"
    with pytest.raises(ConfigError) as told:
        checked(config_with(home, setting.replace("{home}", str(home))))
    assert said.replace("{home}", str(home)) in str(told.value) and "config.toml" in str(told.value)


def test_a_folder_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    config = config_with(tmp_path / "home", f'[files]\nread = ["{tmp_path}/usb"]\n')
    checked(config)
    assert any(f"there is no folder '{tmp_path}/usb'" in one for one in config.warnings)


async def test_file_tools_use_the_folders_and_nothing_of_the_home_in_them(tmp_path: Path) -> None:
    person = tmp_path / "person"
    home, write = person / ".nanoclaw", tmp_path / "site"
    home.mkdir(parents=True)
    write.mkdir()
    (person / "letter.txt").write_text("Dear Anna")
    (write / "page.md").write_text("old")
    (home / "config.toml").write_text(
        f'[model]\napi_key = "sk-canary-0123456789"\n[files]\nread = ["{person}"]\nwrite = ["{write}"]\n'
        '[tools]\nallow = ["write_file"]\n'
    )
    (home / "config.toml").chmod(0o600)
    calls = [
        ("read_file", {"path": f"{person}/letter.txt"}),
        ("write_file", {"path": f"{write}/page.md", "content": "new"}),
        ("read_file", {"path": f"{home}/config.toml"}),
        ("search_files", {"path": str(person), "pattern": "canary|Dear"}),
        ("find_files", {"path": str(person), "pattern": "*"}),
        ("list_dir", {"path": str(home)}),
        ("write_file", {"path": f"{person}/new.txt", "content": "x"}),
        ("append_file", {"path": f"{home}/config.toml", "content": "x"}),
        ("edit_file", {"path": "../config.toml", "old": "[model]", "new": "[models]"}),
    ]
    steps = [Say(calls=(call,)) for call in calls]
    async with running(
        home, ScriptedProvider(*steps, "Done."), plugins=["files", "undo", "access", "approvals"]
    ) as program:
        before = (home / "config.toml").read_bytes()
        await program.ask("go")
        read, written, config, searched, names, listed, new, appended, edited = results(program.history)
        assert "Dear Anna" in read.text and "Overwrote" in written.text
        for one in (config, listed, new, appended, edited):
            assert one.is_error, one.text
        for one in (config, searched, names, listed):
            assert "canary" not in one.text and "config.toml (" not in one.text
        assert "Dear Anna" in searched.text and "letter.txt" in names.text
        assert (home / "config.toml").read_bytes() == before and (write / "page.md").read_text() == "new"
        assert str(person) in program.app.builder.begin().system.text
        (target,) = program.rows("SELECT target FROM ledger WHERE target <> ''")
        assert target == (str(write / "page.md"),)
        await program.ask("/undo")
        assert (write / "page.md").read_text() == "old"
